"""The share of the time that a location is silent, in closed form: Erlang's loss formula on the grid of ticks."""

from __future__ import annotations

import math


def silent_share(alarm: float, answers: int, mark_lifetime: int) -> float:
    """Return the share of ticks at which a location is paused, if each update is an alarm with the same chance p.

    `answers` is k and `mark_lifetime` is W + F = L. A tick is paused if k of the L - 1 ticks before it have noisy
    answers (docs/rules.md, section 3). The last L - 1 ticks are a shift register whose stationary law has product form:
    a pattern of j < k answers has the weight p^j (1 - p)^(k - 1 - j), one of k answers p^k. (Both sides of the balance
    equation agree for every pattern.) The share is 0.0 if k ≥ L, because marks then end as fast as answers come.
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
