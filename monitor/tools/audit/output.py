"""Check the records of the output topic as they come, from the output alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.tools.audit.check import Prove
from monitor.tools.audit.fields import Fields, FormError
from monitor.tools.audit.findings import BYTES, FORM, TICKS, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.judge import KINDS, OWNER_KINDS, Judge
from monitor.tools.audit.owners import read_owner
from monitor.tools.audit.parts import TickParts
from monitor.tools.audit.recent import RecentBytes
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.stretches import Stretches
from monitor.tools.audit.terms import Grid
from monitor.tools.audit.text import format_utc
from monitor.tools.audit.ticks import read_tick
from monitor.tools.audit.watching import Watcher

OWN_KINDS: Final = (*KINDS, *OWNER_KINDS)


@dataclass(slots=True)
class WaitingTick:
    """The answers of a tick that have not been compared with the input.

    `ends`: the ends of the input, requested after the answers were read; None if they have not been requested since.
    `answers`: the position of each answer, and its comparison with the recount. `unjudged`: no given configuration
    explains some answer. `input_ids`: the known ids of the input topics that the answers count. `size`: the bytes of
    the answers as published. `flawed`: some answer is not compared, or not as it was published: it has another form,
    its ce_id was published with other bytes, or it is not due at its tick.
    """

    tick: int
    ends: Mapping[int, int] | None
    answers: list[tuple[str, Prove]] = field(default_factory=list)
    unjudged: bool = False
    input_ids: set[str] = field(default_factory=set)
    size: int = 0
    flawed: bool = False


class OutputChecks:
    """The checks of records, and which configuration was in force in each output partition.

    `judged_ticks`: the number of ticks with a judged answer, in ascending
    order; `first_tick` and `last_tick` are None if there is none. `unjudged_records`: the number of answers that no
    given configuration explains. `unjudged`: the partitions whose latest answer is such an answer. `is_ahead` returns
    whether a tick is far ahead of the clock.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        history: History,
        findings: Findings,
        watcher: Watcher,
        is_ahead: Callable[[int], bool],
    ) -> None:
        self._judges = judges
        self._history = history
        self._findings = findings
        self._watcher = watcher
        self._is_ahead = is_ahead
        self._grid = judges[0].terms.grid
        self._services = {judge.terms.service for judge in judges}
        self.stretches = Stretches(judges, findings, history.marks.whole)
        self.parts = TickParts(findings, reports=not history.sequence.every_tick)
        self.judged_ticks = self.unjudged_records = 0
        self.first_tick: int | None = None
        self.last_tick: int | None = None
        self.unjudged: set[int] = set()
        self._recent = RecentBytes()
        self._input_ids: dict[int, str] = {}
        self._positions: dict[bool, dict[int, str]] = {True: {}, False: {}}

    def take(self, record: PublishedRecord, waiting: WaitingTick) -> None:
        """Check a record, which may have any form. An answer is added to the waiting ones of its tick."""
        self._watcher.report_record(record.kind if record.kind in OWN_KINDS else "other")
        faults = self._findings.form_faults
        with self._findings.catch_errors(record.position):
            if record.kind in KINDS and not record.strict:
                self._findings.add(FORM, f"{record.position}: the value is not strict JSON")
            elif not self._belongs(record):
                self._findings.add(FORM, f"{record.position}: not a record of this service")
            elif self._is_new(record, waiting):
                self._take_new(record, waiting)
        if record.kind in KINDS and self._findings.form_faults > faults:
            waiting.flawed = True

    def _belongs(self, record: PublishedRecord) -> bool:
        """Return whether a record names this service, and has the key of its kind.

        Its monitor and its location need not be in a given configuration: another one may be in force.
        """
        if record.kind not in OWN_KINDS or not isinstance(record.value, dict):
            return False
        if record.headers.get("ce_source") not in self._services:
            return False
        return record.key == record.kind if record.kind in OWNER_KINDS else _has_own_key(record, self._grid)

    def _is_new(self, record: PublishedRecord, waiting: WaitingTick) -> bool:
        """Return whether a record of this service is neither ahead of the clock nor a repeat."""
        if self._is_ahead(read_tick(record.value, self._grid) or 0):
            self._findings.add(TICKS, f"{record.position}: the answer is ahead of the clock, so it is not judged")
            waiting.flawed = True
            return False
        is_same = self._recent.take(record, waiting.tick)
        if is_same is False:
            self._findings.add(BYTES, f"{record.position}: its ce_id was published before with other bytes")
            waiting.flawed = True
        if is_same is not None and record.kind in KINDS and self.parts.take_repeat(record.partition):
            self.stretches.doubt(record.partition)
        return is_same is None

    def _take_new(self, record: PublishedRecord, waiting: WaitingTick) -> None:
        if record.kind in OWNER_KINDS:
            self._take_owner(record)
            return
        tick = read_tick(record.value, self._grid)
        self._report_missing(record.partition, tick)
        judge = self.stretches.find(record)
        self._positions[judge is None].setdefault(record.partition, record.position)
        self.parts.take(record, tick, judge)
        if record.partition in self._input_ids:
            waiting.input_ids.add(self._input_ids[record.partition])
        if judge is None:
            self._history.doubt(record)
            self.unjudged_records += 1
            waiting.unjudged = True
            return
        self._note_tick(tick)
        prove = judge.take(record)
        if prove is None:
            waiting.flawed = True
            return
        waiting.answers.append((record.position, prove))
        waiting.size += len(record.written)

    def _report_missing(self, partition: int, tick: int | None) -> None:
        """Report the ticks that nobody decided, between the latest tick of a partition and this one."""
        if missing := self.parts.find_missing(partition, tick):
            self._watcher.report_missing(partition, missing[0], missing[-1])

    def _note_tick(self, tick: int | None) -> None:
        """Note that an answer of a tick was judged."""
        if tick is None:
            return
        if self.last_tick is None or tick > self.last_tick:
            self.judged_ticks, self.last_tick = self.judged_ticks + 1, tick
        self.first_tick = tick if self.first_tick is None else min(tick, self.first_tick)

    def _take_owner(self, record: PublishedRecord) -> None:
        """Take an owner or start record, which decides how later answers of its partition are checked.

        One of another form is a finding, and changes nothing.
        """
        try:
            facts = read_owner(record, self._services, self._grid)
        except FormError as error:
            self._findings.add(FORM, f"{record.position}: not in the form of the interface: {error}")
            return
        self._report_missing(record.partition, facts.tick)
        if facts.lost_at is not None:
            lost, slots = self._grid.find_slot(facts.lost_at), self._history.lost_slots
            slots[record.partition] = max(lost, slots.get(record.partition, lost))
        takeover = self.parts.take_owner(record, facts)
        if record.kind == "owner":
            self.stretches.take_owner(record.partition, facts, takeover=takeover)
        self.parts.take_empty(record.partition, facts.tick, self.stretches.find_single(record.partition))
        if facts.input_topic_id:
            self._input_ids[record.partition] = facts.input_topic_id

    def report_stretch(self, partition: int) -> None:
        """Report if a stretch begins or ends with the records that were taken since the last call.

        A configuration that was not given may have published only some of a tick's answers.
        """
        unjudged, judged = self._positions[True].pop(partition, None), self._positions[False].pop(partition, None)
        position = unjudged or judged
        if position is not None and (unjudged is not None) is not (partition in self.unjudged):
            self.unjudged ^= {partition}
            self._watcher.report_unjudged(partition, position, begins=unjudged is not None)


def _has_own_key(record: PublishedRecord, grid: Grid) -> bool:
    """Return whether the key and the id of an answer are those of its subject."""
    try:
        fields = Fields(record.value)
        subject, tick = "/".join(_read_subject(record.kind, fields)), fields.read_tick("tick", grid)
    except FormError:
        return False
    return record.key == subject and record.ce_id == f"{subject}/{tick}"


def _read_subject(kind: str, fields: Fields) -> Iterator[str]:
    """Yield the parts of the key of an answer."""
    yield fields.read_text("monitor")
    if kind == "over_time":
        yield fields.read_text("location_id")
    else:
        yield format_utc(fields.read_instant("time"))
    if kind == "at_times":
        yield str(fields.read_whole("shard", 0))
