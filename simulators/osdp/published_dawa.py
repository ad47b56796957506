"""DAWA as its authors' program computes it, only for the figures: its partition costs more than the stated ε1.

The program (dpcomp_core, `L1partition_approx`) differs from `monitor.onesided.osdp.dawa` in three ways. Noise on
the cost of a bucket of length L has the scale (2 - 1/L - 1/n)/ε1. Buckets of one bin get no noise. A noisy cost that is
below the penalty 1/ε2 is raised to it. `partition_loss` computes the loss of one outcome exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.onesided.osdp.dawa import Costs, cheapest, largest_length, measure_costs
from simulators.continuous_noise import Floats

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
