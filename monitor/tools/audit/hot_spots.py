"""Check the hot spots: one record per designated time, drawn at the last tick about that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from monitor.tools.audit.counts import PeopleAtTimes
from monitor.tools.audit.fields import Fields
from monitor.tools.audit.findings import FORM, NOISY, TICKS, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.terms import AuditTerms, Grid, HotSpotsTerms, TimedTerms
from monitor.tools.audit.text import format_utc


class Drawing(NamedTuple):
    """The hot spots or dwell times of a designated time, drawn at a tick, from visits reported up to `last_report`."""

    time: int
    tick: int
    last_report: int


@dataclass(frozen=True, slots=True)
class _HotSpots:
    """The hot spots of one designated time. `named` has (location, noisy count); `where` identifies the record."""

    time: int
    tick: int
    where: str
    status: str
    named: list[tuple[str, int]]


def read_subject(fields: Fields, grid: Grid) -> tuple[int, int]:
    """Return the designated time and the tick of hot spots or dwell times."""
    return fields.read_instant("time"), fields.read_tick("tick", grid)


def is_due(monitor: TimedTerms, time: int, tick: int, grid: Grid) -> bool:
    """Return whether a tick is the last one about a designated time."""
    return bool(monitor.find_times(time, time + 1)) and tick == monitor.find_ticks(time, grid)[1]


class HotSpotsCheck:
    """The check of one monitor's records.

    `answers` lists the drawings, `noisy` is the number of their noisy counts, `statuses` counts the records by status.
    `presence` is None if there is no input to compare with.
    """

    safe = 0

    def __init__(
        self,
        terms: AuditTerms,
        monitor: HotSpotsTerms,
        presence: PeopleAtTimes | None,
        history: History,
        findings: Findings,
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._presence = presence
        self._findings = findings
        self._every_tick = history.sequence.every_tick
        self._answered = history.answered
        self.answers: list[Drawing] = []
        self.statuses: Counter[str] = Counter()
        self.noisy = 0

    def take(self, record: PublishedRecord) -> bool:
        """Check the next record. Return whether it can be compared with the recount.

        Raises:
            FormError: a field is missing, or is not in the form of docs/interface.md.
        """
        fields = Fields(record.value)
        time, tick = read_subject(fields, self._terms.grid)
        where = f"{self._monitor.name}/{format_utc(time)}, tick {tick}"
        if not is_due(self._monitor, time, tick, self._terms.grid):
            self._findings.add(TICKS, f"{where}: the time is not designated, or this is not the last tick about it")
            return False
        if (self._monitor.name, time) in self._answered:
            self._findings.add(TICKS, f"{where}: the time is answered a second time")
        self._answered.add((self._monitor.name, time))
        spots = self._read(fields)
        self.statuses[spots.status] += 1
        self._check_form(record, spots)
        if spots.status == "complete":
            self.answers.append(Drawing(time, tick, tick))
            self.noisy += len(spots.named)
            self._add(FORM, spots, self._find_misnamed(spots))
        elif spots.named:
            self._findings.add(FORM, f"{where}: the status is unknown, but locations are named")
        return True

    def prove(self, record: PublishedRecord) -> None:
        """Compare a record that `take` has checked with the recount."""
        spots = self._read(Fields(record.value))
        if self._presence is not None and spots.status == "complete":
            self._add(NOISY, spots, self._find_exceeded(spots, self._presence))

    def forget(self, tick: int) -> None:
        """Forget the drawings before a tick."""
        self.answers = [answer for answer in self.answers if answer.tick >= tick]

    def finish(self, first: int, last: int) -> None:
        """Check that every designated time whose last tick is in the range was answered."""
        if not self._every_tick:
            return
        grid, horizon = self._terms.grid, self._monitor.horizon
        for time in self._monitor.find_times(grid.as_of(first) - horizon, grid.as_of(last + 1) - horizon):
            if (self._monitor.name, time) not in self._answered:
                tick = self._monitor.find_ticks(time, grid)[1]
                self._findings.add(TICKS, f"{self._monitor.name}/{format_utc(time)}: tick {tick} is missing")

    def _read(self, fields: Fields) -> _HotSpots:
        time, tick = read_subject(fields, self._terms.grid)
        return _HotSpots(
            time,
            tick,
            f"{self._monitor.name}/{format_utc(time)}, tick {tick}",
            fields.read_choice("status", "complete", "unknown"),
            [
                (spot.read_text("location_id"), spot.read_whole("noisy_count", 0))
                for spot in fields.read_objects("hot_spots")
            ],
        )

    def _check_form(self, record: PublishedRecord, spots: _HotSpots) -> None:
        terms, monitor = self._terms, self._monitor
        key = f"{monitor.name}/{format_utc(spots.time)}"
        check_envelope(record, terms, key, spots.tick, self._findings)
        facts = {
            "kind": "hot_spots",
            "final": True,
            "registry": terms.digest,
            "locations": len(terms.locations),
            "top": monitor.top,
            "epsilon": str(monitor.epsilon),
        }
        check_facts(record, key, spots.tick, facts, self._findings)

    def _add(self, oracle: str, spots: _HotSpots, texts: Iterator[str]) -> None:
        for text in texts:
            self._findings.add(oracle, f"{spots.where}: {text}")

    def _find_misnamed(self, spots: _HotSpots) -> Iterator[str]:
        """Yield errors unless min(top, locations) locations are named once, by falling count, then registry order."""
        rows, expected = self._terms.rows, min(self._monitor.top, len(self._terms.locations))
        if len(spots.named) != expected:
            yield f"{len(spots.named)} locations are named, expected {expected}"
        for location, times in Counter(location for location, _ in spots.named).items():
            if location not in rows:
                yield "a location is not in the registry"
            if times > 1:
                yield f"{self._terms.name_location(location)} is named {times} times"
        order = [(-count, rows.get(location, len(rows)), location) for location, count in spots.named]
        for before, after in pairwise(order):
            if before[:2] > after[:2]:
                name = self._terms.name_location
                yield f"{name(after[2])} comes after {name(before[2])}, expected before it"

    def _find_exceeded(self, spots: _HotSpots, presence: PeopleAtTimes) -> Iterator[str]:
        """Yield the locations whose count exceeds their noisy count, or the lowest published one if they have none."""
        rows = self._terms.rows
        named = {rows[location]: count for location, count in spots.named if location in rows}
        least = min(((count, -row) for row, count in named.items()), default=None)
        for row in presence.list_rows_at(spots.time):
            people = presence.count(spots.time, row, spots.tick)
            location = self._terms.locations[row]
            if people > named.get(row, people):
                yield f"{location}: there were more people than the noisy count"
            elif row not in named and least is not None and (people, -row) > least:
                yield f"{location} is not named, and there were more people than the last noisy count allows"
