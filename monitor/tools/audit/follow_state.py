"""The state of a follower: its checks and what they share, the ticks that wait, and which records are the service's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from monitor.tools.audit.fields import Fields, FormError
from monitor.tools.audit.findings import BYTES, FORM, TICKS, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.judge import KINDS, OWNER_KINDS, Judge
from monitor.tools.audit.ownership import Ownership
from monitor.tools.audit.partition_ticks import PartitionTicks, read_tick
from monitor.tools.audit.recent import Delivery, RecentBytes
from monitor.tools.audit.records import PublishedRecord, ReadRecord, publish
from monitor.tools.audit.rolling_payments import PaidCheck
from monitor.tools.audit.terms import AuditTerms, Grid
from monitor.tools.audit.text import format_utc
from monitor.tools.audit.watching import Watcher

OWN_KINDS: Final = (*KINDS, *OWNER_KINDS)


@dataclass(slots=True)
class WaitingTick:
    """The answers of a tick that have not been compared with the input.

    `ends`: the ends of the input, requested after the answers were read; None if they have not been requested since.
    `unjudged`: no given configuration explains some answer. `input_ids`: the known ids of the input topics that the
    answers count. `size`: the bytes of the answers as published. `flawed`: some answer is not compared, or not as it
    was published: it has another form, its ce_id was published with other bytes, or it is not due at its tick.
    """

    tick: int
    ends: Mapping[int, int] | None
    answers: list[tuple[Judge, PublishedRecord]] = field(default_factory=list)
    unjudged: bool = False
    input_ids: set[str] = field(default_factory=set)
    size: int = 0
    flawed: bool = False


class FollowState:
    """The checks, and what they share.

    `reach`: a tick counts visits reported at most this many slots before it. `period`: `privacy.period` in slots.
    `unjudged`: the output partitions whose latest answer no given configuration explains. `is_ahead` returns whether a
    tick is far ahead of the clock.
    """

    def __init__(
        self,
        judges: list[Judge],
        history: History,
        paid: PaidCheck,
        findings: Findings,
        watcher: Watcher,
        is_ahead: Callable[[int], bool],
    ) -> None:
        self.judges = judges
        self.history = history
        self.paid = paid
        self._findings = findings
        self._watcher = watcher
        self._is_ahead = is_ahead
        self._grid = judges[0].terms.grid
        self.owners = Ownership(judges, findings, whole=history.marks.whole)
        self.ticks = PartitionTicks()
        self.recent = RecentBytes()
        self.unjudged: set[int | None] = set()
        self._places: dict[bool, dict[int | None, str]] = {True: {}, False: {}}
        self.reach = max(map(_find_reach, (judge.terms for judge in judges)))
        self.period = max(-(-judge.terms.period // judge.terms.grid.slot) for judge in judges)

    @property
    def may_pay(self) -> Fraction:
        """The largest `privacy.epsilon` of the configurations in force."""
        return max(judge.terms.may_pay for judge in self.owners.stretches.find_in_force() or self.judges)

    def take(self, read: ReadRecord, newest: int, waiting: WaitingTick) -> None:
        """Check a record, which may have any form, from the output alone. An answer then waits for the input.

        `newest`: the latest tick of the record's partition.
        """
        record = publish(read)
        self._watcher.report_record(record.kind if record is not None and record.kind in OWN_KINDS else "other")
        faults = self._findings.form_faults
        with self._findings.catch_errors(read.place):
            if record is not None and record.kind in KINDS and not record.strict:
                self._findings.add(FORM, f"{read.place}: the value is not strict JSON")
            elif record is None or not self.belongs(record):
                self._findings.add(FORM, f"{read.place}: not a record of this service")
            elif self._is_new(read, record, newest, waiting):
                self._take_new(read, record, waiting)
        if record is not None and record.kind in KINDS and self._findings.form_faults > faults:
            waiting.flawed = True

    def belongs(self, record: PublishedRecord) -> bool:
        """Return whether a record names this service, and has the key of its kind.

        Its monitor and its place need not be in a given configuration: another one may be in force.
        """
        names = {judge.terms.service for judge in self.judges}
        if record.kind not in OWN_KINDS or not isinstance(record.value, dict):
            return False
        if record.headers.get("ce_source") not in names:
            return False
        return record.key == record.kind if record.kind in OWNER_KINDS else _has_own_key(record, self._grid)

    def _is_new(self, read: ReadRecord, record: PublishedRecord, newest: int, waiting: WaitingTick) -> bool:
        """Return whether a record of this service is neither ahead of the clock nor a repeat."""
        if self._is_ahead(read_tick(record.value, self._grid) or 0):
            self._findings.add(TICKS, f"{read.place}: the answer is ahead of the clock, so it is not judged")
            waiting.flawed = True
            return False
        delivery = self.recent.take(read, record.ce_id, newest)
        if delivery is Delivery.CHANGED:
            self._findings.add(BYTES, f"{read.place}: its ce_id was published before with other bytes")
            waiting.flawed = True
        if delivery is not Delivery.NEW and record.kind in KINDS:
            self.owners.take_repeat(read.partition)
        return delivery is Delivery.NEW

    def _take_new(self, read: ReadRecord, record: PublishedRecord, waiting: WaitingTick) -> None:
        tick = read_tick(record.value, self._grid)
        for missing in filter(None, [self.ticks.take(record.partition, tick)]):
            self._watcher.report_missing(read.partition or 0, missing[0], missing[-1])
            self.ticks.missing.clear()  # these ticks have been reported, and the list would grow without a limit
        if record.kind in OWNER_KINDS:
            self.owners.take(record)
            return
        judge = self.owners.stretches.find(record)
        self._places[judge is None].setdefault(record.partition, record.place)
        self.owners.parts.take(record, tick, judge)
        waiting.input_ids |= self.owners.input_ids.find(record.partition)
        if judge is None:
            self.history.doubt(record)
            waiting.unjudged = True
            return
        taken = judge.take(record)
        if taken is None:
            waiting.flawed = True
            return
        waiting.answers.append((judge, taken))
        waiting.size += len(read.written)

    def report_stretch(self, partition: int) -> None:
        """Report if a stretch begins or ends with the records that were taken since the last call.

        A configuration that was not given may have published only some of a tick's answers.
        """
        unjudged, judged = self._places[True].pop(partition, None), self._places[False].pop(partition, None)
        place = unjudged or judged
        if place is not None and (unjudged is not None) is not (partition in self.unjudged):
            self.unjudged ^= {partition}
            self._watcher.report_unjudged(partition, place, begins=unjudged is not None)


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


def _find_reach(terms: AuditTerms) -> int:
    windows = [monitor.window for monitor in terms.over_time]
    horizons = [-(-monitor.horizon // terms.grid.slot) + 1 for monitor in terms.timed]
    return max([*windows, *horizons]) + terms.max_lead + 1
