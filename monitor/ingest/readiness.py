"""Whether the facts are whole up to where the input ended when this instance was started: when it may take over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka import TopicPartition

from monitor.brokers.connections import KafkaConnections
from monitor.errors import UnreachableError, WindowsError
from monitor.windows.facts import Windows

TIMEOUT_MS: Final = 10_000


class Readiness:
    """Ready once every shard's progress has reached the ends of all input partitions, as asked after the start.

    It stays ready: how far the reading is behind later, each tick sees for itself. Who reads does not matter, nor does
    who owns output partitions. `look` is called over and over by one thread; any thread may ask for `waiting`.
    """

    def __init__(self, connections: KafkaConnections, topic: str, windows: Windows) -> None:
        self._connections = connections
        self._topic = topic
        self._windows = windows
        self._ends: Mapping[int, int] | None = None
        self.waiting = "reading the input: how far it goes is not known yet"

    @property
    def ready(self) -> bool:
        """Whether it is."""
        return not self.waiting

    def look(self) -> None:
        """See how far the reading is; does nothing once ready.

        Raises:
            UnreachableError, WindowsError: it can't be seen now.
        """
        if self.ready:
            return
        try:
            if self._ends is None:
                self._ends = self._asked()
            self.waiting = self._still_unread(self._ends)
        except (UnreachableError, WindowsError) as error:
            self.waiting = f"reading the input: how far it is read is not known now: {error}"
            raise

    def _asked(self) -> Mapping[int, int]:
        """Where all partitions end, as far as they can be read."""
        with self._connections.translate_errors():
            consumer = self._connections.consumer(isolation_level="read_committed")
            try:
                partitions = consumer.partitions_for_topic(self._topic) or ()
                places = [TopicPartition(self._topic, partition) for partition in partitions]
                ends = consumer.end_offsets(places, timeout_ms=TIMEOUT_MS)
            finally:
                consumer.close(autocommit=False)
        if not ends:
            raise UnreachableError(f"the brokers tell of no partition of {self._topic}")
        return {place.partition: int(end) for place, end in ends.items()}

    def _still_unread(self, ends: Mapping[int, int]) -> str:
        """What must still be read, in words; empty if nothing."""
        progress = self._windows.progress()
        reached = {partition: min(shard.get(partition, -1) for shard in progress) for partition in ends}
        missing = {partition: end for partition, end in ends.items() if reached[partition] < end}
        if not missing:
            return ""
        records = sum(end - max(reached[partition], 0) for partition, end in missing.items())
        return (
            f"reading the input: {records} records at most until it has reached where {len(missing)} of {len(ends)} "
            "partitions ended when this instance started"
        )
