"""Designated times that charge ε: the answers of a monitor about them, or its lower bounds."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Final

from monitor.records.charges_record import TimeCharges
from monitor.time.instants import format_duration, format_instant
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid

_DIGITS: Final = 16


class ChargedTimes:
    """Designated times, each of which charges `epsilon`. `kind`: as in owner records. `horizon`: in microseconds."""

    kind: ClassVar[str]
    name: str
    times: Schedule
    horizon: int
    epsilon: Fraction

    def list_live_times(self, as_of: int) -> list[int]:
        """Return the designated times τ that the tick with this as_of evaluates: τ < as_of ≤ τ + horizon."""
        return [int(instant) for instant in self.times.find_between(as_of - self.horizon, as_of)]

    def is_final(self, instant: int, as_of: int, grid: SlotGrid) -> bool:
        """Return whether the tick with this as_of is the last one that evaluates the designated time `instant`."""
        return as_of + grid.length > instant + self.horizon

    def declare(self) -> TimeCharges:
        """Return the charges for an owner record."""
        times = self.times
        return TimeCharges(
            monitor=self.name,
            kind=self.kind,
            epsilon=self.epsilon,
            horizon=format_duration(self.horizon),
            at=(*(one.text for one in sorted(times.times_of_day)), *(format_instant(at) for at in times.instants)),
            timezone=None if times.zone is None else times.zone.key,
            # Another time zone database may map the zone's name to other instants.
            instants=times.digest()[:_DIGITS],
        )
