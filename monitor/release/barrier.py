"""The barrier of a tick: how much the input held when the tick closed (runtime, section 4, step 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka import OffsetSpec, TopicPartition
from kafka.errors import KafkaError

from monitor.connections import KafkaConnections
from monitor.errors import InputChangedError, UnreachableError

ATTEMPTS: Final = 3


class InputTopic:
    """The brokers' fresh word on the input topic. Used by one thread.

    The consumer's own metadata may be minutes old, and its end offsets hide acknowledged records that lie behind an
    open transaction; so the admin client asks, for high watermarks, read uncommitted.
    """

    def __init__(self, connections: KafkaConnections, topic: str, topic_id: str) -> None:
        self._connections = connections
        self._topic = topic
        self._topic_id = topic_id
        self._admin: Any = None
        self._partitions: tuple[int, ...] = ()

    def barrier(self) -> Mapping[int, int]:
        """The high watermark by partition, of all partitions that there are now.

        The topic is described after its ends were listed, and was described before (at the tick before this one): an
        id that stood on both sides is the id of what was listed, and the partitions are all.

        Raises:
            InputChangedError: the topic is another one now, or gone.
            UnreachableError: the brokers can't tell.
        """
        with self._connections.reached():
            if self._admin is None:
                self._admin = self._connections.admin()
            for _ in range(ATTEMPTS):
                known = self._partitions or self._described()
                ends = self._ends(known)
                self._partitions = self._described()
                if self._partitions == known:
                    return ends
        raise UnreachableError(f"the partitions of {self._topic} change faster than they can be listed")

    def _described(self) -> tuple[int, ...]:
        found = self._admin.describe_topics([self._topic])[0]
        if str(found["topic_id"]) != self._topic_id or found["error_code"]:
            self._partitions = ()
            raise InputChangedError(
                f"kafka.topics.visits is {self._topic!r}, and that topic was deleted or made anew: its visits must be "
                "read again under a new fingerprint"
            )
        return tuple(sorted(partition["partition_index"] for partition in found["partitions"]))

    def _ends(self, partitions: tuple[int, ...]) -> dict[int, int]:
        wanted = {TopicPartition(self._topic, partition): OffsetSpec.LATEST for partition in partitions}
        try:
            found = self._admin.list_partition_offsets(wanted)
        except KafkaError:
            self._described()  # says so if the topic is gone, or came back with fewer partitions
            raise
        return {place.partition: found[place].offset for place in wanted}

    def close(self) -> None:
        """Close the admin client."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None
