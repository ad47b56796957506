"""Check that a decided tick has all records that its monitors owe: about each location, shard or designated time.

The records of a tick are one transaction. So a decided tick that lacks some of them is wrong, while a tick that nobody
decided is not. If an owner was stopped within the transaction, the next owner appends the missing records too. If it
cannot, it writes an owner record that names the tick as incomplete: then its other answers are lost, and listed here.

A takeover shows in the output: the new owner appends the records of the last tick again, its owner record differs, or
the last tick lacks its checkpoint although earlier ones were signed. An owner also repeats its own owner record
regularly, which is no takeover.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

from msgspec.structs import replace

from monitor.audit.checks_of_configuration import Judge
from monitor.audit.findings import TICKS, Findings, format_ticks
from monitor.audit.kinds.base.monitor import Part
from monitor.audit.owner_records import Owner, Start
from monitor.audit.record_fields import Record

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Tick:
    """The latest tick of a partition, and the number of its records by monitor."""

    number: int
    is_unknown: bool
    """Which records it should have is not known."""
    is_incomplete: bool = False
    """Its missing records are recorded as lost."""
    after_empty: bool = False
    """The tick before it had no answers."""
    owner_follows: bool = False
    """An owner record without a tick came after it."""
    judges: list[Judge] = field(default_factory=list)
    """Those that judged its answers; of a tick without answers, that of its owner's configuration."""
    records: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class TickParts:
    """The records of the latest tick of each output partition, by monitor.

    Unless the run is a replay, the first tick of a partition is not checked, because some of its records may have
    expired. After a tick without answers a new owner has nothing to repeat, so any owner record counts as a takeover.
    """

    findings: Findings
    every_tick: bool = False
    """The run is a replay, so no tick may be missing, and no takeover interrupts one."""
    partitions: int | None = None
    """Q, the number of output partitions that the shards use; None until an owner record states it."""
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    """`first`, `last`: the first and the latest tick of each output partition."""
    missing: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """The ranges of ticks between the first and the latest that nobody decided."""
    incomplete: dict[int, list[int]] = field(default_factory=dict)
    """The ticks that lack answers, which are recorded as lost."""
    _ticks: dict[int, _Tick] = field(default_factory=dict)
    _owners: dict[int, Owner | Start] = field(default_factory=dict)

    def take_owner(self, partition: int, owner: Owner | Start, *, cut_off: bool = False) -> bool:
        """Read Q from an owner or start record, and note a tick without answers, or that an owner record follows.

        Return whether the record shows a takeover. `cut_off`: the latest tick lacks its checkpoint.
        """
        self.partitions = owner.partitions
        takeover = False
        tick = owner.tick if isinstance(owner, Owner) else None
        # What the same owner may change is left out.
        varying = {"tick": None, "incomplete": None, "input_partitions": 0}
        lasting = replace(owner, **varying) if isinstance(owner, Owner) else owner
        known = self._ticks.get(partition)
        if tick is not None:
            self._begin(partition, tick)
        elif known is not None:
            # A second owner record before the next tick is not a regular one, nor is one before a checkpoint.
            again = known.owner_follows or known.after_empty
            takeover = cut_off or again or lasting != self._owners.get(partition)
            known.owner_follows = True
            known.is_incomplete |= isinstance(owner, Owner) and owner.incomplete == known.number
        self._owners[partition] = lasting
        return takeover

    def take_empty(self, partition: int, tick: int | None, judge: Judge | None) -> None:
        """Add the judge of a tick without answers: None if several configurations may be in force, or none."""
        known = self._ticks.get(partition)
        if known is not None and known.number == tick and not known.judges and judge is not None:
            known.judges.append(judge)

    def take_repeat(self, partition: int) -> bool:
        """Note that a record was delivered again. Return whether this shows a takeover: it follows an owner record."""
        known = self._ticks.get(partition)
        return known is not None and known.owner_follows

    def take(self, record: Record, judge: Judge | None) -> None:
        """Add an answer of a tick. `judge` is the one that judges it; None if it is not judged."""
        if record.tick is None:
            return
        known = self._begin(record.partition, record.tick)
        if known.number > record.tick:
            self.take_repeat(record.partition)
        elif judge is None:
            known.is_unknown = True  # the configurations that judge the others may not have all of its locations
        else:
            known.records[record.monitor] += 1
            if judge not in known.judges:
                known.judges.append(judge)

    def is_whole(self, partition: int) -> bool:
        """Return whether all records of a partition's latest tick have been read. Some may be appended later."""
        tick = self._ticks.get(partition)
        return (
            tick is not None
            and self.partitions is not None
            and len(tick.judges) == 1
            and not self._find_incomplete(partition, tick)
        )

    def finish(self, first: int) -> None:
        """After the last record of a replay, check that each partition has every tick from the first one to the end."""
        if not self.every_tick:
            return
        newest = max(self.last.values(), default=first)
        for partition in range(self.partitions or 1):
            tick = self._ticks.get(partition)
            self._note_missing(partition, first, self.first.get(partition, newest + 1) - 1)
            if tick is not None:
                self._note_missing(partition, tick.number + 1, newest)
                self._check(partition, tick)

    def _begin(self, partition: int, tick: int) -> _Tick:
        known = self._ticks.get(partition)
        if known is None or tick > known.number:
            if known is not None:
                self._check(partition, known)
                self._note_missing(partition, known.number + 1, tick - 1)
            self.first.setdefault(partition, tick)
            self.last[partition] = tick
            after_empty = known is not None and not known.records
            known = self._ticks[partition] = _Tick(tick, known is None and not self.every_tick, after_empty=after_empty)
        return known

    def _note_missing(self, partition: int, first: int, last: int) -> None:
        """Note a range of ticks that nobody decided, unless it is empty."""
        if first > last:
            return
        self.missing.setdefault(partition, []).append((first, last))
        text = f"output partition {partition} has no answers for {format_ticks(first, last)}: nobody decided them"
        if self.every_tick:
            self.findings.add(TICKS, text)
        else:
            log.warning(text)

    def _check(self, partition: int, tick: _Tick) -> None:
        """Check a tick. During a change several configurations may answer, so nothing is expected."""
        is_known = self.partitions is not None or self.every_tick
        if tick.is_unknown or not is_known or len(tick.judges) != 1:
            return
        incomplete = self._find_incomplete(partition, tick)
        if incomplete and tick.is_incomplete:
            self.incomplete.setdefault(partition, []).append(tick.number)
        for monitor, expected in incomplete.items():
            found = tick.records[monitor]
            text = f"partition {partition}, tick {tick.number}: {monitor} has {found} of {expected} records"
            if tick.is_incomplete and not self.every_tick:
                log.warning("%s: the others are recorded as lost", text)
            else:
                self.findings.add(TICKS, text)

    def _find_incomplete(self, partition: int, tick: _Tick) -> dict[str, int]:
        """Return the expected numbers of a tick's records, of the monitors that have fewer."""
        part = Part(partition, self.partitions or 1)
        expected = tick.judges[0].expect_records(tick.number, part, tick.records)
        return {monitor: count for monitor, count in expected.items() if tick.records[monitor] < count}
