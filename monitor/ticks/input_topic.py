"""Read the end offsets of the input topic when a tick closes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, TypeVar

from kafka import OffsetSpec, TopicPartition
from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel

from monitor.errors import InputChangedError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.log_ends import Leader, read_log_ends
from monitor.ledger.read_ledger import is_from, read_partitions, require_topic_id

_T = TypeVar("_T")

ATTEMPTS: Final = 3
RETRY_SECONDS: Final = 0.2  # a broker lists a new partition shortly before it has the partition's log
CLOSE_SECONDS: Final = 5.0
_CLOSED: Final = "the input topic is closed, because the service stops"


class InputTopic:
    """A reader of the input topic's fresh metadata. It checks that neither topic was replaced. Thread-safe.

    The metadata of a consumer may be outdated. The end offsets of a consumer omit acknowledged records after an open
    transaction, and a high watermark omits records that a follower has not copied yet. These records are stamped, so a
    tick must wait for them. Therefore this class asks the leaders for their log end offsets (`read_log_ends`).

    `ledger` is the name and the id of the output topic.

    Raises:
        InputChangedError: (any method) the input topic was replaced or deleted.
        LedgerChangedError: (any method) the ledger's topic was replaced or deleted.
        UnreachableError: (any method) Kafka does not answer, or the object is closed.
    """

    def __init__(self, connections: KafkaConnections, topic: str, topic_id: str, ledger: tuple[str, str]) -> None:
        self._connections = connections
        self._topic = topic
        self._topic_id = topic_id
        self._ledger = ledger
        self._lock, self._client_lock = threading.Lock(), threading.Lock()
        self._failure = (-math.inf, "")
        self._client: Any = None
        self._closed = False
        self._leaders: Mapping[int, Leader] = {}
        self._cached: tuple[int, Mapping[int, int]] | None = None
        self.most_partitions = 0

    @property
    def _admin(self) -> Any:
        with self._client_lock:
            if self._closed:
                raise UnreachableError(_CLOSED)
            if self._client is None:
                self._client = self._connections.create_admin()
            return self._client

    def _run_exclusively(self, request: Callable[[], _T]) -> _T:
        """Run one request at a time. A call that waits for a request of another call fails if this request fails."""
        began = time.monotonic()
        with self._lock:
            failed_at, why = self._failure
            if failed_at >= began:
                raise UnreachableError(why)
            try:
                with self._translate_errors():
                    return request()
            except UnreachableError as error:
                self._failure = time.monotonic(), str(error)
                raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            with self._connections.translate_errors():
                yield
        except RuntimeError as error:  # from a client that `close` has closed
            if not self._closed:
                raise
            raise UnreachableError(_CLOSED) from error

    def expect_partitions(self, partitions: int) -> None:
        """Record a known number of input partitions. Metadata that lists fewer is then refused as outdated."""
        with self._lock:
            self.most_partitions = max(self.most_partitions, partitions)

    def read_end_offsets_at(self, tick: int) -> Mapping[int, int]:
        """Return the end offsets for a closed tick. They are read once per tick, at some time after it has closed.

        Offsets of another tick are never returned, not even of a later one: if a clock was ahead, they may have been
        read before this tick closed.
        """

        def read() -> Mapping[int, int]:
            if self._cached is None or self._cached[0] != tick:
                self._cached = tick, self._read_end_offsets()
            return self._cached[1]

        return self._run_exclusively(read)

    def read_end_offsets(self) -> Mapping[int, int]:
        """Return the log end offset of each partition that exists now."""
        return self._run_exclusively(self._read_end_offsets)

    def _read_end_offsets(self) -> Mapping[int, int]:
        """Read the end offsets between two descriptions of the topic.

        If both descriptions agree, the topic, its partitions and its leaders were the same when the offsets were read.
        The first description is that of the previous call, if any.
        """
        why = "the leaders change faster than the offsets can be read"
        for _ in range(ATTEMPTS):
            known = self._leaders or self._describe()
            try:
                ends = read_log_ends(self._admin, self._topic, known)
            except KafkaError as error:
                self._leaders = self._describe()  # raises if the topic was replaced, or has fewer partitions
                if not error.retriable:
                    raise
                why = str(error)
                time.sleep(RETRY_SECONDS)
                continue
            self._leaders = self._describe()
            if self._leaders == known:
                return ends
        raise UnreachableError(f"could not read the end offsets of {self._topic}: {why}")

    def read_stable_ends(self, partitions: Iterable[int]) -> Mapping[int, int]:
        """Return the last stable offset of each of these partitions, up to which consumers can read now."""
        wanted = set(partitions)
        return self._run_exclusively(lambda: self._list_ends(self._topic, wanted, stable=True)) if wanted else {}

    def find_hidden(self, partitions: Iterable[int]) -> Mapping[int, int]:
        """Return the last stable offset of each of these output partitions in which consumers cannot read the end.

        The records of an open transaction are after it, and all that follow.
        """
        ledger, wanted = self._ledger[0], set(partitions)
        with self._translate_errors():
            stable = self._list_ends(ledger, wanted, stable=True)
            ends = self._list_ends(ledger, wanted, stable=False)
        return {partition: offset for partition, offset in stable.items() if offset < ends[partition]}

    def _list_ends(self, topic: str, partitions: Iterable[int], *, stable: bool) -> dict[int, int]:
        """Return the end of each partition for a consumer: with `stable`, for one with read_committed."""
        isolation = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        wanted = {TopicPartition(topic, partition): OffsetSpec.LATEST for partition in partitions}
        found = self._admin.list_partition_offsets(wanted, isolation_level=isolation)
        return {tp.partition: int(end.offset) for tp, end in found.items()}

    def require_same(self) -> None:
        """Check that both topics still have their known ids."""

        def read() -> None:
            self._leaders = self._describe()

        self._run_exclusively(read)

    def find_undecided(self, partitions: Sequence[int], tick: int, as_of: int) -> list[int]:
        """Return the output partitions that contain neither this tick nor a later one.

        Only the records from the tick's `as_of` (an instant) on are read. An owner record without a tick does not
        count, because each takeover appends one, even if no tick is ever decided.
        """
        ledger = self._ledger[0]
        wanted = {TopicPartition(ledger, partition): as_of // 1_000 for partition in partitions}
        with self._translate_errors():
            offsets = self._admin.list_partition_offsets(wanted)
        starts = {tp.partition: found.offset for tp, found in offsets.items() if found.offset >= 0}
        undecided = set(partitions)
        if starts:
            with closing(read_partitions(self._connections, ledger, starts, {})) as records:
                for partition, _, record in records:
                    if is_from(record, tick):
                        undecided.discard(partition)
                    if undecided.isdisjoint(starts):
                        break
        return sorted(undecided)

    def _describe(self) -> Mapping[int, Leader]:
        ledger, ledger_id = self._ledger
        topics = {topic["name"]: topic for topic in self._admin.describe_topics([self._topic, ledger])}
        visits = topics[self._topic]
        if str(visits["topic_id"]) != self._topic_id or visits["error_code"]:
            self._leaders = {}
            raise InputChangedError(
                f"kafka.topics.visits is {self._topic!r}, and that topic was deleted or re-created: its visits must be "
                "read again under a new fingerprint"
            )
        require_topic_id(topics[ledger], ledger, ledger_id)
        listed = {
            partition["partition_index"]: Leader(partition["leader_id"], partition["leader_epoch"])
            for partition in visits["partitions"]
        }
        if len(listed) < self.most_partitions:
            raise UnreachableError(
                f"a broker lists {len(listed)} partitions of {self._topic}, which had {self.most_partitions}: its "
                "metadata is outdated"
            )
        self.most_partitions = len(listed)
        return listed

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Wait up to `seconds` for a request to end, and close the admin client, which ends a request that hangs."""
        self._closed = True
        closer = threading.Thread(target=self._close_client, args=(seconds,), name="closing-input-topic", daemon=True)
        closer.start()
        closer.join(seconds)

    def _close_client(self, seconds: float) -> None:
        is_idle = self._lock.acquire(timeout=seconds)
        with self._client_lock:  # until a client that is being created exists
            client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # errors while closing do not matter
                client.close()
        if is_idle:
            self._lock.release()
