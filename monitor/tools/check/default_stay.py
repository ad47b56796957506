"""At how many places one honest person may be reported at once, if visits come without their end (`default_stay`).

Whoever checks in at one place after the other, and never says when they left, is taken to stay at each for the default
stay. A stay is not cut at the person's next visit: take that one away, and a count would rise (docs/rules.md, rule 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.privacy.epsilon import format_epsilon
from monitor.public.instants import MINUTE, format_duration

APART: Final = 10 * MINUTE
"""How far apart check-ins are taken to be, in microseconds; nothing in a configuration tells."""

TOLERATED: Final = 2
"""At how many places at once somebody may be without a warning: on the way from one to the next."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a default stay (microseconds) means for a person who checks in elsewhere every ten minutes.

    They are at `places` places at once, and pay that many times what `charges` say of each monitor of designated times
    for the period; `total` is what one person pays at most who is at one place at a time.
    """

    stay: int
    total: Fraction
    charges: Mapping[str, Fraction]

    @property
    def places(self) -> int:
        """At how many places they are at once."""
        return max(1, -(-self.stay // APART))

    @property
    def may_pay(self) -> Fraction:
        """What they pay at most in the period, over all monitors."""
        return self.total + (self.places - 1) * sum(self.charges.values(), Fraction(0))

    def sentence(self) -> str:
        """What it means, in a sentence."""
        told = f"A visit without left_at lasts for visits.default_stay ({format_duration(self.stay)})"
        if self.places == 1:
            return f"{told}: check-ins {format_duration(APART)} apart do not overlap."
        return (
            f"{told}: who checks in elsewhere every {format_duration(APART)} without saying when they left is at "
            f"{self.places} places at a designated time, and pays there {self.places} times."
        )

    def warning(self) -> str | None:
        """What to do about it, where it is more than is to be expected of everybody."""
        if self.places <= TOLERATED:
            return None
        return (
            f"visits: {self.sentence()} In the period that may be {format_epsilon(self.may_pay)}, not "
            f"{format_epsilon(self.total)} ({', '.join(self.charges)}). Have left_at reported, or set default_stay to "
            f"{format_duration(TOLERATED * APART)} or less."
        )

    def tree(self) -> dict[str, object]:
        """For programs."""
        return {
            "default_stay": format_duration(self.stay),
            "check_ins_apart": format_duration(APART),
            "places_at_once": self.places,
            "may_pay": format_epsilon(self.may_pay),
        }
