"""The recount of one configuration: the people and visits that its answers count (docs/interface.md, section 1).

Visits may be added in any order, and counts of ticks and designated times that have not been forgotten may be requested
in any order, because a late record changes only ticks from its own slot on. No count is ever printed.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from monitor.audit.configuration import AuditTerms, DwellTerms, TimedTerms
from monitor.audit.visits import AcceptedVisit, Line, accept

TickRange = tuple[int, int]
"""A half-open range of ticks: the first is included, the second is not."""

_SECOND: Final = 1_000_000
_FATES: Final = ("applied", "too_late", "not_watched", "expired", "dead_letter")
_DAYS: Final = 3 * 24 * 3600 * _SECOND
"""A span that contains each time of day, in microseconds."""


class MeasuredVisit(NamedTuple):
    """A visit that covers a designated time. `current` is the slot of its report, and `length` is in seconds."""

    person: int
    row: int
    current: int
    length: int


class PeopleCount:
    """The number of distinct people at a location by tick, except for forgotten ticks.

    The count at the tick requested last is kept, so that the next tick costs one step.
    """

    def __init__(self) -> None:
        self._ticks: dict[int, tuple[TickRange, ...]] = {}
        self._changes: Counter[int] = Counter()
        self._tick = -1 << 62
        self._count = 0
        self._floor: int | None = None

    def __len__(self) -> int:
        """Return the number of people that a later tick may count."""
        return len(self._ticks)

    def add(self, person: int, first: int, end: int) -> None:
        """Count a person at the ticks from `first` until before `end`."""
        if self._floor is not None and end <= self._floor:
            return
        known = self._ticks.get(person, ())
        merged = _merge((*known, (first, end)))
        if merged == known:
            return
        for begin, until in known:
            self._change(begin, -1)
            self._change(until, 1)
        for begin, until in merged:
            self._change(begin, 1)
            self._change(until, -1)
        self._ticks[person] = merged

    def at(self, tick: int) -> int:
        """Return the count at a tick."""
        tick = tick if self._floor is None else max(tick, self._floor)
        low, high = sorted((self._tick, tick))
        if high - low > len(self._changes):
            change = sum(by for at, by in self._changes.items() if low < at <= high)
        else:
            change = sum(self._changes[at] for at in range(low + 1, high + 1))
        self._count += change if tick > self._tick else -change
        self._tick = tick
        return self._count

    def forget(self, tick: int) -> None:
        """Forget the ticks before one."""
        self.at(tick)
        self._floor = tick
        for at in [at for at in self._changes if at <= tick]:
            del self._changes[at]
        self._ticks = {person: ticks for person, ticks in self._ticks.items() if ticks[-1][1] > tick}

    def _change(self, tick: int, by: int) -> None:
        if tick <= self._tick:
            self._count += by
        if self._floor is None or tick > self._floor:
            self._changes[tick] += by
            if not self._changes[tick]:
                del self._changes[tick]


def _merge(ranges: Iterable[TickRange]) -> tuple[TickRange, ...]:
    """Return the union of ranges of ticks, sorted."""
    merged: list[TickRange] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return tuple(merged)


class Presence:
    """The people reported to be at each location at each designated time τ: those with arrived_at ≤ τ < left_at.

    `_reports` and `_consenting` have the slot of each person's first report (with consent), by τ and row.
    """

    def __init__(self) -> None:
        self._reports: dict[int, dict[int, dict[int, int]]] = {}
        self._consenting: dict[int, dict[int, dict[int, int]]] = {}

    def add(self, time: int, visit: AcceptedVisit) -> None:
        """Add a visit that covers τ."""
        for people_at in (self._reports, self._consenting) if visit.consent else (self._reports,):
            people = people_at.setdefault(time, {}).setdefault(visit.row, {})
            people[visit.person] = min(visit.current, people.get(visit.person, visit.current))

    def count(self, time: int, row: int, tick: int) -> int:
        """Return the number of people at a location at τ who are reported before the tick's as_of."""
        return sum(slot <= tick for slot in self._reports.get(time, {}).get(row, {}).values())

    def count_consenting(self, time: int, row: int, tick: int) -> int:
        """Return the number of people with a visit with consent at a location at τ, reported before the as_of."""
        return sum(slot <= tick for slot in self._consenting.get(time, {}).get(row, {}).values())

    def list_rows_at(self, time: int, at_least: int = 1) -> list[int]:
        """Return the rows of the locations with at least so many people, reported at any time, in registry order."""
        return sorted(row for row, people in self._reports.get(time, {}).items() if len(people) >= at_least)

    def __len__(self) -> int:
        """Return the number of people at all locations and designated times."""
        return sum(len(people) for people_at in self._reports.values() for people in people_at.values())

    def forget(self, time: int) -> None:
        """Forget the designated times before an instant."""
        for people_at in (self._reports, self._consenting):
            for old in [at for at in people_at if at < time]:
                del people_at[old]


class Recount:
    """The recount of one configuration.

    `counts` has the people in the window, by monitor and location; `presence` the people at each designated time, by
    monitor; `lengths` the visits that cover each designated time, by monitor of dwell times. `whole`: it has every
    visit that the next answers may count. Person ids are replaced by digests with a random `key`. `first`, `last`: the
    first and the last slot in which an accepted visit was reported or took place; None if there is none.
    """

    def __init__(self, terms: AuditTerms, key: bytes) -> None:
        self.terms = terms
        self.whole = True
        self.first: int | None = None
        self.last: int | None = None
        self._fates: Counter[tuple[str, int]] = Counter()
        self._key = key
        self.counts = {
            monitor.name: {location: PeopleCount() for location in monitor.shares} for monitor in terms.over_time
        }
        self._watching: dict[int, list[tuple[int, PeopleCount]]] = {}
        for monitor in terms.over_time:
            for location, count in self.counts[monitor.name].items():
                self._watching.setdefault(terms.rows[location], []).append((monitor.window, count))
        self.presence = {monitor.name: Presence() for monitor in (*terms.at_times, *terms.hot_spots)}
        self.lengths: dict[str, dict[int, list[MeasuredVisit]]] = {monitor.name: {} for monitor in terms.dwell}

    def take(self, line: Line | int) -> None:
        """Accept or refuse a visit as reported. An invalid one is given as the instant of its report."""
        visit = None
        if not isinstance(line, int):
            digest = hashlib.blake2b(line.person.encode(), key=self._key, digest_size=16)
            visit = accept(line, int.from_bytes(digest.digest()), self.terms)
        current = self.terms.grid.find_slot(line if isinstance(line, int) else line.reported)
        self._fates["dead_letter" if visit is None else self.add(visit), current] += 1
        if visit is not None:
            began, ended = min(self.terms.grid.find_slot(visit.arrived), current), max(visit.last, current)
            self.first = began if self.first is None else min(began, self.first)
            self.last = ended if self.last is None else max(ended, self.last)

    def add(self, visit: AcceptedVisit) -> str:
        """Add a visit, and return its fate.

        If it is reported in slot c with the last slot s, the ticks c … s + W - 1 count it. It is applied if a tick
        counts it, or too late if it covers designated times and only windows count it. It is expired if only ticks
        before its report would count it, and otherwise not watched.
        """
        counted, in_time, windows = False, False, self._watching.get(visit.row, ())
        for window, count in windows:
            if visit.current < visit.last + window:
                count.add(visit.person, visit.current, visit.last + window)
                counted = True
        for monitor in self.terms.timed:
            # From the report's slot on, no tick is about an older time. So a stay of years is not searched in full.
            oldest = self.terms.grid.as_of(visit.current) - monitor.horizon
            for time in monitor.find_times(max(visit.arrived, oldest), visit.left):
                in_time = True
                if isinstance(monitor, DwellTerms):
                    self.lengths[monitor.name].setdefault(time, []).append(_measure(visit, monitor))
                else:
                    self.presence[monitor.name].add(time, visit)
        if in_time:
            return "applied"
        covers = any(_has_time(monitor, visit.arrived, visit.left) for monitor in self.terms.timed)
        if counted:
            return "too_late" if covers else "applied"
        return "expired" if windows or covers else "not_watched"

    def count_fates(self, last_tick: int) -> dict[str, int]:
        """Return the number of visits by fate, of those that were reported before the last tick's as_of."""
        fates = dict.fromkeys(_FATES, 0)
        for (fate, slot), number in self._fates.items():
            fates[fate] += number * (slot <= last_tick)
        return fates

    def find_last_tick(self, tick: int) -> int:
        """Return the tick at which every visit has left every window and horizon; `tick` if there is no visit."""
        windows = [monitor.window for monitor in self.terms.over_time]
        horizons = [-(-monitor.horizon // self.terms.grid.slot) for monitor in self.terms.timed]
        return tick if self.last is None else self.last + max([*windows, *horizons])

    @property
    def kept_visits(self) -> int:
        """The number of visits that later answers may count, once for each monitor that counts them."""
        people = sum(len(count) for counts in self.counts.values() for count in counts.values())
        lengths = sum(len(visits) for by_time in self.lengths.values() for visits in by_time.values())
        return people + lengths + sum(map(len, self.presence.values()))

    def forget(self, tick: int) -> None:
        """Forget the counts before a tick, and the fates of visits, which are counted only in a run that ends."""
        self._fates.clear()
        for counts in self.counts.values():
            for count in counts.values():
                count.forget(tick)
        for monitor in self.terms.timed:
            oldest = self.terms.grid.as_of(tick) - monitor.horizon
            if isinstance(monitor, DwellTerms):
                lengths = self.lengths[monitor.name]
                self.lengths[monitor.name] = {time: visits for time, visits in lengths.items() if time >= oldest}
            else:
                self.presence[monitor.name].forget(oldest)


def create_recounts(configs: Sequence[AuditTerms]) -> list[Recount]:
    """Return a recount of each configuration."""
    key = os.urandom(16)
    return [Recount(terms, key) for terms in configs]


def _has_time(monitor: TimedTerms, low: int, high: int) -> bool:
    """Return whether there is a designated time τ with low ≤ τ < high."""
    # A time of day recurs, so the last days suffice.
    return any(low <= at < high for at in monitor.instants) or bool(monitor.find_times(max(low, high - _DAYS), high))


def _measure(visit: AcceptedVisit, monitor: DwellTerms) -> MeasuredVisit:
    """Return a visit with its length in seconds, at most `longest_visit`."""
    length = min((visit.left - visit.arrived) // _SECOND, monitor.longest)
    return MeasuredVisit(visit.person, visit.row, visit.current, length)
