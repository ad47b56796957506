"""The parameters of a monitor of kind `hot_spots`, and the size of its record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from monitor.errors import Problem
from monitor.kinds.base.designated_times.monitor import Total
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import LARGEST_SNAPSHOT, SNAPSHOT_OVERHEAD, measure_locations
from monitor.time.schedule import Schedule


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
