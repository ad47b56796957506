"""A replacement for kafka-python's fetcher that cannot get stuck at a batch, and reads leniently and within bounds.

kafka-python 3.0.12 keeps a fetch that it failed to read, and loops forever after a seek to the offset of this fetch. It
may keep the records of a resumed partition for ever. It refuses some batches that brokers and Java's client accept, and
it decompresses a whole batch at once. No issue upstream was found.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, KafkaError
from kafka.protocol.consumer import IsolationLevel

from monitor.kafka.kafka_python_3_0.batches import (
    FORMAT,
    LOG_END,
    Bounds,
    FetchedRecord,
    Unreadable,
    make_unreadable,
    read_batch,
)

POLL_BYTES: Final = 1024 * 1024
"""The size limit of the records that a poll returns; the last one may exceed it. A processor's cache can hold it."""

TRIES: Final = 4
"""How often a damaged batch is fetched. The damage may be in transit, or on the disk of only one broker."""


@dataclass
class FetchState:
    """The limits and the state of one reader's fetches, which outlive a replaced consumer."""

    bounds: Bounds = field(default_factory=Bounds)
    tries: int = TRIES
    """How often a damaged batch is fetched."""
    stamped_by_brokers: bool = True
    """Whether only a broker's timestamp is a stamp (not in a replay)."""
    left: int = 0
    """The bytes that the present poll may still return."""
    _failed: dict[Any, tuple[int, int]] = field(default_factory=dict)

    def try_again(self, topic_partition: Any, offset: int) -> bool:
        """Return whether to fetch from an offset again, after damaged data."""
        before, times = self._failed.get(topic_partition, (offset, 0))
        times = times + 1 if before == offset else 1
        self._failed[topic_partition] = offset, times
        return times < self.tries


def return_resumed(consumer: Any) -> Any:
    """Make an unused consumer return the records of a resumed partition that were fetched before the pause."""
    consumer._fetcher.__class__ = _ResumingFetcher  # noqa: SLF001  # kafka-python has no option to pass one in
    return consumer


def read_leniently(consumer: Any, state: FetchState) -> Any:
    """Make an unused consumer return `FetchedRecord`s, and never fail because of a batch's content."""
    fetcher = consumer._fetcher  # noqa: SLF001  # kafka-python has no option to pass one in
    fetcher.__class__ = _Fetcher
    fetcher.state = state
    fetcher.PartitionRecords = partial(_Records, state)
    return consumer


class _NoBatches:
    """A placeholder for bytes that cannot even be split into batches."""

    def next_batch(self) -> NoReturn:
        raise CorruptRecordError("no complete batch was found")


class _ResumingFetcher(Fetcher):  # type: ignore[misc]  # kafka-python ships no types
    """A fetcher that returns the records of a resumed partition.

    kafka-python 3.0.12 keeps records that were fetched before a pause. While it keeps the last partition that it has
    read to the end, it neither returns them after the partition is resumed nor fetches others.
    """

    _next_partition_records: Any

    def fetched_records(self, *arguments: Any, **settings: Any) -> Any:
        if not self._next_partition_records:  # all of them have been returned
            self._next_partition_records = None
        return super().fetched_records(*arguments, **settings)


class _Fetcher(_ResumingFetcher):
    """A fetcher that returns at most a megabyte, or a record, per poll."""

    state: FetchState

    def fetched_records(self, *arguments: Any, **settings: Any) -> Any:
        self.state.left = POLL_BYTES
        return super().fetched_records(*arguments, **settings)

    def _append(self, drained: Any, part: Any, max_records: int, update_offsets: Any) -> int:
        taken: int = super()._append(drained, part, max_records, update_offsets)
        return max_records if self.state.left <= 0 else taken

    def _parse_fetched_data(self, completed_fetch: Any) -> Any:
        try:
            return super()._parse_fetched_data(completed_fetch)
        except (KafkaError, struct.error, ValueError):
            if completed_fetch.partition_data.error_code:
                raise
            topic_partition, offset = completed_fetch.topic_partition, completed_fetch.fetched_offset
            return self.PartitionRecords(
                offset, topic_partition, _NoBatches(), on_drain=self._on_partition_records_drain
            )


class _Records(Fetcher.PartitionRecords):  # type: ignore[misc]  # as above
    """The fetched records of one partition, as `FetchedRecord`s. They end after records that are lost unread."""

    def __init__(self, state: FetchState, *arguments: Any, **settings: Any) -> None:
        self._state = state
        super().__init__(*arguments, **settings)

    def take(self, n: int | None = None) -> list[FetchedRecord]:
        """Return at most `n` records. Only the last one may exceed the bytes that the poll may still return.

        Raises:
            CorruptRecordError: the next batch is damaged, and is fetched again.
        """
        taken: list[FetchedRecord] = []
        try:
            self._maybe_raise_next_inline_exception()
            for record in self.record_iterator or ():
                taken.append(record)
                size = len(record.value) if isinstance(record.value, bytes) else 0
                self.bytes_read += size + 1
                self._state.left -= size
                if len(taken) == n or self._state.left <= 0:
                    return taken
        except Exception as error:
            if taken:
                self._next_inline_exception = error
                return taken
            self.drain()  # otherwise kafka-python would call this method forever
            raise
        self.drain()
        return taken

    def _unpack_records(self, tp: Any, records: Any, *_deserializers: Any) -> Iterator[FetchedRecord]:
        try:
            while (batch := records.next_batch()) is not None:
                for record in self._read(tp, batch):
                    self.next_fetch_offset = record.offset + 1
                    yield record
                    if isinstance(record.value, Unreadable) and record.value.lost:
                        self.drain()
                        return
                if batch.magic == FORMAT:
                    self.next_fetch_offset = batch.next_offset
        except _DamagedError:
            raise
        except Exception as error:
            begin = max(self.fetch_offset, self.next_fetch_offset)
            if self._state.try_again(tp, begin):
                raise CorruptRecordError(f"the data of {tp} at offset {begin} are damaged") from error
            why = f"the data are not in the format of batches ({type(error).__name__})"
            yield FetchedRecord(begin, None, Unreadable(begin, LOG_END, 1, None, why, b"", lost=True))
        self.drain()

    def _read(self, tp: Any, batch: Any) -> Iterator[FetchedRecord]:
        begin = max(self.fetch_offset, self.next_fetch_offset)
        if not batch.validate_crc():
            if self._state.try_again(tp, begin):
                raise _DamagedError(f"the checksum of the batch of {tp} at offset {begin} is wrong")
            yield make_unreadable(batch, begin, None, "its checksum is wrong", lost=True)
        elif not self._is_skipped(batch):
            yield from read_batch(batch, begin, self._state.bounds, stamped_by_brokers=self._state.stamped_by_brokers)

    def _is_skipped(self, batch: Any) -> bool:
        """Return whether a batch has no visible records: a transaction marker, or records of an aborted transaction."""
        if batch.magic != FORMAT:
            return False
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


class _DamagedError(CorruptRecordError):  # type: ignore[misc]  # as above
    """A batch with a wrong checksum, which is fetched again."""
