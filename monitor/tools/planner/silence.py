"""How much of the time a location is silent, in closed form: Erlang's loss formula on the grid of ticks."""

from __future__ import annotations

import math


def silent_share(alarm: float, answers: int, mark_lifetime: int) -> float:
    """The share of ticks at which a location is paused, if each update that it makes is an alarm with one chance.

    `answers` is k and `reach` W + F = L: a tick is paused when k of the L - 1 ticks before it were answered with noise
    (docs/rules.md, section 3). The last L - 1 ticks are a shift register whose stationary law has product form: a
    pattern of j < k answers weighs p^j (1 - p)^(k - 1 - j), one of k weighs p^k. (Insert it into the balance of what
    is shifted out and in: both sides agree for every pattern.) 0.0 where k ≥ L: marks end as fast as answers come.
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
