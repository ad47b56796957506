"""Count people exactly, in a plain loop over the visits (docs/interface.md, section 1). No count is ever printed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from monitor.tools.audit.terms import AuditTerms, OverTimeTerms, TimedTerms
from monitor.tools.audit.visits import Visits

TickRange = tuple[int, int]
"""A half-open range of ticks: the first is included, the second is not."""


class CountAt(Protocol):
    """The number of people in the window of a location, by tick."""

    def at(self, tick: int) -> int:
        """Return the count at a tick."""


class PeopleAtTimes(Protocol):
    """The people reported to be at each location at each designated time τ."""

    def count(self, time: int, row: int, tick: int) -> int:
        """Return the number of people at a location at τ who are reported before the tick's as_of."""

    def count_consenting(self, time: int, row: int, tick: int) -> int:
        """Return the number of people with a visit with consent at a location at τ, reported before the as_of."""

    def find_crowded(self, time: int, shard: int) -> Sequence[tuple[int, str]]:
        """Return the locations of a shard that reach the threshold, each with the first tick at which it does."""

    def list_rows_at(self, time: int) -> Sequence[int]:
        """Return the rows of the locations with at least one reported person, in registry order."""


@dataclass(frozen=True, slots=True)
class StepFunction:
    """A count that changes at some ticks. From `ticks[n]` on it is `counts[n]`; before `ticks[0]` it is 0."""

    ticks: list[int]
    counts: list[int]

    def at(self, tick: int) -> int:
        """Return the count at a tick."""
        place = bisect_right(self.ticks, tick)
        return self.counts[place - 1] if place else 0


def count_people(visits: Visits, terms: AuditTerms, monitor: OverTimeTerms) -> dict[str, StepFunction]:
    """Count the distinct people in the window at each tick, for each watched location.

    A visit reported in slot c whose last slot is s is in the counts of the ticks c … s + W - 1.
    """
    ticks_of: dict[int, dict[int, list[TickRange]]] = {
        terms.rows[name]: {} for name in monitor.shares if name in terms.rows
    }
    for visit in visits.accepted:
        if visit.row in ticks_of and visit.current < visit.last + monitor.window:
            ticks_of[visit.row].setdefault(visit.person, []).append((visit.current, visit.last + monitor.window))
    return {terms.locations[row]: add_up(people.values()) for row, people in ticks_of.items()}


def add_up(people: Iterable[Sequence[TickRange]]) -> StepFunction:
    """Count the people at each tick, given the tick ranges of each person's visits. A person counts once per tick."""
    changes: Counter[int] = Counter()
    for visits in people:
        counted_until: int | None = None
        for first, end in sorted(visits):
            begin = first if counted_until is None else max(first, counted_until)
            if begin < end:
                changes[begin] += 1
                changes[end] -= 1
                counted_until = end
    ticks = sorted(changes)
    return StepFunction(ticks, list(accumulate(changes[tick] for tick in ticks)))


@dataclass(frozen=True)
class Presence:
    """The people reported to be at each location at each designated time τ.

    `reports`: the slot of each person's first report, by (τ, row). `crowded`: by (τ, shard), the locations that reach
    the threshold, each with the first tick at which it does. `consenting`: as `reports`, for visits with consent.
    """

    reports: dict[tuple[int, int], dict[int, int]]
    crowded: dict[tuple[int, int], list[tuple[int, str]]]
    consenting: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)

    def count(self, time: int, row: int, tick: int) -> int:
        """Return the number of people at a location at τ who are reported before the tick's as_of."""
        return sum(slot <= tick for slot in self.reports.get((time, row), {}).values())

    def count_consenting(self, time: int, row: int, tick: int) -> int:
        """Return the number of people with a visit with consent at a location at τ, reported before the as_of."""
        return sum(slot <= tick for slot in self.consenting.get((time, row), {}).values())

    def find_crowded(self, time: int, shard: int) -> Sequence[tuple[int, str]]:
        """Return the locations of a shard that reach the threshold, each with the first tick at which it does."""
        return self.crowded.get((time, shard), ())

    def list_rows_at(self, time: int) -> Sequence[int]:
        """Return the rows of the locations with at least one reported person, in registry order."""
        return self._rows.get(time, ())

    @cached_property
    def _rows(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {}
        for time, row in sorted(self.reports):
            rows.setdefault(time, []).append(row)
        return rows


def find_present(visits: Visits, terms: AuditTerms, monitor: TimedTerms, threshold: int | None = None) -> Presence:
    """Find the people at each location at each designated time τ: those with arrived_at ≤ τ < left_at.

    With a threshold, also find the locations that reach it.
    """
    times = find_designated_times(visits, monitor)
    reports: dict[tuple[int, int], dict[int, int]] = {}
    consenting: dict[tuple[int, int], dict[int, int]] = {}
    for visit in visits.accepted:
        # From the report's slot on, no tick is about an older time. So a stay of years is not searched in full.
        oldest = terms.grid.as_of(visit.current) - monitor.horizon
        for time in select(times, max(visit.arrived, oldest), visit.left):
            for people_at in (reports, consenting) if visit.consent else (reports,):
                people = people_at.setdefault((time, visit.row), {})
                people[visit.person] = min(visit.current, people.get(visit.person, visit.current))
    return Presence(reports, {} if threshold is None else _find_crowded(reports, terms, threshold), consenting)


def _find_crowded(
    reports: dict[tuple[int, int], dict[int, int]], terms: AuditTerms, threshold: int
) -> dict[tuple[int, int], list[tuple[int, str]]]:
    crowded: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for time, row in sorted(reports):
        slots = sorted(reports[time, row].values())
        if len(slots) >= threshold:
            crowded.setdefault((time, terms.shard[row]), []).append((slots[threshold - 1], terms.locations[row]))
    return crowded


def find_designated_times(visits: Visits, monitor: TimedTerms) -> list[int]:
    """Return all designated times that any visit may cover, sorted."""
    if not visits.accepted:
        return []
    low, high = min(visit.arrived for visit in visits.accepted), max(visit.left for visit in visits.accepted)
    return monitor.find_times(low, high)


def select(times: Sequence[int], low: int, high: int) -> Sequence[int]:
    """Return the times τ with low ≤ τ < high. The times must be sorted."""
    return times[bisect_left(times, low) : bisect_left(times, high)]
