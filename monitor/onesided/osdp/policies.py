"""Policy functions, one-sided neighbours and relaxations ([OSDP], sections 3.1, 3.3 and 10.1; docs/literature.md).

A policy function P maps each possible record to 0 (sensitive) or 1 (non-sensitive). A one-sided P-neighbour of a
dataset has one of its sensitive records replaced by any other record. A mechanism is (P, ε)-OSDP if each set of
outcomes is at most e^ε times as likely under a dataset as under each of its one-sided P-neighbours. So an outcome must
not reveal that a record is sensitive, nor which sensitive record it is.

Relation to asymmetric differential privacy ([ADP]), for one whole record as the only attribute. docs/osdp.md has the
proofs of both directions.

* (P, ε)-OSDP is ε-ADP under the pairs (sensitive record, any other record): `OneSidedPolicy.to_asymmetric`.
* Conversely, an ADP policy is of this form only if each of its sensitive values is paired with all other values:
  `from_asymmetric`. Other ADP policies protect less than the OSDP policy with the same sensitive values: a mechanism
  that is OSDP under it is also ADP, but not the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from monitor.errors import PolicyError, TrivialPolicyError
from monitor.onesided.policies import Policy, RecordPolicy

Record = Hashable
Records = tuple[Record, ...]
"""A dataset: one record for each person. The same index is the same person."""

R = TypeVar("R", bound=Hashable)

_NOTHING = (
    "No record is sensitive under the policy: expected at least one; without sensitive records publish exact results, "
    "or correct the policy."
)
_EVERYTHING = (
    "Every record is sensitive under the policy: expected at least one that is not; use a mechanism of ordinary "
    "differential privacy, or OneSidedPolicy.all_sensitive to compare the two."
)


@dataclass(frozen=True, slots=True)
class OneSidedPolicy:
    """A policy function, given by all possible records (`universe`) and those of them that are sensitive."""

    universe: frozenset[Record]
    sensitive: frozenset[Record]

    def __post_init__(self) -> None:
        """Raise PolicyError for a sensitive record outside the universe, TrivialPolicyError if there is none."""
        if not self.sensitive <= self.universe:
            raise PolicyError(
                "A sensitive record is not in the universe: expected one of all possible records; list it there too."
            )
        if not self.sensitive:
            raise TrivialPolicyError(_NOTHING)

    @classmethod
    def from_function(cls, universe: Iterable[R], function: Callable[[R], int]) -> OneSidedPolicy:
        """Return the policy of a function from records to 0 (sensitive) or 1 (non-sensitive).

        Raises:
            PolicyError: the function returns something else.
            TrivialPolicyError: the function returns the same for all records.
        """
        records = tuple(universe)
        values = [function(record) for record in records]
        if not {0, 1}.issuperset(values):
            raise PolicyError(
                "A policy function returned neither 0 nor 1: expected 0 (sensitive) or 1 (non-sensitive)."
            )
        if values and not any(values):
            raise TrivialPolicyError(_EVERYTHING)
        return cls(frozenset(records), frozenset(r for r, value in zip(records, values, strict=True) if value == 0))

    @classmethod
    def all_sensitive(cls, universe: Iterable[Record]) -> OneSidedPolicy:
        """Return the policy P_all ([OSDP], Definition 3.7), which is that of ordinary differential privacy."""
        records = frozenset(universe)
        return cls(records, records)

    def __call__(self, record: Record) -> int:
        """Return P(record): 0 if it is sensitive, 1 if not. Raise PolicyError if it is not a possible record."""
        if record not in self.universe:
            raise PolicyError(
                f"A record has the type {type(record).__name__} and is not in the universe: expected one of its "
                f"{len(self.universe)} records; list it there or correct the record."
            )
        return 0 if record in self.sensitive else 1

    def is_relaxation_of(self, stricter: OneSidedPolicy) -> bool:
        """Return whether P(r) ≥ P_stricter(r) for all records ([OSDP], Definition 3.5).

        Then each one-sided neighbour under this policy is one under the stricter policy, so a (stricter, ε)-OSDP
        mechanism is also (this, ε)-OSDP ([OSDP], Theorem 3.2).
        """
        return self.universe == stricter.universe and self.sensitive <= stricter.sensitive

    def neighbours(self, dataset: Records) -> Iterator[Records]:
        """Yield the one-sided P-neighbours ([OSDP], Definition 3.2): one sensitive record is replaced."""
        for index, record in enumerate(dataset):
            if self(record) == 0:
                for other in self.universe - {record}:
                    yield (*dataset[:index], other, *dataset[index + 1 :])

    def extended_neighbours(self, dataset: Records) -> Iterator[Records]:
        """Yield the extended neighbours: one sensitive record removed, or any record added.

        [OSDP], Definition 10.1, allows an addition only if the dataset has a sensitive record. Parallel composition
        (Theorem 10.2) is false for that definition: a part of the data without a sensitive record would not be
        protected against additions (docs/osdp.md). So here any dataset has the additions as neighbours.
        """
        for index, record in enumerate(dataset):
            if self(record) == 0:
                yield (*dataset[:index], *dataset[index + 1 :])
        for other in self.universe:
            yield (*dataset, other)

    def to_asymmetric(self) -> RecordPolicy:
        """Return the ADP policy with the same neighbours: the whole record is the only attribute."""
        return RecordPolicy((Policy.of_sensitive(self.universe, self.sensitive),))


def minimum_relaxation(*policies: OneSidedPolicy) -> OneSidedPolicy:
    """Return the strictest policy that is a relaxation of each: P(r) = max P_i(r) ([OSDP], Definition 3.6).

    Raises:
        PolicyError: there are no policies, or they have different universes.
        TrivialPolicyError: no record is sensitive under all of them.
    """
    universes = {policy.universe for policy in policies}
    if len(universes) != 1:
        raise PolicyError(
            f"There are {len(policies)} policies with {len(universes)} universes: expected at least one policy, and "
            "the same possible records for all."
        )
    return OneSidedPolicy(policies[0].universe, frozenset.intersection(*(policy.sensitive for policy in policies)))


def from_asymmetric(policy: Policy) -> OneSidedPolicy | None:
    """Return the OSDP policy with the same neighbours as an ADP policy of one attribute; None if there is none.

    Such a policy exists if and only if each sensitive value is paired with every other value.
    """
    sensitive = frozenset(value for value in policy.values if policy.is_sensitive(value))
    one_sided = bool(sensitive) and policy == Policy.of_sensitive(policy.values, sensitive)
    return OneSidedPolicy(policy.values, sensitive) if one_sided else None
