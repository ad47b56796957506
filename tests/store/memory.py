"""Windows in the memory of the process: a test double of `RedisStore`."""

from __future__ import annotations

import struct
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.facts_and_questions import (
    COMPLETE_FROM_START,
    CONSENT,
    NEVER,
    BucketCount,
    OffsetRange,
    Portion,
    Portions,
    Question,
    Reading,
    Since,
    Stamps,
)
from monitor.kinds.parameters import Parameters
from monitor.store.packing import read_stays
from monitor.store.redis_store import RedisStore
from monitor.time.clock import Clock

_GROUP, _SEEN = struct.Struct(">II"), struct.Struct(">i16s")
_PRESENT, _STAY = struct.Struct(">q20s"), struct.Struct(">qI20s")


@dataclass(slots=True)
class Shard:
    """The facts and numbers of one shard; `opened` is None until it is begun."""

    progress: dict[int, int] = field(default_factory=dict)
    complete_from: int = COMPLETE_FROM_START
    evicted_before: int = COMPLETE_FROM_START
    times_evicted_until: int = NEVER
    opened: int | None = None
    shown: int = COMPLETE_FROM_START
    waiting: set[Portion] = field(default_factory=set)
    seen: dict[int, dict[bytes, int]] = field(default_factory=dict)
    reported: dict[int, dict[tuple[int, bytes], int]] = field(default_factory=dict)
    bucketed: dict[int, set[tuple[int, bytes]]] = field(default_factory=dict)
    present: dict[int, set[bytes]] = field(default_factory=dict)
    stamped: dict[int, dict[bytes, int]] = field(default_factory=dict)
    stays: dict[int, dict[bytes, int]] = field(default_factory=dict)

    def begin(self, slot: int) -> None:
        """Empty the windows if `opened` is missing, because it is then unknown which facts they contain."""
        if self.opened is None:
            self.seen, self.reported, self.present, self.stays, self.waiting = {}, {}, {}, {}, set()
            self.bucketed, self.stamped = {}, {}
            self.opened, self.shown = slot - 1, COMPLETE_FROM_START

    def adapt_opened(self, slot: int) -> int:
        """Return `opened` for the present slot: at least the last closed slot, and no more than the windows need."""
        opened = slot - 1 if self.opened is None else self.opened
        self.opened = max(self.shown if opened > slot else opened, slot - 1)
        return self.opened

    def merge(self, slot: int) -> None:
        """Move waiting facts stamped up to a slot into the windows."""
        for facts in [waiting for waiting in self.waiting if waiting.stamp <= slot]:
            self.add(facts)
            self.waiting.discard(facts)

    def add(self, portion: Portion) -> None:
        self.shown = max(self.shown, portion.stamp)
        adders = {
            "s": self._add_seen,
            "r": self._add_reported,
            "b": self._add_bucketed,
            "p": self._add_present,
            "q": self._add_stamped,
            "d": self._add_stays,
        }
        adders[portion.kind](portion.stamp, portion.facts)

    def _add_seen(self, stamp: int, block: bytes) -> None:
        for row, lead, person in _read_groups(block):
            last = self.seen.setdefault(row, {})
            last[person] = max(stamp + lead, last.get(person, stamp + lead))

    def _add_reported(self, stamp: int, block: bytes) -> None:
        for row, lead, person in _read_groups(block):
            latest = self.reported.setdefault(row, {})
            latest[lead, person] = max(stamp, latest.get((lead, person), stamp))

    def _add_bucketed(self, stamp: int, block: bytes) -> None:
        for number, lead, person in _read_groups(block):
            self.bucketed.setdefault(number, set()).add((stamp + lead, person))

    def _add_present(self, _stamp: int, block: bytes) -> None:
        for instant, member in _PRESENT.iter_unpack(block):
            if instant > self.times_evicted_until:
                self.present.setdefault(instant, set()).add(member)

    def _add_stamped(self, stamp: int, block: bytes) -> None:
        for instant, member in _PRESENT.iter_unpack(block):
            if instant > self.times_evicted_until:
                latest = self.stamped.setdefault(instant, {})
                latest[member] = max(stamp, latest.get(member, stamp))

    def _add_stays(self, _stamp: int, block: bytes) -> None:
        for instant, length, member in _STAY.iter_unpack(block):
            if instant > self.times_evicted_until:
                lengths = self.stays.setdefault(instant, {})
                lengths[member] = max(length, lengths.get(member, 0))

    def advance(self, offsets: OffsetRange) -> int:
        """Return the progress after a range, -1 without progress."""
        present = self.progress.get(offsets.partition, -1)
        return max(present, offsets.end) if present >= offsets.start else present

    def write(self, ranges: Sequence[OffsetRange], facts: Sequence[Portion], slot: int) -> list[int]:
        """Add facts and advance progress, or do nothing if no range advances it; return the progress by range."""
        begun = self.opened is not None
        reached = [self.advance(offsets) if begun else -1 for offsets in ranges]
        moved = {offsets.partition: to for offsets, to in zip(ranges, reached, strict=True) if to >= 0}
        if all(self.progress.get(partition) == to for partition, to in moved.items()):
            return reached
        opened = self.adapt_opened(slot)
        self.merge(opened)
        for stamped in facts:
            if stamped.stamp <= opened:
                self.add(stamped)
            else:
                self.waiting.add(stamped)
        self.progress |= moved
        return reached

    def settle(self, tick: int, slot: int) -> bool:
        """Move the facts that a tick counts into the windows; return whether that is possible."""
        if self.opened is None or slot != tick + 1 or self.adapt_opened(slot) > tick:
            return False
        self.merge(tick)
        return True

    def open(self, to: int, slot: int) -> None:
        """Move facts stamped up to a slot into the windows, if the slot has begun."""
        if self.opened is not None:
            self.opened = max(self.adapt_opened(slot), min(to, slot))
            self.merge(self.opened)

    def count(self, row: int, first_slot: int) -> int:
        return sum(slot >= first_slot for slot in self.seen.get(row, {}).values())

    def count_since(self, asked: Since) -> int:
        reported = self.reported.get(asked.row, {}).items()
        return len({who for (lead, who), at in reported if at > asked.tick and at + lead >= asked.start})

    def count_bucket(self, asked: BucketCount) -> int:
        return sum(last == asked.last for last, _ in self.bucketed.get(asked.number, ()))


def _read_groups(block: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the row, the lead and the person of each fact in a block."""
    ends = 4 + 8 * int.from_bytes(block[:4])
    people = iter(_SEEN.iter_unpack(block[ends:]))
    for row, number in _GROUP.iter_unpack(block[4:ends]):
        for lead, person in islice(people, number):
            yield row, lead, person


def _read_stays(lengths: Mapping[bytes, int]) -> list[tuple[bytes, int, int]]:
    return read_stays(lengths, lengths.values())


class MemoryWindows(RedisStore):
    """Facts in memory, thread-safe; they end with the process. `clock` is the store's clock."""

    def __init__(self, parameters: Parameters, clock: Clock) -> None:  # nothing of Redis is used
        self._parameters = parameters
        self._rows = parameters.registry.by_shard
        self._grid = parameters.grid
        self._tolerance = parameters.tolerance
        self._max_lead = parameters.max_lead
        self.store_clock = clock
        self._lock = threading.Lock()
        self.shards = [Shard() for _ in range(parameters.registry.shards)]

    def _slot(self) -> int:
        return self._grid.find_slot(self.store_clock.now())

    def read_progress(self) -> list[dict[int, int]]:
        """Return, by shard, the next offset by input partition."""
        with self._lock:
            return [dict(shard.progress) for shard in self.shards]

    def begin(self, partition: int, offset: int, complete_from: int) -> None:
        """In shards without progress for the partition, start at an offset and raise `complete_from`."""
        with self._lock:
            for shard in self.shards:
                shard.begin(self._slot())
                if partition not in shard.progress:
                    shard.progress[partition] = offset
                    shard.complete_from = max(shard.complete_from, complete_from)

    def restart(self, partition: int, offset: int, complete_from: int) -> None:
        """Set the partition's progress in every shard, forward or back, and raise `complete_from`."""
        with self._lock:
            for shard in self.shards:
                shard.begin(self._slot())
                shard.progress[partition] = offset
                shard.complete_from = max(shard.complete_from, complete_from)

    def write(self, ranges: Sequence[OffsetRange], portions: Portions) -> dict[int, int]:
        """Add a batch's facts and advance progress; return the lowest progress of all shards by partition."""
        with self._lock:
            slot = self._slot()
            reached = [shard.write(ranges, portions.get(number, ()), slot) for number, shard in enumerate(self.shards)]
            return {offsets.partition: min(by_shard) for offsets, *by_shard in zip(ranges, *reached, strict=True)}

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        """Return, by shard, everything that a tick needs, read in one step."""
        with self._lock:
            now = self.store_clock.now()
            return {shard: self._read(shard, question, now) for shard, question in questions.items()}

    def time(self, shards: Collection[int] = (0,)) -> int:
        """Return the present instant by the clock that was passed in."""
        del shards
        return self.store_clock.now()

    def open(self, shards: Sequence[int], slot: int) -> None:
        """Move facts stamped up to a slot into the windows, if it has begun."""
        with self._lock:
            for shard in shards:
                self.shards[shard].open(slot, self._slot())

    def _read(self, number: int, question: Question, now: int) -> Reading:
        shard = self.shards[number]
        settled = question.tick is None or self._settle(shard, question.tick, now)
        answered = question if settled else Question()
        return Reading(
            progress=dict(shard.progress),
            complete_from=shard.complete_from,
            evicted_before=shard.evicted_before,
            times_evicted_until=shard.times_evicted_until,
            time=now,
            counts=[
                np.array([shard.count(int(row), first) for row in rows], np.int64) for first, rows in answered.windows
            ],
            present={instant: self._present(number, instant) for instant in answered.times},
            settled=settled,
            consenting={instant: self._consenting(number, instant) for instant in answered.consenting},
            stays={instant: _read_stays(shard.stays.get(instant, {})) for instant in answered.stays},
            stamps={instant: self._stamps(number, instant) for instant in answered.times if self._is_sorted(instant)},
            since={asked: shard.count_since(asked) for asked in answered.since},
            buckets={asked: shard.count_bucket(asked) for asked in answered.buckets},
        )

    def _settle(self, shard: Shard, tick: int, now: int) -> bool:
        slot = self._grid.find_slot(now)
        return now >= self._grid.start(slot) + self._tolerance and shard.settle(tick, slot)

    def _present(self, number: int, instant: int) -> NDArray[np.int64]:
        return self._count(number, instant)[0]

    def _consenting(self, number: int, instant: int) -> NDArray[np.int64]:
        return self._count(number, instant)[1]

    def _count(self, number: int, instant: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the people, and those who consented, one member after the other."""
        positions = {row: position for position, row in enumerate(self._rows[number].tolist())}
        people, consenting = np.zeros(len(positions), np.int64), np.zeros(len(positions), np.int64)
        shard = self.shards[number]
        for member in shard.stamped.get(instant, ()) if self._is_sorted(instant) else shard.present.get(instant, ()):
            row = int.from_bytes(member[:4])
            counts = consenting if row >= CONSENT else people
            counts[positions[row % CONSENT]] += 1
        return people, consenting

    def _stamps(self, number: int, instant: int) -> Stamps:
        positions = {row: position for position, row in enumerate(self._rows[number].tolist())}
        latest = self.shards[number].stamped.get(instant, {}).items()
        people = [(positions[row], stamp) for member, stamp in latest if (row := int.from_bytes(member[:4])) < CONSENT]
        return Stamps(*np.array(people, np.int64).reshape(-1, 2).T)

    def evict(self, shards: Sequence[int], before: int, drop: Sequence[int], keep: Sequence[int]) -> None:
        """Evict facts before a slot and designated times. Nothing expires in memory, so `keep` has no effect."""
        del keep
        with self._lock:
            for number in shards:
                shard = self.shards[number]
                for row, last in shard.seen.items():
                    shard.seen[row] = {person: slot for person, slot in last.items() if slot >= before}
                for row, latest in shard.reported.items():
                    oldest = before - self._max_lead
                    shard.reported[row] = {member: stamp for member, stamp in latest.items() if stamp >= oldest}
                for bucket_set, bucketed in shard.bucketed.items():
                    shard.bucketed[bucket_set] = {one for one in bucketed if one[0] >= before - self._max_lead}
                shard.evicted_before = max(shard.evicted_before, before)
                for instant in drop:
                    shard.present.pop(instant, None)
                    shard.stamped.pop(instant, None)
                    shard.stays.pop(instant, None)
                shard.times_evicted_until = max((shard.times_evicted_until, *drop))

    def is_empty(self) -> bool:
        """Return whether nothing was ever written."""
        with self._lock:
            return all(shard == Shard() for shard in self.shards)

    def check(self) -> None:
        """Do nothing: the memory of the process evicts nothing."""

    def close(self) -> None:
        """Do nothing: there are no connections."""
