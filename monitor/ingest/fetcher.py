"""kafka-python's fetcher, so that whatever was fetched can be passed: read leniently, within bounds, or told of.

kafka-python 3.0.12 keeps a fetch whose reading has failed, and a seek to its offset makes it loop without end. It reads
less leniently than Java some batches that brokers accept, and decompresses at once all that a batch holds.
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

from monitor.ingest.batches import FORMAT, LOG_END, Bounds, FetchedRecord, Unreadable, not_read, read_batch

POLL_BYTES: Final = 4 * 1024 * 1024
"""How much a poll gives at once, beside one record."""

TRIES: Final = 4
"""How often a damaged batch is fetched: damage on the way, or on one broker's disk, may be gone the next time."""


@dataclass
class FetchState:
    """How one reader reads: within `bounds`, and with so many `tries` for what is damaged.

    It outlives a consumer that is given up. `left`: how many bytes the present poll may still give.
    """

    bounds: Bounds = field(default_factory=Bounds)
    tries: int = TRIES
    left: int = 0
    _failed: dict[Any, tuple[int, int]] = field(default_factory=dict)

    def try_again(self, place: Any, offset: int) -> bool:
        """Whether to fetch from an offset once more, since what came was damaged."""
        before, times = self._failed.get(place, (offset, 0))
        times = times + 1 if before == offset else 1
        self._failed[place] = offset, times
        return times < self.tries


def read_leniently(consumer: Any, reading: FetchState) -> Any:
    """Make a consumer that has not been used give `FetchedRecord`s, and not fail because of what a batch holds."""
    fetcher = consumer._fetcher  # noqa: SLF001  # kafka-python takes none but its own
    fetcher.__class__ = _Fetcher
    fetcher.reading = reading
    fetcher.PartitionRecords = partial(_Records, reading)
    return consumer


class _NoBatches:
    """Stands for bytes that are not even the frames of batches."""

    def next_batch(self) -> NoReturn:
        raise CorruptRecordError("no complete batch was found")


class _Fetcher(Fetcher):  # type: ignore[misc]  # kafka-python ships no types
    """A fetcher that gives no more than a few megabytes at once."""

    reading: FetchState

    def fetched_records(self, *arguments: Any, **settings: Any) -> Any:
        self.reading.left = POLL_BYTES
        return super().fetched_records(*arguments, **settings)

    def _append(self, drained: Any, part: Any, max_records: int, update_offsets: Any) -> int:
        taken: int = super()._append(drained, part, max_records, update_offsets)
        return max_records if self.reading.left <= 0 else taken

    def _parse_fetched_data(self, completed_fetch: Any) -> Any:
        try:
            return super()._parse_fetched_data(completed_fetch)
        except (KafkaError, struct.error, ValueError):
            if completed_fetch.partition_data.error_code:
                raise
            place, offset = completed_fetch.topic_partition, completed_fetch.fetched_offset
            return self.PartitionRecords(offset, place, _NoBatches(), on_drain=self._on_partition_records_drain)


class _Records(Fetcher.PartitionRecords):  # type: ignore[misc]  # as above
    """What was fetched of one partition, as `FetchedRecord`s. Nothing comes after what is lost unread."""

    def __init__(self, reading: FetchState, *arguments: Any, **settings: Any) -> None:
        self._reading = reading
        super().__init__(*arguments, **settings)

    def take(self, n: int | None = None) -> list[FetchedRecord]:
        """Give at most `n` records, and little more than what the poll may still give.

        Raises:
            CorruptRecordError: what comes next is damaged, and is fetched again.
        """
        taken: list[FetchedRecord] = []
        try:
            self._maybe_raise_next_inline_exception()
            for record in self.record_iterator or ():
                taken.append(record)
                size = len(record.value) if isinstance(record.value, bytes) else 0
                self.bytes_read += size + 1
                self._reading.left -= size
                if len(taken) == n or self._reading.left <= 0:
                    return taken
        except Exception as error:
            if taken:
                self._next_inline_exception = error
                return taken
            self.drain()  # or it would be asked, without end, for what it cannot give
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
            if self._reading.try_again(tp, begin):
                raise CorruptRecordError(f"what {tp} holds at offset {begin} is damaged") from error
            why = f"what came has not the form of batches ({type(error).__name__})"
            yield FetchedRecord(begin, 0, Unreadable(begin, LOG_END, 1, None, why, b"", lost=True))
        self.drain()

    def _read(self, tp: Any, batch: Any) -> Iterator[FetchedRecord]:
        begin = max(self.fetch_offset, self.next_fetch_offset)
        if not batch.validate_crc():
            if self._reading.try_again(tp, begin):
                raise _DamagedError(f"the checksum of the batch of {tp} at offset {begin} is wrong")
            yield not_read(batch, begin, None, "its checksum is wrong", lost=True)
        elif not self._is_passed(batch):
            yield from read_batch(batch, begin, self._reading.bounds)

    def _is_passed(self, batch: Any) -> bool:
        """Whether a batch holds nothing for readers: a transaction's end, or records of one that was aborted."""
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
    """A batch whose checksum is wrong, which is fetched again."""
