"""The barrier of a tick: how much the input held when the tick closed (runtime, section 4, step 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka import OffsetSpec, TopicPartition
from kafka.errors import KafkaError

from monitor.connections import KafkaConnections
from monitor.errors import InputChangedError, UnreachableError
from monitor.release.ledger import require_same

ATTEMPTS: Final = 3


class InputTopic:
    """The brokers' fresh word on the input topic, and on whether the ledger's is still the one. Used by one thread.

    The consumer's own metadata may be minutes old, and its end offsets hide acknowledged records that lie behind an
    open transaction; so the admin client asks, for high watermarks, read uncommitted. `ledger` is the output topic and
    its id.

    Raises:
        InputChangedError: (any method) the input topic is another one now, or gone.
        LedgerChangedError: (any method) the ledger's topic is another one now, or gone.
        UnreachableError: (any method) the brokers can't tell.
    """

    def __init__(self, connections: KafkaConnections, topic: str, topic_id: str, ledger: tuple[str, str]) -> None:
        self._connections = connections
        self._topic = topic
        self._topic_id = topic_id
        self._ledger = ledger
        self._made: Any = None
        self._partitions: tuple[int, ...] = ()

    @property
    def _admin(self) -> Any:
        if self._made is None:
            self._made = self._connections.admin()
        return self._made

    def barrier(self) -> Mapping[int, int]:
        """The high watermark by partition, of all partitions that there are now.

        The topic is described after its ends were listed, and was described before (at the tick before this one): an
        id that stood on both sides is the id of what was listed, and the partitions are all.
        """
        with self._connections.reached():
            for _ in range(ATTEMPTS):
                known = self._partitions or self._described()
                ends = self._ends(known)
                self._partitions = self._described()
                if self._partitions == known:
                    return ends
        raise UnreachableError(f"the partitions of {self._topic} change faster than they can be listed")

    def require_same(self) -> None:
        """See that both topics are still those with the known ids."""
        with self._connections.reached():
            self._partitions = self._described()

    def _described(self) -> tuple[int, ...]:
        ledger, ledger_id = self._ledger
        told = {found["name"]: found for found in self._admin.describe_topics([self._topic, ledger])}
        found = told[self._topic]
        if str(found["topic_id"]) != self._topic_id or found["error_code"]:
            self._partitions = ()
            raise InputChangedError(
                f"kafka.topics.visits is {self._topic!r}, and that topic was deleted or made anew: its visits must be "
                "read again under a new fingerprint"
            )
        require_same(told[ledger], ledger, ledger_id)
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
        if self._made is not None:
            self._made.close()
            self._made = None
