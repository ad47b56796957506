"""The division of time into slots, and the ticks that close them (docs/interface.md, section 1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotGrid:
    """The public grid: slot s is [origin + s·length, origin + (s+1)·length), in microseconds."""

    origin: int
    length: int

    def find_slot(self, instant: int) -> int:
        """Return the slot that contains an instant; negative before the origin."""
        return (instant - self.origin) // self.length

    def start(self, slot: int) -> int:
        """Return the first instant of a slot."""
        return self.origin + slot * self.length

    def as_of(self, tick: int) -> int:
        """Return the instant at which tick t closes slot t: the end of the slot."""
        return self.start(tick + 1)

    def find_last_slot(self, arrived_at: int, left_at: int) -> int:
        """Return the last slot that a visit [arrived_at, left_at) occupies."""
        return max(self.find_slot(arrived_at), -((self.origin - left_at) // self.length) - 1)

    def find_last_tick(self, instant: int) -> int:
        """Return the last tick whose as_of is at or before an instant."""
        return self.find_slot(instant) - 1
