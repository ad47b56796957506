"""Composition of OSDP guarantees ([OSDP], Theorems 3.2, 3.3, 10.1 and 10.2; docs/literature.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from monitor.errors import MixedPoliciesError
from monitor.onesided.osdp.policies import OneSidedPolicy, minimum_relaxation
from monitor.privacy.epsilon import parse_epsilon

Neighbours = Literal["replaced", "added or removed"]
"""OSDP replaces a sensitive record (Definition 3.2). Extended OSDP removes one, or adds any record."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(P, ε)-OSDP, or (P, ε)-eOSDP if the neighbours are "added or removed"."""

    policy: OneSidedPolicy
    epsilon: Fraction
    neighbours: Neighbours = "replaced"

    def __post_init__(self) -> None:
        """Raise EpsilonError if ε is not an exact rational above 0."""
        parse_epsilon(self.epsilon)

    def relax(self, policy: OneSidedPolicy) -> Guarantee:
        """Return the guarantee for a relaxation of its policy ([OSDP], Theorem 3.2).

        Raise MixedPoliciesError if the policy is not a relaxation.
        """
        if not policy.is_relaxation_of(self.policy):
            raise MixedPoliciesError(
                "The policy makes records sensitive that the guarantee does not protect: expected a relaxation of the "
                "guarantee's policy; use minimum_relaxation, or prove the mechanism for the stricter policy."
            )
        return replace(self, policy=policy)

    def as_replaced(self) -> Guarantee:
        """Return the OSDP guarantee: extended OSDP at ε is OSDP at 2·ε ([OSDP], Theorem 10.1).

        Proof: a replacement is the addition of the new record and then the removal of the sensitive one. Each step
        leads to an extended neighbour and costs ε.
        """
        if self.neighbours == "replaced":
            return self
        return Guarantee(self.policy, 2 * self.epsilon)


def compose_in_sequence(*guarantees: Guarantee) -> Guarantee:
    """Return the guarantee of several mechanisms on the same data: the minimum relaxation at Σ ε ([OSDP], Theorem 3.3).

    Proof: each mechanism also has its guarantee for the minimum relaxation, and the ratios multiply. A mechanism may
    depend on earlier outcomes.

    Raises:
        MixedPoliciesError: the guarantees are for different kinds of neighbours.
        PolicyError, TrivialPolicyError: as `monitor.onesided.osdp.policies.minimum_relaxation`.
    """
    policy = minimum_relaxation(*(guarantee.policy for guarantee in guarantees))
    kinds = {guarantee.neighbours for guarantee in guarantees}
    if len(kinds) > 1:
        raise MixedPoliciesError(
            "The guarantees are for different neighbours: expected one kind; convert the others with as_replaced."
        )
    return Guarantee(policy, sum((g.epsilon for g in guarantees), Fraction(0)), guarantees[0].neighbours)


def compose_in_parallel(*guarantees: Guarantee) -> Guarantee:
    """Return the guarantee of several mechanisms on disjoint parts of the data: max ε ([OSDP], Theorem 10.2).

    The part of a record must depend on the record alone. Proof: one record is added or removed, so one part changes,
    and it changes to an extended neighbour. Only the mechanism of this part has a ratio other than 1. The result is
    for extended neighbours only; for replaced records two parts may change, which costs at most twice as much
    (`Guarantee.as_replaced`).

    Raises:
        MixedPoliciesError: a guarantee is not for records that are added or removed.
        PolicyError, TrivialPolicyError: as `monitor.onesided.osdp.policies.minimum_relaxation`.
    """
    policy = minimum_relaxation(*(guarantee.policy for guarantee in guarantees))
    if any(guarantee.neighbours == "replaced" for guarantee in guarantees):
        raise MixedPoliciesError(
            'A guarantee is for replaced records: expected "added or removed", because a replaced record may leave one '
            "part and enter another; add up ε instead."
        )
    return Guarantee(policy, max(guarantee.epsilon for guarantee in guarantees), "added or removed")
