"""The ledger: the output topic itself, read to its end and appended to by one fenced writer per partition.

What is in it is decided, nothing else is. Records of aborted transactions count too: an ordinary subscriber may have
seen them (docs/runtime.md, section 4).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kafka import TopicPartition
from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topics import LEDGER_BATCH_BYTES
from monitor.errors import FencedError, LedgerChangedError, UnreachableError
from monitor.failpoints import failpoint

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_FENCES: Final = (ProducerFencedError, InvalidProducerEpochError)

READ_TIMEOUT_SECONDS: Final = 30.0
POLL_MS: Final = 50
# A broker that is gone must be given up within a slot, and what it leaves open be taken over. What is sent takes longer
# the more it is.
ACKNOWLEDGED_SECONDS: Final = 6.0
RECORDS_PER_SECOND: Final = 20_000
BEGIN_SECONDS: Final = 11.0  # the client itself waits 10 s for its transactional id
TRANSACTION_TIMEOUT_MS: Final = 30_000

# With kafka-python's default of 100 ms each transaction waits 70 ms for its coordinator.
RETRY_BACKOFF_MS: Final = 3


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """A record of the ledger, as bytes. Its timestamp (ms) is its tick's as_of."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


def read_partition(
    connections: KafkaConnections, topic: str, partition: int, until: int | None = None, start: int = 0
) -> Iterator[tuple[int, LedgerRecord]]:
    """Yield (offset, record) of a partition from `start` to `until` (default: its present end), read uncommitted.

    Raises:
        UnreachableError: if the brokers fail, or nothing comes for 30 s.
    """
    ends = {} if until is None else {partition: until}
    for _, offset, record in read_partitions(connections, topic, {partition: start}, ends):
        yield offset, record


def read_partitions(
    connections: KafkaConnections, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[tuple[int, int, LedgerRecord]]:
    """Yield (partition, offset, record) of partitions from `starts` to `ends` (or the present end), read uncommitted.

    Raises:
        UnreachableError: if the brokers fail, or nothing comes for 30 s.
    """
    places = {TopicPartition(topic, partition): start for partition, start in starts.items()}
    consumer = connections.consumer(isolation_level="read_uncommitted", max_partition_fetch_bytes=4 * 1024 * 1024)
    try:
        with connections.translate_errors():
            consumer.assign(list(places))
            first = consumer.beginning_offsets(list(places))
            present = {} if ends.keys() >= starts.keys() else consumer.end_offsets(list(places))
            end = {place: ends.get(place.partition, present.get(place)) for place in places}
            for place, start in places.items():
                consumer.seek(place, max(first[place], start))
            heard = time.monotonic()
            while waiting := {place for place in places if consumer.position(place) < end[place]}:
                # Whoever is read to its end is not asked again: what comes now would hide that the others are silent.
                consumer.pause(*(places.keys() - waiting - consumer.paused()))
                # The last offset is a transaction's marker: the position passes it on a poll that brings nothing.
                polled = consumer.poll(timeout_ms=POLL_MS, max_records=5_000)
                if polled:
                    heard = time.monotonic()
                elif time.monotonic() - heard > READ_TIMEOUT_SECONDS:
                    silent = ", ".join(f"{topic}-{place.partition} to offset {end[place]}" for place in sorted(waiting))
                    raise UnreachableError(f"the ledger cannot be read to its end: {silent}")
                for place in places:
                    for found in polled.get(place, ()):
                        if found.offset < end[place]:
                            yield place.partition, found.offset, _record(found)
    finally:
        consumer.close(autocommit=False)


def first_offset(connections: KafkaConnections, topic: str, partition: int) -> int:
    """The first offset that the partition still holds: 0 unless records have expired."""
    place = TopicPartition(topic, partition)
    consumer = connections.consumer()
    try:
        with connections.translate_errors():
            return int(consumer.beginning_offsets([place])[place])
    finally:
        consumer.close(autocommit=False)


def require_same(described: Mapping[str, Any], topic: str, topic_id: str) -> None:
    """See that what the brokers say of the ledger's topic is said of the one with this id.

    Records go to a topic by its name, and the fence is the id's: two owners of which each knows another topic by one
    name would not fence each other.

    Raises:
        LedgerChangedError: it is another one now, or gone.
    """
    if str(described["topic_id"]) != topic_id or described["error_code"]:
        raise LedgerChangedError(
            f"kafka.topics.alerts is {topic!r}, and that topic was deleted or made anew: what the other one says is "
            "spent must be read, and whoever else writes to it be fenced"
        )


def require_ledger(connections: KafkaConnections, topic: str, topic_id: str) -> None:
    """Ask the brokers whether the ledger's topic is the one with this id still.

    Raises:
        LedgerChangedError: it is another one now, or gone.
        UnreachableError: the brokers can't tell.
    """
    with connections.translate_errors(), closing(connections.admin()) as admin:
        require_same(admin.describe_topics([topic])[0], topic, topic_id)


def _record(found: Any) -> LedgerRecord:
    return LedgerRecord(found.key or b"", found.value or b"", tuple(found.headers or ()), found.timestamp)


def _run_in_thread(work: Callable[[], _T], name: str) -> Future[_T]:
    """Do work on a thread of its own, which can be given up: kafka-python waits for a commit without a limit."""
    future: Future[_T] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is waited for
            future.set_exception(error)

    threading.Thread(target=do, name=name, daemon=True).start()
    return future


def _is_fence(error: KafkaError) -> bool:
    """Once a fenced producer knows, kafka-python raises a plain KafkaError that names the cause in its text."""
    return isinstance(error, _FENCES) or any(fence.__name__ in str(error) for fence in _FENCES)


class Writer:
    """The one writer of a ledger partition: making it fences every earlier one.

    The fence is the ledger topic's, not the service's: a second service on the same topic must fence, not draw beside.

    Raises:
        UnreachableError: (any method) the outcome of what was asked is not known; take over anew.
        FencedError: (any method) somebody else has taken over.
    """

    def __init__(self, connections: KafkaConnections, topic: str, topic_id: str, partition: int) -> None:
        self._connections = connections
        self._topic = topic
        self._partition = partition
        self._producer = connections.producer(
            transactional_id=f"{topic_id}-{partition}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            linger_ms=0,
            batch_size=LEDGER_BATCH_BYTES,
        )
        try:
            self._run(self._producer.init_transactions, BEGIN_SECONDS)
        except BaseException:
            self.close()
            raise

    def append(self, records: Sequence[LedgerRecord]) -> int:
        """Append records in one transaction, and return the offset of the last (-1 without any)."""
        seconds = ACKNOWLEDGED_SECONDS + len(records) / RECORDS_PER_SECOND
        return self._run(lambda: self._transaction(records, seconds), seconds) if records else -1

    def _transaction(self, records: Sequence[LedgerRecord], seconds: float) -> int:
        self._producer.begin_transaction()
        failpoint("ledger.begun")
        sent = [
            self._producer.send(
                self._topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=self._partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        self._producer.flush(timeout=seconds)
        failpoint("ledger.sent")
        self._producer.commit_transaction()
        failpoint("ledger.committed")
        # All are in the log once the commit is; asking each brings up what was refused.
        return max(int(future.get(timeout=0.001).offset) for future in sent)

    def _run(self, work: Callable[[], _T], seconds: float) -> _T:
        try:
            return _run_in_thread(work, f"ledger-{self._partition}").result(seconds)
        except FutureTimeoutError as error:
            raise UnreachableError(
                f"no word from Kafka on {self._topic}-{self._partition} for {seconds:.0f} s"
            ) from error
        except KafkaError as error:
            if _is_fence(error):
                raise FencedError(f"another owner writes to {self._topic}-{self._partition} now") from error
            why = self._connections.unreachable_error(error)
            raise UnreachableError(f"{self._topic}-{self._partition} cannot be appended to: {why}") from error

    def close(self) -> None:
        """Let go of the producer; what is under way is aborted by the broker, or by the next writer."""
        with suppress(KafkaError):
            self._producer.close(timeout=1)
