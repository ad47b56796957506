"""The chances of false alarms, as binary floats for display only (docs/rules.md, section 7)."""

from __future__ import annotations

import math
from fractions import Fraction


def compute_false_alarm(epsilon: Fraction, threshold: int, count: int) -> float:
    """Return the chance per update that a location with `count` < `threshold` people is not "safe": e^(-ε(T - f)).

    The result is 1.0 if `count` is at least `threshold`. No one-sided ε-ADP mechanism has a smaller chance (Takagi et
    al. [ADP], Theorem 9; docs/literature.md).
    """
    return math.exp(-float(epsilon * max(threshold - count, 0)))


def compute_belief(epsilon: Fraction, before: float) -> float:
    """Return the largest chance that a reader of all answers can give a person's visits, from the chance `before`.

    All answers are at most e^ε times as likely with the visits as without them, so the odds grow by e^ε at most.
    """
    return before / (before + (1 - before) * math.exp(-float(epsilon)))


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


def find_threshold(epsilon: Fraction, updates: int, chance: float) -> int:
    """Return the smallest threshold at which a false alarm of an empty location in all updates is rarer than `chance`.

    `epsilon` is the ε of an answer.
    """
    # 1 - (1 - e^(-εT))^n < c if and only if e^(-εT) < -expm1(log1p(-c)/n). The loop corrects rounding errors.
    per_update = -math.expm1(math.log1p(-chance) / updates)
    threshold = max(1, math.floor(-math.log(per_update) / float(epsilon)))
    while compute_over_updates(compute_false_alarm(epsilon, threshold, 0), updates) >= chance:
        threshold += 1
    return threshold
