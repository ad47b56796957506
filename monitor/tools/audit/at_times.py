"""The snapshots about designated times, judged (docs/rules.md, section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from monitor.tools.audit.counts import Presence
from monitor.tools.audit.findings import BUDGET, FORM, NOISY, SAFE, TICKS, Findings
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_said
from monitor.tools.audit.sequence import Sequence
from monitor.tools.audit.terms import AtTimesTerms, AuditTerms
from monitor.tools.audit.text import instant, utc


class TimedAnswer(NamedTuple):
    """A noisy answer about a designated time, for what it charges."""

    time: int
    row: int
    tick: int


@dataclass(frozen=True, slots=True)
class _Said:
    """A snapshot of one designated time, shard and tick; `where` names them."""

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
    """Judges the snapshots of one monitor, in order of tick.

    Where the output is not `whole`, a time's first snapshot is taken at its word for what was noisy before.
    `answers` are the noisy counts, each once; `statuses` the snapshots by status; `safe` the locations that complete
    snapshots called safe.
    """

    def __init__(
        self,
        terms: AuditTerms,
        monitor: AtTimesTerms,
        presence: Presence,
        sequence: Sequence,
        findings: Findings,
        *,
        whole: bool = True,
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._presence = presence
        self._sequence = sequence
        self._findings = findings
        self._whole = whole
        self._noisy: dict[tuple[int, int], dict[str, tuple[int, int]]] = {}
        self._live: tuple[int, frozenset[int]] = (0, frozenset())
        self.answers: list[TimedAnswer] = []
        self.statuses: Counter[str] = Counter()
        self.safe = 0

    @property
    def noisy(self) -> int:
        """How many noisy counts were checked."""
        return len(self.answers)

    def take(self, record: PublishedRecord) -> None:
        """Judge the next record.

        Raises:
            KeyError, TypeError, ValueError: it lacks what the interface says, or has it in another form.
        """
        value = record.value
        shard, tick = value["shard"], value["tick"]
        where = f"{self._monitor.name}/{value['time']}/{shard}, tick {tick}"
        said = _Said(record, instant(value["time"]), shard, tick, value["status"], where)
        if said.time not in self._designated(tick):
            self._findings.say(TICKS, f"{where}: the time is not designated, or not asked about at this tick")
            return
        self.statuses[said.status] += 1
        noisy = {location: (one["tick"], one["noisy_count"]) for location, one in value["noisy_counts"].items()}
        self._form(said)
        for text in self._false_safe(said, noisy):
            self._findings.say(SAFE, f"{where}: {text}")
        if self._sequence.see((self._monitor.name, said.time, shard), where.partition(",")[0], tick):
            self._changes(said, noisy)

    def finish(self, first: int, last: int) -> None:
        """Check that every designated time was answered in every shard at every tick that asks about it."""
        grid = self._terms.grid
        for time in self._monitor.between(grid.as_of(first) - self._monitor.horizon, grid.as_of(last)):
            began, ended = self._monitor.ticks(time, grid)
            for shard in range(self._terms.shards):
                name = f"{self._monitor.name}/{utc(time)}/{shard}"
                subject = (self._monitor.name, time, shard)
                self._sequence.expect(subject, name, max(first, began), min(last, ended))

    def _designated(self, tick: int) -> frozenset[int]:
        """The designated times with τ < as_of ≤ τ + horizon."""
        if not self._live[1] or self._live[0] != tick:
            as_of = self._terms.grid.as_of(tick)
            self._live = tick, frozenset(self._monitor.between(as_of - self._monitor.horizon, as_of))
        return self._live[1]

    def _form(self, said: _Said) -> None:
        terms, monitor = self._terms, self._monitor
        key = f"{monitor.name}/{utc(said.time)}/{said.shard}"
        check_envelope(said.record, terms, key, said.tick, self._findings)
        facts = {
            "kind": "at_times",
            "shards": terms.shards,
            "final": said.tick == monitor.ticks(said.time, terms.grid)[1],
            "registry": terms.digest,
            "locations": terms.shard_sizes[said.shard],
            "threshold": monitor.threshold,
            "epsilon": str(monitor.epsilon),
        }
        check_said(said.record, facts, self._findings)
        if said.status not in ("complete", "unknown"):
            self._findings.say(FORM, f"{said.where}: {said.status!r} is no status")

    def _false_safe(self, said: _Said, noisy: dict[str, tuple[int, int]]) -> Iterator[str]:
        if said.status != "complete":
            return
        self.safe += self._terms.shard_sizes[said.shard] - len(noisy)
        for reached, location in self._presence.crowded.get((said.time, said.shard), ()):
            if reached <= said.tick and location not in noisy:
                yield f"{location} is said to be safe, and there were {self._monitor.threshold} people or more"

    def _changes(self, said: _Said, noisy: dict[str, tuple[int, int]]) -> None:
        """Compare with the noisy counts so far: each is drawn once, at a complete tick, and stays."""
        before = {location: told for location, told in noisy.items() if told[0] < said.tick}
        known = self._noisy.setdefault((said.time, said.shard), {} if self._whole else before)
        if noisy == known:
            return
        for location in known.keys() - noisy.keys():
            self._findings.say(BUDGET, f"{said.where}: the noisy count of {location} is gone")
        for location, (tick, count) in noisy.items():
            if location not in known:
                known[location] = tick, count
                self._new(said, location, tick, count)
            elif known[location] != (tick, count):
                self._findings.say(BUDGET, f"{said.where}: the noisy count of {location} has changed")

    def _new(self, said: _Said, location: str, tick: int, count: int) -> None:
        where = f"{said.where}, {location}"
        row = self._terms.rows.get(location)
        if row is None or self._terms.shard[row] != said.shard:
            self._findings.say(FORM, f"{where}: the location is not of this shard")
            return
        self.answers.append(TimedAnswer(said.time, row, tick))
        if tick != said.tick or said.status != "complete":
            self._findings.say(BUDGET, f"{where}: the noisy count of tick {tick} was not published at that tick")
        if count < self._monitor.threshold:
            self._findings.say(NOISY, f"{where}: the noisy count is below the threshold")
        if self._presence.count(said.time, row, tick) > count:
            self._findings.say(NOISY, f"{where}: there were more people than said")
