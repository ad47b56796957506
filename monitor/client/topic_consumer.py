"""Reads the alerts as any subscriber can: with a plain consumer, without a group, a secret or Redis.

A token is a position in the topic, with which another subscriber resumes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

import msgspec
from kafka import OffsetSpec, TopicPartition

from monitor.errors import TokenError, TopicError, UnreachableError
from monitor.kafka.connections import KafkaConnections

_TOKEN_VERSION: Final = 1

POLL_MS: Final = 250
BACK_TICKS: Final = 3
_WIDER: Final = 8  # how many times further back each later seek goes
_MAX_RECORDS: Final = 2_000


class Token(msgspec.Struct, frozen=True):
    """A position in the output topic."""

    topic: str
    offsets: dict[int, int]
    """Of the next record, by partition."""
    taken: int
    """The instant at which it was taken."""
    topic_id: str
    """Kafka's id of the topic."""
    as_of: int | None = None
    """The instant of the latest record folded; None if there was no record."""
    version: int = _TOKEN_VERSION

    def encode(self) -> str:
        """Return the token as text that is safe in URLs and file names."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def decode_token(text: str, topic: str, topic_id: str) -> Token:
    """Read a token.

    Raises:
        TokenError: the text is not a token of this version, or it is of another topic, or of an earlier one of the same
            name, whose offsets mean nothing in this one.
    """
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Token)
    except (binascii.Error, msgspec.DecodeError, ValueError, RecursionError) as error:
        raise TokenError(
            f"the token is {text[:40]!r}: expected the text of `Places.token`. Start without a token."
        ) from error
    if (token.version, token.topic_id) != (_TOKEN_VERSION, topic_id):
        raise TokenError(
            f"the token is of version {token.version} and topic {token.topic!r} with the id {token.topic_id}: expected "
            f"version {_TOKEN_VERSION} and {topic!r} with the id {topic_id}. If the names are equal, the topic was "
            "re-created since the token was taken. Start without a token."
        )
    return token


class Published(NamedTuple):
    """The parts of an output record that a subscriber needs."""

    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None
    partition: int = 0
    offset: int = 0
    key: bytes | None = None


def read_topic_id(admin: Any, topic: str) -> str:
    """Return Kafka's id of a topic.

    Raises:
        UnreachableError: Kafka does not know the topic, so there is no id with which to detect another topic.
    """
    (described,) = admin.describe_topics([topic])
    if described["error_code"] or not described["topic_id"]:
        raise UnreachableError(f"Kafka does not know the topic {topic} yet, or no longer")
    return str(described["topic_id"])


class Subscriber:
    """Reads the output topic, starting a few ticks before its end. A context manager; not thread-safe.

    The timestamp of an answer is the as_of of its tick. A seek by timestamp therefore finds complete ticks,
    independently of any clock. `tick_ms` is the length of a slot, and `back_ms` how far back the first seek goes; None:
    a few ticks. The isolation level is read_committed. `topic_id` is Kafka's id of the topic; a re-created topic has
    another one.

    Raises:
        TopicError: the topic does not exist (constructor only).
        UnreachableError: Kafka does not answer, or does not know the topic yet or no longer.
    """

    def __init__(self, connections: KafkaConnections, topic: str, tick_ms: int, back_ms: int | None = None) -> None:
        self._connections, self.topic = connections, topic
        self._tick_ms = tick_ms
        self._admin: Any = None
        self._consumer: Any = connections.create_consumer(isolation_level="read_committed")
        try:
            with connections.translate_errors():
                self._topic_partitions = self._partitions(topic)
                self._consumer.assign(self._topic_partitions)
                self._admin = connections.create_admin()
                self.topic_id, self._latest = read_topic_id(self._admin, topic), self._find_latest()
                self._first: dict[TopicPartition, int] = self._consumer.beginning_offsets(self._topic_partitions)
        except BaseException:
            self.close()
            raise
        self._back_ms = self._first_back_ms = BACK_TICKS * tick_ms if back_ms is None else back_ms
        self._started_ms = 0

    def __enter__(self) -> Self:
        """Return this subscriber. Its constructor has already connected."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connection."""
        self.close()

    def _partitions(self, topic: str) -> list[TopicPartition]:
        partitions = self._consumer.partitions_for_topic(topic)
        if not partitions:
            raise TopicError(
                f"kafka.topics.alerts is {topic!r}, but there is no such topic: run `location-monitor topics "
                "--create`, or correct kafka.topics.alerts or kafka.bootstrap_servers"
            )
        return [TopicPartition(topic, partition) for partition in sorted(partitions)]

    def _find_latest(self) -> dict[TopicPartition, int]:
        """Return the latest timestamp of each non-empty partition, in milliseconds."""
        offsets = self._admin.list_partition_offsets(dict.fromkeys(self._topic_partitions, OffsetSpec.MAX_TIMESTAMP))
        return {
            partition: offsets[partition].timestamp
            for partition in self._topic_partitions
            if offsets[partition].timestamp >= 0
        }

    def begin(self, before_ms: int | None = None) -> bool:
        """Seek to `back_ms` before a timestamp, or before the latest record. Each later call goes 8 times as far back.

        Returns:
            Whether another call can seek further back.
        """
        with self._connections.translate_errors():
            timestamps = {
                partition: max(0, (latest if before_ms is None else before_ms) - self._back_ms)
                for partition, latest in self._latest.items()
            }
            self._started_ms = min(timestamps.values(), default=0)
            offsets = self._consumer.offsets_for_times(timestamps) if timestamps else {}
            for partition in self._topic_partitions:
                start = offsets.get(partition)
                self._consumer.seek(partition, self._first[partition] if start is None else start.offset)
            more = any(
                self._consumer.position(partition) > self._first[partition] for partition in self._topic_partitions
            )
        self._back_ms *= _WIDER
        return more

    def continue_at(self, position: Mapping[int, int]) -> None:
        """Seek to the next offset of each partition. One without an offset starts `back_ms` before the latest record.

        A partition starts at its first record if the offset is no longer kept, or if it is one of an earlier topic.
        """
        with self._connections.translate_errors():
            since = max(0, max(self._latest.values(), default=0) - self._back_ms)
            found = self._consumer.offsets_for_times(dict.fromkeys(self._topic_partitions, since))
            ends = self._consumer.end_offsets(self._topic_partitions)
            for partition in self._topic_partitions:
                start = ends[partition] if found.get(partition) is None else found[partition].offset
                wanted, first = position.get(partition.partition, start), self._first[partition]
                self._consumer.seek(partition, wanted if first <= wanted <= ends[partition] else first)

    def require_same_topic(self) -> None:
        """Ask Kafka whether the topic still has its id. If it has, all records read so far came from that topic.

        Raises:
            UnreachableError: Kafka does not answer, or the topic was re-created, so a new Subscriber must be opened.
        """
        with self._connections.translate_errors():
            if read_topic_id(self._admin, self.topic) != self.topic_id:
                raise UnreachableError(f"the topic {self.topic} was re-created: it is read from its beginning")

    def is_at_end(self) -> bool:
        """Return whether everything committed so far has been read."""
        with self._connections.translate_errors():
            ends = self._consumer.end_offsets(self._topic_partitions)
        return all(self._position(partition) >= end for partition, end in ends.items())

    def reaches(self, as_of_ms: int) -> bool:
        """Return whether the last `begin` went back far enough before the latest answer, given its timestamp.

        The latest record need not be an answer. Owner records and the markers of transactions have timestamps from the
        brokers' clocks, which may be much later than the answers, for example if the public clock is simulated.
        """
        return self._started_ms <= max(0, as_of_ms - self._first_back_ms + self._tick_ms)

    def read_between(self, first_ms: int, last_ms: int) -> list[Published]:
        """Return the records of the ticks from one timestamp to another. The consumer's position does not change.

        Records written between two ticks, such as owner records, have timestamps later than that of the first tick. The
        end of the read is therefore one tick later, and the result may contain records of the next tick.
        """
        with self._connections.translate_errors():
            first = self._consumer.offsets_for_times(dict.fromkeys(self._topic_partitions, max(0, first_ms)))
            end_ms = max(0, last_ms + self._tick_ms + 1)
            after = self._consumer.offsets_for_times(dict.fromkeys(self._topic_partitions, end_ms))
            ends = self._consumer.end_offsets(self._topic_partitions)
            positions = {partition: self._consumer.position(partition) for partition in self._topic_partitions}
        stops = {
            partition: ends[partition] if after.get(partition) is None else after[partition].offset
            for partition in self._topic_partitions
        }
        self._seek(
            {
                partition: stops[partition] if first.get(partition) is None else first[partition].offset
                for partition in self._topic_partitions
            }
        )
        records = list(self._read_until(stops))
        self._seek(positions)
        return records

    def _seek(self, offsets: dict[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._consumer.seek(partition, offset)

    def read_to_end(self) -> Iterator[Published]:
        """Yield the records from the position to the current end."""
        with self._connections.translate_errors():
            ends = self._consumer.end_offsets(self._topic_partitions)
        yield from self._read_until(ends)

    def read_up_to(self, offsets: Mapping[int, int]) -> Iterator[Published]:
        """Yield the records from the position to the given offset of each partition, and maybe some after it."""
        with self._connections.translate_errors():
            ends = self._consumer.end_offsets(self._topic_partitions)
        yield from self._read_until(
            {partition: min(end, offsets.get(partition.partition, 0)) for partition, end in ends.items()}
        )

    @property
    def positions(self) -> dict[int, int]:
        """The offset of the next record of each partition."""
        return {partition.partition: self._position(partition) for partition in self._topic_partitions}

    def _read_until(self, ends: dict[TopicPartition, int]) -> Iterator[Published]:
        while any(self._position(partition) < end for partition, end in ends.items()):
            yield from self.poll()

    def _position(self, partition: TopicPartition) -> int:
        with self._connections.translate_errors():
            return int(self._consumer.position(partition))

    def poll(self) -> list[Published]:
        """Return the next records. Wait for them for at most 250 ms."""
        with self._connections.translate_errors():
            polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=_MAX_RECORDS)
        return [
            Published(tuple(record.headers or ()), record.value, record.partition, record.offset, record.key)
            for records in polled.values()
            for record in records
        ]

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close(autocommit=False)
        if self._admin is not None:
            self._admin.close()
