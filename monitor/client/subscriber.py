"""Reading the alerts as any subscriber could: a plain consumer, no group, no secret, no Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Self

from kafka import OffsetSpec, TopicPartition

from monitor.brokers.connections import KafkaConnections
from monitor.errors import TopicError

POLL_MS: Final = 250
BACK_TICKS: Final = 3
_WIDER: Final = 8
_MOST_RECORDS: Final = 5_000


class Published(NamedTuple):
    """A record of the output topic: what a subscriber needs of it."""

    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None


class Subscriber:
    """Reads the output topic from a few ticks before its latest one. A context; used by one thread.

    The topic's timestamps are each tick's as_of, so going back by timestamp finds whole ticks, whatever clock they
    come from. `tick_ms` is the length of a slot.

    Raises:
        TopicError: (when made) there is no such topic.
        UnreachableError: (any method) Kafka cannot be used.
    """

    def __init__(self, connections: KafkaConnections, topic: str, tick_ms: int) -> None:
        self._connections = connections
        self._tick_ms = tick_ms
        self._consumer: Any = connections.consumer()
        try:
            with connections.translate_errors():
                self._places = self._partitions(topic)
                self._consumer.assign(self._places)
                self._latest = self._latest_timestamps()
                self._first: dict[TopicPartition, int] = self._consumer.beginning_offsets(self._places)
        except BaseException:
            self.close()
            raise
        self._back = BACK_TICKS

    def __enter__(self) -> Self:
        """Nothing to do: it is ready when made."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Let go of the connection."""
        self.close()

    def _partitions(self, topic: str) -> list[TopicPartition]:
        partitions = self._consumer.partitions_for_topic(topic)
        if not partitions:
            raise TopicError(
                f"kafka.topics.alerts is {topic!r}, and there is no such topic: run `location-monitor topics "
                "--create`, or correct kafka.topics.alerts or kafka.bootstrap_servers"
            )
        return [TopicPartition(topic, partition) for partition in sorted(partitions)]

    def _latest_timestamps(self) -> dict[TopicPartition, int]:
        """The latest timestamp of each partition that holds any record, in milliseconds."""
        admin = self._connections.admin()
        try:
            found = admin.list_partition_offsets(dict.fromkeys(self._places, OffsetSpec.MAX_TIMESTAMP))
        finally:
            admin.close()
        return {place: found[place].timestamp for place in self._places if found[place].timestamp >= 0}

    def begin(self) -> bool:
        """Go to a few ticks before the latest record; each further call goes much further back.

        Returns:
            Whether a further call could still go back: not everything that the topic holds is ahead by now.
        """
        with self._connections.translate_errors():
            wanted = {place: max(0, latest - self._back * self._tick_ms) for place, latest in self._latest.items()}
            offsets = self._consumer.offsets_for_times(wanted) if wanted else {}
            for place in self._places:
                found = offsets.get(place)
                self._consumer.seek(place, self._first[place] if found is None else found.offset)
            places = [self._consumer.position(place) > self._first[place] for place in self._places]
        self._back *= _WIDER
        return any(places)

    def at(self, timestamp_ms: int) -> list[Published]:
        """The records of one tick, by its timestamp, wherever it lies; reading goes on from where it was.

        What is written between two ticks has a later timestamp than the tick before, so an end that is sought one tick
        further on cuts nothing off; those of the next tick may come along.
        """
        with self._connections.translate_errors():
            first = self._consumer.offsets_for_times(dict.fromkeys(self._places, timestamp_ms))
            after = self._consumer.offsets_for_times(dict.fromkeys(self._places, timestamp_ms + self._tick_ms + 1))
            ends = self._consumer.end_offsets(self._places)
            here = {place: self._consumer.position(place) for place in self._places}
        until = {place: ends[place] if after.get(place) is None else after[place].offset for place in self._places}
        self._seek({place: until[place] if first.get(place) is None else first[place].offset for place in self._places})
        found = list(self._until(until))
        self._seek(here)
        return found

    def _seek(self, offsets: dict[TopicPartition, int]) -> None:
        for place, offset in offsets.items():
            self._consumer.seek(place, offset)

    def present(self) -> Iterator[Published]:
        """All records from here to what is the end now."""
        with self._connections.translate_errors():
            ends = self._consumer.end_offsets(self._places)
        yield from self._until(ends)

    def _until(self, ends: dict[TopicPartition, int]) -> Iterator[Published]:
        while any(self._position(place) < end for place, end in ends.items()):
            yield from self.poll()

    def _position(self, place: TopicPartition) -> int:
        with self._connections.translate_errors():
            return int(self._consumer.position(place))

    def poll(self) -> list[Published]:
        """The records that have come, after a quarter of a second at the latest."""
        with self._connections.translate_errors():
            polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=_MOST_RECORDS)
        return [Published(tuple(one.headers or ()), one.value) for records in polled.values() for one in records]

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close(autocommit=False)
