"""MSampling and HiLoSampling: the choice of non-sensitive records in the paper's experiments ([OSDP], section 6.1.2).

The paper describes both in words. The docstrings state our choices where the paper leaves them open. docs/literature.md
defines [OSDP].
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import SelectionError

Histogram = NDArray[np.int64]

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
