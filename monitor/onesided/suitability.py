"""Decides which mechanisms are valid for a policy and a query (Takagi et al. [ADP], sections 3.2 and 5).

Every proof with one-sided noise needs a query that moves in only one direction towards P-neighbours. This module checks
this condition before any noise is drawn. docs/literature.md defines [ADP].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from monitor.errors import UnsuitableError
from monitor.onesided.policies import Direction, Sensitivity


class Mechanism(StrEnum):
    """The available mechanisms."""

    UPWARDS = "asymmetric geometric noise, upwards"
    DOWNWARDS = "asymmetric geometric noise, downwards"
    TWO_SIDED = "two-sided geometric noise"
    CERTAINLY_BELOW = "one-sided decision, certainly below"
    CERTAINLY_REACHED = "one-sided decision, certainly reached"
    NOISY_MAX = "asymmetric report noisy max (Algorithm 1)"
    SPARSE_VECTOR = "asymmetric sparse vector, free below (Algorithm 2)"
    SPARSE_VECTOR_ABOVE = "asymmetric sparse vector, free above"


@dataclass(frozen=True, slots=True)
class Requirement:
    """The assumptions of a mechanism's proof: the direction of the query, and the greatest change of one component.

    A constant query satisfies every direction, and "not monotone" accepts every query. `largest` is None if the noise
    is scaled to the sensitivity.
    """

    direction: Direction
    largest: int | None


REQUIREMENTS: Final[Mapping[Mechanism, Requirement]] = MappingProxyType(
    {
        Mechanism.UPWARDS: Requirement("decreasing", None),
        Mechanism.DOWNWARDS: Requirement("increasing", None),
        Mechanism.TWO_SIDED: Requirement("not monotone", None),
        Mechanism.CERTAINLY_BELOW: Requirement("decreasing", 1),
        Mechanism.CERTAINLY_REACHED: Requirement("increasing", 1),
        Mechanism.NOISY_MAX: Requirement("decreasing", 1),
        Mechanism.SPARSE_VECTOR: Requirement("decreasing", 1),
        Mechanism.SPARSE_VECTOR_ABOVE: Requirement("increasing", 1),
    }
)


def list_applicable(query: Sensitivity) -> tuple[Mechanism, ...]:
    """Return the mechanisms whose proof is valid for a query of this sensitivity, in the order of `Mechanism`."""
    return tuple(mechanism for mechanism in Mechanism if not _list_objections(mechanism, query))


def require(mechanism: Mechanism, query: Sensitivity) -> None:
    """Raise UnsuitableError, with the reason and the valid mechanisms, if the mechanism's proof is not valid."""
    objections = _list_objections(mechanism, query)
    if objections:
        raise UnsuitableError(
            f"{mechanism} is not valid: {' '.join(objections)} Valid mechanisms: {'; '.join(list_applicable(query))}."
        )


def _list_objections(mechanism: Mechanism, query: Sensitivity) -> list[str]:
    needed = REQUIREMENTS[mechanism]
    objections = []
    if needed.direction not in ("not monotone", query.direction) and query.direction != "constant":
        reason = (
            "under a symmetric policy only a constant query is monotone ([ADP], Theorem 4)"
            if query.direction == "not monotone"
            else "noise on the wrong side makes answers of a P-neighbour impossible, so the loss is unbounded"
        )
        objections.append(
            f"Towards P-neighbours the query is {query.direction}: expected {needed.direction}; {reason}."
        )
    if needed.largest is not None and query.largest > needed.largest:
        objections.append(
            f"One component changes by up to {query.largest}: expected at most {needed.largest}; count people once, "
            "or divide the query by this number."
        )
    return objections
