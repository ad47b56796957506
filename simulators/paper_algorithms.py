"""Algorithms 1 and 2 as in the paper's experiments: exponential noise in binary floats, many iterations at a time.

The adaptive sparse vector technique of the authors' program is here too: a cheap draw, then a second one if it is near.
They are for the figures only. The versions for publishing are in `monitor.onesided.noisy_max` and
`monitor.onesided.sparse_vector`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from simulators.continuous_noise import Floats, Law, make_exponential
from simulators.top_k import (
    Exceedances,
    TopK,
    choose_within_budget,
    draw_above,
    draw_highest,
    draw_thresholds,
    pad_answers,
)

Variant = Literal["as printed", "as coded"]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMax:
    """Algorithm 1 in one stage, with all of ε: exponential noise of mean k/ε on every count, zero counts included.

    `debiased` subtracts the mean from the values, as the authors' program does. In the paper, the panels with varying ε
    show the error without this step, the panels with varying k with it.
    """

    counts: NDArray[np.int64]
    epsilon: float
    k: int
    debiased: bool

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of iterations."""
        counts = self.counts.astype(np.float64)
        mean = self.k / self.epsilon
        items, values = draw_highest(counts, make_exponential(mean), self.k, iterations, rng)
        return TopK(items, values - mean if self.debiased else values)


@dataclass(frozen=True, slots=True, eq=False)
class SparseVector:
    """Algorithm 2 for top-k. Items are in a random order, the threshold has no noise, and only answers cost ε.

    The threshold is a whole number: the count at a rank from [k, 2k] plus the mean noise k/ε, rounded down. Only values
    above it are answers.

    "as printed": one exponential draw of mean k/ε, and k answers (not k + 1, see
    `monitor.onesided.sparse_vector`). "as coded": adaptive. The first draw has mean 2k/ε. If the value is not
    above the threshold, it is dropped. If it is far above, it is published at half the cost. Otherwise a second value
    is drawn with mean k/ε, and published if it is above the threshold. An answer far above is charged as a cheap one,
    and the mean of the cheap draw is subtracted, even if the answer is from the second draw. (An answer of the second
    draw actually costs 3/2 of its charge; see the tests of `monitor.onesided.sparse_vector`.)
    """

    counts: NDArray[np.int64]
    epsilon: float
    k: int
    variant: Variant = "as coded"

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of iterations."""
        counts = self.counts.astype(np.float64)
        mean = self.k / self.epsilon
        thresholds = np.floor(draw_thresholds(counts, self.k, iterations, rng) + mean)
        if self.variant == "as coded":
            branches = Branches.of(make_exponential(2 * mean), make_exponential(mean), self._query_epsilon(), self.k)
            found = run_adaptive(counts, thresholds, branches, rng)
            noise = np.where(found.cheap, 2 * mean, mean)
            return pad_answers(found.above, found.above.values - noise, iterations, 2 * self.k)
        above = draw_above(counts, make_exponential(mean), thresholds, rng)
        chosen = above.select(choose_within_budget(above, np.ones(above.items.size, np.int64), self.k, rng))
        return pad_answers(chosen, chosen.values - mean, iterations, self.k)

    def _query_epsilon(self) -> float:
        """Return the ε that defines "far" in the authors' program: that of the queries if the threshold had a share."""
        return self.epsilon * (1 - threshold_share(self.k))


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
