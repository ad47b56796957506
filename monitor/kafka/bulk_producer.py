"""Produce many records at once, in batches that are encoded in bulk (`monitor.kafka.record_batches`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kafka.errors import KafkaError

from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batch_queue import enqueue_batch, find_error, find_timestamp
from monitor.kafka.record_batches import Record, encode_batches

BATCH_BYTES: Final = 256 * 1024
FLUSH_SECONDS: Final = 60.0


class Delivery(NamedTuple):
    """A batch that was sent: the positions of its records, and why it is not known to be in the log (None: it is)."""

    positions: range
    error: KafkaError | None
    timestamp: int
    """The latest timestamp of its records in the log, in milliseconds; 0 if there was an error."""


class BulkProducer:
    """A producer to all partitions of a topic in turn.

    Raises:
        UnreachableError: Kafka cannot be used.
    """

    def __init__(self, connections: KafkaConnections, topic: str) -> None:
        self._topic = topic
        self._producer: Any = connections.create_producer(linger_ms=0, batch_size=BATCH_BYTES)

    def produce(self, records: Sequence[Record]) -> list[Delivery]:
        """Send records, and wait until all in-sync replicas have them or refuse them.

        Raises:
            KafkaError: the partitions of the topic are not known, so nothing was sent.
        """
        partitions = sorted(self._producer.partitions_for(self._topic))
        sent: list[tuple[range, int, Any]] = []
        for number, partition in enumerate(partitions):
            positions = range(number, len(records), len(partitions))
            for batch in encode_batches(records[number :: len(partitions)], BATCH_BYTES):
                future = enqueue_batch(self._producer, self._topic, partition, batch)
                sent.append((positions[: batch.records], batch.max_timestamp, future))
                positions = positions[batch.records :]
        expired: KafkaError | None = None
        try:
            self._producer.flush(timeout=FLUSH_SECONDS)
        except KafkaError as error:
            expired = error
        return [
            Delivery(positions, error and (expired or error), 0 if error else find_timestamp(future, given))
            for positions, given, future in sent
            for error in (find_error(future),)
        ]

    def close(self, seconds: float) -> None:
        """Close the producer."""
        self._producer.close(timeout=seconds)
