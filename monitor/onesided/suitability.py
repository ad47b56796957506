"""Which mechanisms a policy and a query allow, and why not the others ([ADP], sections 3.2 and 5).

Every proof with one-sided noise needs a query that moves one way only towards P-neighbours; this is where that is
asked, before any noise is drawn.
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
    """What there is to choose from."""

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
    """What a mechanism's proof needs: the query's direction, and the most that one component may change by.

    A constant query satisfies every direction. `largest` is None where the noise is scaled to the sensitivity.
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


def applicable(query: Sensitivity) -> tuple[Mechanism, ...]:
    """The mechanisms whose proof holds for a query of this sensitivity, in the order of their names above."""
    return tuple(mechanism for mechanism in Mechanism if not _objections(mechanism, query))


def require(mechanism: Mechanism, query: Sensitivity) -> None:
    """Raise UnsuitableError, with the reason and with what would do, if the mechanism's proof does not hold."""
    objections = _objections(mechanism, query)
    if objections:
        raise UnsuitableError(
            f"{mechanism} is asked for: {' '.join(objections)} What applies: {'; '.join(applicable(query))}."
        )


def _objections(mechanism: Mechanism, query: Sensitivity) -> list[str]:
    needed = REQUIREMENTS[mechanism]
    objections = []
    if needed.direction not in ("not monotone", query.direction) and query.direction != "constant":
        reason = (
            "under a symmetric policy no query but a constant one is monotone ([ADP], Theorem 4)"
            if query.direction == "not monotone"
            else "noise to the wrong side rules answers out that a P-neighbour gives, which costs without bound"
        )
        objections.append(
            f"Towards P-neighbours the query is {query.direction}: expected {needed.direction}; {reason}."
        )
    if needed.largest is not None and query.largest > needed.largest:
        objections.append(
            f"One component changes by up to {query.largest}: expected at most {needed.largest}; count people once, "
            "or divide the query by it."
        )
    return objections
