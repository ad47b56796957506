"""DAWA in exact integers: partition a histogram, then add noise to the totals of its buckets (Li et al. [DAWA]).

Bins with similar counts share a bucket, so one draw of noise serves them all. ε is split: ε1 chooses the partition, ε2
= ε - ε1 adds noise to the totals. Both are ordinary differential privacy. docs/literature.md defines [DAWA].

A bucket is an interval whose length is a power of two. The cost of a bucket B is Σ_{j∈B} |x_j - mean of B|, plus a
public penalty per bucket. Each possible bucket gets its cost plus fresh two-sided geometric noise, and the partition
with the least sum of noisy costs is chosen. Costs are multiples of 1/`unit`, the largest length, so they are integers
in this unit.

Proof of ε1. If x_j changes by 1, the cost of a bucket of length L with bin j changes by at most 2(1 - 1/L) < 2, and
other costs stay the same. With replaced records, one bin falls and one rises: if they are in one bucket, its cost
changes by at most 2, otherwise those of two buckets by at most 2 each. So the cost of any partition changes by at most
Δ = 4 (2 if records are added or removed). Take the noise under D and the partition chosen with it. Under D', shift the
noise of its one or two changed buckets so that their noisy costs are lower than under D by Δ in total. The shift is at
most 2Δ: Δ offsets the change of their costs, and Δ lowers them. Every partition's noisy cost falls by at most as much
as that of the chosen one: buckets that they share fall alike, and each partition's other changed buckets fall by at
most 2 each. So the same partition is chosen (ties are broken by one public order). For each partition the shift is
constant, so with noise at ε1/(2Δ) per unit of cost the ratio of its chances is at most e^ε1.
`simulators.osdp` shows what goes wrong if buckets of one bin have no noise, or if noisy costs are cut
off at 0, as in the published program.

Proof of ε2: the totals change by at most 2 in sum (1 if records are added or removed), and get noise at ε2/2 (ε2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CountsError, ExactnessError, PrivacyError
from monitor.onesided.counts import as_counts
from monitor.onesided.osdp.composition import Neighbours
from monitor.onesided.osdp.mechanisms import Counts
from monitor.privacy.epsilon import parse_epsilon, require_drawable
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.two_sided_noise import draw_two_sided

Costs = tuple[NDArray[np.int64], ...]
"""Element k has the cost of each bucket of length 2^k by its first bin, in units of 1/`unit`."""

_LARGEST_TOTAL: Final = 1 << 52
_ROWS: Final = 256


@dataclass(frozen=True, slots=True)
class Buckets:
    """A partition: the length of each bucket, from the first bin to the last, and its total, exact or noisy."""

    lengths: tuple[int, ...]
    totals: tuple[int, ...]

    def estimate(self, empty: Sequence[bool] | NDArray[np.bool_] | None = None) -> tuple[Fraction, ...]:
        """Return an estimate for each bin: the bucket's total, shared equally among its bins that are not `empty`.

        If all bins of a bucket are empty, its total is dropped. Raise CountsError if `empty` has another length.
        """
        marks = [False] * sum(self.lengths) if empty is None else [bool(mark) for mark in empty]
        if len(marks) != sum(self.lengths):
            raise CountsError(f"{len(marks)} bins are marked: expected {sum(self.lengths)}, one mark for each bin.")
        estimates: list[Fraction] = []
        for length, total in zip(self.lengths, self.totals, strict=True):
            within = marks[len(estimates) : len(estimates) + length]
            share = Fraction(total, max(length - sum(within), 1))
            estimates += [Fraction(0) if mark else share for mark in within]
        return tuple(estimates)


@dataclass(frozen=True, slots=True)
class Dawa:
    """The public rule: the total ε, the share of ε1, which neighbours are protected, and what a bucket costs.

    `extra_penalty` is added to the penalty of [DAWA], in scales of the noise of a cost. Without it, any data gives more
    than half as many buckets as bins, because the least of many noisy costs wins. For data with flat or empty regions,
    2 to 3 scales give smaller errors (docs/experiments.md).
    """

    epsilon: Fraction
    partition_share: Fraction = Fraction(1, 4)
    neighbours: Neighbours = "replaced"
    extra_penalty: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, ExactnessError or PrivacyError for a bad share or a negative penalty."""
        parse_epsilon(self.epsilon)
        require_share("partition_share", self.partition_share)
        if not isinstance(self.extra_penalty, Fraction):
            raise ExactnessError(
                f"extra_penalty is a {type(self.extra_penalty).__name__}: expected a Fraction, 0 or more."
            )
        if self.extra_penalty < 0:
            raise PrivacyError(f"extra_penalty is {self.extra_penalty}: expected noise scales, 0 or more.")

    @property
    def cost_epsilon(self) -> Fraction:
        """The ε of the noise for a change of the cost by 1: ε1/(2Δ)."""
        return self.epsilon * self.partition_share / (8 if self.neighbours == "replaced" else 4)

    @property
    def total_epsilon(self) -> Fraction:
        """The ε of the noise of each bucket's total."""
        return self.epsilon * (1 - self.partition_share) / (2 if self.neighbours == "replaced" else 1)

    def penalty(self, bins: int) -> int:
        """Return the public penalty per bucket, in units of 1/`unit`.

        It is the scale of the noise of a total, as in [DAWA], plus `extra_penalty`. Any public number is equally
        private.
        """
        return ceil(largest_length(bins) * (1 / self.total_epsilon + self.extra_penalty / self.cost_epsilon))

    def release(self, counts: Counts, noise: Noise) -> Buckets:
        """Return a private partition with noisy totals.

        Raise the errors of `monitor.onesided.counts.as_counts`, and of `measure_costs`.
        """
        exact = as_counts(counts)
        return self.add_noise(exact, self.choose(measure_costs(exact), exact.size, noise), noise)

    def choose(self, costs: Costs, bins: int, noise: Noise) -> tuple[int, ...]:
        """Return the lengths of the buckets of the private partition."""
        step = self.cost_epsilon / largest_length(bins)
        require_drawable(step, "ε of a unit of cost")
        return cheapest([each + draw_two_sided(noise, step, each.size) for each in costs], self.penalty(bins))

    def add_noise(self, counts: NDArray[np.int64], lengths: tuple[int, ...], noise: Noise) -> Buckets:
        """Return the totals of the buckets with noise at `total_epsilon`."""
        totals = sum_buckets(counts, lengths) + draw_two_sided(noise, self.total_epsilon, len(lengths))
        return Buckets(lengths, tuple(totals.tolist()))


def require_share(name: str, share: object) -> None:
    """Raise ExactnessError unless a share of ε is a Fraction, PrivacyError unless it is between 0 and 1."""
    if not isinstance(share, Fraction):
        raise ExactnessError(f"{name} is a {type(share).__name__}: expected an exact rational, such as Fraction(1, 4).")
    if not 0 < share < 1:
        raise PrivacyError(f"{name} is {share}: expected a number between 0 and 1, such as 1/4.")


def sum_buckets(counts: NDArray[np.int64], lengths: Sequence[int]) -> NDArray[np.int64]:
    """Return the exact total of each bucket."""
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    return np.add.reduceat(counts, starts)


def largest_length(bins: int) -> int:
    """Return the largest power of two that is not above the number of bins, which is also the unit of costs."""
    return 1 << (bins.bit_length() - 1)


def measure_costs(counts: NDArray[np.int64]) -> Costs:
    """Return Σ |x_j - mean| of every bucket, exactly, in units of 1/`largest_length`.

    Raise CountsError if the sum of the counts times the unit is above 2^52, because costs would not fit in 64 bits.
    """
    unit = largest_length(counts.size)
    if int(counts.sum()) * unit > _LARGEST_TOTAL:
        raise CountsError("The counts are too large for exact costs: expected a sum below 2^52/bins; merge bins.")
    costs = []
    length = 1
    while length <= unit:
        windows = np.lib.stride_tricks.sliding_window_view(counts, length)
        measured = [
            np.abs(length * rows - rows.sum(axis=1, keepdims=True)).sum(axis=1) * (unit // length)
            for rows in (windows[start : start + _ROWS] for start in range(0, windows.shape[0], _ROWS))
        ]
        costs.append(np.concatenate(measured))
        length *= 2
    return tuple(costs)


def cheapest(costs: Sequence[NDArray[np.int64]], penalty: int) -> tuple[int, ...]:
    """Return the lengths of the partition with the least sum of cost and penalty. At ties, the longer last bucket wins.

    `costs` has the form of `Costs`.
    """
    bins = costs[0].size
    by_length = [(1 << k, (each + penalty).tolist()) for k, each in enumerate(costs)]
    least, last = [0], [0]
    for end in range(1, bins + 1):
        best, chosen = by_length[0][1][end - 1] + least[end - 1], 1
        for length, each in by_length[1:]:
            if length > end:
                break
            total = each[end - length] + least[end - length]
            if total <= best:
                best, chosen = total, length
        least.append(best)
        last.append(chosen)
    lengths = []
    while bins:
        lengths.append(last[bins])
        bins -= last[bins]
    return tuple(reversed(lengths))
