"""The share of time in which a location is silent, in closed form: Erlang's loss formula in discrete time."""

from __future__ import annotations

import math


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
