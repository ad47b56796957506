"""A queue of batches that a second thread writes in order. Small batches are joined while the thread is busy.

A write has a fixed cost for each shard and for each place, so a few large writes are much faster than many small ones.
The queue is bounded: a slow store stops the reader, so the lag grows, but memory does not.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.ingest.dead_letters import DeadLetter
from monitor.kinds.facts_and_questions import Facts, OffsetRange, Portions
from monitor.kinds.locations import Registry
from monitor.observe.service_metrics import REPORT_DELAY_BUCKETS
from monitor.store.packing import pack_facts
from monitor.time.instants import SECOND

MOST_FACTS: Final = 300_000
"""A batch with at least this number of facts is not joined with others. Larger writes are hardly faster, and a script
needs a second for so many facts in one shard. It must end well before the client's time limit (5 s)."""

FEW_FACTS: Final = 10_000
"""A batch with fewer facts is sent as soon as the thread is idle. A larger batch indicates a backlog, and is first
joined with the next polls, because the store needs only half of the time per fact if a batch is large."""

MOST_BYTES: Final = 32 * 1024 * 1024
"""A batch with at least this number of bytes of dead letters is not joined with others."""

MOST_SENT: Final = 2
"""The number of batches that are sent to the thread at once: one is being written, and one waits."""


_BOUNDS: Final = [int(bound * SECOND) for bound in REPORT_DELAY_BUCKETS]


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """The number of visits up to each bound, then that of all visits, and the sum of their delays."""

    visits: NDArray[np.int64]
    seconds: float

    def __add__(self, other: Delays) -> Delays:
        """Return the delays of both."""
        return Delays(self.visits + other.visits, self.seconds + other.seconds)


def count_delays(reported: NDArray[np.int64], left: NDArray[np.int64]) -> Delays:
    """Return how long after their ends visits were reported (instants). A visit that ends later has no delay."""
    delays = np.maximum(reported - left, 0)
    within = [np.count_nonzero(delays <= bound) for bound in _BOUNDS]  # much faster than a search for each visit
    return Delays(np.array([*within, delays.size]), float(delays.sum(dtype=np.float64)) / SECOND)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The outcome of one poll, or of several."""

    ranges: tuple[OffsetRange, ...]
    facts: tuple[Facts, ...]
    """By poll."""
    fates: Mapping[str, int]
    """The number of visits by fate."""
    letters: tuple[DeadLetter, ...]
    records: int
    began: float
    """When the decoding of the first poll began (`perf_counter`)."""
    delays: Delays
    """How late the visits were reported."""
    cut: int = 0
    """The number of accepted visits that were cut."""
    oldest_stamp: float | None = None
    """The oldest timestamp, and."""
    newest_stamps: Mapping[int, float] = field(default_factory=dict)
    """The newest one by input partition, in seconds."""

    @property
    def size(self) -> int:
        """The number of facts."""
        return sum(map(len, self.facts))

    @property
    def is_full(self) -> bool:
        """Whether the batch is large enough to be written efficiently."""
        return self.size >= MOST_FACTS or sum(len(letter.refusal.payload) for letter in self.letters) >= MOST_BYTES

    def join(self, later: Batch) -> Batch | None:
        """Return one batch with the content of both; None if a partition's records are not in sequence."""
        ranges = {offsets.partition: offsets for offsets in self.ranges}
        for offsets in later.ranges:
            before = ranges.get(offsets.partition)
            if before is not None and before.end != offsets.start:
                return None
            ranges[offsets.partition] = OffsetRange(
                offsets.partition, offsets.start if before is None else before.start, offsets.end
            )
        oldest = [stamp for stamp in (self.oldest_stamp, later.oldest_stamp) if stamp is not None]
        return Batch(
            tuple(ranges.values()),
            self.facts + later.facts,
            Counter(self.fates) + Counter(later.fates),
            self.letters + later.letters,
            self.records + later.records,
            self.began,
            self.delays + later.delays,
            self.cut + later.cut,
            min(oldest, default=None),
            _join_newest(self.newest_stamps, later.newest_stamps),
        )

    def pack(self, registry: Registry) -> Portions:
        """Return all facts, ready to be written."""
        joined = (np.concatenate(kind) for kind in zip(*(one.list_kinds() for one in self.facts), strict=True))
        return pack_facts(Facts(*joined), registry.shard)


def _join_newest(first: Mapping[int, float], later: Mapping[int, float]) -> dict[int, float]:
    return {
        partition: max(of[partition] for of in (first, later) if partition in of) for partition in {**first, **later}
    }


class WriteQueue:
    """Batches on their way to the store. Used by the reader's thread; `write` runs in another thread.

    Facts are packed in the reader's thread, so that the store does not have to wait.

    Args:
        registry: the locations and their shards.
        write: writes a batch and its packed facts, and returns by partition the lowest progress of all shards.
    """

    def __init__(self, registry: Registry, write: Callable[[Batch, Portions], dict[int, int]]) -> None:
        self._registry = registry
        self._write = write
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._sent: deque[tuple[Batch, Future[dict[int, int]]]] = deque()
        self._pending: Batch | None = None

    def __bool__(self) -> bool:
        """Return whether a batch has not been written, or its result has not been taken."""
        return bool(self._sent) or self._pending is not None

    def put(self, batch: Batch) -> None:
        """Add a batch. It is sent at once if it is small and the thread is idle, or joined with the pending one."""
        joined = None if self._pending is None else self._pending.join(batch)
        if joined is None:
            self.flush()
        self._pending = joined or batch
        self.advance()

    def advance(self) -> None:
        """Send the pending batch if it is full and the thread accepts it, or if it is small and the thread is idle."""
        if self._pending is None:
            return
        if self._pending.is_full:
            may_send = len(self._sent) < MOST_SENT
        else:
            may_send = not self._sent and self._pending.size < FEW_FACTS
        if may_send:
            self.flush()

    def flush(self) -> None:
        """Send the pending batch, if there is one."""
        if self._pending is not None:
            packed = self._pending.pack(self._registry)
            self._sent.append((self._pending, self._thread.submit(self._write, self._pending, packed)))
            self._pending = None

    @property
    def is_full(self) -> bool:
        """Whether the reader has to wait before it reads more: the pending batch is full, or too many were sent."""
        return len(self._sent) > MOST_SENT or (self._pending is not None and self._pending.is_full)

    def take(self, *, wait: bool) -> tuple[Batch, Mapping[int, int]] | None:
        """Return the oldest sent batch and the progress after it; None if there is no such batch.

        `wait`: wait for the end of its write. Otherwise, a batch that is still being written is not returned.

        Raises:
            UnreachableError, StoreError: from `write`.
        """
        if not self._sent or not (wait or self._sent[0][1].done()):
            return None
        batch, future = self._sent.popleft()
        return batch, future.result()

    def discard_pending(self) -> Sequence[OffsetRange]:
        """Forget the pending batch, and return its ranges, which have to be read again."""
        pending, self._pending = self._pending, None
        return () if pending is None else pending.ranges

    def find_starts(self) -> dict[int, int]:
        """Return, by partition, the first offset of the batches in the queue, which may not have been written yet."""
        starts: dict[int, int] = {}
        batches = [batch for batch, _ in self._sent] + ([] if self._pending is None else [self._pending])
        for offsets in (offsets for batch in batches for offsets in batch.ranges):
            starts[offsets.partition] = min(offsets.start, starts.get(offsets.partition, offsets.start))
        return starts

    def close(self) -> None:
        """End the thread after it has written the batches that it has accepted."""
        self._thread.shutdown()
