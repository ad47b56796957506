"""The plain recount: what becomes of one visit, and which ticks count it (docs/rules.md).

It shares no code with the service or with the audit. All tests that recount by themselves use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class RefusedError(Exception):
    """A record or a visit is a dead letter for this reason."""


@dataclass(frozen=True)
class Rules:
    """What decides the fate of a visit: origin, slot and default stay in microseconds, the other fields in slots."""

    origin: int
    slot: int
    default_stay: int
    accept_ahead: int
    max_lead: int

    def find_slot(self, instant: int) -> int:
        """Return the slot of an instant."""
        return (instant - self.origin) // self.slot

    def as_of(self, tick: int) -> int:
        """Return the end of the slot of a tick."""
        return self.origin + (tick + 1) * self.slot

    def judge(self, arrived: int, left: int | None, stamped: int) -> Counted:
        """Return an accepted visit of a record stamped at an instant.

        Raises:
            RefusedError: it is a dead letter.
        """
        stamp = self.find_slot(stamped)
        left = arrived + self.default_stay if left is None else left
        if left < arrived:
            raise RefusedError("left_before_arrived")
        if self.find_slot(arrived) > stamp + self.accept_ahead:
            raise RefusedError("too_far_ahead")
        left = min(left, self.as_of(stamp + self.max_lead))
        return Counted(self, arrived, left, stamp, max(self.find_slot(arrived), self.find_slot(left - 1)))

    def accept(self, arrived: int, left: int | None, stamped: int) -> Counted | None:
        """Return what `judge` does; None for a dead letter."""
        try:
            return self.judge(arrived, left, stamped)
        except RefusedError:
            return None


class Counted(NamedTuple):
    """An accepted visit: arrival and departure after the cut, the slot of its stamp, and its last slot."""

    rules: Rules
    arrived: int
    left: int
    stamp: int
    last: int

    def in_window(self, tick: int, window: int) -> bool:
        """Return whether a tick counts the visit in a window of this many slots."""
        return self.stamp <= tick < self.last + window

    def covers(self, time: int, tick: int, horizon: int) -> bool:
        """Return whether a tick that evaluates a designated time counts the visit; instants and a duration."""
        due = time < self.rules.as_of(tick) <= time + horizon
        return due and self.stamp <= tick and self.arrived <= time < self.left
