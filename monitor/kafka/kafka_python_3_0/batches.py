"""Read the records of a fetched batch, one by one and within bounds, including batches that kafka-python cannot read.

A batch can become unreadable in two ways:

* Its records are inconsistent, for example because a length is wrong. Then no client can read further, not even Java's,
  and the rest of the batch becomes one dead letter.
* Only this client cannot read it: the batch exceeds the bounds, its checksum is wrong on every fetch, or a codec fails
  although the broker could decompress the batch. Then the records are lost unread, and may include visits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from monitor.kafka.decompress import NAMES, CodecError, decompress
from monitor.records.visit_contract import Fault, Reason

LOG_APPEND_TIME: Final = 1
"""Kafka's timestamp type of broker timestamps; 0 is the type of producers' timestamps."""

DEFAULT_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default of `max.message.bytes`."""

_BATCH_FACTOR: Final = 64
_RECORD_FACTOR: Final = 8
_LEAST_RECORD_BYTES: Final = 256
LOG_END: Final = 2**63 - 1
"""The end offset of unreadable records if the end of their batch is unknown. Then the rest of the log is skipped."""

_HEADER_BYTES: Final = 61
FORMAT: Final = 2
"""Kafka's current batch format ("magic")."""

_LONGEST_NUMBER: Final = 10  # bytes
_LONGEST_SHIFT: Final = 7 * _LONGEST_NUMBER
_CODEC_MASK: Final = 0x07


class FetchedRecord(NamedTuple):
    """The parts of a record that the reader uses. A `value` of type `Unreadable` replaces the rest of a batch.

    `stamp_ms`: when a broker stamped the record; None if no broker did, or if this is unknown.
    """

    offset: int
    stamp_ms: int | None
    value: bytes | Unreadable | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The unreadable part of a batch: `records` records at the offsets [first, end)."""

    first: int
    end: int
    records: int
    stamp_ms: int | None
    """The latest broker timestamp of the batch, None if unknown."""
    why: str
    """The reason, without any content of the batch."""
    raw: bytes
    """The fetched bytes of the batch, which are personal data."""
    lost: bool
    """The records may include visits."""

    @property
    def fault(self) -> Fault:
        """The reason for the dead letter."""
        lost = "; counted as lost unread" if self.lost else ""
        where = f"{self.records} records from offset {self.first} to {self.end - 1}"
        if self.end == LOG_END:
            where = f"all records from offset {self.first}"
        return Fault(Reason.UNREADABLE_BATCH, f"batch: expected a readable batch: {self.why}; {where}{lost}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of decompressed batches, derived from a topic's `max.message.bytes`, which limits compressed batches.

    Compression makes JSON of visits 10 to 20 times smaller, so a factor of 64 is enough for any honest batch. The limit
    of one record is an eighth of that, because a record is parsed as a whole, which may need 30 times its size in
    memory. Uncompressed batches need no limit here, because the broker has limited their size.
    """

    message_bytes: int = DEFAULT_MESSAGE_BYTES

    @property
    def batch_bytes(self) -> int:
        """The limit of a decompressed batch in bytes."""
        return _BATCH_FACTOR * max(DEFAULT_MESSAGE_BYTES, self.message_bytes)

    @property
    def record_bytes(self) -> int:
        """The limit of one decompressed record in bytes."""
        return _RECORD_FACTOR * max(DEFAULT_MESSAGE_BYTES, self.message_bytes)

    @property
    def records(self) -> int:
        """The limit of records in a compressed batch."""
        return self.batch_bytes // _LEAST_RECORD_BYTES


class InconsistentError(Exception):
    """A record is inconsistent, so no client can read the rest of the batch."""


class TooMuchError(Exception):
    """A batch or a record exceeds the bounds."""


def read_batch(batch: Any, begin: int, bounds: Bounds, *, stamped_by_brokers: bool = True) -> Iterator[FetchedRecord]:
    """Yield the records of a batch with a correct checksum. The unreadable part, if any, comes last.

    Offsets are the broker's. Offsets that producers set are ignored.

    Args:
        batch: a batch of kafka-python, not read yet.
        begin: the first offset that the reader needs; earlier records may be yielded too.
        bounds: the limits of decompression.
        stamped_by_brokers: whether only a broker's timestamp is a stamp. Otherwise a producer's is one, too.
    """
    has_stamps = batch.timestamp_type == LOG_APPEND_TIME or not stamped_by_brokers
    raw = bytes(batch._buffer)  # noqa: SLF001  # kafka-python has no public access to the bytes
    record, read = None, _read_records if batch.magic == FORMAT else _read_old_records
    try:
        for record in read(batch, raw, bounds):  # the last record is used below
            yield record if has_stamps else record._replace(stamp_ms=None)
    except Exception as error:  # noqa: BLE001  # no error may stop the reader, or skip records silently
        reached = begin if record is None else max(begin, record.offset + 1)
        lost = not isinstance(error, InconsistentError)
        stamp = batch.max_timestamp if batch.magic == FORMAT and has_stamps else None
        yield make_unreadable(batch, reached, stamp, _explain(error), lost=lost)


def make_unreadable(batch: Any, begin: int, stamp_ms: int | None, why: str, *, lost: bool) -> FetchedRecord:
    """Return a placeholder record for the part of a batch from an offset on."""
    end = max(begin + 1, batch.next_offset if batch.magic == FORMAT else batch.base_offset + 1)
    begin = max(begin, batch.base_offset) if batch.magic == FORMAT else begin
    raw = bytes(batch._buffer)  # noqa: SLF001  # as above
    value = Unreadable(begin, end, end - begin, stamp_ms, why, raw, lost)
    return FetchedRecord(begin, stamp_ms, value)


def _explain(error: Exception) -> str:
    if isinstance(error, InconsistentError | TooMuchError | CodecError):
        return str(error)
    return f"the client failed with {type(error).__name__}"


class _Feed:
    """The decompressed bytes of a batch. `buffer` contains a part of them, and `fill` decompresses the next part."""

    def __init__(self, codec: int, data: bytes, bounds: Bounds) -> None:
        self._pieces = decompress(codec, data)
        self._name = NAMES[codec] if codec < len(NAMES) else str(codec)
        self._limit = bounds.batch_bytes if codec else len(data)
        self._taken = 0
        self._error = CodecError("it ends before its last record")
        self.buffer = b""

    def fill(self, at: int, need: int) -> bool:
        """Drop the bytes before `at`, and decompress until `buffer` has `need` bytes; return whether it has them."""
        parts, size = [self.buffer[at:]], len(self.buffer) - at
        while size < need:
            piece = self._next()
            if not piece:
                break
            self._taken += len(piece)
            if self._taken > self._limit:
                raise TooMuchError(f"{self._name} decompresses it to more than {self._limit} bytes")
            parts.append(piece)
            size += len(piece)
        self.buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        return size >= need

    def _next(self) -> bytes:
        """Return the next piece, empty at the end. Errors after the last record have no effect, as in Java's client."""
        try:
            return next(filter(None, self._pieces), b"")
        except CodecError as error:
            self._error = error
            return b""

    def explain_end(self) -> CodecError:
        """Return the reason why there are no more bytes."""
        return self._error


def _read_old_records(batch: Any, _raw: bytes, bounds: Bounds) -> Iterator[FetchedRecord]:
    """Yield the records of a batch in a format that Kafka no longer writes; timestamps may be missing."""
    codec = batch.compression_type
    if codec:
        key_offset = batch.KEY_OFFSET_V1 if batch.magic else batch.KEY_OFFSET_V0
        feed = _Feed(codec, batch._read_key_value(key_offset)[1], bounds)  # noqa: SLF001  # as above
        feed.fill(0, bounds.batch_bytes)
        batch._buffer, batch._decompressed = memoryview(feed.buffer), True  # noqa: SLF001  # as above
    for record in batch:
        yield FetchedRecord(record.offset, record.timestamp, record.value)


def _read_records(batch: Any, raw: bytes, bounds: Bounds) -> Iterator[FetchedRecord]:
    """Yield the records while they are decompressed. Bytes after the last record are ignored."""
    data = raw[_HEADER_BYTES:]
    codec, count = batch.attributes & _CODEC_MASK, batch.records_count
    if codec and count > bounds.records:
        raise TooMuchError(f"it has more than {bounds.records} records")
    appended = batch.timestamp_type == LOG_APPEND_TIME
    stamp = batch.max_timestamp if appended else batch.first_timestamp
    # Offsets set by the producer are not trusted. The broker's offsets have no gaps, unless the topic was compacted.
    without_gaps = batch.last_offset_delta == count - 1
    feed, at = _Feed(codec, data, bounds), 0
    limit = bounds.record_bytes if codec else len(data)
    for index in range(count):
        at, end = _read_frame(feed, at, limit)
        number, after, delta, value = _read_fields(feed, at, end)
        offset = batch.base_offset + (index if without_gaps else number)
        if offset > batch.last_offset:
            raise InconsistentError("a record is after the end of the batch")
        yield FetchedRecord(offset, stamp if appended else _clamp(stamp + delta), value)
        at = after


def _clamp(stamp: int) -> int:
    """Return a producer's timestamp, clamped to 64 bits."""
    return min(max(stamp, -(2**63)), 2**63 - 1)


def _read_frame(feed: _Feed, at: int, limit: int) -> tuple[int, int]:
    """Return where the next record's fields begin in the feed's buffer, and where they end according to its length."""
    if len(feed.buffer) - at < _LONGEST_NUMBER:
        feed.fill(at, _LONGEST_NUMBER)
        at = 0
    try:
        length, begin = _read_varint(feed.buffer, at)
    except IndexError:
        raise feed.explain_end() from None
    if length > limit:
        raise TooMuchError(f"one of its records has a length of more than {limit} bytes")
    if begin + length > len(feed.buffer):
        feed.fill(begin, length)
        begin = 0
    return begin, begin + length


def _read_fields(feed: _Feed, at: int, end: int) -> tuple[int, int, int, bytes | None]:
    """Read a record; return its index in the batch, its end in the buffer, its timestamp delta and its value."""
    buffer = feed.buffer
    try:
        delta, at = _read_varint(buffer, at + 1)
        number, at = _read_varint(buffer, at)
        size, at = _read_varint(buffer, at)
        at += max(size, 0)  # the key
        size, at = _read_varint(buffer, at)
        value = buffer[at : at + size] if size >= 0 else None
        at += max(size, 0)
        headers, at = _read_varint(buffer, at)
        for _ in range(2 * headers if at <= end else 0):  # names and values
            size, at = _read_varint(buffer, at)
            at += max(size, 0)
    except IndexError:
        raise feed.explain_end() from None
    if at > len(buffer):
        raise feed.explain_end()
    if at != end:
        raise InconsistentError("one of its records has the wrong length")
    return number, at, delta, value


def _read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint (seven bits per byte, the lowest first) and the offset after it."""
    byte = buffer[at]
    if byte < 0x80:  # noqa: PLR2004  # its last byte
        return (byte >> 1) ^ -(byte & 1), at + 1
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:  # noqa: PLR2004  # likewise
        at += 1
        byte = buffer[at]
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > _LONGEST_SHIFT:
            raise InconsistentError("a number in one of its records is too long")
    return (number >> 1) ^ -(number & 1), at + 1
