"""Exact bounds from counts: binomial tails, Clopper-Pearson intervals, and bounds of the ratio of two chances.

There is no approximation (no normal law, no chi-square): the chance of failure is at most the stated level.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

_HALVINGS: Final = 60


@lru_cache(maxsize=8)
def _log_factorials(most: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def _sum_of_chances(first: int, last: int, draws: int, chance: float) -> float:
    """Return P[first ≤ X ≤ last] of a binomial X, for a chance that is neither 0 nor 1."""
    k = np.arange(first, last + 1)
    logs = _log_factorials(draws)
    return float(
        np.exp(logs[draws] - logs[k] - logs[draws - k] + k * math.log(chance) + (draws - k) * math.log1p(-chance)).sum()
    )


def _reach(hits: int) -> int:
    """Return the distance from `hits` beyond which the terms of a tail are below e^-100 of its first term."""
    return 200 + 20 * math.isqrt(hits + 1)


def at_least(hits: int, draws: int, chance: float) -> float:
    """Return P[X ≥ hits]."""
    if hits <= draws * chance:
        return 1.0 if hits == 0 else 1.0 - at_most(hits - 1, draws, chance)
    return _sum_of_chances(hits, min(draws, hits + _reach(hits)), draws, chance) if 0 < chance < 1 else float(chance)


def at_most(hits: int, draws: int, chance: float) -> float:
    """Return P[X ≤ hits]."""
    if hits >= draws * chance:
        return 1.0 if hits == draws else 1.0 - at_least(hits + 1, draws, chance)
    return _sum_of_chances(max(0, hits - _reach(draws)), hits, draws, chance) if 0 < chance < 1 else 1.0 - chance


def _root(rises_above: Callable[[float], bool]) -> tuple[float, float]:
    """Return two adjacent chances between which a monotone condition becomes true."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rises_above(middle) else (middle, high)
    return low, high


@lru_cache(maxsize=4096)
def lower(hits: int, draws: int, level: float) -> float:
    """Return the lower Clopper-Pearson bound: any true chance is below it with a chance of at most `level`."""
    return 0.0 if hits == 0 else _root(lambda chance: at_least(hits, draws, chance) > level)[0]


@lru_cache(maxsize=4096)
def upper(hits: int, draws: int, level: float) -> float:
    """Return the upper Clopper-Pearson bound: any true chance is above it with a chance of at most `level`."""
    return 1.0 if hits == draws else _root(lambda chance: at_most(hits, draws, chance) < level)[1]


def fits(hits: int, draws: int, chance: float, level: float) -> bool:
    """Return whether a count is plausible for a chance; for the true chance this is false with at most `level`."""
    return min(at_least(hits, draws, chance), at_most(hits, draws, chance)) > level / 2


@dataclass(frozen=True)
class Loss:
    """Bounds of log(P_D[S] / P_D'[S]) for one outcome S."""

    outcome: Hashable
    at_least: float
    at_most: float


def losses(observed: Counter[Hashable], neighbour: Counter[Hashable], outcomes: int, level: float) -> tuple[Loss, ...]:
    """Return bounds of the privacy loss of every outcome of D; all of them hold except with a chance of `level`.

    Args:
        observed: how often each outcome occurred under D.
        neighbour: how often each outcome occurred under D'.
        outcomes: the most possible outcomes, fixed before anything is drawn; they share the level.
        level: the chance that any bound is wrong.
    """
    assert len(observed.keys() | neighbour.keys()) <= outcomes
    share, draws, others = level / (4 * outcomes), observed.total(), neighbour.total()
    return tuple(
        Loss(
            outcome,
            math.log(lower(hits, draws, share) / upper(neighbour[outcome], others, share)),
            _log_ratio(upper(hits, draws, share), lower(neighbour[outcome], others, share)),
        )
        for outcome, hits in observed.items()
    )


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if below > 0 else math.inf


def worst(bounds: tuple[Loss, ...]) -> Loss:
    """Return the loss with the highest lower bound."""
    return max(bounds, key=lambda loss: loss.at_least)
