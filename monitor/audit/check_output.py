"""Check the records of the output topic as they come, from the output alone."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.audit.checks_of_configuration import Judge
from monitor.audit.configuration_in_force import Stretches
from monitor.audit.findings import BYTES, FORM, TICKS, Findings
from monitor.audit.history import History
from monitor.audit.kinds.base.monitor import Prove
from monitor.audit.missing_records import TickParts
from monitor.audit.owner_records import Owner
from monitor.audit.read_records import ANSWERS, CHECKPOINT, FORMS, OWNERS
from monitor.audit.record_fields import Record

log = logging.getLogger(__name__)

TICKS_KEPT: Final = 4
"""The number of remembered ticks per partition. A new owner appends the last tick again, never an older one."""


@dataclass(slots=True)
class WaitingTick:
    """The answers of a tick that have not been compared with the input."""

    tick: int
    ends: Mapping[int, int] | None
    """The ends of the input, requested after the answers were read; None if they have not been requested since."""
    answers: list[tuple[str, Prove]] = field(default_factory=list)
    """The position of each answer, and its comparison with the recount."""
    unjudged: bool = False
    """No given configuration explains some answer."""
    input_ids: set[str] = field(default_factory=set)
    """The known ids of the input topics that the answers count."""
    size: int = 0
    """The bytes of the answers as published."""
    flawed: bool = False
    """Some answer is not compared, or not as it was published: it has another form, its ce_id was published with other
    bytes, or it is not due at its tick.
    """


class OutputChecks:
    """The checks of records, and which configuration was in force in each output partition.

    `judged_ticks`: the number of ticks with a judged answer, in ascending order; `first_tick` and `last_tick` are None
    if there is none. `unjudged_records`: the number of answers that no given configuration explains. `unjudged`: the
    partitions whose latest answer is such an answer. `is_ahead` returns whether a tick is far ahead of the clock.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        history: History,
        findings: Findings,
        is_ahead: Callable[[int], bool],
        *,
        every_tick: bool,
    ) -> None:
        self._history = history
        self._findings = findings
        self._is_ahead = is_ahead
        self._services = {judge.terms.service for judge in judges}
        self._find_slot = judges[0].terms.grid.find_slot
        self.stretches = Stretches(judges, history, findings)
        self.parts = TickParts(findings, every_tick)
        self.judged_ticks = self.unjudged_records = 0
        self.first_tick: int | None = None
        self.last_tick: int | None = None
        self.unjudged: set[int] = set()
        self._recent: dict[int, OrderedDict[int, dict[bytes, bytes]]] = {}
        self._input_ids: dict[int, str] = {}
        self._positions: dict[bool, dict[int, str]] = {True: {}, False: {}}

    def take(self, record: Record, waiting: WaitingTick) -> None:
        """Check a record, which may have any form. An answer is added to the waiting ones of its tick."""
        faults = self._findings.form_faults
        with self._findings.catch_errors(record.position):
            self._take(record, waiting)
        if record.kind in ANSWERS and self._findings.form_faults > faults:
            waiting.flawed = True

    def _take(self, record: Record, waiting: WaitingTick) -> None:
        if record.kind not in FORMS or record.headers.get("ce_source") not in self._services:
            self._findings.add(FORM, f"{record.position}: not a record of this service")
        elif record.form is None:
            self._findings.add(FORM, f"{record.position}: not in the form of the interface: {record.fault}")
            if record.kind in ANSWERS:
                self.parts.take(record, None)
        elif not self._belongs(record):
            self._findings.add(FORM, f"{record.position}: not a record of this service")
        elif not self._is_new(record, waiting):
            return
        elif record.kind in OWNERS:
            self._take_owner(record)
        elif record.kind == CHECKPOINT:
            self._history.note_checkpoint(record.partition, record.form.tick)
        elif record.kind in ANSWERS:
            self._take_answer(record, waiting)

    def _belongs(self, record: Record) -> bool:
        """Return whether a record has the key and the ce_id of its subject.

        Its monitor and its location need not be in a given configuration: another one may be in force.
        """
        form = record.form
        if record.kind in OWNERS:
            return record.key == record.kind and form.service in self._services
        if record.kind == CHECKPOINT:
            return record.key == CHECKPOINT
        key = f"{form.monitor}/{form.subject}"
        return (record.key, record.ce_id) == (key, f"{key}/{form.tick}")

    def _is_new(self, record: Record, waiting: WaitingTick) -> bool:
        """Return whether a record of this service is neither ahead of the clock nor a repeat."""
        if self._is_ahead(record.tick or 0):
            self._findings.add(TICKS, f"{record.position}: the answer is ahead of the clock, so it is not judged")
            waiting.flawed = True
            return False
        ticks = self._recent.setdefault(record.partition, OrderedDict())
        name, digest = (
            hashlib.blake2b(content, digest_size=16).digest() for content in (record.ce_id.encode(), record.written)
        )
        known = next((found[name] for found in ticks.values() if name in found), None)
        if known is None:
            ticks.setdefault(waiting.tick, {})[name] = digest
            while len(ticks) > TICKS_KEPT:
                ticks.popitem(last=False)
            return True
        if known != digest:
            self._findings.add(BYTES, f"{record.position}: its ce_id was published before with other bytes")
            waiting.flawed = True
        if record.kind in ANSWERS and self.parts.take_repeat(record.partition):
            self.stretches.doubt(record.partition)
        return False

    def _take_answer(self, record: Record, waiting: WaitingTick) -> None:
        judge = self.stretches.find(record)
        self._positions[judge is None].setdefault(record.partition, record.position)
        self.parts.take(record, judge)
        if record.partition in self._input_ids:
            waiting.input_ids.add(self._input_ids[record.partition])
        if judge is None:
            record.form.note_unjudged(self._history)
            self.unjudged_records += 1
            waiting.unjudged = True
            return
        tick = record.form.tick
        if self.last_tick is None or tick > self.last_tick:
            self.judged_ticks, self.last_tick = self.judged_ticks + 1, tick
        self.first_tick = tick if self.first_tick is None else min(tick, self.first_tick)
        prove = judge.take(record)
        if prove is None:
            waiting.flawed = True
            return
        waiting.answers.append((record.position, prove))
        waiting.size += len(record.written)

    def _take_owner(self, record: Record) -> None:
        """Take an owner or start record, which decides how later answers of its partition are checked."""
        partition, owner = record.partition, record.form
        if owner.lost_at is not None:
            lost, slots = self._find_slot(owner.lost_at), self._history.lost_slots
            slots[partition] = max(lost, slots.get(partition, lost))
        last = self.parts.last.get(partition)
        cut_off = last is not None and self._history.lacks_checkpoint(partition, last)
        if cut_off:
            self._history.note_cut_off(partition)
        takeover = self.parts.take_owner(partition, owner, cut_off=cut_off)
        if isinstance(owner, Owner):
            self.stretches.take_owner(partition, owner, takeover=takeover)
            self.parts.take_empty(partition, owner.tick, self.stretches.find_single(partition))
        if owner.input_topic_id:
            self._input_ids[partition] = owner.input_topic_id

    def note_stretch(self, partition: int) -> None:
        """Log if a stretch that no given configuration explains begins or ends with the latest records of a tick.

        A configuration that was not given may have published only some of a tick's answers.
        """
        unjudged, judged = self._positions[True].pop(partition, None), self._positions[False].pop(partition, None)
        if unjudged is not None and partition not in self.unjudged:
            self.unjudged.add(partition)
            log.warning(
                "from %s on, output partition %s is not judged: none of the given configurations was in force. Give "
                "the configuration that was, newer or earlier, with another --config",
                unjudged,
                partition,
            )
        elif unjudged is None and judged is not None and partition in self.unjudged:
            self.unjudged.discard(partition)
            log.warning("from %s on, output partition %s is judged again", judged, partition)
