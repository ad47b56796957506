"""Reads a topic as it grows, from its first record, with a consumer without a group.

The caller opens the consumers, because it knows how to connect to Kafka. A reader writes nothing, so it needs no right
but Read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from kafka import TopicPartition
from kafka.errors import KafkaError

from monitor.tools.audit.text import AuditError
from monitor.tools.audit.topics import OpenConsumer

_POLL_MS: Final = 250
_MAX_RECORDS: Final = 2_000

_T = TypeVar("_T")


class UnreadableTopicError(AuditError):
    """The topic cannot be read now. A later attempt may succeed."""


class TopicChangedError(AuditError):
    """The topic was re-created, so everything must be read again."""


class TopicReader:
    """The position in a topic, which outlives its consumer.

    `first` has the offset of the first record to read in each partition, and `skipped` the partitions in which records
    expired before they were read. `explain` returns the words for an error of Kafka.
    `alive` is called after each poll.
    """

    def __init__(
        self,
        open_consumer: OpenConsumer,
        name: str,
        *,
        committed: bool,
        explain: Callable[[Exception], str] = repr,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.first: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        self.skipped: set[int] = set()
        self._open = open_consumer
        self._explain = explain
        self._alive = alive
        self._isolation = "read_committed" if committed else "read_uncommitted"
        self._consumer: Any = None

    def ends(self) -> dict[int, int]:
        """Return the end offset of each partition. New partitions are included from then on.

        Raises:
            UnreadableTopicError: Kafka does not answer, or refuses.
            TopicChangedError: the topic ends before the position.
        """
        return self._ask(self._find_ends)

    def poll(self, wanted: Mapping[int, int]) -> dict[int, list[Any]]:
        """Return the next records of the partitions that have not been read to the wanted offsets.

        Raises:
            UnreadableTopicError: Kafka does not answer, or refuses.
        """
        return self._ask(lambda: self._poll(wanted))

    def is_at(self, ends: Mapping[int, int]) -> bool:
        """Return whether every partition has been read to its end."""
        return all(self.positions.get(partition, 0) >= end for partition, end in ends.items())

    def lag(self, ends: Mapping[int, int]) -> int:
        """Return the number of offsets between the positions and the ends."""
        return sum(max(0, end - self.positions.get(partition, 0)) for partition, end in ends.items())

    def close(self) -> None:
        """Close the connection. The next call opens another one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(KafkaError, OSError):
                consumer.close(autocommit=False)

    def _ask(self, question: Callable[[], _T]) -> _T:
        try:
            if self._consumer is None:
                self._consumer = self._open(isolation_level=self._isolation)
            return question()
        except (KafkaError, OSError) as error:
            self.close()
            raise UnreadableTopicError(f"the topic {self.name} cannot be read: {self._explain(error)}") from error

    def _find_ends(self) -> dict[int, int]:
        consumer = self._consumer
        partitions = consumer.partitions_for_topic(self.name)
        if not partitions:
            self.close()
            raise UnreadableTopicError(f"there is no topic {self.name}, or this user may not see it")
        places = [TopicPartition(self.name, partition) for partition in sorted(partitions)]
        ends: dict[int, int] = {place.partition: end for place, end in consumer.end_offsets(places).items()}
        for partition, end in ends.items():
            if end < self.positions.get(partition, 0):
                raise TopicChangedError(f"partition {partition} of {self.name} ends before what was read of it")
        if consumer.assignment() != set(places):
            self._assign(places)
        return ends

    def _assign(self, places: list[TopicPartition]) -> None:
        beginnings = self._consumer.beginning_offsets(places)
        self._consumer.assign(places)
        for place, beginning in beginnings.items():
            position = self.positions.setdefault(place.partition, beginning)
            self.first.setdefault(place.partition, beginning)
            if position < beginning:
                self.skipped.add(place.partition)
                self.first[place.partition] = self.positions[place.partition] = beginning
            self._consumer.seek(place, self.positions[place.partition])

    def _poll(self, wanted: Mapping[int, int]) -> dict[int, list[Any]]:
        consumer = self._consumer
        if not consumer.assignment():
            self._find_ends()
        waiting = {
            place for place in consumer.assignment() if self.positions[place.partition] < wanted.get(place.partition, 0)
        }
        consumer.pause(*(consumer.assignment() - waiting))
        consumer.resume(*waiting)
        if not waiting:
            return {}
        polled = consumer.poll(timeout_ms=_POLL_MS, max_records=_MAX_RECORDS)
        self._alive()
        for place, records in polled.items():
            if records and not isinstance(records[-1].value, bytes | None):  # a batch that cannot be read
                consumer.seek(place, records[-1].value.end)
        for place in waiting:
            self.positions[place.partition] = int(consumer.position(place))
        return {place.partition: list(records) for place, records in polled.items()}
