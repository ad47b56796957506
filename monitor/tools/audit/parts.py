"""Check that a decided tick has a record of every place, and of every designated time and shard.

The records of a tick are one transaction, so a decided tick that lacks some of them is wrong, in contrast to a tick
that nobody decided. If another owner takes over after it, the transaction may have been aborted: what was seen of it
then stays, and the rest is missing. A new owner appends the records of the last tick again, or changes the terms. An
owner also repeats its owner record regularly, which is no takeover.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from monitor.tools.audit.bench import Bench
from monitor.tools.audit.findings import TICKS, Findings
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.terms import AuditTerms

_CHANGED_BY_THE_SAME_OWNER: Final = ("tick", "input_partitions")


@dataclass(slots=True)
class _Tick:
    number: int
    may_be_partial: bool
    after_empty: bool = False
    owner_follows: bool = False
    benches: list[Bench] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class TickParts:
    """The records of the latest tick of each output partition, by monitor.

    `partitions`: Q, the number of output partitions that the shards use; None until an owner record states it. The
    first tick of a partition is not checked, because some of its records may have expired, nor is a tick that a
    takeover follows. After a tick without answers a takeover has nothing to repeat, so any owner record counts as one.
    """

    findings: Findings
    partitions: int | None = None
    _ticks: dict[int, _Tick] = field(default_factory=dict)
    _terms: dict[int, dict[str, Any]] = field(default_factory=dict)

    def take_owner(self, record: PublishedRecord) -> None:
        """Read Q from an owner or start record, and end the tick before one that had nothing to answer."""
        value = record.value if isinstance(record.value, dict) else {}
        partitions, tick = value.get("partitions"), value.get("tick")
        if isinstance(partitions, int) and partitions > 0:
            self.partitions = partitions
        if record.partition is None:
            return
        terms = {name: fact for name, fact in value.items() if name not in _CHANGED_BY_THE_SAME_OWNER}
        known = self._ticks.get(record.partition)
        if isinstance(tick, int):
            self._begin(record.partition, tick)
        elif known is not None:
            # A second owner record before the next tick is not a regular one.
            again = known.owner_follows or known.after_empty
            known.may_be_partial |= again or terms != self._terms.get(record.partition)
            known.owner_follows = True
        self._terms[record.partition] = terms

    def take_repeat(self, partition: int | None) -> None:
        """Note that a record was delivered again: after an owner record this shows a takeover."""
        known = None if partition is None else self._ticks.get(partition)
        if known is not None and known.owner_follows:
            known.may_be_partial = True

    def take(self, record: PublishedRecord, bench: Bench | None) -> None:
        """Add an answer, and the checks that judged it, if any."""
        tick, partition = record.value.get("tick"), record.partition
        if not isinstance(tick, int) or partition is None:
            return
        known = self._begin(partition, tick)
        if known.number > tick:
            self.take_repeat(partition)
        if known.number == tick and bench is not None:
            known.records[str(record.value.get("monitor"))] += 1
            if bench not in known.benches:
                known.benches.append(bench)

    def is_whole(self, partition: int) -> bool:
        """Return whether all records of a partition's latest tick are known. While they are appended, some lack."""
        tick = self._ticks.get(partition)
        return (
            tick is not None
            and self.partitions is not None
            and len(tick.benches) == 1
            and not self._lacks(partition, tick)
        )

    def _begin(self, partition: int, tick: int) -> _Tick:
        known = self._ticks.get(partition)
        if known is None or tick > known.number:
            if known is not None and not known.may_be_partial:
                self._check(partition, known)
            known = self._ticks[partition] = _Tick(
                tick, may_be_partial=known is None, after_empty=known is not None and not known.records
            )
        return known

    def _check(self, partition: int, tick: _Tick) -> None:
        if self.partitions is None or len(tick.benches) != 1:  # during a change both configurations may answer
            return
        for monitor, expected in self._lacks(partition, tick).items():
            found = tick.records[monitor]
            text = f"partition {partition}, tick {tick.number}: {monitor} has {found} of {expected} records"
            self.findings.add(TICKS, text)

    def _lacks(self, partition: int, tick: _Tick) -> dict[str, int]:
        """Return how many records a tick must have, of the monitors that have fewer."""
        expected = self._expect(tick.benches[0].terms, partition, tick.number)
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
            expected[monitor.name] = shards * len(monitor.between(as_of - monitor.horizon, as_of))
        return expected
