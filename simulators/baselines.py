"""The paper's baselines: free-gap noisy max and sparse vector of Ding et al., as its program uses them, and fairly.

They satisfy ε-DP in exact arithmetic; here they are binary floats, for comparison alone, and publish nothing.

Half of ε selects, half measures. `scale` is what the Laplace noise is scaled by: 2 as coded, the general bound, and 1,
which counts allow as all of them move the same way when a person comes or goes. With 1 the baseline's error is a
quarter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from simulators.adaptive import Branches, adaptive_answers, threshold_share
from simulators.continuous_noise import Floats, Laplace, LaplaceSum
from simulators.top_k import TopK, checked, highest, padded, ranked_thresholds

Scale = Literal[1, 2]
GENERAL: Final = 2
MONOTONE: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class FreeGapNoisyMax:
    """Noisy max that also gives the gaps between the k + 1 highest noisy counts, and measurements of the k chosen.

    Laplace noise of scale `scale`·k/(ε/2) on every count, and afresh on every measurement. Gaps and measurements are
    combined to the best linear unbiased estimate for equal variances, which halves the measurements' variance.
    """

    counts: NDArray[np.int64]
    epsilon: float
    k: int
    scale: Scale = GENERAL

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of iterations. Raises CountsError, EpsilonError, SelectionError (k + 1 items are needed)."""
        counts = checked(self.counts, self.epsilon, self.k, spare=1)
        law = Laplace(self.scale * self.k / (self.epsilon / 2))
        items, values = highest(counts, law, self.k + 1, iterations, rng)
        chosen, gaps = items[:, : self.k], -np.diff(values, axis=1)
        measured = counts[chosen] + law.sample(rng, chosen.shape)
        return TopK(chosen, combined(measured, gaps))


def combined(measured: Floats, gaps: Floats) -> Floats:
    """The best linear unbiased estimates from k measurements and k gaps, of shape (iterations, k), highest first.

    With noise of one variance everywhere: the mean of the measurement, and of what the other k measurements say through
    the gaps between, β_i = (k·α_i + Σ_j (α_j + x_i - x_j)) / 2k, where x_i - x_j is a sum of gaps. (The last gap, to
    item k + 1, is not needed.)
    """
    k = measured.shape[1]
    below_first = np.cumsum(gaps[:, : k - 1], axis=1)
    distances = np.concatenate([np.zeros((gaps.shape[0], 1)), below_first], axis=1)
    others = (measured + distances).sum(axis=1, keepdims=True)
    estimates: Floats = (k * measured + others - k * distances) / (2 * k)
    return estimates


@dataclass(frozen=True, slots=True, eq=False)
class FreeGapSparseVector:
    """Adaptive sparse vector with gaps, and measurements of what was found.

    Of ε/2 the threshold has the share 1/(1 + k^(2/3)), and fresh noise at each draw; the rest, ε_query, is for the
    queries: the first draw at half of it, the second at all of it. Gap and measurement are weighted by the variances
    that the program takes for them.
    """

    counts: NDArray[np.int64]
    epsilon: float
    k: int
    scale: Scale = GENERAL

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of iterations. Raises CountsError, EpsilonError, SelectionError for bad input."""
        counts = checked(self.counts, self.epsilon, self.k)
        share = threshold_share(self.k)
        query_epsilon = self.epsilon / 2 * (1 - share)
        query, threshold = self.scale * self.k / query_epsilon, self.scale / (self.epsilon / 2 * share)
        thresholds = ranked_thresholds(counts, self.k, iterations, rng)
        # The program's σ is for the general scale; it shrinks with the noise.
        branches = Branches.of(
            LaplaceSum(2 * query, threshold), LaplaceSum(query, threshold), query_epsilon * GENERAL / self.scale, self.k
        )
        found = adaptive_answers(counts, thresholds, branches, rng)
        measure = Laplace(self.scale * self.k / (self.epsilon / 2))
        measured = counts[found.risen.items] + measure.sample(rng, found.cheap.shape)
        used = np.where(found.cheap, query_epsilon / 2, query_epsilon)
        of_gap = 2 * self.scale**2 * share**-3 / used**2
        of_measure = 2 * measure.scale**2
        estimates = (measured / of_measure + found.risen.values / of_gap) / (1 / of_measure + 1 / of_gap)
        return padded(found.risen, estimates, iterations, 2 * self.k)
