"""The chances of false alarms, as binary floats for display only (docs/rules.md, section 7)."""

from __future__ import annotations

import math
from fractions import Fraction


def compute_false_alarm(epsilon: Fraction, threshold: int, count: int) -> float:
    """Return the chance per update that a location with `count` < `threshold` people is not "safe": e^(-ε(T - f)).

    The result is 1.0 if `count` is at least `threshold`. No one-sided ε-ADP mechanism has a smaller chance (Takagi et
    al. [ADP], Theorem 9; docs/references.md).
    """
    return math.exp(-float(epsilon * max(threshold - count, 0)))


def compute_mean_noise(epsilon: Fraction) -> float:
    """Return the average difference between a noisy count and the true count, in people: 1/(e^ε - 1)."""
    try:
        return 1 / math.expm1(float(epsilon))
    except OverflowError:
        return 0.0


def compute_over_updates(p: float, updates: int) -> float:
    """Return the chance of at least one false alarm in n independent updates of chance p each: 1 - (1 - p)^n."""
    if p >= 1 and updates > 0:
        return 1.0
    return -math.expm1(updates * math.log1p(-p)) if p < 1 else 0.0
