"""Check that a decided tick has a record of every location, of every designated time and shard, and of the totals.

Totals are hot spots and dwell times. The hash of their monitor's name selects the partition that publishes them.

The records of a tick are one transaction. So a decided tick that lacks some of them is wrong, while a tick that nobody
decided is not. If another owner takes over after the tick, the transaction may have been aborted: some of its records
were seen, and the others are missing. A takeover shows in the output: the new owner appends the records of the last
tick again, or its owner record differs. An owner also repeats its own owner record regularly, which is no takeover.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from monitor.tools.audit.findings import TICKS, Findings
from monitor.tools.audit.judge import Judge
from monitor.tools.audit.owners import OwnerFacts
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.terms import AuditTerms, hash_text

_CHANGED_BY_THE_SAME_OWNER: Final = ("tick", "input_partitions")


@dataclass(slots=True)
class _Tick:
    """The latest tick of a partition, and the number of its records by monitor.

    `may_be_partial`: missing records are not reported. `after_empty`: the tick before it had no answers.
    `owner_follows`: an owner record without a tick came after it. `judges`: those that judged its answers; of a tick
    without answers, that of its owner's configuration.
    """

    number: int
    may_be_partial: bool
    after_empty: bool = False
    owner_follows: bool = False
    judges: list[Judge] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class TickParts:
    """The records of the latest tick of each output partition, by monitor.

    `partitions`: Q, the number of output partitions that the shards use; None until an owner record states it. The
    first tick of a partition is not checked, because some of its records may have expired. Nor is a tick that a
    takeover follows. After a tick without answers a new owner has nothing to repeat, so any owner record counts as a
    takeover. `reports`: missing records are reported. `last`: the latest tick of each output partition.
    """

    findings: Findings
    reports: bool = True
    partitions: int | None = None
    last: dict[int, int] = field(default_factory=dict)
    _ticks: dict[int, _Tick] = field(default_factory=dict)
    _owner_facts: dict[int, dict[str, Any]] = field(default_factory=dict)

    def find_missing(self, partition: int, tick: int | None) -> range:
        """Return the ticks that nobody decided, between the latest tick of a partition and the next one."""
        return range(0) if tick is None else range(self.last.get(partition, tick) + 1, tick)

    def take_owner(self, record: PublishedRecord, facts: OwnerFacts) -> bool:
        """Read Q from an owner or start record, and note a tick without answers, or that an owner record follows.

        Return whether the record shows a takeover.
        """
        self.partitions = facts.partitions
        takeover = False
        lasting = {name: fact for name, fact in record.value.items() if name not in _CHANGED_BY_THE_SAME_OWNER}
        known = self._ticks.get(record.partition)
        if facts.tick is not None:
            self._begin(record.partition, facts.tick)
        elif known is not None:
            # A second owner record before the next tick is not a regular one.
            again = known.owner_follows or known.after_empty
            takeover = again or lasting != self._owner_facts.get(record.partition)
            known.may_be_partial |= takeover
            known.owner_follows = True
        self._owner_facts[record.partition] = lasting
        return takeover

    def take_empty(self, partition: int, tick: int | None, judge: Judge | None) -> None:
        """Add the judge of a tick without answers: None if several configurations may be in force, or none."""
        known = self._ticks.get(partition)
        if known is not None and known.number == tick and not known.judges and judge is not None:
            known.judges.append(judge)

    def take_repeat(self, partition: int) -> bool:
        """Note that a record was delivered again. Return whether this shows a takeover: it follows an owner record."""
        known = self._ticks.get(partition)
        if known is None or not known.owner_follows:
            return False
        known.may_be_partial = True
        return True

    def take(self, record: PublishedRecord, tick: int | None, judge: Judge | None) -> None:
        """Add an answer of a tick. `judge` is the one that judged it; None if it was not judged."""
        if tick is None:
            return
        known, monitor = self._begin(record.partition, tick), record.value.get("monitor")
        if known.number > tick:
            self.take_repeat(record.partition)
        if known.number == tick and judge is None:
            known.may_be_partial = True  # the configurations that judge the others may not have all of its locations
        elif known.number == tick and judge is not None and isinstance(monitor, str):
            known.records[monitor] += 1
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

    def _begin(self, partition: int, tick: int) -> _Tick:
        known = self._ticks.get(partition)
        if known is None or tick > known.number:
            if known is not None and not known.may_be_partial:
                self._check(partition, known)
            self.last[partition] = tick
            known = self._ticks[partition] = _Tick(
                tick, may_be_partial=known is None, after_empty=known is not None and not known.records
            )
        return known

    def _check(self, partition: int, tick: _Tick) -> None:
        if (
            not self.reports or self.partitions is None or len(tick.judges) != 1
        ):  # during a change both configurations may answer
            return
        for monitor, expected in self._find_incomplete(partition, tick).items():
            found = tick.records[monitor]
            text = f"partition {partition}, tick {tick.number}: {monitor} has {found} of {expected} records"
            self.findings.add(TICKS, text)

    def _find_incomplete(self, partition: int, tick: _Tick) -> dict[str, int]:
        """Return the expected numbers of a tick's records, of the monitors that have fewer."""
        expected = self._expect(tick.judges[0].terms, partition, tick.number)
        for monitor in tick.judges[0].list_unanswered(tick.number):
            if hash_text(monitor) % (self.partitions or 1) == partition:
                expected[monitor] = expected.get(monitor, tick.records[monitor]) + 1
        return {monitor: count for monitor, count in expected.items() if tick.records[monitor] < count}

    def _expect(self, terms: AuditTerms, partition: int, tick: int) -> dict[str, int]:
        count = self.partitions or 1
        shards = sum(shard % count == partition for shard in range(terms.shards))
        expected = {
            monitor.name: sum(terms.shard[terms.rows[location]] % count == partition for location in monitor.shares)
            for monitor in terms.over_time
        }
        as_of = terms.grid.as_of(tick)
        for monitor in terms.at_times:
            expected[monitor.name] = shards * len(monitor.find_times(as_of - monitor.horizon, as_of))
        return expected
