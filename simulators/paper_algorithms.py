"""Algorithms 1 and 2 as the paper's experiments run them: exponential noise in binary floats, many iterations at once.

For the figures alone. What may be published is `monitor.onesided.noisy_max` and `monitor.onesided.sparse_vector`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulators.adaptive import Branches, adaptive_answers, threshold_share
from simulators.continuous_noise import Exponential, exceeding
from simulators.top_k import TopK, checked, highest, in_random_order, padded, ranked_thresholds

Variant = Literal["as printed", "as coded"]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMax:
    """Algorithm 1: ε all in one stage, exponential noise of mean k/ε on every count, zero counts too.

    `debiased` subtracts the mean from the values, as the authors' program does; the paper's panels of varying ε show
    the error without that, those of varying k with it.
    """

    counts: NDArray[np.int64]
    epsilon: float
    k: int
    debiased: bool

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of iterations. Raises CountsError, EpsilonError, SelectionError for bad input."""
        counts = checked(self.counts, self.epsilon, self.k)
        mean = self.k / self.epsilon
        items, values = highest(counts, Exponential(mean), self.k, iterations, rng)
        return TopK(items, values - mean if self.debiased else values)


@dataclass(frozen=True, slots=True, eq=False)
class SparseVector:
    """Algorithm 2 for top-k: items in random order, no noise on the threshold, only answers above it are paid for.

    The threshold is a whole number: the count at a rank from [k, 2k], plus the mean noise k/ε, cut.

    "as printed": one exponential draw of mean k/ε, k answers (not k + 1, see `monitor.onesided.sparse_vector`).
    "as coded": adaptive. A first draw of mean 2k/ε; 0 or less above the threshold is "below"; far above is published at
    half the cost; in between a second draw of mean k/ε decides and is published. An answer far above is booked, and its
    mean noise subtracted, as of the cheap branch, whichever it came from. (The answers of the second draw cost 3/2 of
    what they are booked at: tests/onesided/test_sparse_vector.py.)
    """

    counts: NDArray[np.int64]
    epsilon: float
    k: int
    variant: Variant = "as coded"

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of iterations. Raises CountsError, EpsilonError, SelectionError for bad input."""
        counts = checked(self.counts, self.epsilon, self.k)
        mean = self.k / self.epsilon
        thresholds = np.floor(ranked_thresholds(counts, self.k, iterations, rng) + mean)
        if self.variant == "as coded":
            branches = Branches.of(Exponential(2 * mean), Exponential(mean), self._query_epsilon(), self.k)
            found = adaptive_answers(counts, thresholds, branches, rng)
            noise = np.where(found.cheap, 2 * mean, mean)
            return padded(found.risen, found.risen.values - noise, iterations, 2 * self.k)
        falling = np.argsort(-counts, kind="stable")
        risen = exceeding(counts, falling, Exponential(mean), thresholds, rng)
        chosen = risen.taken(in_random_order(risen, np.ones(risen.items.size, np.int64), self.k, rng))
        return padded(chosen, chosen.values - mean, iterations, self.k)

    def _query_epsilon(self) -> float:
        """The ε by which the program says what is far: what would be left to queries if the threshold had a share."""
        return self.epsilon * (1 - threshold_share(self.k))
