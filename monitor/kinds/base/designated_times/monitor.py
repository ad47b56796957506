"""The parameters that all monitors of designated times have."""

from __future__ import annotations

from typing import ClassVar

from monitor.kinds.base.designated_times.charged_times import ChargedTimes
from monitor.kinds.base.monitor import Monitor
from monitor.kinds.facts import NeededFacts
from monitor.time.slot_grid import SlotGrid


class Timed(ChargedTimes, Monitor):
    """A monitor of designated times."""

    statuses: ClassVar[tuple[str, ...]] = ("complete", "unknown")

    @property
    def needed(self) -> NeededFacts:
        """The people who are present at each location at the designated times."""
        return NeededFacts(times=self.times, horizon=self.horizon)

    def list_deciding(self) -> list[object]:
        """Return what decides the answers of every kind of designated time: kind, name, times, horizon and ε."""
        # The instants rather than the zone's name, because hosts may have different time zone data.
        return [self.kind, self.name, self.times.digest(), self.horizon, str(self.epsilon)]

    @property
    def charged_times(self) -> tuple[ChargedTimes, ...]:
        """The designated times themselves."""
        return (self,)


class Total(Timed):
    """A monitor with one answer per designated time, about the locations of all shards, at its final tick."""

    scope = "all places"

    def reads_all_shards(self, tick: int, grid: SlotGrid) -> bool:
        """Return whether the tick is the final one of a designated time."""
        as_of = grid.as_of(tick)
        return any(self.is_final(time, as_of, grid) for time in self.list_live_times(as_of))
