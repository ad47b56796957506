"""Read topics as they grow, from their first records, with consumers without a group.

The caller opens the consumers, because it knows how to connect to Kafka. A reader writes nothing, so it needs only the
right to read the topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from kafka import TopicPartition
from kafka.errors import KafkaError

from monitor.audit.parse_values import AuditError
from monitor.audit.recount_visits import Recount
from monitor.audit.visits import decode

OpenConsumer = Callable[..., Any]
"""A function that opens a kafka-python consumer without a group. It takes settings by name, such as `isolation_level`.

If a batch cannot be read, a consumer of the input topic may return a record instead, as the last one of a poll.
The value of this record is an object: `records` is the number of records in the batch, and `end` the offset after them.
"""

PATIENCE_SECONDS: Final = 30.0
_POLL_MS: Final = 250
_UNKNOWN_INSTANT: Final = 2**62
_MAX_RECORDS: Final = 2_000

_T = TypeVar("_T")


class UnreadableTopicError(AuditError):
    """The topic cannot be read now. A later attempt may succeed."""


class TopicChangedError(AuditError):
    """The topic was re-created, so everything must be read again."""


class HiddenRecordsError(UnreadableTopicError):
    """The end of the topic cannot be read yet: a transaction is open, or replicas have not copied the last records."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The topics, and the functions that read them."""

    alerts: str
    """The name of the output topic."""
    open_output: OpenConsumer
    read_topic_id: Callable[[str], str]
    """Returns the id of a topic, "" if there is none."""
    log_ends: Callable[[str], Mapping[int, int]]
    """Returns the offset after the last record of each partition, also of records that are hidden."""
    visits: str = ""
    """The name of the input topic."""
    open_input: OpenConsumer | None = None
    """None if there is no input to compare with."""
    explain: Callable[[Exception], str] = repr
    """Returns the message for an error of Kafka."""
    alive: Callable[[], None] = lambda: None
    """Is called after each tick and each poll."""


class TopicReader:
    """The position in a topic, which outlives its consumer.

    `first` has the offset of the first record to read in each partition, and `skipped` the partitions in which records
    expired before they were read. `committed`: records count if and only if their transaction is committed, so they are
    read after it has ended.
    """

    def __init__(self, sources: Sources, name: str, open_consumer: OpenConsumer, *, committed: bool) -> None:
        self.name = name
        self.topic_id = ""
        self.first: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        self.skipped: set[int] = set()
        self._sources, self._open = sources, open_consumer
        self._committed = committed
        self._consumer: Any = None

    def ask_ends(self) -> dict[int, int]:
        """Return the end offset of each partition, and begin to read partitions that were added.

        With `committed` they are the ends of the logs: visits of an open transaction count once it is committed.

        Raises:
            UnreadableTopicError: Kafka does not answer, or refuses.
            TopicChangedError: the topic was re-created, or ends before the position.
        """
        return self._call(self._find_ends)

    def read_while(
        self, find_wanted: Callable[[], Mapping[int, int]], take: Callable[[int, Any], None], *, waits: bool = True
    ) -> None:
        """Give records to `take(partition, record)` until nothing is wanted.

        Args:
            find_wanted: returns the partitions that must be read further, each with the offset to read to.
            take: takes the next record of a partition.
            waits: wait for records that are hidden by an open transaction or a lagging replica.

        Raises:
            HiddenRecordsError: `waits` is False, and wanted records are hidden.
            UnreadableTopicError: Kafka does not answer, refuses, or returns no records for half a minute.
            TopicChangedError: the topic was re-created.
        """
        heard = time.monotonic()
        while wanted := find_wanted():
            before = dict(self.positions)
            for partition, records in self._call(partial(self._poll, wanted)).items():
                for record in records:
                    take(partition, record)
            if self.positions != before:
                heard = time.monotonic()
                continue
            if not waits:
                self._call(partial(self._require_readable, wanted))
            if time.monotonic() - heard > PATIENCE_SECONDS:
                self.close()
                raise UnreadableTopicError(f"the topic {self.name} returned no records for half a minute")

    def compute_lag(self, ends: Mapping[int, int]) -> int:
        """Return the number of offsets between the positions and the ends."""
        return sum(max(0, end - self.positions.get(partition, 0)) for partition, end in ends.items())

    def close(self) -> None:
        """Close the connection. The next call opens another one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(KafkaError, OSError):
                consumer.close(autocommit=False)

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            if self._consumer is None:
                self._consumer = self._open(isolation_level="read_committed" if self._committed else "read_uncommitted")
            return operation()
        except (KafkaError, OSError) as error:
            self.close()
            raise UnreadableTopicError(
                f"the topic {self.name} cannot be read: {self._sources.explain(error)}"
            ) from error

    def _find_ends(self) -> dict[int, int]:
        consumer = self._consumer
        ends = dict(self._sources.log_ends(self.name))
        if not ends:
            self.close()
            raise UnreadableTopicError(f"there is no topic {self.name}, or this user may not see it")
        partitions = [TopicPartition(self.name, partition) for partition in sorted(ends)]
        self._require_same()
        if not self.topic_id:
            self.close()
            raise UnreadableTopicError(f"the topic {self.name} was deleted after its ends had been read")
        if not self._committed:
            ends = {tp.partition: int(end) for tp, end in consumer.end_offsets(partitions).items()}
        for partition, end in ends.items():
            position = self.positions.get(partition, 0)
            if end < position:
                raise TopicChangedError(
                    f"partition {partition} of {self.name} ends at offset {end}, but was read up to offset {position}"
                )
        if consumer.assignment() != set(partitions):
            self._assign(partitions)
        return ends

    def _require_same(self) -> None:
        """Check that the topic still has its id. If so, Kafka's earlier responses were about this topic."""
        found = self._sources.read_topic_id(self.name)
        if found and self.topic_id and found != self.topic_id:
            raise TopicChangedError(f"the topic {self.name} has another id than before")
        self.topic_id = self.topic_id or found

    def _require_readable(self, ends: Mapping[int, int]) -> None:
        partitions = [TopicPartition(self.name, partition) for partition in sorted(ends)]
        for tp, stable in self._consumer.end_offsets(partitions).items():
            if stable < ends[tp.partition] and self.positions[tp.partition] >= stable:
                raise HiddenRecordsError(
                    f"the topic {self.name} cannot be read beyond offset {stable} of partition {tp.partition}: a "
                    "transaction is open there, or replicas have not copied the last records"
                )

    def _assign(self, partitions: list[TopicPartition]) -> None:
        beginnings = self._consumer.beginning_offsets(partitions)
        self._consumer.assign(partitions)
        for tp, beginning in beginnings.items():
            position = self.positions.setdefault(tp.partition, beginning)
            self.first.setdefault(tp.partition, beginning)
            if position < beginning:
                self.skipped.add(tp.partition)
                self.first[tp.partition] = self.positions[tp.partition] = beginning
            self._consumer.seek(tp, self.positions[tp.partition])

    def _poll(self, wanted: Mapping[int, int]) -> dict[int, list[Any]]:
        consumer = self._consumer
        if not consumer.assignment():
            self._find_ends()
        waiting = {tp for tp in consumer.assignment() if self.positions[tp.partition] < wanted.get(tp.partition, 0)}
        consumer.pause(*(consumer.assignment() - waiting))
        consumer.resume(*waiting)
        if not waiting:
            return {}
        polled = consumer.poll(timeout_ms=_POLL_MS, max_records=_MAX_RECORDS)
        self._sources.alive()
        if polled:
            self._require_same()
        for tp, records in polled.items():
            if records and not isinstance(records[-1].value, bytes | None):  # a batch that cannot be read
                consumer.seek(tp, records[-1].value.end)
        for tp in waiting:
            self.positions[tp.partition] = int(consumer.position(tp))
        return {tp.partition: list(records) for tp, records in polled.items()}


class Input:
    """The input topic, and the recounts that it feeds.

    `ahead`: each partition is read only until a record is stamped so many microseconds after the as_of of the tick that
    is judged, so that visits of later windows need no memory. `ends`: the end offsets of the last request.
    """

    def __init__(self, reader: TopicReader, recounts: Sequence[Recount], ahead: int) -> None:
        self.reader = reader
        self.records = 0
        self._recounts = recounts
        self._ahead = ahead
        self._newest: dict[int, int] = {}
        self._complete_from: dict[int, int] = {}
        self.ends: Mapping[int, int] = {}

    @property
    def complete_from(self) -> int | None:
        """The instant since which the input is complete; None if nothing has expired."""
        unread = self.reader.skipped | {partition for partition, first in self.reader.first.items() if first}
        return max((self._complete_from.get(partition, _UNKNOWN_INSTANT) for partition in unread), default=None)

    @property
    def lag(self) -> int:
        """The number of offsets between the positions and the end offsets of the last request."""
        return self.reader.compute_lag(self.ends)

    def ask_ends(self) -> None:
        """Request the end offsets. Every visit that is counted by an answer read so far is before them.

        Raises:
            UnreadableTopicError: the topic cannot be read.
        """
        self.ends = self.reader.ask_ends()

    def read_to(self, as_of: int, ends: Mapping[int, int]) -> None:
        """Read what the counts of a tick need, at most to these ends.

        Raises:
            HiddenRecordsError: an open transaction, or a lagging follower, hides records that the counts need.
            UnreadableTopicError: the topic cannot be read, or returns no records.
        """
        self.reader.read_while(lambda: self._find_wanted(as_of + self._ahead, ends), self._feed, waits=False)

    def _find_wanted(self, until: int, ends: Mapping[int, int]) -> Mapping[int, int]:
        return {
            partition: end
            for partition, end in ends.items()
            if self.reader.positions.get(partition, 0) < end and self._newest.get(partition, 0) < until
        }

    def _feed(self, partition: int, record: Any) -> None:
        """Give the visits of a record to the recounts.

        A record that no broker stamped is in no slot, so no answer counts its visits. Its timestamp may be any number,
        so it shows neither how far the input was read nor where it begins.
        """
        self.records += 1
        if record.stamp_ms is None:
            return
        stamped = record.stamp_ms * 1_000
        self._newest[partition] = max(stamped, self._newest.get(partition, stamped))
        if partition in self.reader.skipped:
            self.reader.skipped.discard(partition)
            self._complete_from[partition] = stamped
        self._complete_from.setdefault(partition, stamped)
        for recount in self._recounts:
            for line in decode(record.value, stamped, recount.terms):
                recount.take(line)
