"""The times that all monitors of a configuration share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """The slot and the period (microseconds), and F (`max_lead`, in slots): how far after its stamp a visit may end."""

    slot: int
    max_lead: int
    period: int

    def count_slots(self, duration: int) -> int:
        """Return how many slots a duration (microseconds) takes, rounded up."""
        return -(-duration // self.slot)

    @property
    def period_slots(self) -> int:
        """The most slots that a period can overlap: one more than fit in it, because it may begin within a slot."""
        return self.count_slots(self.period) + 1
