"""Offsets and timestamps of an input partition, as both the reader and `check --live` request them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kafka import TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, KafkaTimeoutError

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import CommittedOffsets, read_committed_offsets
from monitor.kafka.kafka_python_3_0.batches import FetchedRecord, Unreadable
from monitor.kafka.kafka_python_3_0.fetcher import FetchState, read_leniently
from monitor.time.instants import MILLISECOND

TIMEOUT_MS: Final = 10_000
_POLL_MS: Final = 100
_LEAST_BYTES: Final = 1
"""The bytes that a fetch of a single record asks for. A broker returns at least one whole batch."""


def read_bounds(consumer: Any, tp: Any) -> tuple[int, int]:
    """Return the first offset of a partition, and the offset after the last record that the consumer can read.

    Raises:
        KafkaError: Kafka does not answer.
    """
    first = consumer.beginning_offsets([tp], timeout_ms=TIMEOUT_MS)[tp]
    return int(first), int(consumer.end_offsets([tp], timeout_ms=TIMEOUT_MS)[tp])


class InputOffsets:
    """The offsets of the input topic. Subclasses set the consumer.

    Attributes:
        truncated: an offset by partition. If the log has lost records that were read, it is the offset up to which the
            log is unchanged (0: unknown). If there are records without a broker timestamp, it is the offset after them.
        unread: by partition, the records that this client cannot read, and that count as lost. The partition waits.

    Args:
        connections: the connections to Kafka.
        topic: the input topic.
        topic_id: Kafka's id of the topic.
        service: the name of the service whose groups read the topic.
        reading: the limits of reading, and who stamps records; in a replay, producers do.
        read_before: whether the service has read this topic before, as its ledger shows.
    """

    _consumer: Any

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        topic_id: str,
        service: str,
        *,
        reading: FetchState | None = None,
        read_before: bool = False,
    ) -> None:
        self._connections = connections
        self._topic = topic
        self._topic_id = topic_id
        self._service = service
        self._reading = reading or FetchState()
        self._single: Any = None
        self.read_before = read_before
        self.truncated: dict[int, int] = {}
        self.unread: dict[int, Unreadable] = {}

    def list_partitions(self) -> list[int]:
        """Return all partitions of the topic.

        Raises:
            UnreachableError: Kafka does not answer.
        """
        with self._connections.translate_errors():
            return sorted(self._consumer.partitions_for_topic(self._topic) or ())

    def read_bounds(self, partition: int) -> tuple[int, int]:
        """Return the first offset of the log, and the offset after the last record that can be read.

        Raises:
            UnreachableError: Kafka does not answer.
        """
        with self._connections.translate_errors():
            return read_bounds(self._consumer, TopicPartition(self._topic, partition))

    def read_stamp(self, partition: int, offset: int, end: int) -> int | None:
        """Return the instant at which a broker stamped the first record from an offset on.

        None means that it is not known: there is no such record before `end`, it is damaged, or no broker stamped it.

        The broker is not asked for an offset by time. For the answer, it would decompress the whole batch around it
        into its own memory, without a limit, so that a batch of 0.2 MB can make each such request fail. A fetched batch
        is decompressed here, and only up to its first needed record.

        Raises:
            UnreachableError: Kafka does not answer, or the offset is no longer in the log.
        """
        tp = TopicPartition(self._topic, partition)
        try:
            with self._connections.translate_errors():
                record = self._fetch_one(tp, offset, end)
        except UnreachableError:
            self.close_single()
            raise
        return None if record is None or record.stamp_ms is None else record.stamp_ms * MILLISECOND

    def _fetch_one(self, tp: Any, offset: int, end: int) -> FetchedRecord | None:
        """Return the first record from an offset on; None if there is none before `end`."""
        consumer = self._open_single()
        consumer.assign([tp])
        consumer.seek(tp, offset)
        deadline = time.monotonic() + TIMEOUT_MS / 1_000
        while consumer.position(tp) < end:
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(f"no record of {tp.topic}-{tp.partition} was fetched")
            with suppress(CorruptRecordError):  # it is fetched again, and returned as unreadable in the end
                for record in consumer.poll(timeout_ms=_POLL_MS).get(tp, ()):
                    return record  # type: ignore[no-any-return]  # kafka-python ships no types
        return None

    def _open_single(self) -> Any:
        """Return the consumer of single records, which also sees those of open transactions. Open it if necessary."""
        if self._single is None:
            consumer = self._connections.create_consumer(
                fetch_max_bytes=_LEAST_BYTES, max_partition_fetch_bytes=_LEAST_BYTES, max_poll_records=1
            )
            self._single = read_leniently(consumer, FetchState(stamped_by_brokers=self._reading.stamped_by_brokers))
        return self._single

    def close_single(self) -> None:
        """Close the consumer of single records. It is opened again when it is needed."""
        consumer, self._single = self._single, None
        if consumer is not None:
            with suppress(KafkaError, OSError):
                consumer.close(autocommit=False, timeout_ms=_POLL_MS)

    def commit_starts(self, offsets: Mapping[int, int]) -> None:
        """Commit start offsets of partitions. A reader without a group commits nothing."""

    def read_committed_offsets(self) -> Mapping[int, CommittedOffsets]:
        """Return, by partition, the offsets that the service's groups have committed, in any configuration.

        Raises:
            UnreachableError: Kafka does not answer.
        """
        return read_committed_offsets(self._connections, self._service, self._topic, self._topic_id)
