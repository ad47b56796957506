"""The barrier of a tick: how much the input held when the tick closed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kafka import OffsetSpec, TopicPartition
from kafka.errors import KafkaError, for_code
from kafka.protocol.consumer import ListOffsetsRequest

from monitor.brokers.connections import KafkaConnections
from monitor.errors import InputChangedError, UnreachableError
from monitor.release.ledger import require_same

_T = TypeVar("_T")

ATTEMPTS: Final = 3
_DEBUGGING: Final = (
    -2
)  # the replica id with which a leader tells its log's end; to a consumer it tells the high watermark
_WITH_EPOCHS: Final = 4  # the version of the request from which on a leader's epoch is checked


@dataclass(frozen=True, slots=True)
class _Leader:
    """Who leads a partition, and since which epoch."""

    node: int
    epoch: int


class InputTopic:
    """The brokers' fresh word on the input topic, and on whether the ledger's is still the one. For any threads.

    The consumer's own metadata may be minutes old, and its end offsets hide acknowledged records that lie behind an
    open transaction. A high watermark hides records that a follower has not copied yet, although they are stamped: they
    will be read, and must be waited for. So the leaders are asked for the ends of their logs. `ledger` is the output
    topic and its id.

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
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._failed = (-math.inf, "")
        self._made: Any = None
        self._leaders: Mapping[int, _Leader] = {}
        self._barriers: tuple[int, Mapping[int, int]] | None = None
        self.most = 0

    @property
    def _admin(self) -> Any:
        with self._making:
            if self._made is None:
                self._made = self._connections.admin()
            return self._made

    def _together(self, ask: Callable[[], _T]) -> _T:
        """Ask one after the other; whoever waited while another one's question failed does not wait for that again."""
        began = time.monotonic()
        with self._lock:
            failed_at, why = self._failed
            if failed_at >= began:
                raise UnreachableError(why)
            try:
                with self._connections.translate_errors():
                    return ask()
            except UnreachableError as error:
                self._failed = time.monotonic(), str(error)
                raise

    def expect(self, partitions: int) -> None:
        """Note that the input is known to have had so many partitions: a listing with fewer is not believed."""
        with self._lock:
            self.most = max(self.most, partitions)

    def end_offsets_at(self, tick: int) -> Mapping[int, int]:
        """The barrier of a tick that has closed, asked once: it may be that of any moment since then."""

        def ask() -> Mapping[int, int]:
            if self._barriers is None or self._barriers[0] != tick:
                self._barriers = tick, self._end_offsets()
            return self._barriers[1]

        return self._together(ask)

    def read_end_offsets(self) -> Mapping[int, int]:
        """The log end by partition, of all partitions that there are now."""
        return self._together(self._end_offsets)

    def _end_offsets(self) -> Mapping[int, int]:
        """The topic is described after its ends were listed, and was described before (at the tick before this one).

        An id that stood on both sides is the id of what was listed, the partitions are all, and who led them leads.
        """
        why = "they change faster than they can be listed"
        for _ in range(ATTEMPTS):
            known = self._leaders or self._described()
            try:
                ends = self._ends(known)
            except KafkaError as error:
                self._leaders = self._described()  # says so if the topic is gone, or came back with fewer partitions
                if not error.retriable:
                    raise
                why = str(error)
                continue
            self._leaders = self._described()
            if self._leaders == known:
                return ends
        raise UnreachableError(f"the leaders of {self._topic} can't tell the ends of its partitions: {why}")

    def require_same(self) -> None:
        """See that both topics are still those with the known ids."""

        def ask() -> None:
            self._leaders = self._described()

        self._together(ask)

    def newest(self, partitions: int) -> Mapping[int, int]:
        """By output partition, the latest timestamp of its records (an instant); those without records are left out."""
        topic = self._ledger[0]
        wanted = {TopicPartition(topic, partition): OffsetSpec.MAX_TIMESTAMP for partition in range(partitions)}
        with self._connections.translate_errors():
            found = self._admin.list_partition_offsets(wanted)
        return {place.partition: told.timestamp * 1_000 for place, told in found.items() if told.timestamp >= 0}

    def _described(self) -> Mapping[int, _Leader]:
        ledger, ledger_id = self._ledger
        told = {found["name"]: found for found in self._admin.describe_topics([self._topic, ledger])}
        found = told[self._topic]
        if str(found["topic_id"]) != self._topic_id or found["error_code"]:
            self._leaders = {}
            raise InputChangedError(
                f"kafka.topics.visits is {self._topic!r}, and that topic was deleted or made anew: its visits must be "
                "read again under a new fingerprint"
            )
        require_same(told[ledger], ledger, ledger_id)
        listed = {
            partition["partition_index"]: _Leader(partition["leader_id"], partition["leader_epoch"])
            for partition in found["partitions"]
        }
        if len(listed) < self.most:
            raise UnreachableError(
                f"a broker lists {len(listed)} partitions of {self._topic}, which had {self.most}: its metadata lag"
            )
        self.most = len(listed)
        return listed

    def _ends(self, leaders: Mapping[int, _Leader]) -> dict[int, int]:
        """The log end by partition, as its leader tells."""
        return dict(self._admin._manager.run(self._ask, leaders))  # noqa: SLF001  # kafka-python asks for no log end

    async def _ask(self, leaders: Mapping[int, _Leader]) -> list[tuple[int, int]]:
        ends = []
        for node in sorted({leader.node for leader in leaders.values()}):
            led = {partition: leader.epoch for partition, leader in leaders.items() if leader.node == node}
            response = await self._admin._manager.send(self._request(led), node_id=node)  # noqa: SLF001  # as above
            for told in response.topics[0].partitions:
                if told.error_code:
                    raise for_code(told.error_code)(f"{self._topic}-{told.partition_index}: its log's end")
                ends.append((told.partition_index, told.offset))
        return ends

    def _request(self, epochs: Mapping[int, int]) -> Any:
        topic = ListOffsetsRequest.ListOffsetsTopic
        partitions = [
            topic.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=epoch, timestamp=OffsetSpec.LATEST
            )
            for partition, epoch in epochs.items()
        ]
        topics = [topic(name=self._topic, partitions=partitions)]
        return ListOffsetsRequest(replica_id=_DEBUGGING, isolation_level=0, topics=topics, min_version=_WITH_EPOCHS)

    def close(self) -> None:
        """Close the admin client."""
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None
