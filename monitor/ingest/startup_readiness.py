"""Check whether the facts are complete up to the end offsets at startup, so that this instance may take over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from kafka import TopicPartition

from monitor.errors import StoreError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.store.redis_store import RedisStore
from monitor.time.instants import SECOND, format_duration

TIMEOUT_MS: Final = 10_000


class Readiness:
    """The check whether the progress of every shard has reached the end offsets that the input had at startup.

    An instance that is ready stays ready, because each tick waits for its own end offsets. It does not matter which
    instance reads or owns partitions. One thread calls `look` repeatedly; any thread may read `waiting`, the reason why
    the instance is not ready, empty if it is. `monotonic` returns seconds.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        store: RedisStore,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._topic = topic
        self._store = store
        self._monotonic = monotonic
        self._first_look: tuple[float, int] | None = None
        self._ends: Mapping[int, int] | None = None
        self.waiting = "reading the input: its end offsets are not known yet"

    @property
    def ready(self) -> bool:
        """Whether the facts are complete."""
        return not self.waiting

    def look(self) -> None:
        """Compare the progress with the end offsets; do nothing once ready.

        Raises:
            UnreachableError, StoreError: Kafka or the store does not answer now.
        """
        if self.ready:
            return
        try:
            if self._ends is None:
                self._ends = self._read_ends()
            self.waiting = self._describe_missing(self._ends)
        except (UnreachableError, StoreError) as error:
            self.waiting = f"reading the input: the progress is not known now: {error}"
            raise

    def _read_ends(self) -> Mapping[int, int]:
        """Return the offsets up to which all partitions can be read with isolation level read_committed."""
        consumer = self._connections.create_consumer(isolation_level="read_committed")
        with self._connections.translate_errors(), closing(consumer):
            partitions = consumer.partitions_for_topic(self._topic) or ()
            topic_partitions = [TopicPartition(self._topic, partition) for partition in partitions]
            ends = consumer.end_offsets(topic_partitions, timeout_ms=TIMEOUT_MS)
        if not ends:
            raise UnreachableError(f"Kafka lists no partition of {self._topic}")
        return {tp.partition: int(end) for tp, end in ends.items()}

    def _describe_missing(self, ends: Mapping[int, int]) -> str:
        """Return a description of the records that must still be read; empty if there are none."""
        progress = self._store.read_progress()
        reached = {partition: min(shard.get(partition, -1) for shard in progress) for partition in ends}
        missing = {partition: end for partition, end in ends.items() if reached[partition] < end}
        if not missing:
            return ""
        records = sum(end - max(reached[partition], 0) for partition, end in missing.items())
        return (
            f"reading the input: at most {records} records are left, in {len(missing)} of {len(ends)} partitions, "
            f"up to the end offsets at startup{self._estimate(records)}"
        )

    def _estimate(self, records: int) -> str:
        """Return how long the rest takes at the rate since the first look; empty while nothing has been read."""
        now = self._monotonic()
        began, at_first = self._first_look = self._first_look or (now, records)
        read = at_first - records
        if read <= 0 or now <= began:
            return ""
        seconds = math.ceil((now - began) * records / read)
        return f", about {format_duration(max(1, seconds) * SECOND)} at the present rate"
