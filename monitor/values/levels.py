"""What is fine, risky and useless in figures of privacy and of false alarms (docs/privacy.md says why)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from monitor.privacy.alarm_chances import compute_belief
from monitor.values.belief_about_one_person import BELIEVED

Level = Literal["useless", "risky", "fine"]
USELESS: Final = "useless"
RISKY: Final = "risky"
FINE: Final = "fine"


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest values that are fine, and that are risky. A larger value is useless."""

    fine: float
    risky: float

    def judge(self, value: float) -> Level:
        """Return the level of a value."""
        return FINE if value <= self.fine else RISKY if value <= self.risky else USELESS

    def judge_belief(self, epsilon: Fraction) -> Level:
        """Return the level of the chance that answers of this ε can raise a chance of 1 % to."""
        return self.judge(compute_belief(epsilon, BELIEVED))


ONE_VISIT: Final = Limits(0.05, 0.20)
"""What a chance of 1 % may become by one visit."""

ONE_PERSON: Final = Limits(0.20, 0.50)
"""What a chance of 1 % may become by everything that one person did within the period."""

NOISE_IN_SIGHT: Final = Limits(0.02, 0.10)
"""The share of places that may show an alarm of noise at any time."""
