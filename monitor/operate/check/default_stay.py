"""The number of places at which one honest person may be counted at once, if visits have no end (`default_stay`).

A person who checks in at several places, and never reports a departure, is counted at each for the default stay. A stay
is not cut at the person's next visit, because removing that visit would then raise a count (docs/rules.md, rule 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import MINUTE, format_duration

APART: Final = 10 * MINUTE
"""The assumed time between check-ins, in microseconds. No configuration key states it."""

TOLERATED: Final = 2
"""The largest number of places at once without a warning: a person may be on the way from one to the next."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The effect of a default stay (microseconds) on a person who checks in elsewhere every ten minutes.

    The person is counted at `places` places at once, and pays `places` times the `charges`: by monitor of designated
    times, the most that it charges per place. `total` is the most that a person at one place at a time pays.
    """

    stay: int
    total: Fraction
    charges: Mapping[str, Fraction]

    @property
    def places(self) -> int:
        """The number of places at which the person is counted at once."""
        return max(1, -(-self.stay // APART))

    @property
    def may_pay(self) -> Fraction:
        """The most that the person pays in the period, over all monitors."""
        return self.total + (self.places - 1) * sum(self.charges.values(), Fraction(0))

    def describe(self) -> str:
        """Describe the effect in a sentence."""
        stay = f"A visit without left_at lasts for visits.default_stay ({format_duration(self.stay)})"
        if self.places == 1:
            return f"{stay}: check-ins {format_duration(APART)} apart do not overlap."
        return (
            f"{stay}: a person who checks in elsewhere every {format_duration(APART)} and never reports a departure is "
            f"at {self.places} places at a designated time, and pays {self.places} times."
        )

    def make_warning(self) -> str | None:
        """Return a warning with advice, or None if the number of places is tolerated."""
        if self.places <= TOLERATED:
            return None
        return (
            f"{self.describe()} With {', '.join(self.charges)} this may cost {format_epsilon(self.may_pay)} "
            f"within the period, not {format_epsilon(self.total)}. Report left_at, or set default_stay to "
            f"{format_duration(TOLERATED * APART)} or less."
        )

    def to_tree(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "default_stay": format_duration(self.stay),
            "check_ins_apart": format_duration(APART),
            "places_at_once": self.places,
            "may_pay": format_epsilon(self.may_pay),
        }
