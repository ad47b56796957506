"""All visits of a run: how many have each fate, and the slots that they touch (docs/interface.md, section 1)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from monitor.tools.audit.configuration import AuditTerms, TimedTerms
from monitor.tools.audit.visits import AcceptedVisit

_FATES: Final = ("applied", "not_watched", "expired", "dead_letter")
_DAYS: Final = 3 * 24 * 3600 * 1_000_000
"""A span that contains each time of day, in microseconds."""


class VisitTotals:
    """The numbers of visits by fate.

    `first` and `last` are the first and the last slot in which an accepted visit was reported or took place; None if
    there is no such visit.
    """

    def __init__(self, terms: AuditTerms) -> None:
        self._terms = terms
        self._fates: dict[str, Counter[int]] = {fate: Counter() for fate in _FATES}
        self.first: int | None = None
        self.last: int | None = None
        self._widest: dict[int, int] = {}
        for monitor in terms.over_time:
            for location in monitor.shares:
                row = terms.rows[location]
                self._widest[row] = max(self._widest.get(row, 0), monitor.window)

    def add(self, visit: AcceptedVisit | None, current: int) -> None:
        """Add a visit that was reported in the slot `current`. It is None if it was refused or is invalid."""
        fate = "dead_letter" if visit is None else self._find_fate(visit)
        self._fates[fate][current] += 1
        if visit is not None:
            began, ended = min(self._terms.grid.find_slot(visit.arrived), current), max(visit.last, current)
            self.first = began if self.first is None else min(began, self.first)
            self.last = ended if self.last is None else max(ended, self.last)

    def count_fates(self, last_tick: int) -> dict[str, int]:
        """Return the number of visits by fate, of those that were reported before the last tick's as_of."""
        return {
            fate: sum(number for slot, number in slots.items() if slot <= last_tick)
            for fate, slots in self._fates.items()
        }

    def find_last_tick(self, tick: int) -> int:
        """Return the tick at which every visit has left every window and horizon; `tick` if there is no visit."""
        windows = [monitor.window for monitor in self._terms.over_time]
        horizons = [-(-monitor.horizon // self._terms.grid.slot) for monitor in self._terms.timed]
        return tick if self.last is None else self.last + max([*windows, *horizons])

    def _find_fate(self, visit: AcceptedVisit) -> str:
        """Return the fate of an accepted visit.

        A visit reported in slot c counts from tick c on. It is applied if tick c or a later tick has a window or
        designated time that contains it, and expired if only earlier ticks do.
        """
        window = self._widest.get(visit.row)
        if window is not None and visit.last > visit.current - window:
            return "applied"
        watched = window is not None
        for monitor in self._terms.timed:
            oldest = self._terms.grid.as_of(visit.current) - monitor.horizon
            if _has_time(monitor, max(visit.arrived, oldest), visit.left):
                return "applied"
            watched = watched or _has_time(monitor, visit.arrived, visit.left)
        return "expired" if watched else "not_watched"


def _has_time(monitor: TimedTerms, low: int, high: int) -> bool:
    """Return whether there is a designated time τ with low ≤ τ < high."""
    # A time of day recurs, so the last days suffice.
    return any(low <= at < high for at in monitor.instants) or bool(monitor.find_times(max(low, high - _DAYS), high))
