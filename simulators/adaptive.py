"""The adaptive sparse vector technique of the authors' program: a cheap draw first, a second one where it is close."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simulators.continuous_noise import Floats, Law, Risen, exceeding
from simulators.top_k import in_random_order

CHEAP, FULL = 1, 2
"""What answers cost, in halves of ε_query/k."""


def threshold_share(k: int) -> float:
    """The share of ε that the threshold gets where it has noise: 1/(1 + k^(2/3)), of Lyu, Su and Li."""
    return 1 / (1 + float(np.cbrt(k)) ** 2)


@dataclass(frozen=True, slots=True)
class Branches:
    """The noise of both draws, what is far above the threshold (people), and the number of full answers k."""

    first: Law
    second: Law
    far: float
    k: int

    @classmethod
    def of(cls, first: Law, second: Law, query_epsilon: float, k: int) -> Self:
        """With the program's σ = 4·√2·2k/ε_query: two standard deviations of Laplace noise of scale 4k/ε_query."""
        return cls(first, second, 4 * math.sqrt(2) * 2 * k / query_epsilon, k)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers above the threshold, sorted by iteration, and whether each is booked as a cheap one."""

    risen: Risen
    cheap: NDArray[np.bool_]


def adaptive_answers(counts: Floats, thresholds: Floats, branches: Branches, rng: np.random.Generator) -> Answers:
    """Run one iteration for each threshold, items in a random order, until the next answer would exceed the budget.

    Laws with noise on the threshold hold it in themselves, fresh for each draw. Values are counts plus noise.
    """
    falling = np.argsort(-counts, kind="stable")
    first = exceeding(counts, falling, branches.first, thresholds, rng)
    is_far = first.values - thresholds[first.iterations] >= branches.far
    again = counts[first.items] + branches.second.sample(rng, (first.items.size,))
    answered = Risen(first.iterations, first.items, np.where(is_far, first.values, again))
    gaps = answered.values - thresholds[answered.iterations]
    answered, gaps = answered.taken(gaps > 0), gaps[gaps > 0]
    cheap = gaps >= branches.far
    chosen = in_random_order(answered, np.where(cheap, CHEAP, FULL), FULL * branches.k, rng)
    return Answers(answered.taken(chosen), cheap[chosen])
