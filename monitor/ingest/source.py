"""The input topic, as a member of the consumer group sees it: what is assigned, what was fetched, where to go on."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka.errors import CorruptRecordError, IllegalStateError, KafkaError, LogTruncationError

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.groups import CommittedOffsets, read_committed_offsets
from monitor.errors import UnreachableError
from monitor.ingest.batches import Bounds, FetchedRecord, Unreadable
from monitor.ingest.fetching import FetchState, read_leniently
from monitor.ingest.stamps import first_run

FETCH_BYTES: Final = 4 * 1024 * 1024
PARTITION_FETCH_BYTES: Final = 2 * 1024 * 1024
RECORDS_PER_POLL: Final = 4_000
TIMEOUT_MS: Final = 10_000

FAILURES: Final = 3
"""After so many polls in a row that failed, another consumer goes on: this one may be what is wrong."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of [start, end) of a partition: values and broker timestamps in ms; `end` also passes control records.

    A value may stand for records that nobody can read.
    """

    partition: int
    start: int
    end: int
    values: Sequence[bytes | Unreadable | None]
    timestamps_ms: Sequence[int]
    offsets: Sequence[int]


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    """Notes what the group's coordinator says; it runs on the network thread, so it does nothing slow.

    A partition that comes is parked (paused, at offset 0) until the reader knows where to begin: without a position
    kafka-python would look for one by itself.
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


class InputLog:
    """A member of the input group. Used by one thread.

    `waiting` are assigned partitions that nobody has told where to begin; `resume` tells. `truncated` are those whose
    log was seen to have lost records that were read, each with the offset up to which it is as it was (0: not known);
    and, with `stamped_by_brokers`, those with records that are not, each with the offset after them. `unread` are those
    that wait because of records that this client can't read: they must be passed as lost. `service` is the service
    whose groups read the topic (the group's own name if not given), `topic_id` the topic's id.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        group: str,
        service: str = "",
        topic_id: str = "",
        *,
        bounds: Bounds | None = None,
        stamped_by_brokers: bool = False,
    ) -> None:
        self._stamped_by_brokers = stamped_by_brokers
        self._connections = connections
        self._topic = topic
        self._group = group
        self._service = service or group
        self._topic_id = topic_id
        self._reading = FetchState(bounds or Bounds())
        self._next: dict[int, int] = {}
        self._failures = 0
        self.waiting: set[int] = set()
        self.truncated: dict[int, int] = {}
        self.unread: dict[int, Unreadable] = {}
        self._consumer: Any = None
        self._open()

    def _open(self) -> None:
        """Join the group. Raises UnreachableError if no broker can be used."""
        self._rebalances = _Rebalances()
        consumer = self._connections.member(
            self._group,
            isolation_level="read_committed",
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
            max_poll_records=RECORDS_PER_POLL,
        )
        self._consumer = self._rebalances.consumer = read_leniently(consumer, self._reading)
        self._consumer.subscribe([self._topic], listener=self._rebalances)

    def _give_up(self) -> None:
        """Let go of a consumer that may be broken; the next poll makes another one, which is assigned anew."""
        threading.Thread(target=self._close, args=(self._consumer, {}), daemon=True).start()
        self._consumer = None
        self._next.clear()
        self.waiting.clear()
        self.unread.clear()
        self._failures = 0

    @property
    def reading(self) -> Mapping[int, int]:
        """The next offset by partition, of those that are being read."""
        return self._next

    def poll(self, timeout_ms: int) -> list[Fetched]:
        """Fetch what is there, waiting up to `timeout_ms`; also keeps the group membership alive.

        Raises:
            UnreachableError: if the brokers cannot be used, a position has left the log, or the client fails in any
                other way: then, and after three failures in a row, the next call goes on with a new one.
        """
        try:
            found = self._polled(timeout_ms)
        except UnreachableError as error:
            if not isinstance(error.__cause__, LogTruncationError):
                self._note_failure(error.__cause__)
                raise
            kept = error.__cause__.divergent_offsets
            self.truncated |= {place.partition: 0 if at is None else at.offset for place, at in kept.items()}
            # All of them: what was fetched of the others has passed their positions.
            self.park()
            return []
        except Exception as error:
            # Where, but not the error's own text, which might quote what was read.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("Kafka's client fails in a way that nobody foresaw; a new one goes on:\n%s", where)  # noqa: TRY400
            self._give_up()
            raise UnreachableError(f"Kafka's client failed ({type(error).__name__}), and a new one goes on") from error
        self._failures = 0
        for some in found:
            self._next[some.partition] = some.end
        self.park(self.unread)
        return found

    def _note_failure(self, cause: BaseException | None) -> None:
        if isinstance(cause, CorruptRecordError):
            return  # it is the batch's fault, and passes or is passed
        self._failures += 1
        if self._failures >= FAILURES and self._consumer is not None:
            self._give_up()

    def _polled(self, timeout_ms: int) -> list[Fetched]:
        if self._consumer is None:
            self._open()
        with self._connections.translate_errors():
            polled = self._consumer.poll(timeout_ms=timeout_ms)
            self._note_rebalances()
            fetched = [self._fetched(tp.partition, records) for tp, records in polled.items() if records]
            # Also while others are busy: a tick's barrier may lie behind a transaction's end on a quiet partition.
            busy = {tp.partition for tp, records in polled.items() if records}
            fetched += [self._passed(partition) for partition in self._next.keys() - busy]
        return [some for some in fetched if some is not None]

    def _note_rebalances(self) -> None:
        while self._rebalances.events:
            assigned, partition = self._rebalances.events.popleft()
            self._next.pop(partition, None)
            self.unread.pop(partition, None)
            (self.waiting.add if assigned else self.waiting.discard)(partition)

    def _fetched(self, partition: int, records: Sequence[FetchedRecord]) -> Fetched | None:
        start = self._next.get(partition)
        if start is None:
            return None
        last, end = records[-1].value, records[-1].offset + 1
        if isinstance(last, Unreadable):
            end = last.end
            if last.lost:
                self.unread[partition] = last
                records, end = records[:-1], last.first
        if self._stamped_by_brokers and (unstamped := first_run(records)) is not None:
            begin, behind = unstamped
            self.unread.pop(partition, None)  # what lies behind is fetched once more
            if begin == 0:
                self._pass_unstamped(partition, records[behind - 1].offset + 1)
                return None
            # What lies before them counts; they are fetched once more.
            self._consumer.seek(TopicPartition(self._topic, partition), records[begin].offset)
            records, end = records[:begin], records[begin - 1].offset + 1
        if end <= start:
            return None
        return Fetched(
            partition,
            start,
            end,
            [record.value for record in records],
            [record.timestamp for record in records],
            [record.offset for record in records],
        )

    def _pass_unstamped(self, partition: int, end: int) -> None:
        """Have reading go on behind records whose slot nobody can tell: visits that are lost."""
        log.error(
            "records below offset %d of %s-%d carry their producers' time, so they cannot be counted: expected "
            "message.timestamp.type=LogAppendTime; see who changed it",
            end,
            self._topic,
            partition,
        )
        self.truncated[partition] = end
        self.park([partition])

    def _passed(self, partition: int) -> Fetched | None:
        """What lies between the last record and the position: control records and aborted ones, nothing to read."""
        try:
            end = self._consumer.position(TopicPartition(self._topic, partition), timeout_ms=TIMEOUT_MS)
        except IllegalStateError:
            return None  # revoked meanwhile; the listener has noted it
        start = self._next[partition]
        return Fetched(partition, start, end, (), (), ()) if end is not None and end > start else None

    def resume(self, partition: int, offset: int) -> None:
        """Read the partition from an offset; does nothing if it was taken away meanwhile."""
        place = TopicPartition(self._topic, partition)
        try:
            self._consumer.seek(place, offset)
            self._consumer.resume(place)
        except (ValueError, IllegalStateError, KeyError):
            self.waiting.discard(partition)
            return
        self.waiting.discard(partition)
        self._next[partition] = offset

    def park(self, partitions: Iterable[int] | None = None) -> None:
        """Stop reading some partitions (all, by default) until told anew where to begin."""
        for partition in list(self._next if partitions is None else partitions):
            if self._next.pop(partition, None) is not None:
                self.waiting.add(partition)

    def bounds(self, partition: int) -> tuple[int, int]:
        """The first offset that the log still holds, and the one after the last that can be read."""
        place = TopicPartition(self._topic, partition)
        with self._connections.translate_errors():
            first = self._consumer.beginning_offsets([place], timeout_ms=TIMEOUT_MS)[place]
            return first, self._consumer.end_offsets([place], timeout_ms=TIMEOUT_MS)[place]

    def offset_at(self, partition: int, instant: int) -> int | None:
        """The offset of the first record stamped at or after an instant; None if there is none yet."""
        place = TopicPartition(self._topic, partition)
        with self._connections.translate_errors():
            found = self._consumer.offsets_for_times({place: max(0, instant // 1_000)}, timeout_ms=TIMEOUT_MS)
        return None if found[place] is None else int(found[place].offset)

    def read_committed_offsets(self) -> Mapping[int, CommittedOffsets]:
        """By partition, what the service's groups have committed, of any configuration; asked of the brokers now."""
        return read_committed_offsets(self._connections, self._service, self._topic, self._topic_id)

    def lag(self) -> dict[int, int]:
        """Records between the position and the high watermark, by partition, as of the last fetch."""
        lags = {}
        for partition, offset in self._next.items():
            high = self._consumer.highwater(TopicPartition(self._topic, partition))
            if high is not None:
                lags[partition] = max(0, high - offset)
        return lags

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Tell Kafka how far we are, for lag tools and for later groups; where to go on is in the windows."""
        places = self._committing(offsets)
        if places:
            self._consumer.commit_async(places)

    def close(self, offsets: Mapping[int, int]) -> None:
        """Leave the group, after a last commit that may fail."""
        if self._consumer is None:
            return
        places = self._committing(offsets)
        closer = threading.Thread(target=self._close, args=(self._consumer, places), daemon=True)
        closer.start()
        closer.join(TIMEOUT_MS / 1_000)

    def _committing(self, offsets: Mapping[int, int]) -> dict[Any, Any]:
        return {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset, self._topic_id, -1)
            for partition, offset in offsets.items()
        }

    @staticmethod
    def _close(consumer: Any, places: Mapping[Any, Any]) -> None:
        try:
            if places:
                consumer.commit(dict(places), timeout_ms=2_000)
        except KafkaError:
            pass  # progress is in the windows; Kafka's copy only serves lag tools
        finally:
            with suppress(Exception):  # nothing that a consumer does as it goes matters any more
                consumer.close(autocommit=False, timeout_ms=5_000)
