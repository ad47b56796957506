"""Read batches with their transactions, and the markers that end transactions, which kafka-python skips.

With the isolation level read_committed, a broker returns nothing after the first record of an open transaction, also of
transactions that have ended. Their markers tell which of them were committed. No issue upstream was found: consumers
normally need the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError


class FetchedBatch(NamedTuple):
    """A batch of records, or the marker at the end of a transaction."""

    offset: int
    """That of its first record, at least the offset that was asked for."""
    producer: int | None
    """The id of the producer whose transaction contains the batch; None without a transaction."""
    committed: bool | None
    """Whether the marker says so; None for records."""
    records: Iterable[Any] = ()
    """Kafka-python's records, decompressed when they are read."""


def read_batches(consumer: Any) -> Any:
    """Make an unused consumer with the isolation level read_uncommitted return `FetchedBatch`es."""
    consumer._fetcher.PartitionRecords = _Batches  # noqa: SLF001  # kafka-python has no option to pass one in
    return consumer


class _Batches(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python ships no types
    """The fetched data of one partition, as `FetchedBatch`es."""

    def _unpack_records(self, tp: Any, records: Any, *_deserializers: Any) -> Iterator[FetchedBatch]:
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                raise CorruptRecordError(f"the checksum of the batch of {tp} at offset {batch.base_offset} is wrong")
            self.next_fetch_offset, offset = batch.next_offset, max(batch.base_offset, self.fetch_offset)
            producer = batch.producer_id if batch.is_transactional else None
            if batch.is_control_batch:
                yield FetchedBatch(offset, producer, next(batch).commit)
            else:
                yield FetchedBatch(offset, producer, None, batch)
        self.drain()
