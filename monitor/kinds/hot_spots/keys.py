"""The keys of a monitor of kind `hot_spots`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from monitor.kinds.base.designated_times.keys import TimedMonitor
from monitor.kinds.hot_spots.monitor import HotSpots
from monitor.kinds.locations import Registry
from monitor.kinds.timing import Timing
from monitor.values.single_values import WholeNumber


class HotSpotsMonitor(TimedMonitor):
    """Names the locations with the most people at each designated time, once, at the end of the reporting horizon."""

    kind: Literal["hot_spots"] = Field(description="the kind of the monitor")
    top: WholeNumber = Field(description="the number of locations to name")

    def derive(self, registry: Registry, timing: Timing) -> HotSpots:
        """Return the parameters."""
        del registry, timing
        return HotSpots(self.name, self.schedule, self.epsilon, self.top, self.reporting_horizon)
