"""What a reader of answers may come to believe about one person, in words (docs/privacy.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from monitor.privacy.alarm_chances import compute_belief
from monitor.values.wording import format_percent

BELIEVED: Final = 0.01
"""The chance of a visit, before any answer is known, that explains ε in words."""

PRIORS: Final = (BELIEVED, 0.1, 0.5)
"""The chances of a visit, before any answer is known, that the tables explain ε with."""


def describe_belief(epsilon: Fraction) -> str:
    """Return in words what a reader of answers that cost this ε can learn about one person at most."""
    after = format_belief(epsilon, BELIEVED)
    return f"a reader who gave the person's visits a chance of {format_percent(BELIEVED)} gives them {after} at most"


def format_belief(epsilon: Fraction, before: float) -> str:
    """Format the largest chance that answers of this ε can raise the chance `before` to."""
    return format_percent(compute_belief(epsilon, before))
