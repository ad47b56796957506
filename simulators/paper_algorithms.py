"""Algorithms 1 and 2 as in the paper's experiments: exponential noise in binary floats, many iterations at a time.

They are for the figures only. The versions for publishing are in `monitor.onesided.noisy_max` and
`monitor.onesided.sparse_vector`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulators.adaptive import Branches, run_adaptive, threshold_share
from simulators.continuous_noise import make_exponential
from simulators.top_k import TopK, choose_within_budget, draw_above, draw_highest, draw_thresholds, pad_answers

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
