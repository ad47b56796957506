"""Parts of the service that are run step by step: a log, and a reader whose writes wait."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from monitor.ingest.poll_input import Fetched
from monitor.ingest.reading_thread import Reader
from monitor.ingest.write_queue import Batch, WriteQueue
from monitor.kafka.kafka_python_3_0.batches import FetchedRecord
from monitor.kinds.facts_and_questions import Portions
from monitor.kinds.locations import Registry
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR, MINUTE
from tests.builders import ORIGIN
from tests.privacy_service.driving import HASHER
from tests.privacy_service.plans import Plan, log_end, value_of
from tests.privacy_service.states import batch_name, pack_polls

_PREPARED_AGAIN: Final = 64


@dataclass
class Write:
    """A write in flight."""

    work: Any
    batch: Batch
    portions: Portions
    reached: dict[int, int] | None = None

    def done(self) -> bool:
        return self.reached is not None

    def result(self) -> dict[int, int]:
        if self.reached is None:
            self.reached = self.work(self.batch, self.portions)
        return self.reached


class SteppedQueue(WriteQueue):
    """A queue without a thread: a write waits until its result is requested. Its content can be saved and restored."""

    def __init__(self, registry: Registry, write: Callable[[Batch, Portions], dict[int, int]]) -> None:
        super().__init__(registry, write)
        self._thread.shutdown()
        self._thread = cast("Any", self)

    def submit(self, write: Callable[[Batch, Portions], dict[int, int]], batch: Batch, _joined: Portions) -> Write:
        """Keep a write until its result is requested."""
        return Write(write, batch, pack_polls(batch, self._registry))

    def list_writes(self) -> list[Write]:
        """Return the writes in flight, the oldest first."""
        return [cast("Any", write) for _, write in self._sent]

    def read_pending(self) -> Batch | None:
        """Return the batch that is not sent yet."""
        return self._pending

    def put_back(self, writes: Iterable[tuple[Batch, dict[int, int] | None]], pending: Batch | None) -> None:
        """Replace the content: sent batches with the results of their writes, and the batch that is not sent yet."""
        self._sent.clear()
        self._sent += [
            (batch, cast("Any", Write(self._write, batch, pack_polls(batch, self._registry), reached)))
            for batch, reached in writes
        ]
        self._pending = pending


class SteppedReader(Reader):
    """A reader of a `HandLog` that checks the windows when it is told to, and commits no offsets.

    A poll that was prepared before is used again, because preparing takes most of the time. Each 64th is prepared once
    more, which checks that a batch depends on its records alone.
    """

    def __init__(self, plan: Plan, log: HandLog, windows: RedisStore) -> None:
        silent = cast("Any", Silent())
        self._log = log
        super().__init__(plan.parameters, cast("Any", log), windows, HASHER, silent, silent)
        self._queue.close()
        self.queue = self._queue = SteppedQueue(plan.parameters.registry, self._write)
        self._committed_at = float("inf")

    def step_once(self, *, looks: bool) -> None:
        """Run one step. Every half second of real time a reader looks whether the windows still have its writes."""
        self._checked_at = float("-inf") if looks else float("inf")
        self.step(0)

    def _prepare(self, fetched: Sequence[Fetched]) -> Batch:
        key = tuple((fetch.partition, fetch.start, fetch.end) for fetch in fetched)
        known = self._log.prepared.get(key)
        if known is None:
            known = self._log.prepared[key] = super()._prepare(fetched)
            return known
        self._log.repeated += 1
        if self._log.repeated % _PREPARED_AGAIN == 0:
            registry = self._parameters.registry
            assert batch_name(super()._prepare(fetched), registry) == batch_name(known, registry)
        return known

    def write(self, batch: Batch) -> None:
        """Write a batch of another reader."""
        self._write(batch, pack_polls(batch, self._parameters.registry))


class HandLog:
    """The input log of one reader, which returns the requested number of records."""

    def __init__(self, plan: Plan, partitions: Sequence[int], clock: SteppedClock) -> None:
        self._plan, self._clock = plan, clock
        self.waiting = set(partitions)
        self.truncated: dict[int, int] = {}
        self.unread: dict[int, Any] = {}
        self.read_before = False
        self.positions: dict[int, int] = {}
        self.next: Mapping[int, int] = {}
        self.prepared: dict[Hashable, Batch] = {}
        self.repeated = 0

    def list_partitions(self) -> range:
        """Return all partitions of the topic."""
        return range(len(self._plan.log))

    def commit_starts(self, offsets: Mapping[int, int]) -> None:
        """Do nothing: in these runs, all records are read from the start of the log."""

    def read_lag(self) -> dict[int, int]:
        """Return nothing: the reader measures its lag by the real time."""
        return {}

    def end(self, partition: int) -> int:
        """Return how many records are in the log now; a missing record hides the following ones."""
        return log_end(self._plan, partition, self._clock.now())

    def poll(self, timeout_ms: int) -> list[Fetched]:  # noqa: ARG002  # it does not wait
        """Return the requested number of records of each partition."""
        return [self._fetched(partition, number) for partition, number in self.next.items() if number]

    def _fetched(self, partition: int, number: int) -> Fetched:
        start = self.positions[partition]
        self.positions[partition] = end = start + number
        records = [
            FetchedRecord(offset, (ORIGIN + entry.stamp * HOUR + MINUTE) // 1_000, value_of(entry))
            for offset, entry in enumerate(self._plan.log[partition][start:end], start)
        ]
        return Fetched(partition, start, end, records)

    def resume(self, partition: int, offset: int) -> None:
        """Continue a partition at an offset, as the service's log does."""
        self.waiting.discard(partition)
        self.positions[partition] = offset

    def park(self, partitions: Iterable[int] | None = None) -> None:
        """Stop reading partitions, as the service's log does."""
        for partition in list(self.positions if partitions is None else partitions):
            if self.positions.pop(partition, None) is not None:
                self.waiting.add(partition)

    def read_bounds(self, partition: int) -> tuple[int, int]:
        """Return the bounds of the log; no record has expired."""
        return 0, self.end(partition)

    def read_committed_offsets(self) -> dict[int, Any]:
        """Return no offsets; nothing was committed to Kafka."""
        return {}

    def read_stamp(self, partition: int, offset: int, end: int) -> int | None:
        """Return when a record was stamped; None if there is no such record."""
        return ORIGIN + self._plan.log[partition][offset].stamp * HOUR + MINUTE if offset < end else None


class HandTopic:
    """The input topic of the owners."""

    def __init__(self, plan: Plan, clock: SteppedClock) -> None:
        self._plan, self._clock = plan, clock

    def read_end_offsets_at(self, tick: int) -> dict[int, int]:  # noqa: ARG002  # the current end is allowed at any tick
        """Return the current ends of the log."""
        return {part: log_end(self._plan, part, self._clock.now()) for part in range(len(self._plan.log))}


class Silent:
    """An observer of readers, and a topic of dead letters: each call does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _do_nothing


def _do_nothing(*_given: object) -> None:
    """Keep nothing."""
