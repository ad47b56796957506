"""Who is reported where, and the counts of each tick: with the reports so far, and in hindsight with all of them.

The file of an agency's exposure events is CSV (gzipped or not) with the columns id, version, published, event,
location, start and end. A row is one published version of one event: a place where infected people had been, and when.

The data names no people. The assumption is that each event is the visit of one person who is in no other event; in one
scenario, of several people. A person who is in several events would pay at each place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from monitor.errors import TimeError, UsageError
from monitor.time.instants import parse_instant
from monitor.time.slot_grid import SlotGrid
from simulators.experiments.data import read_rows

COLUMNS: Final = ("id", "version", "published", "event", "location", "start", "end")

_DATE: Final = re.compile(r"[\s:(,-]*\d{1,2}/\d{1,2}/\d{2,4}[\s)]*$")


@dataclass(frozen=True, slots=True)
class Version:
    """One published version of an event: the place, and the times of the visit and of the publication (instants)."""

    place: str
    start: int
    end: int
    published: int


@dataclass(frozen=True, slots=True)
class Event:
    """An exposure event with its versions in order of publication. The first one is what was published first."""

    versions: tuple[Version, ...]

    @property
    def first(self) -> Version:
        """The version that was published first."""
        return self.versions[0]

    @property
    def last(self) -> Version:
        """The version that was published last, which counts as the truth."""
        return self.versions[-1]

    @property
    def moved(self) -> bool:
        """Whether the place of the first version was wrong."""
        return self.first.place != self.last.place

    @property
    def retimed(self) -> bool:
        """Whether the times of the first version were wrong."""
        return (self.first.start, self.first.end) != (self.last.start, self.last.end)


@dataclass(frozen=True, slots=True)
class Epidemic:
    """All events, the registry (every place of any version) and the number of events without a valid visit."""

    events: tuple[Event, ...]
    places: tuple[str, ...]
    invalid: int
    versions: int

    @property
    def delays(self) -> list[int]:
        """The times from the end of each visit to its first publication (microseconds), ascending."""
        return sorted(event.first.published - event.first.end for event in self.events)


def read_epidemic(path: Path) -> Epidemic:
    """Read all versions. A version without times, or that ends before it starts or after its publication, is left out.

    Raises:
        UsageError: the file cannot be read, or no event is valid.
    """
    found: dict[str, list[Version]] = {}
    rows = 0
    for _, row in read_rows(path, COLUMNS):
        rows += 1
        listed = found.setdefault(row["id"], [])
        version = _read_version(row)
        if version is not None:
            listed.append(version)
    ordered = [tuple(sorted(listed, key=lambda version: version.published)) for listed in found.values()]
    events = tuple(sorted((Event(listed) for listed in ordered if listed), key=lambda event: event.first.published))
    if not events:
        raise UsageError(f"{path} has no event with valid times: expected rows of {','.join(COLUMNS)}")
    places = sorted({version.place for event in events for version in event.versions})
    return Epidemic(events, tuple(places), len(found) - len(events), rows)


def _read_version(row: Mapping[str, str]) -> Version | None:
    try:
        start, end, published = (parse_instant(row[name]) for name in ("start", "end", "published"))
    except TimeError:
        return None
    return Version(_name_place(row), start, end, published) if start < end <= published else None


def _name_place(row: Mapping[str, str]) -> str:
    """Return the address. If it has no number, it names only a town: then the event's title without its date."""
    address = " ".join(row["location"].split())
    if any(letter.isdigit() for letter in address):
        return address
    return _DATE.sub("", " ".join(row["event"].split())) or row["id"]


Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Report:
    """A report that a person was at a place (a row of the registry) from `start` to `end`, made at `reported`."""

    person: int
    place: int
    start: int
    end: int
    reported: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """How events become reports."""

    earlier: int = 0
    """How much earlier than its publication an event is reported (microseconds), but not before the visit ends."""
    extra_people: float = 0.0
    """The mean of the Poisson number of people at each event beyond the first."""
    versions: Literal["first", "all", "last"] = "first"
    """The versions that are reported: only the first one; all that differ from their predecessor, as further visits of
    the same person; or only the last one, which counts as the truth.
    """


AS_PUBLISHED = Scenario()


def make_reports(epidemic: Epidemic, scenario: Scenario, seed: int) -> list[Report]:
    """Return the reports of a scenario, in order of report."""
    rows = {name: row for row, name in enumerate(epidemic.places)}
    people = np.random.default_rng((seed, 1)).poisson(scenario.extra_people, len(epidemic.events)) + 1
    reports: list[Report] = []
    for event, number in zip(epidemic.events, people.tolist(), strict=True):
        first = reports[-1].person + 1 if reports else 0
        for person in range(first, first + number):
            reports += [
                Report(
                    person,
                    rows[version.place],
                    version.start,
                    version.end,
                    max(version.end, version.published - scenario.earlier),
                )
                for version in _list_versions(event, scenario)
            ]
    return sorted(reports, key=lambda report: report.reported)


def _list_versions(event: Event, scenario: Scenario) -> Iterator[Version]:
    if scenario.versions != "all":
        yield event.first if scenario.versions == "first" else event.last
        return
    before = None
    for version in event.versions:
        if before is None or (version.place, version.start, version.end) != (before.place, before.start, before.end):
            yield version
        before = version


@dataclass(frozen=True)
class Timeline:
    """Reports on a grid. All arrays have a row per tick and a column per place."""

    grid: SlotGrid
    window: int
    """W, in slots."""
    places: int
    first: int
    """The tick of row 0."""
    ticks: int
    reports: tuple[Report, ...]
    visit_ticks: Counts
    """By report, the row of the tick that closes the last slot of the visit."""
    report_ticks: Counts
    """By report, the row of the tick that closes the slot of the report."""

    @classmethod
    def of(cls, reports: Sequence[Report], places: int, grid: SlotGrid, window: int) -> Timeline:
        """Put reports on a grid, from the first visit to the tick at which none is in a window."""
        visits = np.array([grid.find_last_slot(report.start, report.end) for report in reports])
        slots = np.array([grid.find_slot(report.reported) for report in reports])
        first = int(visits.min())
        ticks = int(slots.max()) + window - first + 1
        return cls(
            grid, window, places, first, ticks, tuple(reports), visits - first, np.maximum(slots, visits) - first
        )

    def align(self, other: Timeline) -> Timeline:
        """Return these reports with the rows of another timeline of the same grid."""
        moved = self.first - other.first
        return replace(
            self,
            first=other.first,
            ticks=other.ticks,
            visit_ticks=self.visit_ticks + moved,
            report_ticks=self.report_ticks + moved,
        )

    @cached_property
    def columns(self) -> Counts:
        """The place of each report."""
        return np.array([report.place for report in self.reports])

    @cached_property
    def counts(self) -> Counts:
        """The distinct people in the window of each tick, of all reports stamped before it: what the service counts."""
        return self._count(self.report_ticks)

    def count_since(self, tick: int, since: int, place: int) -> int:
        """Return the distinct people in the window of a tick (a row) who were reported after another tick."""
        people, reported, visited = self._by_place[place]
        counted = (reported > since) & (reported <= tick) & (visited > tick - self.window)
        return np.unique(people[counted]).size

    @cached_property
    def _by_place(self) -> list[tuple[Counts, Counts, Counts]]:
        """By place, the person, the tick of the report and the tick of the visit of each report."""
        people = np.array([report.person for report in self.reports], np.int64)
        held = [np.flatnonzero(self.columns == place) for place in range(self.places)]
        return [(people[which], self.report_ticks[which], self.visit_ticks[which]) for which in held]

    @cached_property
    def in_hindsight(self) -> Counts:
        """The distinct people in the window of each tick, of all reports that ever come."""
        return self._count(self.visit_ticks)

    def find_as_of(self, row: int) -> int:
        """Return the instant of a row's tick."""
        return self.grid.as_of(self.first + row)

    def _count(self, begins: Counts) -> Counts:
        """Count each person from `begins` to the last tick whose window has the visit. Repeated visits count once."""
        spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        ends = self.visit_ticks + self.window
        for report, begin, end in zip(self.reports, begins.tolist(), ends.tolist(), strict=True):
            if begin < end:
                spans.setdefault((report.person, report.place), []).append((begin, end))
        changes = np.zeros((self.ticks + 1, self.places), np.int64)
        for (_, place), listed in spans.items():
            for begin, end in _join(sorted(listed)):
                changes[min(begin, self.ticks), place] += 1
                changes[min(end, self.ticks), place] -= 1
        return np.cumsum(changes[:-1], axis=0)


def _join(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the union of sorted spans [begin, end)."""
    begin, end = spans[0]
    for other, until in spans[1:]:
        if other > end:
            yield begin, end
            begin, end = other, until
        end = max(end, until)
    yield begin, end
