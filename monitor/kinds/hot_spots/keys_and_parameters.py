"""A monitor of kind `hot_spots`: its keys, its parameters, and the sizes of its records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.base.monitor_of_designated_times import TimedMonitor, Total
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import LARGEST_SNAPSHOT, SNAPSHOT_OVERHEAD, measure_locations
from monitor.kinds.timing import Timing
from monitor.time.schedule import Schedule
from monitor.values.single_values import WholeNumber


@dataclass(frozen=True)
class HotSpots(Total):
    """A monitor of kind `hot_spots`: names the `top` locations with the most people, at the horizon's final tick."""

    kind = "hot_spots"
    name: str
    times: Schedule
    epsilon: Fraction
    top: int
    horizon: int

    def list_deciding(self) -> list[object]:
        """Return what decides the answers, with the number of named locations."""
        return [*super().list_deciding(), self.top]

    def measure_largest(self, registry: Registry) -> int:
        """Return the maximum bytes of a record that names `top` places."""
        return SNAPSHOT_OVERHEAD + int(np.sort(measure_locations(registry))[-self.top :].sum())

    def find_oversized(self, key: str, registry: Registry) -> Iterator[Problem]:
        """Yield a problem if a record would name too many locations."""
        if (size := self.measure_largest(registry)) > LARGEST_SNAPSHOT:
            yield Problem(
                f"{key}.top",
                str(self.top),
                f"a record of at most {LARGEST_SNAPSHOT} bytes: {self.top} locations may take {size} bytes",
                "Use a smaller number.",
            )


class HotSpotsMonitor(TimedMonitor):
    """Names the locations with the most people at each designated time, once, at the end of the reporting horizon."""

    charged = ("hot_spots",)

    kind: Literal["hot_spots"] = Field(description="the kind of the monitor")
    top: WholeNumber = Field(description="the number of locations to name")

    def derive(self, registry: Registry, timing: Timing) -> HotSpots:
        """Return the parameters."""
        del registry, timing
        return HotSpots(self.name, self.schedule, self.epsilon, self.top, self.reporting_horizon)
