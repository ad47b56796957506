"""Check the hot spots: one record per designated time, drawn at the last tick about that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from monitor.tools.audit.counts import PeopleAtTimes
from monitor.tools.audit.findings import FORM, NOISY, TICKS, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.terms import AuditTerms, HotSpotsTerms
from monitor.tools.audit.text import format_utc, parse_instant


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
    named: list[tuple[str, int]]
    where: str


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

    def take(self, record: PublishedRecord) -> None:
        """Check the next record.

        Raises:
            KeyError, TypeError, ValueError: a field is missing, or is not in the form of docs/interface.md.
        """
        value, spots = record.value, self._read(record)
        named, where = spots.named, spots.where
        if not self._is_due(spots):
            self._findings.add(TICKS, f"{where}: the time is not designated, or this is not the last tick about it")
            return
        subject = self._monitor.name, spots.time
        if subject in self._answered:
            self._findings.add(TICKS, f"{where}: the time is answered a second time")
        self._answered.add(subject)
        self.statuses[value["status"]] += 1
        self._check_form(record, spots)
        if value["status"] == "complete":
            self.answers.append(Drawing(spots.time, spots.tick, spots.tick + (record.late_slots or 0)))
            self.noisy += len(named)
            self._add(FORM, spots, self._find_misnamed(spots))
        elif value["status"] != "unknown":
            self._findings.add(FORM, f"{where}: {value['status']!r} is not a status")
        elif named:
            self._findings.add(FORM, f"{where}: the status is unknown, but locations are named")

    def prove(self, record: PublishedRecord) -> None:
        """Compare a record that `take` has checked with the recount."""
        spots = self._read(record)
        if self._presence is not None and record.value["status"] == "complete" and self._is_due(spots):
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

    def _read(self, record: PublishedRecord) -> _HotSpots:
        value = record.value
        named = [(spot["location_id"], spot["noisy_count"]) for spot in value["hot_spots"]]
        where = f"{self._monitor.name}/{value['time']}, tick {value['tick']}"
        return _HotSpots(parse_instant(value["time"]), value["tick"], named, where)

    def _is_due(self, spots: _HotSpots) -> bool:
        designated = bool(self._monitor.find_times(spots.time, spots.time + 1))
        return designated and spots.tick == self._monitor.find_ticks(spots.time, self._terms.grid)[1]

    def _check_form(self, record: PublishedRecord, spots: _HotSpots) -> None:
        terms, monitor = self._terms, self._monitor
        check_envelope(record, terms, f"{monitor.name}/{format_utc(spots.time)}", spots.tick, self._findings)
        facts = {
            "kind": "hot_spots",
            "final": True,
            "registry": terms.digest,
            "locations": len(terms.locations),
            "top": monitor.top,
            "epsilon": str(monitor.epsilon),
        }
        check_facts(record, facts, self._findings)

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
                yield f"{location} is not in the registry"
            if times > 1:
                yield f"{location} is named {times} times"
        order = [(-count, rows.get(location, len(rows)), location) for location, count in spots.named]
        for before, after in pairwise(order):
            if before[:2] > after[:2]:
                yield f"{after[2]} comes after {before[2]}, expected before it"

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
