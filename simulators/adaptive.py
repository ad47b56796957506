"""The adaptive sparse vector technique of the authors' program: a cheap draw, then a second one if it is near."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simulators.continuous_noise import Floats, Law
from simulators.top_k import Exceedances, choose_within_budget, draw_above

CHEAP, FULL = 1, 2
"""The cost of an answer, in halves of ε_query/k."""


def threshold_share(k: int) -> float:
    """Return the share of ε for the noise of the threshold: 1/(1 + k^(2/3)) ([LSL], docs/literature.md)."""
    return 1 / (1 + float(np.cbrt(k)) ** 2)


@dataclass(frozen=True, slots=True)
class Branches:
    """The noise of both draws, the distance above the threshold (people) that counts as far, and k full answers."""

    first: Law
    second: Law
    far: float
    k: int

    @classmethod
    def of(cls, first: Law, second: Law, query_epsilon: float, k: int) -> Self:
        """Return branches with the authors' σ as `far`: 4·√2·2k/ε_query.

        σ is two standard deviations of Laplace noise of scale 4k/ε_query.
        """
        return cls(first, second, 4 * math.sqrt(2) * 2 * k / query_epsilon, k)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers above the threshold, sorted by iteration, and whether each is charged as a cheap draw."""

    above: Exceedances
    cheap: NDArray[np.bool_]


def run_adaptive(counts: Floats, thresholds: Floats, branches: Branches, rng: np.random.Generator) -> Answers:
    """Run one iteration per threshold. Items are processed in a random order until an answer would exceed the budget.

    The laws of `branches` include the noise of the threshold, independent for each draw. Values are counts plus noise.
    """
    first = draw_above(counts, branches.first, thresholds, rng)
    is_far = first.values - thresholds[first.iterations] >= branches.far
    again = counts[first.items] + branches.second(rng, (first.items.size,))
    answered = Exceedances(first.iterations, first.items, np.where(is_far, first.values, again))
    gaps = answered.values - thresholds[answered.iterations]
    answered, gaps = answered.select(gaps > 0), gaps[gaps > 0]
    cheap = gaps >= branches.far
    chosen = choose_within_budget(answered, np.where(cheap, CHEAP, FULL), FULL * branches.k, rng)
    return Answers(answered.select(chosen), cheap[chosen])
