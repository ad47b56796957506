"""The algorithms of the OSDP paper with real-valued noise, as in its experiments, and the measures of errors.

NOT for publishing: floats reveal counts, and the generators are predictable. `monitor.onesided.osdp` has the exact
algorithms. docs/literature.md defines [OSDP].

DAWA is as its authors' program (dpcomp_core, `L1partition_approx`) computes it: its partition costs more than the
stated ε1. The program differs from `monitor.onesided.osdp.dawa` in three ways. Noise on the cost of a bucket of length
L has the scale (2 - 1/L - 1/n)/ε1. Buckets of one bin get no noise. A noisy cost that is below the penalty 1/ε2 is
raised to it. `partition_loss` computes the loss of one outcome exactly.

MSampling and HiLoSampling ([OSDP], section 6.1.2) choose the non-sensitive records. The paper describes both in words,
and the docstrings state our choices where it leaves them open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import SelectionError
from monitor.onesided.osdp.dawa import Costs, cheapest, largest_length, measure_costs
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


ONE_DIMENSION: Final = 0.5
TWO_DIMENSIONS: Final = 0.25
"""The share of ε that chooses the partition, in the program for one and for two dimensions."""

_GRID: Final = 1 << 20
"""Noisy costs are rounded to 2^-20, which makes them integers for `cheapest`."""


@dataclass(frozen=True, slots=True)
class PublishedDawa:
    """The settings of the program: ε in total, and the share of it that chooses the partition.

    The second phase of the program is GreedyH. Here it is the Laplace mechanism on the totals of the buckets.
    """

    epsilon: float
    share: float = ONE_DIMENSION

    @property
    def partition_epsilon(self) -> float:
        """ε1, the part of ε that chooses the partition."""
        return self.epsilon * self.share

    @property
    def penalty(self) -> float:
        """1/ε2, which is the cost of a bucket, the least noisy cost, and the scale of the noise of a total."""
        return 1 / (self.epsilon * (1 - self.share))

    def scale(self, length: int, bins: int) -> float:
        """Return the scale of the noise on the cost of a bucket of more than one bin."""
        return (2 - 1 / length - 1 / bins) / self.partition_epsilon

    def release(
        self, counts: NDArray[np.int64], costs: Costs, random: np.random.Generator
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return the lengths of the buckets, and their noisy totals, 0 or more."""
        unit, bins = largest_length(counts.size), counts.size
        noisy = []
        for k, exact in enumerate(costs):
            cost = exact / unit
            if k:
                cost = cost + random.laplace(0.0, self.scale(1 << k, bins), cost.size)
            noisy.append(np.rint(np.maximum(cost + self.penalty, self.penalty) * _GRID).astype(np.int64))
        lengths = np.array(cheapest(noisy, 0), dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        totals = np.add.reduceat(counts, starts) + random.laplace(0.0, self.penalty, starts.size)
        return lengths, np.maximum(totals, 0.0)


def partition_loss(rule: PublishedDawa, counts: NDArray[np.int64], neighbour: NDArray[np.int64]) -> float:
    """Return ln of the ratio of the chances, under two histograms, that every bin is a bucket.

    Buckets of one bin have no noise and cost one penalty each, so every bin is a bucket if and only if the noisy cost
    of each bucket of length L > 1 is above L penalties. These events are independent.
    """
    return _log_chance(rule, counts) - _log_chance(rule, neighbour)


def _log_chance(rule: PublishedDawa, counts: NDArray[np.int64]) -> float:
    unit, total = largest_length(counts.size), 0.0
    for k, exact in enumerate(measure_costs(counts)):
        if k:
            length = 1 << k
            for cost in (exact / unit).tolist():
                needed = ((length - 1) * rule.penalty - cost) / rule.scale(length, counts.size)
                total += math.log(math.exp(-needed) / 2 if needed > 0 else 1 - math.exp(needed) / 2)
    return total


THETA: Final = 0.1
GAMMA: Final = 5.0
BETA: Final = 0.4
_MOST_TRIES: Final = 1_000
_BISECTIONS: Final = 200


def sample_close(histogram: Histogram, ratio: float, random: np.random.Generator, theta: float = THETA) -> Histogram:
    """Return the histogram of a share of the records, whose bins have nearly the same mean and deviation (MSampling).

    Uniform samples are drawn until their mean and deviation are within 1 ± theta times those of all records. The paper
    does not state how samples are drawn.

    Raises:
        SelectionError: 1,000 samples fail.
    """
    mean, deviation = _moments(histogram)
    for _ in range(_MOST_TRIES):
        found = _draw(histogram, round(ratio * int(histogram.sum())), random)
        moments = _moments(found)
        if abs(moments[0] - mean) <= theta * mean and abs(moments[1] - deviation) <= theta * deviation:
            return found
    raise SelectionError(f"theta is {theta}: expected a value that one of {_MOST_TRIES} samples meets; raise it.")


def sample_far(
    histogram: Histogram, ratio: float, random: np.random.Generator, gamma: float = GAMMA, beta: float = BETA
) -> Histogram:
    """Return the histogram of a share of the records, most of them from a range of bins (HiLoSampling).

    The bins within β·d of a random bin have the weight γ, the others 1. Records are drawn one after the other in
    proportion to their weights. The paper draws with replacement; here a record is drawn at most once, because the
    non-sensitive records are a part of all records. The number from each range is the expected one.
    """
    bins, wanted = histogram.size, round(ratio * int(histogram.sum()))
    centre, reach = int(random.integers(bins)), beta * bins
    high = np.abs(np.arange(bins) - centre) <= reach
    chosen = np.zeros_like(histogram)
    from_high = _expected_high(int(histogram[high].sum()), int(histogram[~high].sum()), wanted, gamma)
    chosen[high] = _draw(histogram[high], from_high, random)
    chosen[~high] = _draw(histogram[~high], wanted - from_high, random)
    return chosen


def _expected_high(high: int, low: int, wanted: int, gamma: float) -> int:
    """Return how many of the wanted records come from the high range, in the limit of many records.

    If each record of weight w is drawn at an exponential time of rate w, the records are drawn in proportion to their
    weights, and the chance that a record is drawn by the time t is 1 - e^(-w·t).
    """
    if wanted >= high + low:
        return high
    short, long = 0.0, 1.0
    while _drawn(high, low, long, gamma) < wanted:
        long *= 2
    for _ in range(_BISECTIONS):
        middle = (short + long) / 2
        short, long = (middle, long) if _drawn(high, low, middle, gamma) < wanted else (short, middle)
    return min(max(round(-high * math.expm1(-gamma * long)), wanted - low), high, wanted)


def _drawn(high: int, low: int, time: float, gamma: float) -> float:
    return -high * math.expm1(-gamma * time) - low * math.expm1(-time)


def _draw(histogram: Histogram, wanted: int, random: np.random.Generator) -> Histogram:
    if histogram.size == 0:
        return histogram.copy()
    return random.multivariate_hypergeometric(histogram, wanted, method="marginals")


def _moments(histogram: Histogram) -> tuple[float, float]:
    """Return the mean and the standard deviation of the bin of a record."""
    bins = np.arange(histogram.size)
    mean = float(np.average(bins, weights=histogram))
    return mean, math.sqrt(float(np.average((bins - mean) ** 2, weights=histogram)))
