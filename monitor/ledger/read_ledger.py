"""Read the ledger, which is the output topic, and append to it with one fenced writer per partition.

A tick is decided if and only if the ledger contains it. Records of aborted transactions count too: a subscriber that
reads uncommitted records may have seen them (docs/architecture.md, section 4).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from kafka import TopicPartition

from monitor.errors import LedgerChangedError, LedgerError, MonitorError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.transactions import FetchedBatch, read_batches
from monitor.kinds.all_records import read_record
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState, Spent
from monitor.records.output_records import OutputRecord

log = logging.getLogger(__name__)


READ_TIMEOUT_SECONDS: Final = 30.0
POLL_MS: Final = 50


def read_partition(
    connections: KafkaConnections, topic: str, partition: int, until: int | None = None, start: int = 0
) -> Iterator[tuple[int, OutputRecord]]:
    """Yield (offset, record) of a partition from `start` to `until` (default: its present end), read uncommitted.

    Raises:
        UnreachableError: the brokers fail, or no record arrives for 30 s.
    """
    ends = {} if until is None else {partition: until}
    for _, offset, record in read_partitions(connections, topic, {partition: start}, ends):
        yield offset, record


def is_committed(
    connections: KafkaConnections, topic: str, partition: int, tick: int, between: tuple[int, int]
) -> bool:
    """Return whether a transaction with a record of a tick was committed, as its marker says, between two offsets.

    A fence ends all transactions of earlier owners, so their markers are before the fencing owner's first record. A
    consumer with read_committed would have to wait for the open transactions of other producers too. A record without a
    transaction counts as committed.

    Raises:
        UnreachableError: as `read_partition`.
    """
    start, end = between
    begun = set[int | None]()
    with closing(_poll(connections, topic, {partition: start}, {partition: end})) as polled:
        for _, _, batch in polled:
            if batch.committed is not None:
                if batch.committed and batch.producer in begun:
                    return True
                begun.discard(batch.producer)
            elif batch.producer not in begun and any(is_from(_to_output_record(each), tick) for each in batch.records):
                if batch.producer is None:
                    return True
                begun.add(batch.producer)
    return False


def is_from(record: OutputRecord, tick: int) -> bool:
    """Return whether a ledger record belongs to a tick or a later one, as an answer or by giving the tick up.

    A takeover reports records that it cannot read.
    """
    try:
        entry = read_record(record.key, record.value, record.headers)
    except LedgerError:
        return False
    named = getattr(entry, "tick", None), getattr(entry, "incomplete", None)
    return any(number is not None and number >= tick for number in named)


def read_partitions(
    connections: KafkaConnections, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Generator[tuple[int, int, OutputRecord]]:
    """Yield (partition, offset, record) of partitions from `starts` to `ends` (or the present end), read uncommitted.

    Raises:
        UnreachableError: the brokers fail, or no record arrives for 30 s.
    """
    with closing(_poll(connections, topic, starts, ends)) as polled:
        for partition, end, batch in polled:
            with connections.translate_errors():
                records = [each for each in batch.records if starts[partition] <= each.offset < end]
            for record in records:
                yield partition, record.offset, _to_output_record(record)


def _poll(
    connections: KafkaConnections, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Generator[tuple[int, int, FetchedBatch]]:
    """Yield (partition, its end, a batch that begins before the end), as `read_partitions` does.

    Batches take half of the time of kafka-python's records, which count the bytes of all headers.
    """
    consumer = read_batches(connections.create_consumer(max_partition_fetch_bytes=4 * 1024 * 1024))
    topic_partitions = {TopicPartition(topic, partition): start for partition, start in starts.items()}
    try:
        with connections.translate_errors():
            consumer.assign(list(topic_partitions))
            first = consumer.beginning_offsets(list(topic_partitions))
            present = {} if ends.keys() >= starts.keys() else consumer.end_offsets(list(topic_partitions))
            end = {tp: ends[tp.partition] if tp.partition in ends else present[tp] for tp in topic_partitions}
            for tp, start in topic_partitions.items():
                consumer.seek(tp, max(first[tp], start))
            received_at = time.monotonic()
            while waiting := {tp for tp in topic_partitions if consumer.position(tp) < end[tp]}:
                # Pause partitions that have been read to their ends. Their new records would hide a stalled partition.
                consumer.pause(*(topic_partitions.keys() - waiting - consumer.paused()))
                # The last offset may be a transaction marker. The position passes it on a poll without records.
                polled = consumer.poll(timeout_ms=POLL_MS, max_records=5_000)
                if polled:
                    received_at = time.monotonic()
                elif time.monotonic() - received_at > READ_TIMEOUT_SECONDS:
                    silent = ", ".join(f"{topic}-{tp.partition} to offset {end[tp]}" for tp in sorted(waiting))
                    raise UnreachableError(f"the ledger could not be read to its end: {silent}")
                for tp in topic_partitions:
                    for batch in polled.get(tp, ()):
                        if batch.offset < end[tp]:
                            yield tp.partition, end[tp], batch
    finally:
        consumer.close(autocommit=False)


def read_first_offset(connections: KafkaConnections, topic: str, partition: int) -> int:
    """Return the first offset that the partition still contains: 0 unless records have expired."""
    tp = TopicPartition(topic, partition)
    with connections.translate_errors(), closing(connections.create_consumer()) as consumer:
        return int(consumer.beginning_offsets([tp])[tp])


def require_topic_id(described: Mapping[str, Any], topic: str, topic_id: str) -> None:
    """Check that the description of the ledger's topic has this id.

    Producers address a topic by name, but the transactional id contains the topic's id. Two owners that know different
    topics under one name would not fence each other.

    Raises:
        LedgerChangedError: the topic was replaced or deleted.
    """
    if str(described["topic_id"]) != topic_id or described["error_code"]:
        raise LedgerChangedError(
            f"kafka.topics.alerts is {topic!r}, and that topic was deleted or re-created: the service must read the "
            "new ledger and fence its other writers"
        )


def require_ledger(connections: KafkaConnections, topic: str, topic_id: str) -> None:
    """Check that the ledger's topic still has this id.

    Raises:
        LedgerChangedError: the topic was replaced or deleted.
        UnreachableError: Kafka does not answer.
    """
    with connections.open_admin() as admin:
        require_topic_id(admin.describe_topics([topic])[0], topic, topic_id)


def _to_output_record(record: Any) -> OutputRecord:
    return OutputRecord(record.key or b"", record.value or b"", tuple(record.headers or ()), record.timestamp)


class LedgerReader:
    """The states of ledger partitions as of the last read. Thread-safe.

    Args:
        connections: the connections to Kafka.
        parameters: the parameters of the service.
        topic: the ledger's topic.
        partitions: the numbers of the partitions to read.
        now: returns the present instant. With a clock that is ahead, expired answers would be dated too late.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        parameters: Parameters,
        topic: str,
        partitions: Iterable[int],
        now: Callable[[], int],
    ) -> None:
        self._connections, self._parameters, self._topic, self._now = connections, parameters, topic, now
        self._states = {partition: LedgerState() for partition in partitions}
        self._offsets = dict.fromkeys(self._states, 0)
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._started = -1
        self._failure: MonitorError | None = None

    @property
    def states(self) -> tuple[LedgerState, ...]:
        """The states, in order of partitions. Later reads change them."""
        return tuple(self._states.values())

    def get_state(self, partition: int) -> LedgerState:
        """Return the state of a partition. Later reads change it."""
        return self._states[partition]

    def refresh(self) -> None:
        """Read all partitions to their ends, including every record acknowledged before this call.

        If another thread starts a read after this call has begun, this call shares the result of that read.

        Raises:
            UnreachableError: the brokers fail.
            LedgerError: a record cannot be read.
        """
        called = next(self._order)
        with self._lock:
            if self._started < called:
                self._started, self._failure = next(self._order), None
                try:
                    self._read(self._offsets, {})
                except MonitorError as error:
                    self._failure = error
            if self._failure is not None:
                raise self._failure

    def read_to(self, partition: int, until: int) -> None:
        """Read one partition up to an offset."""
        with self._lock:
            self._read({partition: self._offsets[partition]}, {partition: until})
            self._offsets[partition] = max(self._offsets[partition], until)  # the last offset may be a marker

    def is_committed(self, partition: int) -> bool:
        """Return whether a record of the partition's last tick is in a committed transaction; True without answers."""
        state = self._states[partition]
        if state.last_tick is None or not state.last_records:
            return True
        between = state.last_offset, self._offsets[partition]
        return is_committed(self._connections, self._topic, partition, state.last_tick, between)

    def _read(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        grid, now = self._parameters.grid, self._now() + self._parameters.tolerance
        for partition, offset, record in read_partitions(self._connections, self._topic, dict(starts), ends):
            self._states[partition].read(offset, record, grid, now)
            self._offsets[partition] = offset + 1

    def forget(self, tick: int) -> None:
        """Drop marks and times that no period can contain any more. `tick` must come from a clock that is not ahead."""
        grid = self._parameters.grid
        oldest = grid.as_of(tick) - (self._parameters.longest_horizon + 1) * grid.length
        with self._lock:
            for state in self._states.values():
                state.forget(tick, self._parameters.mark_lifetime, oldest, self._parameters.memory_slots)

    def read_spent(self, partitions: int) -> dict[int, Spent]:
        """Return the spent ε of each of the first `partitions` partitions."""
        with self._lock:
            return {partition: self._states[partition].summarize_spent() for partition in range(partitions)}
