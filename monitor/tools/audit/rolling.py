"""Counts of people that follow the input, and forget what no later tick can need (docs/interface.md, section 1).

They are the same as those that `counts.py` computes from all visits at once. The counts of ticks that have not been
forgotten may be requested in any order, because a late record changes only ticks from its own slot on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from monitor.tools.audit.counts import TickRange, select
from monitor.tools.audit.dwell import MeasuredVisit, measure
from monitor.tools.audit.terms import AtTimesTerms, AuditTerms, DwellTerms, HotSpotsTerms, OverTimeTerms, TimedTerms
from monitor.tools.audit.visits import AcceptedVisit

_MARGIN: int = 8 * 24 * 3600 * 1_000_000
"""How far beyond the requested range designated times are computed, in microseconds."""


class RollingCount:
    """The number of distinct people at a location by tick, except for forgotten ticks."""

    def __init__(self) -> None:
        self._ticks: dict[int, tuple[TickRange, ...]] = {}
        self._ends: dict[int, list[int]] = {}
        self._changes: Counter[int] = Counter()
        self._base = 0
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
        self._ends.setdefault(merged[-1][1], []).append(person)

    def at(self, tick: int) -> int:
        """Return the count at a tick."""
        return self._base + sum(change for at, change in self._changes.items() if at <= tick)

    def list_people_at(self, tick: int) -> Iterator[int]:
        """Yield the people who are counted at a tick."""
        return (person for person, ticks in self._ticks.items() if any(first <= tick < end for first, end in ticks))

    def forget(self, tick: int) -> None:
        """Forget the ticks before one."""
        self._floor = tick
        for at in [at for at in self._changes if at <= tick]:
            self._base += self._changes.pop(at)
        for end in [end for end in self._ends if end <= tick]:
            for person in self._ends.pop(end):
                if person in self._ticks and self._ticks[person][-1][1] <= tick:
                    del self._ticks[person]

    def _change(self, tick: int, by: int) -> None:
        if self._floor is not None and tick <= self._floor:
            self._base += by
            return
        self._changes[tick] += by
        if not self._changes[tick]:
            del self._changes[tick]


def _merge(ranges: Sequence[TickRange]) -> tuple[TickRange, ...]:
    """Return the union of ranges of ticks, sorted."""
    merged: list[TickRange] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return tuple(merged)


class RollingPresence:
    """The people reported to be at each location at each designated time τ, as in `counts.Presence`."""

    def __init__(self, terms: AuditTerms, threshold: int | None) -> None:
        self._terms = terms
        self._threshold = threshold
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

    def find_crowded(self, time: int, shard: int) -> list[tuple[int, str]]:
        """Return the locations of a shard that reach the threshold, each with the first tick at which it does."""
        threshold, crowded = self._threshold, []
        for row, people in self._reports.get(time, {}).items():
            if threshold is not None and len(people) >= threshold and self._terms.shard[row] == shard:
                crowded.append((sorted(people.values())[threshold - 1], self._terms.locations[row]))
        return crowded

    def list_rows_at(self, time: int) -> list[int]:
        """Return the rows of the locations with at least one reported person, in registry order."""
        return sorted(self._reports.get(time, ()))

    def list_people_at(self, time: int, row: int) -> Iterator[int]:
        """Yield the people reported at a location at τ."""
        yield from self._reports.get(time, {}).get(row, ())

    def forget(self, time: int) -> None:
        """Forget the designated times before an instant."""
        for people_at in (self._reports, self._consenting):
            for old in [at for at in people_at if at < time]:
                del people_at[old]


class _Times:
    """The designated times of a monitor, computed for several days at once."""

    def __init__(self, monitor: TimedTerms) -> None:
        self._monitor = monitor
        self._range = (0, 0)
        self._times: list[int] = []

    def find_times(self, low: int, high: int) -> Sequence[int]:
        """Return the designated times τ with low ≤ τ < high, sorted."""
        if low >= high:
            return ()
        if low < self._range[0] or high > self._range[1]:
            self._range = low - _MARGIN, high + _MARGIN
            self._times = self._monitor.find_times(*self._range)
        return select(self._times, low, high)


class RollingRecount:
    """The recount of one configuration. `own` has the visits of each person that an answer may charge."""

    def __init__(self, terms: AuditTerms) -> None:
        self.terms = terms
        self.own: dict[int, list[AcceptedVisit]] = {}
        self._by_last: dict[int, set[int]] = {}
        self._counts = {
            monitor.name: {location: RollingCount() for location in monitor.shares if location in terms.rows}
            for monitor in terms.over_time
        }
        self._watching: dict[int, list[tuple[int, RollingCount]]] = {}
        for monitor in terms.over_time:
            for location, count in self._counts[monitor.name].items():
                self._watching.setdefault(terms.rows[location], []).append((monitor.window, count))
        self._presence = {
            monitor.name: RollingPresence(terms, monitor.threshold if isinstance(monitor, AtTimesTerms) else None)
            for monitor in (*terms.at_times, *terms.hot_spots)
        }
        self._lengths: dict[str, dict[int, list[MeasuredVisit]]] = {monitor.name: {} for monitor in terms.dwell}
        self._times = {monitor.name: _Times(monitor) for monitor in terms.timed}

    def find_counts(self, monitor: OverTimeTerms) -> dict[str, RollingCount]:
        """Return the number of people in the window, by location."""
        return self._counts[monitor.name]

    def find_presence(self, monitor: AtTimesTerms | HotSpotsTerms) -> RollingPresence:
        """Return the people at each designated time."""
        return self._presence[monitor.name]

    def find_lengths(self, monitor: DwellTerms) -> dict[int, list[MeasuredVisit]]:
        """Return the visits that cover each designated time, with their lengths."""
        return self._lengths[monitor.name]

    def add(self, visit: AcceptedVisit) -> None:
        """Add a visit."""
        charged = False
        for window, count in self._watching.get(visit.row, ()):
            if visit.current < visit.last + window:
                count.add(visit.person, visit.current, visit.last + window)
                charged = True
        for monitor in self.terms.timed:
            # From the report's slot on, no tick is about an older time. So a stay of years is not searched in full.
            oldest = self.terms.grid.as_of(visit.current) - monitor.horizon
            for time in self._times[monitor.name].find_times(max(visit.arrived, oldest), visit.left):
                charged = True
                if isinstance(monitor, DwellTerms):
                    self._lengths[monitor.name].setdefault(time, []).append(measure(visit, monitor))
                else:
                    self._presence[monitor.name].add(time, visit)
        if charged and visit not in (own := self.own.setdefault(visit.person, [])):
            own.append(visit)
            self._by_last.setdefault(visit.last, set()).add(visit.person)

    @property
    def kept_visits(self) -> int:
        """The number of visits that later answers may count or charge."""
        return sum(map(len, self.own.values()))

    def forget(self, tick: int, charged: int) -> None:
        """Forget the counts before a tick, and the visits whose last slot is before the slot `charged`."""
        for counts in self._counts.values():
            for count in counts.values():
                count.forget(tick)
        for monitor in self.terms.timed:
            oldest = self.terms.grid.as_of(tick) - monitor.horizon
            if isinstance(monitor, DwellTerms):
                lengths = self._lengths[monitor.name]
                for time in [time for time in lengths if time < oldest]:
                    del lengths[time]
            else:
                self._presence[monitor.name].forget(oldest)
        for last in [last for last in self._by_last if last < charged]:
            for person in self._by_last.pop(last):
                self._forget_visits(person, charged)

    def _forget_visits(self, person: int, charged: int) -> None:
        left = [visit for visit in self.own.get(person, ()) if visit.last >= charged]
        if left:
            self.own[person] = left
        else:
            self.own.pop(person, None)
