"""Read the input topic as a member of a consumer group: assignments, fetched records and positions."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

import numpy as np
from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka.errors import CorruptRecordError, IllegalStateError, KafkaError, LogTruncationError
from numpy.typing import NDArray

from monitor.errors import UnreachableError
from monitor.ingest.offsets import TIMEOUT_MS, InputOffsets
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batches import FetchedRecord, Unreadable
from monitor.kafka.kafka_python_3_0.fetcher import FetchState, read_leniently
from monitor.observe.logs import log_unexpected
from monitor.time.instants import MILLISECOND

FETCH_BYTES: Final = 4 * 1024 * 1024
PARTITION_FETCH_BYTES: Final = 2 * 1024 * 1024
RECORDS_PER_POLL: Final = 4_000
LAG_TIMEOUT_MS: Final = 1_000
COMMIT_TIMEOUT_MS: Final = 2_000

FAILURES: Final = 3
"""The number of consecutive failed polls after which the consumer is replaced, because it may be broken."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The records of [start, end) of a partition, all with a stamp. Control records may precede `end`."""

    partition: int
    start: int
    end: int
    records: Sequence[FetchedRecord] = ()

    @property
    def stamps(self) -> NDArray[np.int64]:
        """The instants at which the records were stamped, shape (n,). A record without a stamp is an error here."""
        return np.array([record.stamp_ms for record in self.records], np.int64) * MILLISECOND


def find_unstamped(records: Sequence[FetchedRecord]) -> tuple[int, int] | None:
    """Return the first run [begin, end) of records without a stamp; None if all records have one.

    A visit's fate depends on the stamp (docs/rules.md, rule 7).
    """
    if all(record.stamp_ms is not None for record in records):
        return None
    begin = sum(1 for _ in takewhile(lambda record: record.stamp_ms is not None, records))
    run = takewhile(lambda record: record.stamp_ms is None, records[begin:])
    return begin, begin + sum(1 for _ in run)


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    """A queue of assigned and revoked partitions, filled on the network thread, which must not be blocked.

    An assigned partition is paused at offset 0 until the reader knows its start offset. If it had no position,
    kafka-python would look one up.
    """

    def __init__(self) -> None:
        self.consumer: Any = None
        self.events: deque[tuple[bool, int]] = deque()

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        for partition in assigned:
            self.consumer.pause(partition)
            self.consumer.seek(partition, 0)
            self.events.append((True, partition.partition))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.events.extend((False, partition.partition) for partition in revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.on_partitions_revoked(lost)


class InputLog(InputOffsets):
    """A member of the input group. Used by one thread.

    Attributes:
        waiting: assigned partitions that wait for a start offset (`resume`).
        is_answering: whether Kafka returned the ends of the partitions when `read_lag` last asked for them.

    Args:
        connections: the connections to Kafka.
        topic: the input topic.
        group: the consumer group of this configuration.
        service: the name of the service whose groups read the topic; `group` by default.
        topic_id: Kafka's id of the topic.
        reading: the limits of reading, and who stamps records; in a replay, producers do.
        read_before: whether the service has read this topic before, as its ledger shows.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        group: str,
        service: str = "",
        topic_id: str = "",
        *,
        reading: FetchState | None = None,
        read_before: bool = False,
    ) -> None:
        super().__init__(connections, topic, topic_id, service or group, reading=reading, read_before=read_before)
        self._group = group
        self._next: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self.is_answering = True
        self._failures = 0
        self.waiting: set[int] = set()
        self._consumer = None
        self._open()

    def _open(self) -> None:
        """Join the group. Raises UnreachableError if no broker can be used."""
        self._rebalances = _Rebalances()
        consumer = self._connections.create_member(
            self._group,
            isolation_level="read_committed",
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
            max_poll_records=RECORDS_PER_POLL,
        )
        self._consumer = self._rebalances.consumer = read_leniently(consumer, self._reading)
        self._consumer.subscribe([self._topic], listener=self._rebalances)

    def _discard_consumer(self) -> None:
        """Close a consumer that may be broken. The next poll creates another one, which joins the group again."""
        threading.Thread(target=self._close, args=(self._consumer, {}), daemon=True).start()
        self._consumer = None
        self._next.clear()
        self.waiting.clear()
        self.unread.clear()
        self._failures = 0

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset of each partition that is being read."""
        return self._next

    def poll(self, timeout_ms: int) -> list[Fetched]:
        """Return the records that are available, after at most `timeout_ms`; also keep the group membership alive.

        Raises:
            UnreachableError: Kafka cannot be used, a position is no longer in the log, or the client fails in another
                way. In the last case, and after three failures in a row, the next call creates a new client.
        """
        try:
            fetched = self._poll_once(timeout_ms)
        except UnreachableError as error:
            if not isinstance(error.__cause__, LogTruncationError):
                self._note_failure(error.__cause__)
                raise
            divergent = error.__cause__.divergent_offsets
            self.truncated |= {tp.partition: 0 if at is None else at.offset for tp, at in divergent.items()}
            # Park all partitions: the positions of the others are already after the records of this poll.
            self.park()
            return []
        except Exception as error:
            log_unexpected(log, "unexpected error of the Kafka client; a new client replaces it", error=error)
            self._discard_consumer()
            raise UnreachableError(
                f"the Kafka client failed ({type(error).__name__}); a new client replaces it"
            ) from error
        self._failures = 0
        for fetch in fetched:
            self._next[fetch.partition] = fetch.end
        self.park(self.unread)
        return fetched

    def _note_failure(self, cause: BaseException | None) -> None:
        if isinstance(cause, CorruptRecordError):
            return  # the damaged batch is fetched again, and skipped after the last try
        self._failures += 1
        if self._failures >= FAILURES and self._consumer is not None:
            self._discard_consumer()

    def _poll_once(self, timeout_ms: int) -> list[Fetched]:
        if self._consumer is None:
            self._open()
        with self._connections.translate_errors():
            polled = self._consumer.poll(timeout_ms=timeout_ms)
            self._note_rebalances()
            fetched = [self._make_fetched(tp.partition, records) for tp, records in polled.items() if records]
            # Invisible records are passed even while other partitions have records, because a tick's end offset may be
            # after a transaction marker.
            busy = {tp.partition for tp, records in polled.items() if records}
            fetched += [self._skip_invisible(partition) for partition in self._next.keys() - busy]
        return [fetch for fetch in fetched if fetch is not None]

    def _note_rebalances(self) -> None:
        while self._rebalances.events:
            assigned, partition = self._rebalances.events.popleft()
            self._next.pop(partition, None)
            self.unread.pop(partition, None)
            (self.waiting.add if assigned else self.waiting.discard)(partition)

    def _make_fetched(self, partition: int, records: Sequence[FetchedRecord]) -> Fetched | None:
        start = self._next.get(partition)
        if start is None:
            return None
        last, end = records[-1].value, records[-1].offset + 1
        if isinstance(last, Unreadable):
            end = last.end
            if last.lost:
                self.unread[partition] = last
                records, end = records[:-1], last.first
        if (unstamped := find_unstamped(records)) is not None:
            begin, after = unstamped
            self.unread.pop(partition, None)  # the records after the unstamped ones are fetched again
            if begin == 0:
                self._skip_unstamped(partition, records[after].offset if after < len(records) else end)
                return None
            # The records before the unstamped ones count. The unstamped records are fetched again.
            self._consumer.seek(TopicPartition(self._topic, partition), records[begin].offset)
            records, end = records[:begin], records[begin - 1].offset + 1
        return None if end <= start else Fetched(partition, start, end, records)

    def _skip_unstamped(self, partition: int, end: int) -> None:
        """Continue after records without a stamp. Their slot is unknown, so their visits are lost."""
        log.error(
            "records below offset %d of %s-%d have their producers' timestamps, so they cannot be counted: expected "
            "message.timestamp.type=LogAppendTime; find out who changed the setting",
            end,
            self._topic,
            partition,
        )
        self.truncated[partition] = end
        self.park([partition])

    def _skip_invisible(self, partition: int) -> Fetched | None:
        """Return control and aborted records between the last record and the position as an empty fetch."""
        try:
            end = self._consumer.position(TopicPartition(self._topic, partition), timeout_ms=TIMEOUT_MS)
        except IllegalStateError:
            return None  # the partition was revoked, as the listener has recorded
        start = self._next[partition]
        return Fetched(partition, start, end) if end is not None and end > start else None

    def resume(self, partition: int, offset: int) -> None:
        """Read the partition from an offset; do nothing if it was revoked meanwhile."""
        tp = TopicPartition(self._topic, partition)
        try:
            self._consumer.seek(tp, offset)
            self._consumer.resume(tp)
        except (ValueError, IllegalStateError, KeyError):
            self.waiting.discard(partition)
            return
        self.waiting.discard(partition)
        self._next[partition] = offset

    def park(self, partitions: Iterable[int] | None = None) -> None:
        """Stop reading some partitions (all by default) until `resume` sets their start offsets."""
        for partition in list(self._next if partitions is None else partitions):
            if self._next.pop(partition, None) is not None:
                self.waiting.add(partition)

    def read_lag(self) -> dict[int, int]:
        """Return the number of records between the position and the end of each partition that is read.

        The ends are requested from Kafka, because the ends of the last fetch do not change while fetches stall. If
        Kafka does not answer, the last known ends are used. Records behind an open transaction are before the end.
        The member of the group does not see them, so another consumer asks.
        """
        topic_partitions = [TopicPartition(self._topic, partition) for partition in self._next]
        if topic_partitions:
            try:
                ends = self._open_single().end_offsets(topic_partitions, timeout_ms=LAG_TIMEOUT_MS)
            except (KafkaError, UnreachableError):
                self.is_answering = False
            else:
                self._ends = {tp.partition: end for tp, end in ends.items()}
                self.is_answering = True
        return {
            partition: max(0, self._ends[partition] - offset)
            for partition, offset in self._next.items()
            if partition in self._ends
        }

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Request a commit of offsets, for lag tools and for later groups. Start offsets come from the store."""
        topic_partitions = self._to_commits(offsets)
        if topic_partitions:
            self._consumer.commit_async(topic_partitions)

    def commit_starts(self, offsets: Mapping[int, int]) -> None:
        """Commit start offsets of partitions, assigned or not, and wait for the reply.

        During a rebalance this is impossible. It is not repeated: regular commits follow for the assigned partitions,
        and the others are then read from their beginning.
        """
        with suppress(KafkaError):
            self._consumer.commit(self._to_commits(offsets), timeout_ms=COMMIT_TIMEOUT_MS)

    def close(self, offsets: Mapping[int, int]) -> None:
        """Try to commit once more, and leave the group."""
        self.close_single()
        if self._consumer is None:
            return
        topic_partitions = self._to_commits(offsets)
        closer = threading.Thread(target=self._close, args=(self._consumer, topic_partitions), daemon=True)
        closer.start()
        closer.join(TIMEOUT_MS / 1_000)

    def _to_commits(self, offsets: Mapping[int, int]) -> dict[Any, Any]:
        return {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset, self._topic_id, -1)
            for partition, offset in offsets.items()
        }

    @staticmethod
    def _close(consumer: Any, topic_partitions: Mapping[Any, Any]) -> None:
        try:
            if topic_partitions:
                consumer.commit(dict(topic_partitions), timeout_ms=COMMIT_TIMEOUT_MS)
        except KafkaError:
            pass  # the store has the progress; the commit is for lag tools
        finally:
            with suppress(Exception):  # errors while closing do not matter
                consumer.close(autocommit=False, timeout_ms=5_000)
