"""The reader: one thread that reads, decodes, and accepts or refuses visits, while a second thread writes.

The progress in the store decides where to continue (`monitor.ingest.start_offsets`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from monitor.errors import StoreError, UnreachableError
from monitor.ingest.dead_letters import DeadLetterTopic, count_by_reason
from monitor.ingest.people_at_several_places import PeopleAtSeveralPlaces
from monitor.ingest.poll_input import Fetched, InputLog
from monitor.ingest.prepare_batch import prepare_batch
from monitor.ingest.start_offsets import StartOffsets
from monitor.ingest.write_queue import Batch, WriteQueue
from monitor.kinds.facts_and_questions import OffsetRange, Portions
from monitor.kinds.parameters import Parameters
from monitor.observe.failpoints import failpoint
from monitor.observe.logs import log_fields
from monitor.observe.update_service_metrics import Metrics
from monitor.store.hash_persons import PersonHasher
from monitor.store.redis_store import RedisStore
from monitor.thread_signals import Signal, TickEnds

log = logging.getLogger(__name__)

COMMIT_SECONDS: Final = 5.0
LAG_SECONDS: Final = 2.0
CHECK_SECONDS: Final = 0.5
START_AGAIN_SECONDS: Final = 30.0
"""The pause before a partition that could not be started is tried again. A try takes up to 10 s, in which no partition
is read."""

FIRST_BACKOFF_SECONDS: Final = 0.1
LONGEST_BACKOFF_SECONDS: Final = 5.0


class Reader:
    """A member of the input group. One thread calls `step` repeatedly, and then `close`."""

    def __init__(
        self,
        parameters: Parameters,
        source: InputLog,
        store: RedisStore,
        persons: PersonHasher,
        dead_letters: DeadLetterTopic,
        metrics: Metrics,
    ) -> None:
        self._parameters = parameters
        self._source = source
        self._store = store
        self._persons = persons
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._queue = WriteQueue(parameters.registry, self._write)
        self._committed_at = self._checked_at = self._measured_at = time.monotonic()
        self._start_offsets = StartOffsets(parameters, source, store)
        self._at_several_places = PeopleAtSeveralPlaces()
        self._postponed: dict[int, tuple[float, str]] = {}
        self.progressed, self.tick_ends = Signal(), TickEnds()

    def step(self, timeout_ms: int) -> bool:
        """Read one batch, and queue it for the writer; return False if there was nothing to read.

        Raises:
            UnreachableError: a server cannot be used now; call again later.
            StoreError: a key of the store has unexpected content, or the store cannot answer.
        """
        try:
            self._check_store()
            self._commit_periodically()
            self._start_waiting()
            self._measure_lag()
            fetched = self._source.poll(0 if self._queue else timeout_ms)
            if not fetched:
                self._finish()
                return False
            failpoint("reader.polled")
            self._count_late(fetched)
            batch = self._prepare(fetched)
            failpoint("reader.accepted")
            self._enqueue(batch)
        except (UnreachableError, StoreError):
            self._abandon()
            raise
        return True

    def _prepare(self, fetched: Sequence[Fetched]) -> Batch:
        return prepare_batch(self._parameters, self._persons, fetched)

    def _enqueue(self, batch: Batch) -> None:
        """Queue a batch, unless an earlier one has to be read again. Wait while the queue is full."""
        if not self._take_written():
            self._source.park(offsets.partition for offsets in batch.ranges)
            return
        self._queue.put(batch)
        while self._queue.is_full and self._take_written(wait=True):
            pass

    def _start_waiting(self) -> None:
        """Start each waiting partition at its start offset. One that cannot be started now does not hold up the others.

        Raises:
            UnreachableError: no partition can be started or read.
        """
        self._postponed = {place: why for place, why in self._postponed.items() if place in self._source.waiting}
        now = time.monotonic()
        due = [place for place in sorted(self._source.waiting) if self._postponed.get(place, (now, ""))[0] <= now]
        if not due:
            return
        # Write all queued batches first: a loss may move the progress back, and a batch that is written afterwards
        # could move it forward again, past records that were not read.
        self._finish()
        progress = self._store.read_progress()
        self._start_offsets.forget_commits()
        failure = None
        for partition in due:
            try:
                start = self._start_offsets.find(partition, progress)
                self._start_offsets.record(start, self._dead_letters, self._metrics)
                self._source.resume(partition, start.offset)
                self._postponed.pop(partition, None)
                failpoint("reader.assigned")
            except UnreachableError as error:
                failure = error
                log.warning("input partition %d is not read for %.0f s: %s", partition, START_AGAIN_SECONDS, error)
                self._postponed[partition] = time.monotonic() + START_AGAIN_SECONDS, str(error)
        if failure is not None and not self._source.positions:
            self._postponed.clear()
            raise failure

    def _count_late(self, fetched: Sequence[Fetched]) -> None:
        """Count records that were stamped before a tick closed, but are not below its end offsets (rule 9)."""
        late = 0
        for fetch in fetched:
            offsets = np.array([record.offset for record in fetch.records], np.int64)
            late += self.tick_ends.count_late(fetch.partition, offsets, fetch.stamps)
        if late:
            log.error(
                "records that a broker stamped before a tick closed came after the end offsets of this tick, so its "
                "answers lack them: check that the clocks of the brokers agree with that of Redis"
            )
            self._metrics.count_late_records(late)

    def _write(self, batch: Batch, portions: Portions) -> dict[int, int]:
        """Write dead letters, then facts, because a record is not read again after progress has passed it."""
        letters = [
            letter
            for letter in batch.letters
            if letter.offset >= self._start_offsets.dead_letters_from.get(letter.partition, 0)
        ]
        with log_fields(batch=_name(batch.ranges)):
            if letters:
                self._dead_letters.put(letters)
                failpoint("reader.dead_letters_written")
            lowest = self._store.write(batch.ranges, portions)
        failpoint("reader.written")
        self.progressed.notify()
        return lowest

    def _finish(self) -> bool:
        """Write all batches; return False if records of the queue must be read again."""
        complete = True
        while self._queue:
            self._queue.flush()
            complete = self._take_written(wait=True) and complete
        return complete

    def _take_written(self, *, wait: bool = False) -> bool:
        """Count the batches written by now; return False if records of the queue must be read again.

        `wait`: wait for the oldest batch.
        """
        complete = True
        while taken := self._queue.take(wait=wait):
            wait = False
            complete = self._count_written(*taken) and complete
        if complete:
            self._queue.advance()
        else:
            self._source.park(offsets.partition for offsets in self._queue.discard_pending())
        return complete

    def _count_written(self, batch: Batch, lowest: Mapping[int, int]) -> bool:
        reasons = count_by_reason(letter.refusal for letter in batch.letters)
        self._metrics.count_batch(batch.records, batch.fates, reasons, time.perf_counter() - batch.began)
        self._metrics.observe_timestamps(batch.oldest_stamp, batch.newest_stamps)
        self._metrics.count_people_at_several_places(
            sum(
                self._at_several_places.count(of_times)
                for facts in batch.facts
                for of_times in (facts.present, facts.stamped)
            )
        )
        self._metrics.count_cut(batch.cut)
        self._metrics.observe_report_delays(batch.delays.visits.tolist(), batch.delays.seconds)
        behind = {
            offsets.partition: (lowest[offsets.partition], offsets.start)
            for offsets in batch.ranges
            if lowest[offsets.partition] < offsets.start
        }
        self._reread(behind)
        return not behind

    def _reread(self, behind: Mapping[int, tuple[int, int]]) -> None:
        """Read again what the store has lost. `behind`: by partition, the offset that it has reached, and had."""
        if not behind:
            return
        for partition, (reached, expected) in sorted(behind.items()):
            log.warning(
                "Redis has lost facts of input partition %d: it has them up to offset %d, and had them up to offset "
                "%d. They are read again",
                partition,
                max(0, reached),
                expected,
            )
        self._metrics.count_recovery("windows_behind")
        self._source.park(behind)

    def _abandon(self) -> None:
        """Park all partitions, so that they are started again. A sent batch may still be written; then it counts."""
        self._queue.discard_pending()
        while self._queue:
            try:
                self._finish()
            except (UnreachableError, StoreError) as error:
                log.warning("a batch will be read again: %s", error)
        self._source.park()

    def _check_store(self) -> None:
        """Check regularly that the store still contains everything written. Writes check this too, but may be rare."""
        if time.monotonic() - self._checked_at < CHECK_SECONDS:
            return
        written, positions = self._written_offsets, dict(self._source.positions)
        progress = self._store.read_progress()
        self._checked_at = time.monotonic()
        for partition in self._start_offsets.lost:
            # Progress ahead of this reader may be from before the loss: after a failover, the store may have no record
            # of the loss. (In a partition without a loss, the last batch of an earlier member may be ahead.)
            if partition in positions and _find_highest(progress, partition) > positions[partition]:
                lowest = min(written[partition], _find_lowest(progress, partition))
                self._start_offsets.repeat_loss(partition, lowest, self._metrics)
        reached = {partition: _find_lowest(progress, partition) for partition in written}
        self._reread({one: (reached[one], written[one]) for one in written if reached[one] < written[one]})

    def _commit_periodically(self) -> None:
        if time.monotonic() - self._committed_at < COMMIT_SECONDS:
            return
        self._committed_at = time.monotonic()
        self._source.commit(self._written_offsets)
        failpoint("reader.committed")

    def _measure_lag(self) -> None:
        """Measure the lag regularly. A consumer does not report a broker that is silent, but this request fails.

        `step` calls this after it has started parked partitions again, because a parked partition has no position.
        Otherwise, nothing would be measured while no batch can be written.
        """
        if time.monotonic() - self._measured_at < LAG_SECONDS:
            return
        positions, written = dict(self._source.positions), self._written_offsets
        unread = self._source.read_lag().items()
        self._metrics.set_lag(
            {partition: behind + positions[partition] - written[partition] for partition, behind in unread}
        )
        self._measured_at = time.monotonic()

    @property
    def assigned(self) -> frozenset[int]:
        """The input partitions that are assigned to this instance. Any thread may read it."""
        return frozenset(dict(self._source.positions)) | frozenset(set(self._source.waiting))

    @property
    def waiting_for(self) -> str:
        """What the reader waits for; empty if all is well."""
        for partition, (_, why) in self._postponed.items():
            return f"reading: input partition {partition} cannot be started: {why}"
        return "" if self._source.is_answering else "reading: Kafka does not return the ends of the input partitions"

    @property
    def _written_offsets(self) -> dict[int, int]:
        """The offsets up to which everything is in the store. Queued batches do not count."""
        offsets, starts = dict(self._source.positions), self._queue.find_starts()
        return {partition: min(offset, starts.get(partition, offset)) for partition, offset in offsets.items()}

    def close(self) -> None:
        """Finish the pending write, commit offsets, and leave the group."""
        try:
            self._finish()
        except (UnreachableError, StoreError) as error:
            log.warning("the last batch will be read again: %s", error)
            self._source.park()
            self._queue.discard_pending()
        self._queue.close()
        self._source.close(self._written_offsets)


def _name(ranges: Iterable[OffsetRange]) -> str:
    """Return the name of a batch in logs: its input partitions and offsets."""
    return " ".join(f"{offsets.partition}:{offsets.start}-{offsets.end}" for offsets in ranges)


def _find_lowest(progress: Sequence[Mapping[int, int]], partition: int) -> int:
    """Return the lowest progress of all shards in a partition, -1 if a shard has none."""
    return min(shard.get(partition, -1) for shard in progress)


def _find_highest(progress: Sequence[Mapping[int, int]], partition: int) -> int:
    return max(shard.get(partition, -1) for shard in progress)


def run_reader(reader: Reader, stop: threading.Event, alive: Callable[[str], None]) -> None:
    """Run the reader until `stop` is set, with growing pauses while a server is unavailable.

    Between two failed writes, reading may succeed and take long. Therefore a failure within twice the longest pause
    counts as the same problem. Otherwise, a batch that cannot be written would be retried without growing pauses.
    """
    pause = FIRST_BACKOFF_SECONDS
    calm_at = time.monotonic()
    try:
        while not stop.is_set():
            try:
                reader.step(200)
            except (UnreachableError, StoreError) as error:
                log.warning("reading pauses for %.1f s: %s", pause, error)
                alive(f"reading: {error}")
                stop.wait(pause)
                pause = min(2 * pause, LONGEST_BACKOFF_SECONDS)
                calm_at = time.monotonic() + 2 * LONGEST_BACKOFF_SECONDS
                continue
            if time.monotonic() >= calm_at:
                pause = FIRST_BACKOFF_SECONDS
            alive(reader.waiting_for)
    finally:
        reader.close()
