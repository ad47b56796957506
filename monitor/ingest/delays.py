"""How late visits were reported, by bucket of the metric `report_delay_seconds`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.instants import SECOND
from monitor.observe.metric_catalog import REPORT_DELAY_BUCKETS

_BOUNDS: Final = np.array(REPORT_DELAY_BUCKETS) * SECOND


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """The number of visits in each bucket alone, and the sum of their delays."""

    visits: NDArray[np.int64]
    seconds: float

    def __add__(self, other: Delays) -> Delays:
        """Return the delays of both."""
        return Delays(self.visits + other.visits, self.seconds + other.seconds)


def count_delays(reported: NDArray[np.int64], left: NDArray[np.int64]) -> Delays:
    """Return how long after their ends visits were reported (instants). A visit that ends later has no delay."""
    delays = np.maximum(reported - left, 0)
    buckets = np.searchsorted(_BOUNDS, delays)
    return Delays(np.bincount(buckets, minlength=_BOUNDS.size + 1), float(delays.sum(dtype=np.float64)) / SECOND)
