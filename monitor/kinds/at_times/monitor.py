"""The parameters of a monitor of kind `at_times` and of its lower bounds, and the sizes of its records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.designated_times.charged_times import ChargedTimes
from monitor.kinds.designated_times.monitor import Timed
from monitor.kinds.facts import NeededFacts
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import SNAPSHOT_OVERHEAD, measure_locations
from monitor.time.schedule import Schedule


@dataclass(frozen=True)
class AtLeast(ChargedTimes):
    """The lower bounds of a monitor of kind `at_times`: drawn once at the final tick, and charged separately."""

    kind = "at_least"
    name: str
    times: Schedule
    epsilon: Fraction
    horizon: int


@dataclass(frozen=True)
class AtTimes(Timed):
    """A monitor of kind `at_times`: evaluates every location at every tick of the horizon."""

    kind = "at_times"
    scope = "shard"
    name: str
    times: Schedule
    epsilon: Fraction
    threshold: int
    horizon: int
    """In microseconds."""
    at_least: Fraction | None = None
    """The ε of the lower bounds that the final tick publishes, or None."""

    @property
    def needed(self) -> NeededFacts:
        """The people who are present at each location, and for lower bounds those who consented."""
        return replace(super().needed, consenting=self.at_least is not None)

    def list_deciding(self) -> list[object]:
        """Return what decides the answers, with the threshold and the ε of lower bounds."""
        bounds = [] if self.at_least is None else [str(self.at_least)]
        return [*super().list_deciding(), self.threshold, *bounds]

    @property
    def charged_times(self) -> tuple[ChargedTimes, ...]:
        """The designated times, and again for lower bounds."""
        if self.at_least is None:
            return (self,)
        return self, AtLeast(self.name, self.times, self.at_least, self.horizon)

    def measure_largest(self, registry: Registry) -> int:
        """Return the maximum bytes of the largest snapshot."""
        return int(self.measure_by_shard(registry).max())

    def measure_by_shard(self, registry: Registry) -> NDArray[np.int64]:
        """Return the maximum bytes of each shard's snapshot.

        Every place has a noisy count, and a lower bound if there are any.
        """
        sizes = measure_locations(registry) * (1 if self.at_least is None else 2)
        return np.array([SNAPSHOT_OVERHEAD + int(sizes[rows].sum()) for rows in registry.by_shard], np.int64)
