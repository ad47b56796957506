"""The exact counts, for all ticks at once (docs/interface.md, section 1). They stay in here: nothing of them is printed."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from monitor.tools.audit.terms import AuditTerms, Grid, OverTimeTerms, TimedTerms
from monitor.tools.audit.visits import Ints, Visits


@dataclass(frozen=True, slots=True)
class Steps:
    """A count that changes at some ticks: from `ticks[n]` on it is `counts[n]`, before them 0."""

    ticks: list[int]
    counts: list[int]

    def at(self, tick: int) -> int:
        """The count at a tick."""
        place = bisect_right(self.ticks, tick)
        return self.counts[place - 1] if place else 0


def counted(visits: Visits, terms: AuditTerms, monitor: OverTimeTerms) -> dict[str, Steps]:
    """By watched location, the distinct people of the window at each tick.

    A visit reported in slot c whose last slot is s is in the counts of the ticks c … s + W - 1.
    """
    return {
        location: _people(visits, visits.at(terms.rows[location]), monitor.window)
        for location in monitor.shares
        if location in terms.rows
    }


def _people(visits: Visits, entries: Ints, window: int) -> Steps:
    first, end = visits.current[entries], visits.last[entries] + window
    asked = end > first
    first, end = joined(visits.person[entries[asked]], first[asked], end[asked])[1:]
    ticks, place = np.unique(np.concatenate([first, end]), return_inverse=True)
    changes = np.zeros(ticks.size, np.int64)
    np.add.at(changes, place, np.repeat([1, -1], (first.size, end.size)))
    return Steps(ticks.tolist(), np.cumsum(changes).tolist())


def joined(group: Ints, first: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Unite the intervals [first, end) of each group where they meet: (group, first, end), sorted."""
    if not group.size:
        return group, first, end
    order = np.lexsort((first, group))
    group, first, end = group[order], first[order], end[order]
    begins = np.ones(group.size, np.bool_)
    reached = _running_most(group, end)
    begins[1:] = (group[1:] != group[:-1]) | (first[1:] > reached[:-1])
    places = np.flatnonzero(begins)
    closes = np.append(places[1:], group.size) - 1
    return group[places], first[places], reached[closes]


def _running_most(group: Ints, values: Ints) -> Ints:
    """The running maximum within each group (sorted): ranks keep groups apart, so that no product can overflow."""
    order = np.lexsort((values, group))
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    most: Ints = values[order[np.maximum.accumulate(rank)]]
    return most


@dataclass(frozen=True)
class Presence:
    """Who is reported to cover each designated time: by (τ, row) a range of `person` and `current`, by report.

    `current` is the slot of a person's first report of it. `crowded`: by (τ, shard), the locations that reach the
    threshold, if there is one, each with the tick from which on it has.
    """

    ranges: dict[tuple[int, int], tuple[int, int]]
    person: Ints
    current: Ints
    crowded: dict[tuple[int, int], list[tuple[int, str]]]

    def count(self, time: int, row: int, tick: int) -> int:
        """The distinct people who cover τ at a location, among those reported before the tick's as_of."""
        first, end = self.ranges.get((time, row), (0, 0))
        return int(np.searchsorted(self.current[first:end], tick, side="right"))

    def people(self, time: int, row: int, tick: int) -> Ints:
        """Those people."""
        first = self.ranges.get((time, row), (0, 0))[0]
        return self.person[first : first + self.count(time, row, tick)]

    @cached_property
    def rows(self) -> dict[int, list[int]]:
        """By τ, the rows of the locations where anyone is reported to be, in registry order."""
        found: dict[int, list[int]] = {}
        for time, row in sorted(self.ranges):
            found.setdefault(time, []).append(row)
        return found


def present(visits: Visits, terms: AuditTerms, monitor: TimedTerms, threshold: int | None = None) -> Presence:
    """Who covers which designated time: arrived_at ≤ τ < left_at."""
    time, entry = covering(visits, terms.grid, monitor)
    row, person, current = visits.row[entry], visits.person[entry], visits.current[entry]
    order = np.lexsort((current, person, row, time))
    kept = order[_changes(time[order], row[order], person[order])]
    kept = kept[np.lexsort((current[kept], row[kept], time[kept]))]
    time, row, person, current = time[kept], row[kept], person[kept], current[kept]
    starts = np.flatnonzero(_changes(time, row))
    ends = np.append(starts[1:], time.size)
    places = list(zip(time[starts].tolist(), row[starts].tolist(), starts.tolist(), ends.tolist(), strict=False))
    crowded: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for at, where, start, end in places:
        if threshold is not None and end - start >= threshold:
            reached = int(current[start + threshold - 1])
            crowded.setdefault((at, terms.shard[where]), []).append((reached, terms.locations[where]))
    return Presence({(at, where): (start, end) for at, where, start, end in places}, person, current, crowded)


def covering(visits: Visits, grid: Grid, monitor: TimedTerms) -> tuple[Ints, Ints]:
    """Each (τ, entry) of a visit that covers a τ which the tick of its report's slot, or a later one, asks about."""
    oldest = grid.origin + (visits.current + 1) * grid.slot - monitor.horizon
    since = np.maximum(visits.arrived, oldest)
    times = designated(visits, monitor)
    first = np.searchsorted(times, since)
    many = np.maximum(np.searchsorted(times, visits.left) - first, 0)
    entry = np.repeat(np.arange(many.size), many)
    within = np.arange(entry.size) - np.repeat(np.cumsum(many) - many, many)
    return times[first[entry] + within], entry


def designated(visits: Visits, monitor: TimedTerms) -> Ints:
    """All designated times that any visit may cover."""
    if not visits.row.size:
        return np.empty(0, np.int64)
    return np.array(monitor.between(int(visits.arrived.min()), int(visits.left.max())), np.int64)


def _changes(*columns: Ints) -> NDArray[np.bool_]:
    """Where a sorted table's row differs from the one before in any column."""
    changed = np.ones(columns[0].size, np.bool_)
    changed[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return changed
