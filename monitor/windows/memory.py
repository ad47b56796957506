"""Windows in this process's memory: the twin of the one in Redis, for simulations and tests."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from monitor.clock import Clock
from monitor.scheme import Scheme
from monitor.windows.facts import NEVER, SINCE_EVER, Question, Reading, ShardFacts, Span
from monitor.windows.members import count_members


@dataclass(slots=True)
class _Shard:
    """What is known of one shard."""

    progress: dict[int, int] = field(default_factory=dict)
    since: int = SINCE_EVER
    trimmed: int = SINCE_EVER
    dropped: int = NEVER
    seen: dict[int, dict[bytes, int]] = field(default_factory=dict)
    present: dict[int, set[bytes]] = field(default_factory=dict)

    def add(self, facts: ShardFacts) -> None:
        for row, (persons, slots) in facts.seen.items():
            last = self.seen.setdefault(row, {})
            for person, slot in zip(persons, slots, strict=True):
                last[person] = max(slot, last.get(person, slot))
        for instant, members in facts.present.items():
            self.present.setdefault(instant, set()).update(members)

    def advance(self, span: Span) -> int:
        present = self.progress.get(span.partition, -1)
        if present >= span.start:
            present = self.progress[span.partition] = max(present, span.end)
        return present

    def count(self, row: int, first_slot: int) -> int:
        return sum(slot >= first_slot for slot in self.seen.get(row, {}).values())


class MemoryWindows:
    """`Windows` in memory, thread-safe; lost with the process, and so is its progress."""

    def __init__(self, scheme: Scheme, clock: Clock) -> None:
        self._rows = scheme.registry.by_shard
        self._clock = clock
        self._lock = threading.Lock()
        self._shards = [_Shard() for _ in range(scheme.registry.shards)]

    def progress(self) -> list[dict[int, int]]:
        """By shard: the next offset by input partition, for those that were begun."""
        with self._lock:
            return [dict(shard.progress) for shard in self._shards]

    def begin(self, partition: int, offset: int, since: int) -> None:
        """Where a shard has no progress for the partition, start at an offset and raise its `since`."""
        with self._lock:
            for shard in self._shards:
                if partition not in shard.progress:
                    shard.progress[partition] = offset
                    shard.since = max(shard.since, since)

    def restart(self, partition: int, offset: int, since: int) -> None:
        """Set the partition's progress in every shard, also back, and raise `since`."""
        with self._lock:
            for shard in self._shards:
                shard.progress[partition] = offset
                shard.since = max(shard.since, since)

    def write(self, spans: Sequence[Span], facts: Mapping[int, ShardFacts]) -> dict[int, int]:
        """Add a batch's facts, and advance progress; the lowest progress of all shards by partition."""
        with self._lock:
            for shard, added in facts.items():
                self._shards[shard].add(added)
            return {span.partition: min(shard.advance(span) for shard in self._shards) for span in spans}

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        """By shard, everything that a tick needs, read together."""
        with self._lock:
            now = self._clock.now()
            return {shard: self._read(shard, question, now) for shard, question in questions.items()}

    def _read(self, number: int, question: Question, now: int) -> Reading:
        shard = self._shards[number]
        return Reading(
            progress=dict(shard.progress),
            since=shard.since,
            trimmed=shard.trimmed,
            dropped=shard.dropped,
            time=now,
            counts={(row, first): shard.count(row, first) for row, first in question.windows},
            present={instant: self._present(number, instant) for instant in question.times},
        )

    def _present(self, number: int, instant: int) -> NDArray[np.int64]:
        return count_members(self._shards[number].present.get(instant, ()), self._rows[number])

    def tidy(self, shards: Sequence[int], trim_before: int, drop: Sequence[int], keep: Sequence[int]) -> None:
        """Cut off what lies before a slot and drop designated times; nothing expires in memory, so `keep` is idle."""
        del keep
        with self._lock:
            for number in shards:
                shard = self._shards[number]
                for row, last in shard.seen.items():
                    shard.seen[row] = {person: slot for person, slot in last.items() if slot >= trim_before}
                shard.trimmed = max(shard.trimmed, trim_before)
                for instant in drop:
                    shard.present.pop(instant, None)
                shard.dropped = max((shard.dropped, *drop))

    def empty(self) -> bool:
        """Whether nothing was ever written."""
        with self._lock:
            return all(shard == _Shard() for shard in self._shards)

    def check(self) -> None:
        """Nothing to see to: this process's memory evicts nothing."""

    def close(self) -> None:
        """Nothing to let go of."""
