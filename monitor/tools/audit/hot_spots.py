"""The hot spots at designated times, judged: one record about each, drawn at its last tick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from monitor.tools.audit.counts import Presence
from monitor.tools.audit.findings import FORM, NOISY, TICKS, Findings
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_said
from monitor.tools.audit.terms import AuditTerms, HotSpotsTerms
from monitor.tools.audit.text import instant, utc


class Drawn(NamedTuple):
    """Hot spots that were drawn, for what they charge."""

    time: int
    tick: int


@dataclass(frozen=True, slots=True)
class _Said:
    """The hot spots of one designated time: the (location, noisy count) that are named; `where` tells which."""

    time: int
    tick: int
    named: list[tuple[str, int]]
    where: str


class HotSpotsCheck:
    """Judges the records of one monitor.

    `answers` are the drawings, `noisy` is how many noisy counts they name; `statuses` the records by status.
    """

    safe = 0

    def __init__(
        self, terms: AuditTerms, monitor: HotSpotsTerms, presence: Presence, findings: Findings, *, every_tick: bool
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._presence = presence
        self._findings = findings
        self._every_tick = every_tick
        self._answered: set[int] = set()
        self.answers: list[Drawn] = []
        self.statuses: Counter[str] = Counter()
        self.noisy = 0

    def take(self, record: PublishedRecord) -> None:
        """Judge the next record.

        Raises:
            KeyError, TypeError, ValueError: it lacks what the interface says, or has it in another form.
        """
        value = record.value
        named = [(one["location_id"], one["noisy_count"]) for one in value["hot_spots"]]
        where = f"{self._monitor.name}/{value['time']}, tick {value['tick']}"
        said = _Said(instant(value["time"]), value["tick"], named, where)
        if not self._is_due(said):
            self._findings.say(TICKS, f"{where}: the time is not designated, or this is not the last tick about it")
            return
        if said.time in self._answered:
            self._findings.say(TICKS, f"{where}: the time is answered a second time")
        self._answered.add(said.time)
        self.statuses[value["status"]] += 1
        self._facts(record, said)
        if value["status"] == "complete":
            self.answers.append(Drawn(said.time, said.tick))
            self.noisy += len(named)
            self._say(FORM, said, self._misnamed(said))
            self._say(NOISY, said, self._exceeded(said))
        elif value["status"] != "unknown":
            self._findings.say(FORM, f"{where}: {value['status']!r} is no status")
        elif named:
            self._findings.say(FORM, f"{where}: unknown, and locations are named")

    def finish(self, first: int, last: int) -> None:
        """Check that every designated time was answered whose last tick is one of these."""
        if not self._every_tick:
            return
        grid, horizon = self._terms.grid, self._monitor.horizon
        for time in self._monitor.between(grid.as_of(first) - horizon, grid.as_of(last + 1) - horizon):
            if time not in self._answered:
                tick = self._monitor.ticks(time, grid)[1]
                self._findings.say(TICKS, f"{self._monitor.name}/{utc(time)}: tick {tick} is missing")

    def _is_due(self, said: _Said) -> bool:
        designated = bool(self._monitor.between(said.time, said.time + 1))
        return designated and said.tick == self._monitor.ticks(said.time, self._terms.grid)[1]

    def _facts(self, record: PublishedRecord, said: _Said) -> None:
        terms, monitor = self._terms, self._monitor
        check_envelope(record, terms, f"{monitor.name}/{utc(said.time)}", said.tick, self._findings)
        facts = {
            "kind": "hot_spots",
            "final": True,
            "registry": terms.digest,
            "locations": len(terms.locations),
            "top": monitor.top,
            "epsilon": str(monitor.epsilon),
        }
        check_said(record, facts, self._findings)

    def _say(self, oracle: str, said: _Said, texts: Iterator[str]) -> None:
        for text in texts:
            self._findings.say(oracle, f"{said.where}: {text}")

    def _misnamed(self, said: _Said) -> Iterator[str]:
        """As many as there are to be named, each once, by noisy count, then in the registry's order."""
        rows, expected = self._terms.rows, min(self._monitor.top, len(self._terms.locations))
        if len(said.named) != expected:
            yield f"{len(said.named)} locations are named, expected {expected}"
        for location, times in Counter(location for location, _ in said.named).items():
            if location not in rows:
                yield f"{location} is not in the registry"
            if times > 1:
                yield f"{location} is named {times} times"
        order = [(-count, rows.get(location, len(rows)), location) for location, count in said.named]
        for before, after in pairwise(order):
            if before[:2] > after[:2]:
                yield f"{after[2]} comes after {before[2]}, expected before it"

    def _exceeded(self, said: _Said) -> Iterator[str]:
        """No count is above its own noisy count, nor such that its location had to be named before the last one."""
        rows = self._terms.rows
        named = {rows[location]: count for location, count in said.named if location in rows}
        least = min(((count, -row) for row, count in named.items()), default=None)
        for row in self._presence.rows.get(said.time, ()):
            people = self._presence.count(said.time, row, said.tick)
            location = self._terms.locations[row]
            if people > named.get(row, people):
                yield f"{location}: there were more people than said"
            elif row not in named and least is not None and (people, -row) > least:
                yield f"{location} is not named, and there were more people than the last number allows"
