"""Check the snapshots about designated times (docs/rules.md, section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from monitor.tools.audit.at_least import AtLeastCheck, Bounded
from monitor.tools.audit.counts import Presence
from monitor.tools.audit.findings import BUDGET, FORM, NOISY, SAFE, TICKS, Findings
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.sequence import Sequence
from monitor.tools.audit.terms import AtTimesTerms, AuditTerms
from monitor.tools.audit.text import format_utc, parse_instant


class TimedAnswer(NamedTuple):
    """A noisy answer about a designated time. It counts visits reported up to the slot `last_report`."""

    time: int
    row: int
    tick: int
    last_report: int


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot of one designated time, shard and tick. `where` identifies it in findings."""

    record: PublishedRecord
    time: int
    shard: int
    tick: int
    status: str
    where: str

    @property
    def value(self) -> Any:
        return self.record.value


class AtTimesCheck:
    """The check of one monitor's snapshots, which it takes in order of tick.

    `answers` lists each noisy count once. `statuses` counts the snapshots by status. `safe` is the number of "safe"
    answers in complete snapshots. If the output is not `whole`, because records have expired, the earlier noisy counts
    in the first snapshot of a time are assumed to be correct. `lower_bounds` checks the lower bounds, which need a
    `whole_input`.
    """

    def __init__(  # by name
        self,
        terms: AuditTerms,
        monitor: AtTimesTerms,
        presence: Presence,
        sequence: Sequence,
        findings: Findings,
        *,
        whole: bool = True,
        whole_input: bool = True,
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._presence = presence
        self._sequence = sequence
        self._findings = findings
        self._whole = whole
        self._noisy: dict[tuple[int, int], dict[str, tuple[int, int]]] = {}
        self.lower_bounds = AtLeastCheck(
            terms, monitor, presence, findings, whole_input=whole_input, whole_output=whole
        )
        self._asked: tuple[int, frozenset[int]] = (0, frozenset())
        self.answers: list[TimedAnswer] = []
        self.statuses: Counter[str] = Counter()
        self.safe = 0

    @property
    def noisy(self) -> int:
        """The number of noisy counts checked."""
        return len(self.answers)

    def take(self, record: PublishedRecord) -> None:
        """Check the next record.

        Raises:
            KeyError, TypeError, ValueError: a field is missing, or is not in the form of docs/interface.md.
        """
        value = record.value
        shard, tick = value["shard"], value["tick"]
        where = f"{self._monitor.name}/{value['time']}/{shard}, tick {tick}"
        snapshot = _Snapshot(record, parse_instant(value["time"]), shard, tick, value["status"], where)
        if snapshot.time not in self._times_asked(tick):
            self._findings.add(TICKS, f"{where}: the time is not designated, or not asked about at this tick")
            return
        self.statuses[snapshot.status] += 1
        noisy = {name: (count["tick"], count["noisy_count"]) for name, count in value["noisy_counts"].items()}
        self._check_form(snapshot)
        for text in self._find_false_safe(snapshot, noisy):
            self._findings.add(SAFE, f"{where}: {text}")
        if self._sequence.see((self._monitor.name, snapshot.time, shard), where.partition(",")[0], tick):
            self._check_changes(snapshot, noisy)
            bounded = Bounded(snapshot.time, shard, tick, tick + (record.late_slots or 0))
            self.lower_bounds.take(bounded, value, where)

    def finish(self, first: int, last: int) -> None:
        """Check that each designated time has a snapshot in every shard at every tick of its horizon."""
        grid = self._terms.grid
        for time in self._monitor.between(grid.as_of(first) - self._monitor.horizon, grid.as_of(last)):
            began, ended = self._monitor.ticks(time, grid)
            for shard in range(self._terms.shards):
                name = f"{self._monitor.name}/{format_utc(time)}/{shard}"
                subject = (self._monitor.name, time, shard)
                self._sequence.expect(subject, name, max(first, began), min(last, ended))

    def _times_asked(self, tick: int) -> frozenset[int]:
        """Return the designated times with τ < as_of ≤ τ + horizon. The result for the latest tick is cached."""
        if not self._asked[1] or self._asked[0] != tick:
            as_of = self._terms.grid.as_of(tick)
            self._asked = tick, frozenset(self._monitor.between(as_of - self._monitor.horizon, as_of))
        return self._asked[1]

    def _check_form(self, snapshot: _Snapshot) -> None:
        terms, monitor = self._terms, self._monitor
        key = f"{monitor.name}/{format_utc(snapshot.time)}/{snapshot.shard}"
        check_envelope(snapshot.record, terms, key, snapshot.tick, self._findings)
        facts = {
            "kind": "at_times",
            "shards": terms.shards,
            "final": snapshot.tick == monitor.ticks(snapshot.time, terms.grid)[1],
            "registry": terms.digest,
            "locations": terms.shard_sizes[snapshot.shard],
            "threshold": monitor.threshold,
            "epsilon": str(monitor.epsilon),
        }
        check_facts(snapshot.record, facts, self._findings)
        if snapshot.status not in ("complete", "unknown"):
            self._findings.add(FORM, f"{snapshot.where}: {snapshot.status!r} is not a status")

    def _find_false_safe(self, snapshot: _Snapshot, noisy: dict[str, tuple[int, int]]) -> Iterator[str]:
        if snapshot.status != "complete":
            return
        self.safe += self._terms.shard_sizes[snapshot.shard] - len(noisy)
        for reached, location in self._presence.crowded.get((snapshot.time, snapshot.shard), ()):
            if reached <= snapshot.tick and location not in noisy:
                yield f'"safe" is false for {location}, there were {self._monitor.threshold} people or more'

    def _check_changes(self, snapshot: _Snapshot, noisy: dict[str, tuple[int, int]]) -> None:
        """Compare with the earlier noisy counts. Each is drawn once, at a complete tick, and then never changes."""
        before = {location: count for location, count in noisy.items() if count[0] < snapshot.tick}
        known = self._noisy.setdefault((snapshot.time, snapshot.shard), {} if self._whole else before)
        if noisy == known:
            return
        for location in known.keys() - noisy.keys():
            self._findings.add(BUDGET, f"{snapshot.where}: the noisy count of {location} is gone")
        for location, (tick, count) in noisy.items():
            if location not in known:
                known[location] = tick, count
                self._check_new(snapshot, location, tick, count)
            elif known[location] != (tick, count):
                self._findings.add(BUDGET, f"{snapshot.where}: the noisy count of {location} has changed")

    def _check_new(self, snapshot: _Snapshot, location: str, tick: int, count: int) -> None:
        where = f"{snapshot.where}, {location}"
        row = self._terms.rows.get(location)
        if row is None or self._terms.shard[row] != snapshot.shard:
            self._findings.add(FORM, f"{where}: the location is not in this shard")
            return
        self.answers.append(TimedAnswer(snapshot.time, row, tick, tick + (snapshot.record.late_slots or 0)))
        if tick != snapshot.tick or snapshot.status != "complete":
            self._findings.add(BUDGET, f"{where}: the noisy count of tick {tick} was not published at that tick")
        if count < self._monitor.threshold:
            self._findings.add(NOISY, f"{where}: the noisy count is below the threshold")
        if self._presence.count(snapshot.time, row, tick) > count:
            self._findings.add(NOISY, f"{where}: there were more people than the noisy count")
