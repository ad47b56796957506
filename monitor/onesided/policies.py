"""Policies: what is sensitive, and which datasets a mechanism must not tell apart ([ADP], section 3).

A policy is a set of ordered pairs (a, b) of values: whoever holds the sensitive value a must look as if they might hold
b. Read as edges they are the policy graph. Symmetric pairs give differential privacy ([ADP], Theorem 5), pairs that go
one way give asymmetric differential privacy, and pairs from some whole records to all others one-sided differential
privacy ([OSDP], Definition 3.2).

The number of people is fixed: who has no visits is a record of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from monitor.errors import PolicyError

Value = Hashable
Row = tuple[Value, ...]
"""One person's answers, one for each attribute of the policy."""

Dataset = tuple[Row, ...]
"""One record for each person; the same place is the same person."""

Query = Callable[[Dataset], Sequence[int]]
Contribution = Callable[[Row], Sequence[int]]

Direction = Literal["decreasing", "increasing", "constant", "not monotone"]
"""Where a query may go from a dataset to its P-neighbours ([ADP], Definition 12)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One attribute's policy: its possible values, and the pairs (sensitive → what it must look like)."""

    values: frozenset[Value]
    pairs: frozenset[tuple[Value, Value]]

    def __post_init__(self) -> None:
        """Raise PolicyError for no values, for a pair of one value, and for a pair with a value that is not listed."""
        if not self.values:
            raise PolicyError("The policy has no values: expected at least one; list all that a record may hold.")
        for pair in self.pairs:
            if pair[0] == pair[1] or not self.values.issuperset(pair):
                raise PolicyError(
                    f"The policy pairs {pair[0]!r} with {pair[1]!r}: expected two different values of the policy; "
                    "drop the pair or list its values."
                )

    @classmethod
    def of_sensitive(cls, values: Iterable[Value], sensitive: Iterable[Value]) -> Policy:
        """The policy function of [ADP], Definition 7: a sensitive value must look like every other value."""
        known = frozenset(values)
        return cls(known, frozenset((a, b) for a, b in product(sensitive, known) if a != b))

    @classmethod
    def symmetric(cls, values: Iterable[Value]) -> Policy:
        """Differential privacy: every value is sensitive ([ADP], Example 2)."""
        known = frozenset(values)
        return cls.of_sensitive(known, known)

    @property
    def graph(self) -> Mapping[Value, frozenset[Value]]:
        """The policy graph: for each value those that it must look like."""
        return {value: frozenset(b for a, b in self.pairs if a == value) for value in self.values}

    @property
    def is_symmetric(self) -> bool:
        """Whether each pair also goes the other way, so that no query is monotone but constant ones (Theorem 4)."""
        return all((b, a) in self.pairs for a, b in self.pairs)

    def neighbours(self, value: Value) -> frozenset[Value]:
        """The values that a value must look like. Raises PolicyError for a value that is not the policy's."""
        self._check(value)
        return self.graph[value]

    def is_sensitive(self, value: Value) -> bool:
        """Whether the value must look like another one. Raises PolicyError for a value that is not the policy's."""
        return bool(self.neighbours(value))

    def allows(self, value: Value, other: Value) -> bool:
        """Whether `other` is the value itself or one that it must look like. Raises PolicyError for unknown values."""
        self._check(value)
        self._check(other)
        return value == other or (value, other) in self.pairs

    def minimum_step(self, value: Value, other: Value) -> int | None:
        """The fewest pairs that lead from one value to the other ([ADP], Definition 14); None if none do."""
        self._check(value)
        self._check(other)
        reached, edge, steps, graph = {value}, {value}, 0, self.graph
        while edge and other not in reached:
            edge = {after for before in edge for after in graph[before]} - reached
            reached |= edge
            steps += 1
        return steps if other in reached else None

    def _check(self, value: Value) -> None:
        if value not in self.values:
            raise PolicyError(
                f"A record holds a {type(value).__name__} that is no value of the policy: expected one of its "
                f"{len(self.values)} values; list it in the policy or correct the record."
            )


VISITED: Final = Policy.of_sensitive((0, 1), (1,))
"""Having been somewhere (1) is sensitive, not having been there (0) is not ([ADP], Example 1)."""


@dataclass(frozen=True, slots=True)
class RecordPolicy:
    """A policy for each attribute of a record. All people have the same one, and it is public."""

    attributes: tuple[Policy, ...]

    def __post_init__(self) -> None:
        """Raise PolicyError for no attributes."""
        if not self.attributes:
            raise PolicyError("The record's policy has no attributes: expected at least one policy; add it.")

    @classmethod
    def uniform(cls, policy: Policy, attributes: int) -> RecordPolicy:
        """The same policy for a number of attributes, as for visits to so many locations."""
        return cls((policy,) * attributes)

    def covers(self, other: RecordPolicy) -> bool:
        """Whether each P-neighbour under `other` is one under this policy as well.

        Then what is (this, ε)-ADP is (other, ε)-ADP, as it is proven for more pairs ([ADP], Theorem 5(2)).
        """
        return len(self.attributes) == len(other.attributes) and all(
            mine.values == theirs.values and mine.pairs >= theirs.pairs
            for mine, theirs in zip(self.attributes, other.attributes, strict=True)
        )

    def records(self) -> Iterator[Row]:
        """Every possible record."""
        return product(*(policy.values for policy in self.attributes))

    def is_record_neighbour(self, record: Row, other: Row) -> bool:
        """Whether `other` is another record to which `record` is P-neighbouring ([ADP], Definition 8).

        Any number of attributes may differ; those that hold a value that is not sensitive may not.
        """
        self._check(record)
        self._check(other)
        allowed = (
            policy.allows(value, after) for policy, value, after in zip(self.attributes, record, other, strict=True)
        )
        return all(allowed) and record != other

    def record_neighbours(self, record: Row) -> Iterator[Row]:
        """Every record to which `record` is P-neighbouring."""
        self._check(record)
        choices = ((value, *policy.neighbours(value)) for policy, value in zip(self.attributes, record, strict=True))
        return (other for other in product(*choices) if other != record)

    def is_neighbour(self, dataset: Dataset, other: Dataset) -> bool:
        """Whether `other` is in N_P(dataset): one record differs, and it is P-neighbouring (Definition 9).

        The order matters: the other way round it may be false. Raises PolicyError if the datasets differ in length.
        """
        differing = [(a, b) for a, b in _paired(dataset, other) if a != b]
        return len(differing) == 1 and self.is_record_neighbour(*differing[0])

    def neighbours(self, dataset: Dataset) -> Iterator[Dataset]:
        """N_P(dataset): every dataset that differs in one record, to which the present one is P-neighbouring."""
        for place, record in enumerate(dataset):
            for other in self.record_neighbours(record):
                yield (*dataset[:place], other, *dataset[place + 1 :])

    def minimum_step(self, dataset: Dataset, other: Dataset) -> int | None:
        """The fewest P-neighbours that lead from one dataset to the other (Definition 14); None if none do.

        A step changes one record, in any attributes: so records add up, and of a record's attributes the farthest
        counts.
        """
        total = 0
        for record, goal in _paired(dataset, other):
            self._check(record)
            self._check(goal)
            steps = [policy.minimum_step(a, b) for policy, a, b in zip(self.attributes, record, goal, strict=True)]
            known = [step for step in steps if step is not None]
            if len(known) < len(steps):
                return None
            total += max(known)
        return total

    def _check(self, record: Row) -> None:
        if len(record) != len(self.attributes):
            raise PolicyError(
                f"A record has {len(record)} attributes: expected {len(self.attributes)}, one for each policy; "
                "correct the record or the policy."
            )


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How a query of whole numbers may change towards a P-neighbour ([ADP], Definitions 11 and 12).

    `direction` is that of all its components; `largest` the most that one component changes by, `total` the most that
    all do together (the L1 norm), `changed` the most components that change at once.
    """

    direction: Direction
    largest: int
    total: int
    changed: int


def sensitivity(policy: RecordPolicy, query: Query, datasets: Iterable[Dataset]) -> Sensitivity:
    """The P-sensitivity of a query, by looking at every P-neighbour of every dataset that is given.

    It holds for these datasets alone: pass all that are possible. Raises PolicyError for none.
    """
    universe = tuple(datasets)
    if not universe:
        raise PolicyError("There are no datasets to look at: expected all that are possible; pass them.")
    return _of_changes((query(dataset), query(other)) for dataset in universe for other in policy.neighbours(dataset))


def sum_sensitivity(policy: RecordPolicy, contribution: Contribution) -> Sensitivity:
    """The P-sensitivity of a query that adds up what each record contributes, such as counts.

    One record changes, so looking at every record and its P-neighbours is enough, for any number of people.
    """
    return _of_changes(
        (contribution(record), contribution(other))
        for record in policy.records()
        for other in policy.record_neighbours(record)
    )


def _of_changes(changes: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Sensitivity:
    rises = falls = False
    largest = total = changed = 0
    for before, after in changes:
        steps = [b - a for a, b in zip(before, after, strict=True)]
        rises |= any(step > 0 for step in steps)
        falls |= any(step < 0 for step in steps)
        sizes = [abs(step) for step in steps if step]
        largest, total, changed = max(largest, *sizes, 0), max(total, sum(sizes)), max(changed, len(sizes))
    return Sensitivity(_direction(rises=rises, falls=falls), largest, total, changed)


def _direction(*, rises: bool, falls: bool) -> Direction:
    if rises and falls:
        return "not monotone"
    if falls:
        return "decreasing"
    return "increasing" if rises else "constant"


def _paired(dataset: Dataset, other: Dataset) -> Iterator[tuple[Row, Row]]:
    if len(dataset) != len(other):
        raise PolicyError(
            f"The datasets have {len(dataset)} and {len(other)} records: expected as many, one for each person; "
            "write a person without visits as a record of zeros."
        )
    return zip(dataset, other, strict=True)
