"""Kafka → windows: read, decode, accept or refuse, write; by one thread, with one write on its way.

Where to begin is decided by the windows' own progress, never by offsets committed to Kafka: facts and progress are
written together, so whatever is lost with one is lost with the other, and read again.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from monitor.clock import Clock
from monitor.errors import UnreachableError, WindowsError
from monitor.failpoints import passing
from monitor.ingest.accept import DEAD_LETTER, Accepted, Persons, accept
from monitor.ingest.batches import Unreadable
from monitor.ingest.columns import by_reason, unreadable
from monitor.ingest.decode import Columns, Refusal, decode_records
from monitor.ingest.source import Fetched, InputLog
from monitor.scheme import Scheme
from monitor.signals import Signal
from monitor.windows.facts import SINCE_EVER, Question, Span, Windows

log = logging.getLogger(__name__)

COMMIT_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5
FIRST_BACKOFF_SECONDS: Final = 0.1
LONGEST_BACKOFF_SECONDS: Final = 5.0


class DeadLetters(Protocol):
    """Where refused visits go, each once, before progress passes them."""

    def put(self, letters: Sequence[Letter]) -> None:
        """Write them all durably. Raises UnreachableError if that can't be done now."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A refused visit or record, and where it was read."""

    refusal: Refusal
    partition: int
    offset: int


class Observer(Protocol):
    """What is counted of the reading."""

    def batch(self, records: int, fates: Mapping[str, int], reasons: Mapping[str, int], seconds: float) -> None:
        """A batch was written: how many records, visits by fate, what was refused by reason, the time it took."""

    def lag(self, records: Mapping[int, int]) -> None:
        """How far behind the reading is, by partition, in records."""

    def recovery(self, cause: str) -> None:
        """Reading begins anew somewhere, because of `cause`."""


@dataclass(frozen=True, slots=True)
class _Batch:
    spans: tuple[Span, ...]
    accepted: Accepted
    letters: tuple[Letter, ...]
    records: int
    began: float


class Reader:
    """One member of the input group. `step` is called over and over by one thread; `close` by the same."""

    def __init__(
        self,
        scheme: Scheme,
        source: InputLog,
        windows: Windows,
        persons: Persons,
        dead_letters: DeadLetters,
        observer: Observer,
        clock: Clock,
    ) -> None:
        self._scheme = scheme
        self._source = source
        self._windows = windows
        self._persons = persons
        self._dead_letters = dead_letters
        self._observer = observer
        self._clock = clock
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="windows-writer")
        self._writing: tuple[_Batch, Future[dict[int, int]]] | None = None
        self._committed = self._looked = time.monotonic()
        self._whole_since: dict[int, int] = {}  # by partition that lost records, as this reader saw
        self.progressed = Signal()

    def step(self, timeout_ms: int) -> bool:
        """Read and write once; True if anything was read.

        Raises:
            UnreachableError: a server cannot be used now; call again after a while.
            WindowsError: the windows' store holds what is not ours.
        """
        try:
            self._look_now_and_then()
            self._commit_now_and_then()
            self._begin_waiting()
            fetched = self._source.poll(0 if self._writing else timeout_ms)
            if not fetched:
                self._finish()
                return False
            passing("reader.polled")
            batch = self._prepare(fetched)
            passing("reader.accepted")
            if self._finish():
                self._writing = (batch, self._writer.submit(self._write, batch))
            else:
                self._source.park(span.partition for span in batch.spans)
        except (UnreachableError, WindowsError):
            self._abandon()
            raise
        return True

    def _begin_waiting(self) -> None:
        """Find where each newly assigned partition begins: at the lowest progress of all shards."""
        if not self._source.waiting:
            return
        if self._source.unread:
            self._finish()  # what lies before them counts as read only once it is written
        progress = self._windows.progress()
        for partition in sorted(self._source.waiting):
            self._source.go_on(partition, self._beginning(partition, progress))
            passing("reader.assigned")

    def _beginning(self, partition: int, progress: Sequence[Mapping[int, int]]) -> int:
        known = [shard.get(partition) for shard in progress]
        # Bounds are asked for after the progress was read, so that progress made meanwhile can't look lost.
        first, end = self._source.bounds(partition)
        reached = [offset for offset in known if offset is not None]
        truncated, unread = self._source.truncated.pop(partition, None), self._source.unread.pop(partition, None)
        if truncated is not None:
            offset = min(max(truncated, first), end)
            self._lost(partition, offset)
            return offset
        if unread is not None and None not in known and unread.first <= min(reached) < unread.end:
            return self._pass(partition, unread, end)
        if reached and max(reached) > end:
            self._lost(partition, end)
            return end
        if reached and min(reached) < first:
            return self._behind(partition, first, end)
        if len(reached) < len(known):
            offset, since = self._whole_from(partition, first, end)
            self._windows.begin(partition, offset, since)
            self._observer.recovery("no_progress")
            reached.append(offset)
        return min(reached)

    def _whole_from(self, partition: int, first: int, end: int) -> tuple[int, int]:
        """Where to begin without progress, and the slot from which the facts are whole then.

        A visit may be reported F slots before its last slot, so reading begins F slots before the first slot that
        anyone may still ask about. The log's own beginning holds everything; a log that begins later has nothing of
        before to show that it was kept long enough: under a shorter window it may not have been.
        """
        if self._clock.simulated:
            return first, SINCE_EVER
        since = self._scheme.slots.slot_of(self._now()) - self._scheme.lookback
        offset = self._source.offset_at(partition, self._scheme.slots.start(since - self._scheme.ahead))
        offset = end if offset is None else offset
        # Asked for after the offset, so that what expired meanwhile can't look kept.
        first, end = self._source.bounds(partition)
        if offset > first:
            return offset, since
        return first, SINCE_EVER if first == 0 else self._whole_after(partition, first, end, since)

    def _whole_after(self, partition: int, first: int, end: int, since: int) -> int:
        """The slot from which facts are whole where records below the log's first one are gone.

        They were stamped no later than it, but for `tolerance`, so their visits lie at most F slots ahead of its slot.
        """
        slots, ahead = self._scheme.slots, self._scheme.ahead
        now = slots.slot_of(self._now() + self._scheme.tolerance)
        if first == end:
            return now + 1 + ahead
        beyond = range(since - ahead + 1, now + 1)

        def stamped_before(at: int) -> bool:
            # By as much as clocks may differ: another leader before may have stamped later than the first one left.
            return self._source.offset_at(partition, slots.start(at) - self._scheme.tolerance) != first

        passed = bisect_left(beyond, True, key=stamped_before)  # noqa: FBT003  # what is looked for
        return beyond.start + passed + ahead

    def _behind(self, partition: int, first: int, end: int) -> int:
        """Records were deleted before they were read: by age, or by somebody.

        Where the log still holds older ones than anyone may ask about, those that are gone are older still.
        """
        offset, since = self._whole_from(partition, first, end)
        if offset == first > 0 and not self._clock.simulated:
            self._lost(partition, first)
            return first
        self._windows.restart(partition, offset, since)
        self._observer.recovery("behind_the_log")
        return offset

    def _lost(self, partition: int, offset: int) -> None:
        """Records are gone unread, and with them visits up to F slots ahead of now; reading goes on at an offset."""
        now = self._now() + self._scheme.tolerance
        since = self._scheme.slots.slot_of(now) + self._scheme.ahead + 1
        self._windows.restart(partition, offset, since)
        self._whole_since[partition] = since
        self._observer.recovery("log_lost_records")
        log.error("records of input partition %d are gone unread: answers are unknown for a window", partition)

    def _pass(self, partition: int, unread: Unreadable, end: int) -> int:
        """Go on behind records that this client can't read, as lost unread: visits may be among them.

        They lie at most F slots ahead of the slot in which their batch was stamped. Where that is not known, and the
        batch's own end may be wrong, all was stamped before now that is passed.
        """
        offset = min(unread.end, end)
        now = self._now() + self._scheme.tolerance
        stamp = now if unread.stamp_ms is None else unread.stamp_ms * 1_000
        began = time.perf_counter()
        letter = Letter(unreadable(0, unread), partition, unread.first)
        self._dead_letters.put([letter])
        self._windows.restart(partition, offset, self._scheme.slots.slot_of(stamp) + self._scheme.ahead + 1)
        self._observer.recovery("log_lost_records")
        reasons = by_reason([letter.refusal])
        self._observer.batch(0, {DEAD_LETTER: reasons.total()}, reasons, time.perf_counter() - began)
        told = f"records {unread.first} to {offset - 1} of input partition {partition} cannot be read: {unread.why}"
        log.error("%s; they count as lost unread: answers are unknown for a window", told)
        return offset

    def _now(self) -> int:
        """The present by the store's clock, as answers are held to it.

        By this machine's, if it is slow, records that are gone would seem older than they may be.
        """
        if self._clock.simulated:
            return self._clock.now()
        asked = self._windows.read({shard: Question() for shard in range(self._scheme.registry.shards)})
        return max(reading.time for reading in asked.values())

    def _prepare(self, fetched: Sequence[Fetched]) -> _Batch:
        began = time.perf_counter()
        values = [value for some in fetched for value in some.values]
        places = [(some.partition, offset) for some in fetched for offset in some.offsets]
        stamps = np.array([stamp for some in fetched for stamp in some.timestamps_ms], np.int64)
        slots = self._scheme.slots
        columns: Columns = decode_records(values, self._scheme.default_stay)
        accepted = accept(self._scheme, self._persons, columns, (stamps * 1_000 - slots.origin) // slots.length)
        accepted.fates[DEAD_LETTER] = sum(refusal.count for refusal in accepted.refused)
        letters = tuple(Letter(refusal, *places[refusal.record]) for refusal in accepted.refused)
        spans = tuple(Span(some.partition, some.start, some.end) for some in fetched)
        return _Batch(spans, accepted, letters, len(values), began)

    def _write(self, batch: _Batch) -> dict[int, int]:
        """Dead letters first: once progress has passed a record, nobody reads it again."""
        if batch.letters:
            self._dead_letters.put(batch.letters)
            passing("reader.dead_letters_written")
        lowest = self._windows.write(batch.spans, batch.accepted.facts)
        passing("reader.written")
        self.progressed.happened()
        return lowest

    def _finish(self) -> bool:
        """Wait for the write that is on its way; False if what was read since then must be read again."""
        if self._writing is None:
            return True
        batch, future = self._writing
        self._writing = None
        lowest = future.result()
        reasons = by_reason(batch.accepted.refused)
        self._observer.batch(batch.records, batch.accepted.fates, reasons, time.perf_counter() - batch.began)
        behind = [span.partition for span in batch.spans if lowest[span.partition] < span.start]
        if behind:
            self._observer.recovery("windows_behind")
            self._source.park(behind)
        return not behind

    def _abandon(self) -> None:
        """Begin anew everywhere; a write that is on its way may still succeed, and then counts."""
        try:
            self._finish()
        except (UnreachableError, WindowsError) as error:
            log.warning("a batch will be read again: %s", error)
        self._source.park()

    def _look_now_and_then(self) -> None:
        """See whether the windows still have all that was written: a write would tell, and none may come for long."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        written, reading = self._written(), dict(self._source.reading)
        progress = self._windows.progress()
        self._looked = time.monotonic()
        for partition, since in self._whole_since.items():
            # From before the log lost records: a store that failed over may have forgotten that it was told of them.
            # (Where nothing was lost, another member's last batch may lie ahead of a reader that has just taken over.)
            if partition in reading and _highest(progress, partition) > reading[partition]:
                self._windows.restart(partition, written[partition], since)
                self._observer.recovery("log_lost_records")
        behind = [partition for partition in written if _lowest(progress, partition) < written[partition]]
        if behind:
            self._observer.recovery("windows_behind")
            self._source.park(behind)

    def _commit_now_and_then(self) -> None:
        if time.monotonic() - self._committed < COMMIT_SECONDS:
            return
        self._committed = time.monotonic()
        self._source.commit(self._written())
        passing("reader.committed")
        self._observer.lag(self._source.lag())

    def _written(self) -> dict[int, int]:
        """Offsets up to which everything is in the windows: what is on its way does not count."""
        offsets = dict(self._source.reading)
        if self._writing is not None:
            offsets |= {span.partition: span.start for span in self._writing[0].spans if span.partition in offsets}
        return offsets

    def close(self) -> None:
        """Finish the write that is on its way, tell Kafka how far we are, and leave the group."""
        try:
            self._finish()
        except (UnreachableError, WindowsError) as error:
            log.warning("the last batch will be read again: %s", error)
            self._source.park()
        self._writer.shutdown()
        self._source.close(self._written())


def _lowest(progress: Sequence[Mapping[int, int]], partition: int) -> int:
    """The lowest progress of all shards, -1 where one has none."""
    return min(shard.get(partition, -1) for shard in progress)


def _highest(progress: Sequence[Mapping[int, int]], partition: int) -> int:
    return max(shard.get(partition, -1) for shard in progress)


def run_reader(reader: Reader, stop: threading.Event, alive: Callable[[str], None]) -> None:
    """Turn the reader until told to stop, with growing pauses while a server is away.

    Reading may go well between two failures of writing, and take long: trouble that comes back within twice the longest
    pause is taken for the same trouble, or a batch that nobody takes would be tried, and told of, again and again.
    """
    pause = FIRST_BACKOFF_SECONDS
    calm_at = time.monotonic()
    try:
        while not stop.is_set():
            try:
                reader.step(200)
            except (UnreachableError, WindowsError) as error:
                log.warning("reading pauses for %.1f s: %s", pause, error)
                alive(f"reading: {error}")
                stop.wait(pause)
                pause = min(2 * pause, LONGEST_BACKOFF_SECONDS)
                calm_at = time.monotonic() + 2 * LONGEST_BACKOFF_SECONDS
                continue
            if time.monotonic() >= calm_at:
                pause = FIRST_BACKOFF_SECONDS
            alive("")
    finally:
        reader.close()
