"""A queue of batches that a second thread writes in order. Small batches are joined while the thread is busy.

A write has a fixed cost for each shard and for each place, so a few large writes are much faster than many small ones.
The queue is bounded: a slow store stops the reader, so the lag grows, but memory does not.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from monitor.ingest.accept import APPLIED, Accepted
from monitor.ingest.dead_letters import DeadLetter
from monitor.store.facts import Facts, OffsetRange, PackedFacts, ShardFacts

MOST_APPLIED: Final = 400_000
"""A batch with at least this number of applied visits is not joined with others. Larger writes are hardly faster."""

MOST_IN_SHARD: Final = 8 * 1024 * 1024
"""A batch with at least this number of bytes of facts in one shard is not joined with others. These are 300,000 facts,
for which a script needs a second. A script must end well before the client's time limit (5 s)."""

FEW_APPLIED: Final = 10_000
"""A batch with fewer applied visits is sent as soon as the thread is idle. A larger batch indicates a backlog, and is
first joined with the next polls, because the store needs only half of the time per fact if a batch is large."""

MOST_POLLS: Final = 16
"""The most polls in a batch. This limits the memory of dead letters, which may have as many bytes as the polls."""

MOST_BYTES: Final = 32 * 1024 * 1024
"""A batch with at least this number of bytes of dead letters, or of facts, is not joined with others. A poll may
decompress to much more, and a visit may be a fact of many designated times."""

MOST_SENT: Final = 2
"""The number of batches that are sent to the thread at once: one is being written, and one waits."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The outcome of one poll, or of several.

    `began`: when the decoding of the first poll began (`perf_counter`). `oldest_stamp`: the oldest timestamp, and
    `newest_stamps`: the newest one by input partition, in seconds. `packed`: the facts, ready to be written.
    """

    ranges: tuple[OffsetRange, ...]
    accepted: Accepted
    letters: tuple[DeadLetter, ...]
    records: int
    began: float
    oldest_stamp: float | None = None
    newest_stamps: Mapping[int, float] = field(default_factory=dict)
    polls: int = 1
    packed: Facts | PackedFacts | None = None

    @property
    def is_full(self) -> bool:
        """Whether the batch is large enough to be written efficiently."""
        return (
            self.polls >= MOST_POLLS
            or self.accepted.fates[APPLIED] >= MOST_APPLIED
            or sum(len(letter.refusal.payload) for letter in self.letters) >= MOST_BYTES
            or _has_many_bytes(self.accepted.facts)
        )

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
            _join_accepted(self.accepted, later.accepted),
            self.letters + later.letters,
            self.records + later.records,
            self.began,
            min(oldest, default=None),
            _join_newest(self.newest_stamps, later.newest_stamps),
            self.polls + later.polls,
        )


def _has_many_bytes(facts: Facts) -> bool:
    sizes = [
        sum(len(part.seen) + len(part.present) + len(part.stays) for part in of_shard) for of_shard in facts.values()
    ]
    return sum(sizes) >= MOST_BYTES or max(sizes, default=0) >= MOST_IN_SHARD


def _join_newest(first: Mapping[int, float], later: Mapping[int, float]) -> dict[int, float]:
    return {
        partition: max(of[partition] for of in (first, later) if partition in of) for partition in {**first, **later}
    }


def _join_accepted(first: Accepted, later: Accepted) -> Accepted:
    facts: dict[int, list[ShardFacts]] = {shard: list(of_shard) for shard, of_shard in first.facts.items()}
    for shard, of_shard in later.facts.items():
        facts.setdefault(shard, []).extend(of_shard)
    fates = Counter(first.fates)
    fates.update(later.fates)
    return Accepted(facts, fates, [*first.refused, *later.refused], first.cut + later.cut)


class WriteQueue:
    """Batches on their way to the windows. Used by the reader's thread; `write` runs in another thread.

    Args:
        pack: packs the facts of a batch. This takes a tenth of the time of a write, and runs in the reader's thread, so
            that the store does not have to wait.
        write: writes a batch, and returns by partition the lowest progress of all shards.
    """

    def __init__(self, pack: Callable[[Facts], Facts | PackedFacts], write: Callable[[Batch], dict[int, int]]) -> None:
        self._pack = pack
        self._write = write
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windows-writer")
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
            may_send = not self._sent and self._pending.accepted.fates[APPLIED] < FEW_APPLIED
        if may_send:
            self.flush()

    def flush(self) -> None:
        """Send the pending batch, if there is one."""
        if self._pending is not None:
            batch = replace(self._pending, packed=self._pack(self._pending.accepted.facts))
            self._sent.append((batch, self._thread.submit(self._write, batch)))
            self._pending = None

    @property
    def is_full(self) -> bool:
        """Whether the reader has to wait before it reads more: the pending batch is full, or too many were sent."""
        return len(self._sent) > MOST_SENT or (self._pending is not None and self._pending.is_full)

    def take(self, *, wait: bool) -> tuple[Batch, Mapping[int, int]] | None:
        """Return the oldest sent batch and the progress after it; None if there is no such batch.

        `wait`: wait for the end of its write. Otherwise, a batch that is still being written is not returned.

        Raises:
            UnreachableError, WindowsError: from `write`.
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
