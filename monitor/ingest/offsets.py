"""Offsets of an input partition, as both the reader and `check --live` request them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka import TopicPartition

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.groups import CommittedOffsets, read_committed_offsets

TIMEOUT_MS: Final = 10_000


def read_bounds(consumer: Any, place: Any) -> tuple[int, int]:
    """Return the first offset of a partition, and the offset after the last record that the consumer can read.

    Raises:
        KafkaError: Kafka does not answer.
    """
    first = consumer.beginning_offsets([place], timeout_ms=TIMEOUT_MS)[place]
    return int(first), int(consumer.end_offsets([place], timeout_ms=TIMEOUT_MS)[place])


def find_offset_at(consumer: Any, place: Any, instant: int) -> int | None:
    """Return the offset of the first record stamped at or after an instant; None if there is no such record.

    Raises:
        KafkaError: Kafka does not answer.
    """
    found = consumer.offsets_for_times({place: max(0, instant // 1_000)}, timeout_ms=TIMEOUT_MS)[place]
    return None if found is None else int(found.offset)


class InputOffsets:
    """The offsets of the input topic. Subclasses set the consumer.

    Args:
        connections: the connections to Kafka.
        topic: the input topic.
        topic_id: Kafka's id of the topic.
        service: the name of the service whose groups read the topic.
    """

    _consumer: Any

    def __init__(self, connections: KafkaConnections, topic: str, topic_id: str, service: str) -> None:
        self._connections = connections
        self._topic = topic
        self._topic_id = topic_id
        self._service = service

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

    def find_offset_at(self, partition: int, instant: int) -> int | None:
        """Return the offset of the first record stamped at or after an instant; None if there is no such record.

        Raises:
            UnreachableError: Kafka does not answer.
        """
        with self._connections.translate_errors():
            return find_offset_at(self._consumer, TopicPartition(self._topic, partition), instant)

    def read_committed_offsets(self) -> Mapping[int, CommittedOffsets]:
        """Return, by partition, the offsets that the service's groups have committed, in any configuration.

        Raises:
            UnreachableError: Kafka does not answer.
        """
        return read_committed_offsets(self._connections, self._service, self._topic, self._topic_id)
