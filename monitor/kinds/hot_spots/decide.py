"""Decide the final tick of a monitor of kind `hot_spots`."""

from __future__ import annotations

import numpy as np

from monitor.kinds.base.decide_designated_times import TotalDecider
from monitor.kinds.base.record_of_designated_times import DesignatedTime
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.hot_spots.record import make_hot_spots_record
from monitor.privacy import hot_spots
from monitor.records.output_records import OutputRecord


class HotSpotsDecider(TotalDecider[HotSpots]):
    """Draws the hot spots of each designated time, at its final tick."""

    def draw(self, asked: DesignatedTime, evidence: Evidence | None) -> OutputRecord:
        """Draw the hot spots once, and return their record."""
        drawn = None if evidence is None else self._rank(asked["time"], evidence)
        return make_hot_spots_record(**asked, top=self.monitor.top, epsilon=self.monitor.epsilon, hot_spots=drawn)

    def _rank(self, time: int, evidence: Evidence) -> list[tuple[str, int]]:
        """Return the locations with the highest noisy counts, highest first, and these counts."""
        registry = self._parameters.registry
        counts = np.zeros(len(registry.ids), np.int64)
        for shard, rows in enumerate(registry.by_shard):
            counts[rows] = evidence.readings[shard].present[time]
        highest, noisy_counts = hot_spots.step(self.monitor.epsilon, self.monitor.top, counts, self._noise)
        return [(registry.ids[row], int(n)) for row, n in zip(highest, noisy_counts, strict=True)]
