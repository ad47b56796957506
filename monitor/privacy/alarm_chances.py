"""The chances of false alarms, and what noise adds, as binary floats for display only (docs/rules.md, section 7)."""

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


def find_largest_epsilon(before: float, after: float) -> float:
    """Return the largest ε whose answers raise the chance `before` to at most `after` (`compute_belief`)."""
    return math.log(after * (1 - before) / (before * (1 - after)))


def compute_mean_noise(epsilon: Fraction) -> float:
    """Return the average difference between a noisy count and the true count, in people: 1/(e^ε - 1)."""
    try:
        return 1 / math.expm1(float(epsilon))
    except OverflowError:
        return 0.0


def compute_excess(buckets: int, epsilon: Fraction) -> tuple[float, float]:
    """Return by how much the noise of so many numbers raises their sum: the mean and the standard deviation.

    The variance of a number is q/(1 - q)² with q = e^(-ε).
    """
    deviation = math.exp(-float(epsilon) / 2) / -math.expm1(-float(epsilon))
    return buckets * compute_mean_noise(epsilon), math.sqrt(buckets) * deviation


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


def compute_silent_share(alarm: float, answers: int, mark_lifetime: int) -> float:
    """Return the share of ticks at which a location is paused, if each update is an alarm with the same chance p.

    `answers` is k and `mark_lifetime` is W + F = L. A location is paused at a tick if k of the previous L - 1 ticks
    have noisy answers (docs/rules.md, section 3). The last L - 1 ticks form a shift register. Its stationary
    distribution has product form: a pattern with j < k answers has the weight p^j (1 - p)^(k - 1 - j), a pattern with k
    answers has the weight p^k. (The balance equation is satisfied for every pattern.) The share is 0.0 if k ≥ L,
    because L - 1 ticks then never contain k answers.
    """
    slots = mark_lifetime - 1
    if alarm <= 0 or answers > slots:
        return 0.0
    if alarm >= 1:
        return (mark_lifetime - answers) / mark_lifetime
    busy, rest = math.log(alarm), math.log1p(-alarm)
    weights = [_log_choose(slots, j) + j * busy + (answers - 1 - j) * rest for j in range(answers)]
    paused = _log_choose(slots, answers) + answers * busy
    return 1 / (1 + math.fsum(math.exp(min(weight - paused, 700.0)) for weight in weights))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def compute_busy_share(answers: int, mark_lifetime: int) -> float:
    """Return the share of ticks at which a location answers that is so busy that each answer is an alarm.

    `answers` is k and `mark_lifetime` is W + F. The location is paused while k alarms run (docs/rules.md, section 3).
    """
    return 1 - compute_silent_share(1.0, answers, mark_lifetime)


def find_most_noise(threshold: int) -> int:
    """Return the largest number of people at which an alarm is noise: less than half of the threshold.

    From half of the threshold on an alarm is early, and from the threshold on it is true.
    """
    return (threshold - 1) // 2
