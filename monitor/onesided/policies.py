"""Policies: which values are sensitive, and which datasets they protect (Takagi et al. [ADP], section 3).

A policy is a set of ordered pairs (a, b) of values: a person with the sensitive value a must look like a person with
the value b. The pairs are the edges of the policy graph. Symmetric pairs give differential privacy ([ADP], Theorem 5).
Pairs in one direction give asymmetric differential privacy. Pairs from some whole records to all others give one-sided
differential privacy ([OSDP], Definition 3.2). docs/literature.md defines [ADP] and [OSDP].

The number of people is fixed: a person without visits is a record of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from monitor.errors import PolicyError

Value = Hashable
Row = tuple[Value, ...]
"""The record of one person, with one value for each attribute of the policy."""

Dataset = tuple[Row, ...]
"""One record for each person. The same index is the same person."""

Query = Callable[[Dataset], Sequence[int]]
Contribution = Callable[[Row], Sequence[int]]

Direction = Literal["decreasing", "increasing", "constant", "not monotone"]
"""The direction in which a query may change from a dataset to its P-neighbours ([ADP], Definition 12)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of one attribute: its possible values, and the pairs (sensitive value, value to look like)."""

    values: frozenset[Value]
    pairs: frozenset[tuple[Value, Value]]

    def __post_init__(self) -> None:
        """Raise PolicyError if there are no values, or if a pair has equal or unlisted values."""
        if not self.values:
            raise PolicyError("The policy has no values: expected at least one; list all possible values.")
        for pair in self.pairs:
            if pair[0] == pair[1] or not self.values.issuperset(pair):
                raise PolicyError(
                    f"The policy pairs {pair[0]!r} with {pair[1]!r}: expected two different values of the policy; "
                    "drop the pair or list its values."
                )

    @classmethod
    def of_sensitive(cls, values: Iterable[Value], sensitive: Iterable[Value]) -> Policy:
        """Return the policy of [ADP], Definition 7: each sensitive value is paired with every other value."""
        known = frozenset(values)
        return cls(known, frozenset((a, b) for a, b in product(sensitive, known) if a != b))

    @classmethod
    def symmetric(cls, values: Iterable[Value]) -> Policy:
        """Return the policy of differential privacy: every value is sensitive ([ADP], Example 2)."""
        known = frozenset(values)
        return cls.of_sensitive(known, known)

    @property
    def graph(self) -> Mapping[Value, frozenset[Value]]:
        """The policy graph: for each value the values that it is paired with."""
        return {value: frozenset(b for a, b in self.pairs if a == value) for value in self.values}

    @property
    def is_symmetric(self) -> bool:
        """Whether each pair also occurs reversed, so that only constant queries are monotone ([ADP], Theorem 4)."""
        return all((b, a) in self.pairs for a, b in self.pairs)

    def neighbours(self, value: Value) -> frozenset[Value]:
        """Return the values that a value is paired with. Raise PolicyError for an unknown value."""
        self._check(value)
        return self.graph[value]

    def is_sensitive(self, value: Value) -> bool:
        """Return whether the value is paired with another one. Raise PolicyError for an unknown value."""
        return bool(self.neighbours(value))

    def allows(self, value: Value, other: Value) -> bool:
        """Return whether `other` is the value itself or paired with it. Raise PolicyError for an unknown value."""
        self._check(value)
        self._check(other)
        return value == other or (value, other) in self.pairs

    def minimum_step(self, value: Value, other: Value) -> int | None:
        """Return the length of the shortest path to `other` ([ADP], Definition 14); None if there is none."""
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
                f"A record has a {type(value).__name__} that is not a value of the policy: expected one of its "
                f"{len(self.values)} values; list it in the policy or correct the record."
            )


VISITED: Final = Policy.of_sensitive((0, 1), (1,))
"""A visit (1) is sensitive, its absence (0) is not ([ADP], Example 1)."""


@dataclass(frozen=True, slots=True)
class RecordPolicy:
    """A policy for each attribute of a record. It is public, and the same for all people."""

    attributes: tuple[Policy, ...]

    def __post_init__(self) -> None:
        """Raise PolicyError if there are no attributes."""
        if not self.attributes:
            raise PolicyError("The record's policy has no attributes: expected at least one policy; add it.")

    @classmethod
    def uniform(cls, policy: Policy, attributes: int) -> RecordPolicy:
        """Return a record policy with the same policy for each attribute, such as the visit to each location."""
        return cls((policy,) * attributes)

    def covers(self, other: RecordPolicy) -> bool:
        """Return whether each P-neighbour under `other` is also a P-neighbour under this policy.

        Then a (this, ε)-ADP mechanism is also (other, ε)-ADP, because its proof includes more pairs ([ADP],
        Theorem 5(2)).
        """
        return len(self.attributes) == len(other.attributes) and all(
            own.values == others.values and own.pairs >= others.pairs
            for own, others in zip(self.attributes, other.attributes, strict=True)
        )

    def records(self) -> Iterator[Row]:
        """Return every possible record."""
        return product(*(policy.values for policy in self.attributes))

    def is_record_neighbour(self, record: Row, other: Row) -> bool:
        """Return whether `other` differs from `record` and is a P-neighbour of it ([ADP], Definition 8).

        Any number of attributes may differ, but only attributes with a sensitive value.
        """
        self._check(record)
        self._check(other)
        allowed = (
            policy.allows(value, after) for policy, value, after in zip(self.attributes, record, other, strict=True)
        )
        return all(allowed) and record != other

    def record_neighbours(self, record: Row) -> Iterator[Row]:
        """Return every P-neighbour of a record."""
        self._check(record)
        choices = ((value, *policy.neighbours(value)) for policy, value in zip(self.attributes, record, strict=True))
        return (neighbour for neighbour in product(*choices) if neighbour != record)

    def is_neighbour(self, dataset: Dataset, other: Dataset) -> bool:
        """Return whether `other` is in N_P(dataset): one record differs, and is a P-neighbour ([ADP], Definition 9).

        The relation is not symmetric. Raise PolicyError if the datasets differ in length.
        """
        differing = [(a, b) for a, b in _pair_records(dataset, other) if a != b]
        return len(differing) == 1 and self.is_record_neighbour(*differing[0])

    def neighbours(self, dataset: Dataset) -> Iterator[Dataset]:
        """Return N_P(dataset): every dataset in which one record is replaced by one of its P-neighbours."""
        for index, record in enumerate(dataset):
            for neighbour in self.record_neighbours(record):
                yield (*dataset[:index], neighbour, *dataset[index + 1 :])

    def minimum_step(self, dataset: Dataset, other: Dataset) -> int | None:
        """Return the fewest P-neighbour steps from `dataset` to `other` ([ADP], Definition 14); None if unreachable.

        A step may change any attributes of one record. So the result is the sum over the records of the maximum over
        their attributes.
        """
        total = 0
        for record, goal in _pair_records(dataset, other):
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
    """How an integer query may change towards a P-neighbour ([ADP], Definitions 11 and 12)."""

    direction: Direction
    """The common direction of all components."""
    largest: int
    """The greatest change of one component."""
    total: int
    """The greatest change of all components together (the L1 norm)."""
    changed: int
    """The most components that change at once."""


def sensitivity(policy: RecordPolicy, query: Query, datasets: Iterable[Dataset]) -> Sensitivity:
    """Return the P-sensitivity of a query, by enumerating the P-neighbours of the given datasets.

    It is valid only for these datasets, so pass all possible ones. Raise PolicyError if there are none.
    """
    universe = tuple(datasets)
    if not universe:
        raise PolicyError("There are no datasets: expected all possible datasets; pass them.")
    return _measure(
        (query(dataset), query(neighbour)) for dataset in universe for neighbour in policy.neighbours(dataset)
    )


def sum_sensitivity(policy: RecordPolicy, contribution: Contribution) -> Sensitivity:
    """Return the P-sensitivity of a query that is the sum of contributions of records, such as counts.

    Only one record changes, so it is enough to enumerate the records and their P-neighbours, for any number of people.
    """
    return _measure(
        (contribution(record), contribution(neighbour))
        for record in policy.records()
        for neighbour in policy.record_neighbours(record)
    )


def _measure(changes: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Sensitivity:
    rises = falls = False
    largest = total = changed = 0
    for before, after in changes:
        steps = [b - a for a, b in zip(before, after, strict=True)]
        rises |= any(step > 0 for step in steps)
        falls |= any(step < 0 for step in steps)
        sizes = [abs(step) for step in steps if step]
        largest, total, changed = max(largest, *sizes, 0), max(total, sum(sizes)), max(changed, len(sizes))
    return Sensitivity(_find_direction(rises=rises, falls=falls), largest, total, changed)


def _find_direction(*, rises: bool, falls: bool) -> Direction:
    if rises and falls:
        return "not monotone"
    if falls:
        return "decreasing"
    return "increasing" if rises else "constant"


def _pair_records(dataset: Dataset, other: Dataset) -> Iterator[tuple[Row, Row]]:
    if len(dataset) != len(other):
        raise PolicyError(
            f"The datasets have {len(dataset)} and {len(other)} records: expected equal numbers, one for each person; "
            "write a person without visits as a record of zeros."
        )
    return zip(dataset, other, strict=True)
