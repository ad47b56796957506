"""How late visits were reported, by bucket of the metric `report_delay_seconds`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.instants import SECOND
from monitor.observe.metric_catalog import REPORT_DELAY_BUCKETS

_BOUNDS: Final = [int(bound * SECOND) for bound in REPORT_DELAY_BUCKETS]


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """The number of visits up to each bound, then that of all visits, and the sum of their delays."""

    visits: NDArray[np.int64]
    seconds: float

    def __add__(self, other: Delays) -> Delays:
        """Return the delays of both."""
        return Delays(self.visits + other.visits, self.seconds + other.seconds)


def count_delays(reported: NDArray[np.int64], left: NDArray[np.int64]) -> Delays:
    """Return how long after their ends visits were reported (instants). A visit that ends later has no delay."""
    delays = np.maximum(reported - left, 0)
    within = [np.count_nonzero(delays <= bound) for bound in _BOUNDS]  # much faster than a search for each visit
    return Delays(np.array([*within, delays.size]), float(delays.sum(dtype=np.float64)) / SECOND)
