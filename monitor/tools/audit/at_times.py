"""Check the snapshots about designated times (docs/rules.md, section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from monitor.tools.audit.at_least import AtLeastCheck, Bounds, BoundsDrawing, read_bounds
from monitor.tools.audit.counts import PeopleAtTimes
from monitor.tools.audit.fields import Fields
from monitor.tools.audit.findings import BUDGET, FORM, NOISY, SAFE, TICKS, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.terms import AtTimesTerms, AuditTerms
from monitor.tools.audit.text import format_utc


class TimedAnswer(NamedTuple):
    """A noisy answer about a designated time. It counts visits reported up to the slot `last_report`."""

    time: int
    row: int
    tick: int
    last_report: int


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot of one designated time, shard and tick. `where` identifies it in findings.

    `noisy_counts`: the tick and the noisy count of each location that has one.
    """

    record: PublishedRecord
    time: int
    shard: int
    tick: int
    where: str
    status: str
    noisy_counts: dict[str, tuple[int, int]]
    bounds: Bounds


class AtTimesCheck:
    """The check of one monitor's snapshots, which it takes in order of tick.

    `answers` lists each noisy count once. `statuses` counts the snapshots by status. `safe` is the number of "safe"
    answers in complete snapshots. `lower_bounds` checks the lower bounds. `presence` is None if there is no input to
    compare with.
    """

    def __init__(
        self,
        terms: AuditTerms,
        monitor: AtTimesTerms,
        presence: PeopleAtTimes | None,
        history: History,
        findings: Findings,
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._presence = presence
        self._sequence = history.sequence
        self._findings = findings
        self._noisy = history.noisy
        self.lower_bounds = AtLeastCheck(terms, monitor, presence, history, findings)
        self._due: tuple[int, frozenset[int]] = (0, frozenset())
        self.answers: list[TimedAnswer] = []
        self.statuses: Counter[str] = Counter()
        self.safe = 0

    @property
    def noisy(self) -> int:
        """The number of noisy counts checked."""
        return len(self.answers)

    def take(self, record: PublishedRecord) -> bool:
        """Check the next record. Return whether it can be compared with the recount.

        Raises:
            FormError: a field is missing, or is not in the form of docs/interface.md.
        """
        fields = Fields(record.value)
        time, shard, tick = self._read_subject(fields)
        name = f"{self._monitor.name}/{format_utc(time)}/{shard}"
        if time not in self._find_times_due(tick):
            text = f"{name}, tick {tick}: the time is not designated, or not evaluated at this tick"
            self._findings.add(TICKS, text)
            return False
        in_order = self._sequence.see((self._monitor.name, time, shard), name, tick)
        snapshot = self._read(record, fields)
        self.statuses[snapshot.status] += 1
        self._check_form(snapshot)
        if snapshot.status == "complete":
            self.safe += self._terms.shard_sizes[shard] - len(snapshot.noisy_counts)
        if in_order:
            self._check_changes(snapshot, snapshot.noisy_counts)
            self.lower_bounds.take(snapshot.bounds, snapshot.where)
        return True

    def _read_subject(self, fields: Fields) -> tuple[int, int, int]:
        """Return the designated time, the shard and the tick."""
        shard = fields.read_whole("shard", 0, self._terms.shards - 1)
        return fields.read_instant("time"), shard, fields.read_tick("tick", self._terms.grid)

    def _read(self, record: PublishedRecord, fields: Fields) -> _Snapshot:
        time, shard, tick = self._read_subject(fields)
        status = fields.read_choice("status", "complete", "unknown")
        counts = {name: Fields(count) for name, count in fields.read_table("noisy_counts").items()}
        drawing = BoundsDrawing(time, shard, tick, tick)
        return _Snapshot(
            record,
            time,
            shard,
            tick,
            f"{self._monitor.name}/{format_utc(time)}/{shard}, tick {tick}",
            status,
            {
                name: (count.read_tick("tick", self._terms.grid), count.read_whole("noisy_count", 0))
                for name, count in counts.items()
            },
            read_bounds(drawing, fields, complete=status == "complete"),
        )

    def prove(self, record: PublishedRecord) -> None:
        """Compare a record that `take` has checked with the recount."""
        if self._presence is None:
            return
        snapshot = self._read(record, Fields(record.value))
        noisy = snapshot.noisy_counts
        if snapshot.status == "complete":
            for reached, location in self._presence.find_crowded(snapshot.time, snapshot.shard):
                if reached <= snapshot.tick and location not in noisy:
                    text = f'"safe" is false for {location}, there were {self._monitor.threshold} people or more'
                    self._findings.add(SAFE, f"{snapshot.where}: {text}")
        for location, (tick, count) in noisy.items():
            row = self._terms.rows.get(location)
            if tick == snapshot.tick and row is not None and self._presence.count(snapshot.time, row, tick) > count:
                self._findings.add(NOISY, f"{snapshot.where}, {location}: there were more people than the noisy count")
        self.lower_bounds.prove(snapshot.bounds, snapshot.where)

    def forget(self, tick: int) -> None:
        """Forget the answers before a tick."""
        self.answers = [answer for answer in self.answers if answer.tick >= tick]
        self.lower_bounds.forget(tick)

    def finish(self, first: int, last: int) -> None:
        """Check that each designated time has a snapshot in every shard at every tick of its horizon."""
        grid = self._terms.grid
        for time in self._monitor.find_times(grid.as_of(first) - self._monitor.horizon, grid.as_of(last)):
            began, ended = self._monitor.find_ticks(time, grid)
            for shard in range(self._terms.shards):
                name = f"{self._monitor.name}/{format_utc(time)}/{shard}"
                subject = (self._monitor.name, time, shard)
                self._sequence.expect(subject, name, max(first, began), min(last, ended))

    def _find_times_due(self, tick: int) -> frozenset[int]:
        """Return the designated times with τ < as_of ≤ τ + horizon. The result for the latest tick is cached."""
        if not self._due[1] or self._due[0] != tick:
            as_of = self._terms.grid.as_of(tick)
            self._due = tick, frozenset(self._monitor.find_times(as_of - self._monitor.horizon, as_of))
        return self._due[1]

    def _check_form(self, snapshot: _Snapshot) -> None:
        terms, monitor = self._terms, self._monitor
        key = f"{monitor.name}/{format_utc(snapshot.time)}/{snapshot.shard}"
        check_envelope(snapshot.record, terms, key, snapshot.tick, self._findings)
        facts = {
            "kind": "at_times",
            "shards": terms.shards,
            "final": snapshot.tick == monitor.find_ticks(snapshot.time, terms.grid)[1],
            "registry": terms.digest,
            "locations": terms.shard_sizes[snapshot.shard],
            "threshold": monitor.threshold,
            "epsilon": str(monitor.epsilon),
        }
        check_facts(snapshot.record, key, snapshot.tick, facts, self._findings)

    def _check_changes(self, snapshot: _Snapshot, noisy: dict[str, tuple[int, int]]) -> None:
        """Compare with the earlier noisy counts. Each is drawn once, at a complete tick, and never changes."""
        before = {location: count for location, count in noisy.items() if count[0] < snapshot.tick}
        shard = snapshot.shard, self._terms.shards
        known = self._noisy.get_known(self._monitor.name, snapshot.time, shard, before)
        for location in self._select_shard(known, snapshot.shard) - noisy.keys():
            self._findings.add(BUDGET, f"{snapshot.where}: the noisy count of {location} is gone")
        for location, (tick, count) in noisy.items():
            if location not in known:
                known[location] = tick, count
                self._check_new(snapshot, location, tick, count)
            elif known[location] != (tick, count):
                text = f"the noisy count of {self._terms.name_location(location)} has changed"
                self._findings.add(BUDGET, f"{snapshot.where}: {text}")

    def _select_shard(self, locations: Iterable[str], shard: int) -> set[str]:
        """Return the locations that the registry assigns to a shard."""
        rows, shards = self._terms.rows, self._terms.shard
        return {name for name in locations if name in rows and shards[rows[name]] == shard}

    def _check_new(self, snapshot: _Snapshot, location: str, tick: int, count: int) -> None:
        where = f"{snapshot.where}, {self._terms.name_location(location)}"
        row = self._terms.rows.get(location)
        if row is None or self._terms.shard[row] != snapshot.shard:
            self._findings.add(FORM, f"{where}: the location is not in this shard")
            return
        self.answers.append(TimedAnswer(snapshot.time, row, tick, tick))
        if tick != snapshot.tick or snapshot.status != "complete":
            self._findings.add(BUDGET, f"{where}: the noisy count of tick {tick} was not published at that tick")
        if count < self._monitor.threshold:
            self._findings.add(NOISY, f"{where}: the noisy count is below the threshold")
