"""The histogram algorithms of the OSDP paper with real-valued noise, as in its experiments, and the measures of errors.

NOT for publishing: floats reveal counts, and the generators are predictable. `monitor.onesided.osdp` has the
exact algorithms. docs/literature.md defines [OSDP].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulators.continuous_noise import Floats

Histogram = NDArray[np.int64]
LEAST: Final = 1.0
"""The δ of the relative error: smaller counts are compared as if they were δ."""


Algorithm = Callable[[Histogram, Histogram, np.random.Generator], Floats]
"""A histogram algorithm: it makes an estimate for each bin from the counts of all and of the non-sensitive records."""


def make_laplace(epsilon: float) -> Algorithm:
    """Return the Laplace mechanism of ordinary differential privacy. A replaced record changes two counts by 1."""
    return lambda counts, _open, random: counts + random.laplace(0.0, 2 / epsilon, counts.size)


def make_osdp_rr(epsilon: float) -> Algorithm:
    """Return OsdpRR ([OSDP], Algorithm 1): the counts of a truthful sample. They are not divided by 1 - e^-ε."""
    kept = -math.expm1(-epsilon)
    return lambda _counts, non_sensitive, random: random.binomial(non_sensitive, kept).astype(np.float64)


def make_osdp_laplace(epsilon: float) -> Algorithm:
    """Return OsdpLaplace ([OSDP], Definition 5.2): counts minus exponential noise, which may be negative."""
    return lambda _counts, non_sensitive, random: non_sensitive - random.exponential(1 / epsilon, non_sensitive.size)


def make_osdp_laplace_l1(epsilon: float) -> Algorithm:
    """Return OsdpLaplaceL1 ([OSDP], Algorithm 2): negative counts become 0, others get the median noise back."""

    def estimate(counts: Histogram, non_sensitive: Histogram, random: np.random.Generator) -> Floats:
        noisy = make_osdp_laplace(epsilon)(counts, non_sensitive, random)
        return np.where(noisy > 0, noisy + math.log(2) / epsilon, 0.0)

    return estimate


def make_suppress_laplace(tau: float) -> Algorithm:
    """Return `monitor.onesided.osdp.mechanisms.Suppress` with Laplace noise at τ in each count. Its OSDP loss is τ."""
    return lambda _counts, non_sensitive, random: non_sensitive + random.laplace(0.0, 1 / tau, non_sensitive.size)


class FastNoise:
    """Geometric noise with the law of `monitor.privacy.one_sided_noise`, but faster: from a seeded numpy generator.

    For simulations only.
    """

    secure = False

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Draw values of G, with P[G ≥ n] = e^(-εn): exponential values rounded down, exact up to float rounding."""
        rate = float(epsilon)
        return np.floor(self._random.exponential(1 / rate, size)).astype(np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each gap whether a fresh G reaches it."""
        return self.geometric(epsilon, gaps.size) >= gaps


def expand(lengths: Histogram, totals: Floats, empty: NDArray[np.bool_] | None = None) -> Floats:
    """Return an estimate per bin: the bucket's total, divided among its bins that are not empty.

    This is `Buckets.estimate` in floats.
    """
    kept = np.ones(int(lengths.sum()), np.bool_) if empty is None else ~empty
    shares = np.add.reduceat(kept.astype(np.int64), np.cumsum(lengths) - lengths)
    return np.where(kept, np.repeat(totals / np.maximum(shares, 1), lengths), 0.0)


def relative_errors(counts: NDArray[np.int64], estimates: Floats) -> Floats:
    """Return |x_i - estimate|/max(x_i, δ) for each bin. Its mean is MRE, its 95th percentile Rel95."""
    return np.abs(counts - estimates) / np.maximum(counts, LEAST)


def regret(errors: Mapping[str, float]) -> dict[str, float]:
    """Return each algorithm's error divided by the least error of all. If the least is 0, others are infinite."""
    least = min(errors.values())
    return {name: 1.0 if error == least else (error / least if least else math.inf) for name, error in errors.items()}


def sample_is_worse(records: int, bins: int, epsilon: float) -> bool:
    """Return whether n·ε > 2d·e^ε ([OSDP], Theorem 5.1).

    Then OsdpRR has a greater expected L1 error than the Laplace mechanism, even if all records are non-sensitive: it
    drops n·e^-ε records, and the Laplace mechanism's error is 2d/ε.
    """
    return records * epsilon > 2 * bins * math.exp(epsilon)
