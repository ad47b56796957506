"""Reads the output topic in a thread, without a consumer group and without commits, and reconnects when it fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafka import OffsetSpec, TopicPartition

from monitor.contracts.instants import MILLISECOND
from monitor.errors import TopicError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.tools.client.subscriber import read_topic_id
from monitor.tools.page.entries import Entry, read_entries

log = logging.getLogger(__name__)

POLL_MS: Final = 250
RETRY_SECONDS: Final = 2.0
ASK_SECONDS: Final = 5.0
_MAX_RECORDS: Final = 2_000


class Polled(NamedTuple):
    """The records for subscribers, the position after them, and the number of foreign records (`read_entries`)."""

    entries: Sequence[Entry]
    position: Mapping[int, int]
    foreign: int


Deliver = Callable[[str, Polled], None]
"""Takes Kafka's id of the topic, and the records of a poll with the position after them."""


@dataclass(frozen=True, slots=True)
class Source:
    """The output topic, and how far back to read it: `history` in microseconds before its latest record."""

    connections: KafkaConnections
    topic: str
    history: int


class Reader:
    """The connection to the output topic. It reads whole transactions only (`read_committed`). Not thread-safe.

    It continues at a position if the topic still has the id `topic_id`. A re-created topic has another id, and its
    offsets start at 0 again.

    Raises:
        TopicError: the topic does not exist.
        UnreachableError: Kafka does not answer.
    """

    def __init__(self, source: Source, topic_id: str = "", position: Mapping[int, int] | None = None) -> None:
        self._connections, self._topic = source.connections, source.topic
        self._consumer: Any = source.connections.create_consumer(isolation_level="read_committed")
        self._admin: Any = None
        try:
            with self._connections.translate_errors():
                self._partitions = self._find_partitions(source.topic)
                self._consumer.assign(self._partitions)
                self._admin = source.connections.create_admin()
                self.topic_id = read_topic_id(self._admin, source.topic)
                self._seek(source, (position or {}) if self.topic_id == topic_id else {})
        except BaseException:
            self.close()
            raise

    def _find_partitions(self, topic: str) -> list[TopicPartition]:
        partitions = self._consumer.partitions_for_topic(topic)
        if not partitions:
            raise TopicError(
                f"kafka.topics.alerts is {topic!r}, but there is no such topic: run `location-monitor topics "
                "--create`, or correct kafka.topics.alerts or kafka.bootstrap_servers"
            )
        return [TopicPartition(topic, partition) for partition in sorted(partitions)]

    def _seek(self, source: Source, position: Mapping[int, int]) -> None:
        """Continue at a position. Partitions without one start `history` before the topic's latest record."""
        first = self._consumer.beginning_offsets(self._partitions)
        ends = self._consumer.end_offsets(self._partitions)
        unread = [partition for partition in self._partitions if partition.partition not in position]
        starts = self._find_starts(source, unread, ends) if unread else {}
        for partition in self._partitions:
            wanted = position.get(partition.partition, starts.get(partition, first[partition]))
            # Records may have been deleted meanwhile, by retention or by a new topic.
            self._consumer.seek(
                partition, wanted if first[partition] <= wanted <= ends[partition] else first[partition]
            )

    def _find_starts(
        self, source: Source, partitions: Sequence[TopicPartition], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        latest = self._find_latest(partitions)
        wanted = {partition: max(0, latest - source.history // MILLISECOND) for partition in partitions}
        found = self._consumer.offsets_for_times(wanted)
        return {
            partition: ends[partition] if found.get(partition) is None else found[partition].offset
            for partition in partitions
        }

    def _find_latest(self, partitions: Sequence[TopicPartition]) -> int:
        """Return the latest timestamp of these partitions in milliseconds; 0 if they are empty."""
        offsets = self._admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP))
        return max(0, *(int(offsets[partition].timestamp) for partition in partitions))

    def poll(self) -> Polled:
        """Return the next records for subscribers, and the position after them. Wait for at most 250 ms."""
        with self._connections.translate_errors():
            polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=_MAX_RECORDS)
            position = {partition.partition: int(self._consumer.position(partition)) for partition in self._partitions}
        entries, foreign = read_entries(record for records in polled.values() for record in records)
        return Polled(entries, position, foreign)

    def ask(self) -> None:
        """Ask Kafka for the end and the id of the topic. A poll does not fail if Kafka does not answer, but this does.

        Raises:
            UnreachableError: Kafka does not answer, or the topic was re-created, so a new Reader must be opened.
        """
        self.is_at_end()
        self.require_same_topic()

    def require_same_topic(self) -> None:
        """Ask Kafka whether the topic still has its id. If it has, all records polled so far came from that topic.

        Raises:
            UnreachableError: Kafka does not answer, or the topic was re-created, so a new Reader must be opened.
        """
        with self._connections.translate_errors():
            if read_topic_id(self._admin, self._topic) != self.topic_id:
                raise UnreachableError(f"the topic {self._topic} was re-created: it is read from its beginning")

    def is_at_end(self) -> bool:
        """Return whether everything committed so far has been read."""
        with self._connections.translate_errors():
            ends = self._consumer.end_offsets(self._partitions)
            return all(int(self._consumer.position(partition)) >= end for partition, end in ends.items())

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close(autocommit=False)
        if self._admin is not None:
            self._admin.close()


def follow(
    source: Source, deliver: Deliver, reader: Reader, position: Mapping[int, int], stop: threading.Event
) -> None:
    """Deliver records until `stop` is set. If Kafka fails, connect again and continue after the last delivery.

    Records are delivered only after Kafka has confirmed the id of the topic: kafka-python fetches by name, so a poll
    may also return records of a new topic from the middle. Every few seconds the connection is checked, and a delivery
    follows, perhaps empty: it shows that Kafka answers.
    """
    current: Reader | None = reader
    topic_id, at, asked = reader.topic_id, dict(position), time.monotonic()
    while not stop.is_set():
        try:
            current = current or Reader(source, topic_id, at)
            if current.topic_id != topic_id:
                topic_id, at = current.topic_id, {}  # the offsets were those of the earlier topic
            polled = current.poll()
            is_due = time.monotonic() - asked >= ASK_SECONDS
            if is_due:
                current.ask()
                asked = time.monotonic()
            elif polled.entries:
                current.require_same_topic()
            if is_due or polled.position != at:
                at = dict(polled.position)
                deliver(topic_id, polled)
        except (UnreachableError, TopicError) as error:
            log.warning("%s", error)
            _close(current)
            current = None
            stop.wait(RETRY_SECONDS)
    _close(current)


def _close(reader: Reader | None) -> None:
    if reader is not None:
        reader.close()
