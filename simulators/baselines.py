"""The paper's baselines: free-gap noisy max and sparse vector of [DWZK] (docs/literature.md).

They satisfy ε-DP in exact arithmetic. This code uses binary floats, is for comparison only, and publishes nothing.

Half of ε is for selection, half for measurements. `scale` is a factor of the Laplace noise. The authors' program uses
2, the general bound. For counts, 1 suffices, because all of them change in the same direction when a person is added
or removed; the squared error of the baseline is then a quarter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from simulators.continuous_noise import Floats, make_laplace, make_laplace_difference
from simulators.paper_algorithms import Branches, run_adaptive, threshold_share
from simulators.top_k import TopK, draw_highest, draw_thresholds, pad_answers

Scale = Literal[1, 2]
GENERAL: Final = 2
MONOTONE: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class FreeGapNoisyMax:
    """Noisy max with the gaps between the k + 1 highest noisy counts, and measurements of the k selected items.

    Every count and every measurement gets independent Laplace noise of scale `scale`·k/(ε/2). Gaps and measurements are
    combined into the best linear unbiased estimates for equal variances, which halves the variance of a measurement.
    """

    counts: NDArray[np.int64]
    epsilon: float
    k: int
    scale: Scale = GENERAL

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of iterations, of k + 1 items or more."""
        counts = self.counts.astype(np.float64)
        law = make_laplace(self.scale * self.k / (self.epsilon / 2))
        items, values = draw_highest(counts, law, self.k + 1, iterations, rng)
        chosen, gaps = items[:, : self.k], -np.diff(values, axis=1)
        measured = counts[chosen] + law(rng, chosen.shape)
        return TopK(chosen, combine_estimates(measured, gaps))


def combine_estimates(measured: Floats, gaps: Floats) -> Floats:
    """Return the best linear unbiased estimates from k measurements and k gaps, shape (iterations, k), highest first.

    With equal variances the estimate of item i is β_i = (k·α_i + Σ_j (α_j + x_i - x_j)) / 2k: one half is the item's
    measurement α_i, the other is the mean of all measurements, shifted by the gaps. x_i - x_j is a sum of gaps. The
    last gap, to item k + 1, is unused.
    """
    k = measured.shape[1]
    below_first = np.cumsum(gaps[:, : k - 1], axis=1)
    distances = np.concatenate([np.zeros((gaps.shape[0], 1)), below_first], axis=1)
    others = (measured + distances).sum(axis=1, keepdims=True)
    estimates: Floats = (k * measured + others - k * distances) / (2 * k)
    return estimates


@dataclass(frozen=True, slots=True, eq=False)
class FreeGapSparseVector:
    """Adaptive sparse vector with gaps, and measurements of the items found.

    The threshold uses the share 1/(1 + k^(2/3)) of ε/2, with new noise for each draw. The rest, ε_query, is for the
    queries: the first draw uses half of it, the second draw all of it. Gap and measurement are weighted according to
    the variances that the authors' program assumes.
    """

    counts: NDArray[np.int64]
    epsilon: float
    k: int
    scale: Scale = GENERAL

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of iterations."""
        counts = self.counts.astype(np.float64)
        share = threshold_share(self.k)
        query_epsilon = self.epsilon / 2 * (1 - share)
        query, threshold = self.scale * self.k / query_epsilon, self.scale / (self.epsilon / 2 * share)
        thresholds = draw_thresholds(counts, self.k, iterations, rng)
        first, second = (make_laplace_difference(each, threshold) for each in (2 * query, query))
        # The σ of the authors' program is for the general scale. It is scaled with the noise.
        branches = Branches.of(first, second, query_epsilon * GENERAL / self.scale, self.k)
        found = run_adaptive(counts, thresholds, branches, rng)
        scale = self.scale * self.k / (self.epsilon / 2)
        measured = counts[found.above.items] + make_laplace(scale)(rng, found.cheap.shape)
        used = np.where(found.cheap, query_epsilon / 2, query_epsilon)
        of_gap = 2 * self.scale**2 * share**-3 / used**2
        of_measure = 2 * scale**2
        estimates = (measured / of_measure + found.above.values / of_gap) / (1 / of_measure + 1 / of_gap)
        return pad_answers(found.above, estimates, iterations, 2 * self.k)
