"""A fetched batch, record by record and within bounds, also where kafka-python would not read it.

A batch can stop being readable in two ways. Its records contradict themselves (one says another length than it has):
then nobody can read on, Java's client neither, and what is left is one dead letter. Or only this client can't read it:
it holds more than the bounds, its checksum stays wrong, or a codec fails, though the broker had decompressed the batch
before it accepted it. Then its records are lost unread, and there may be visits among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from monitor.contracts.visits import Fault, Reason
from monitor.ingest.broker_timestamps import LOG_APPEND_TIME
from monitor.ingest.decompress import NAMES, CodecError, pieces

DEFAULT_MESSAGE_BYTES: Final = 1_048_588
"""What `max.message.bytes` is where nobody has set it."""

_BATCH_FACTOR: Final = 64
_RECORD_FACTOR: Final = 8
_LEAST_RECORD_BYTES: Final = 256
LOG_END: Final = 2**63 - 1
"""The end of what is unread where no batch can be told from the next: all that the log holds at that time."""

_HEADER_BYTES: Final = 61
FORMAT: Final = 2
"""Kafka's present format of batches ("magic")."""

_LONGEST_NUMBER: Final = 10  # bytes
_LONGEST_SHIFT: Final = 7 * _LONGEST_NUMBER
_CODEC_MASK: Final = 0x07


class FetchedRecord(NamedTuple):
    """A record as the reader needs it; `value` also stands for what could not be read of a batch."""

    offset: int
    timestamp: int
    value: bytes | Unreadable | None
    timestamp_type: int = LOG_APPEND_TIME


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be read of a batch: `records` records at the offsets [first, end).

    `lost`: visits may be among them. `stamp_ms`: the latest broker timestamp of the batch, None if that is not known.
    `why` holds nothing of the batch; `known`, its bytes as they were fetched, are personal data.
    """

    first: int
    end: int
    records: int
    stamp_ms: int | None
    why: str
    known: bytes
    lost: bool

    @property
    def fault(self) -> Fault:
        """Why it is a dead letter."""
        lost = "; counted as lost unread" if self.lost else ""
        where = f"{self.records} records from offset {self.first} to {self.end - 1}"
        if self.end == LOG_END:
            where = f"all from offset {self.first} on"
        return Fault(Reason.UNREADABLE_BATCH, f"batch: expected one that can be read: {self.why}; {where}{lost}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be decompressed, from a topic's `max.message.bytes` (which bounds a batch as it was sent).

    JSON of visits is compressed ten to twenty times; 64 times is more than any honest batch. One record may be an
    eighth of that, because it is opened as a whole, and what it holds may take thirty times its bytes. What was not
    compressed is not bounded: the broker did that.
    """

    message_bytes: int = DEFAULT_MESSAGE_BYTES

    @property
    def batch_bytes(self) -> int:
        """How much a compressed batch may hold."""
        return _BATCH_FACTOR * max(DEFAULT_MESSAGE_BYTES, self.message_bytes)

    @property
    def record_bytes(self) -> int:
        """How much one record of a compressed batch may hold."""
        return _RECORD_FACTOR * max(DEFAULT_MESSAGE_BYTES, self.message_bytes)

    @property
    def records(self) -> int:
        """How many records a compressed batch may hold."""
        return self.batch_bytes // _LEAST_RECORD_BYTES


class ContradictionError(Exception):
    """A record is not what it says it is: nobody can read on."""


class TooMuchError(Exception):
    """A batch or a record holds more than the bounds."""


def read_batch(batch: Any, begin: int, bounds: Bounds) -> Iterator[FetchedRecord]:
    """Yield the records of a batch whose checksum is right; what can't be read of it comes last.

    A record's offset and timestamp are the broker's: what producers say of offsets is not looked at.

    Args:
        batch: kafka-python's batch, not read yet.
        begin: the offset from which on the reader wants them; earlier ones may come too.
        bounds: what may be decompressed.
    """
    known = bytes(batch._buffer)  # noqa: SLF001  # kafka-python gives a batch's bytes to nobody
    reached, read = begin, _records if batch.magic == FORMAT else _old_records
    try:
        for record in read(batch, known, bounds):
            yield record
            reached = max(begin, record.offset + 1)
    except Exception as error:  # noqa: BLE001  # whatever it is, it must not stop the reading, nor be passed silently
        lost = not isinstance(error, ContradictionError)
        stamp = batch.max_timestamp if batch.magic == FORMAT else None
        yield not_read(batch, reached, stamp, _why(error), lost=lost)


def not_read(batch: Any, begin: int, stamp_ms: int | None, why: str, *, lost: bool) -> FetchedRecord:
    """What stands for all of a batch from an offset on."""
    end = max(begin + 1, batch.next_offset if batch.magic == FORMAT else batch.base_offset + 1)
    begin = max(begin, batch.base_offset) if batch.magic == FORMAT else begin
    known = bytes(batch._buffer)  # noqa: SLF001  # as above
    value = Unreadable(begin, end, end - begin, stamp_ms, why, known, lost)
    return FetchedRecord(begin, stamp_ms or 0, value)


def _why(error: Exception) -> str:
    if isinstance(error, ContradictionError | TooMuchError | CodecError):
        return str(error)
    return f"this client fails with {type(error).__name__}"


class _Feed:
    """The decompressed bytes of a batch: those in `buffer` from `at` on, and more on demand."""

    def __init__(self, codec: int, data: bytes, bounds: Bounds) -> None:
        self._pieces = pieces(codec, data)
        self._name = NAMES[codec] if codec < len(NAMES) else str(codec)
        self._most = bounds.batch_bytes if codec else len(data)
        self._taken = 0
        self._error = CodecError("it ends before its last record")
        self.buffer = b""

    def more(self, at: int, need: int) -> bool:
        """Drop what lies before `at`, and take pieces until there are so many bytes; False if there are not."""
        parts, there = [self.buffer[at:]], len(self.buffer) - at
        while there < need:
            piece = self._next()
            if not piece:
                break
            self._taken += len(piece)
            if self._taken > self._most:
                raise TooMuchError(f"{self._name} decompresses it to more than {self._most} bytes")
            parts.append(piece)
            there += len(piece)
        self.buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        return there >= need

    def _next(self) -> bytes:
        """The next piece; none at the end. What comes behind the last record may be anything, as it may for Java."""
        try:
            return next(filter(None, self._pieces), b"")
        except CodecError as error:
            self._error = error
            return b""

    def ended(self) -> CodecError:
        """Why there is no more."""
        return self._error


def _old_records(batch: Any, _known: bytes, bounds: Bounds) -> Iterator[FetchedRecord]:
    """Yield the records of a batch in a format that Kafka no longer writes; its stamps may be missing."""
    codec = batch.compression_type
    if codec:
        place = batch.KEY_OFFSET_V1 if batch.magic else batch.KEY_OFFSET_V0
        feed = _Feed(codec, batch._read_key_value(place)[1], bounds)  # noqa: SLF001  # as above
        feed.more(0, bounds.batch_bytes)
        batch._buffer, batch._decompressed = memoryview(feed.buffer), True  # noqa: SLF001  # as above
    for record in batch:
        stamp = -1 if record.timestamp is None else record.timestamp
        yield FetchedRecord(record.offset, stamp, record.value, record.timestamp_type)


def _records(batch: Any, known: bytes, bounds: Bounds) -> Iterator[FetchedRecord]:
    """Yield the records as they are decompressed. Bytes after the last one are not looked at."""
    data = known[_HEADER_BYTES:]
    codec, count = batch.attributes & _CODEC_MASK, batch.records_count
    if codec and count > bounds.records:
        raise TooMuchError(f"it has more than {bounds.records} records")
    appended = batch.timestamp_type == LOG_APPEND_TIME
    stamp = batch.max_timestamp if appended else batch.first_timestamp
    # A producer's own numbers are not to be trusted; the broker's are: without gaps, unless a compaction made some.
    whole = batch.last_offset_delta == count - 1
    feed, at = _Feed(codec, data, bounds), 0
    for index in range(count):
        at, end = _frame(feed, at, bounds.record_bytes if codec else len(data))
        place, after, delta, value = _fields(feed, at, end)
        offset = batch.base_offset + (index if whole else place)
        if offset > batch.last_offset:
            raise ContradictionError("a record lies behind the batch's end")
        yield FetchedRecord(offset, stamp if appended else _within(stamp + delta), value, batch.timestamp_type)
        at = after


def _within(stamp: int) -> int:
    """A producer's timestamp, held to 64 bits."""
    return min(max(stamp, -(2**63)), 2**63 - 1)


def _frame(feed: _Feed, at: int, most: int) -> tuple[int, int]:
    """Where the next record's fields begin in the feed's buffer, and where it says that they end."""
    if len(feed.buffer) - at < _LONGEST_NUMBER:
        feed.more(at, _LONGEST_NUMBER)
        at = 0
    try:
        length, begin = _number(feed.buffer, at)
    except IndexError:
        raise feed.ended() from None
    if length > most:
        raise TooMuchError(f"one of its records says that it has more than {most} bytes")
    if begin + length > len(feed.buffer):
        feed.more(begin, length)
        begin = 0
    return begin, begin + length


def _fields(feed: _Feed, at: int, end: int) -> tuple[int, int, int, bytes | None]:
    """Read a record: its place in the batch, where it ends, its timestamp's difference, and its value."""
    buffer = feed.buffer
    try:
        delta, at = _number(buffer, at + 1)
        place, at = _number(buffer, at)
        size, at = _number(buffer, at)
        at += max(size, 0)  # the key
        size, at = _number(buffer, at)
        value = buffer[at : at + size] if size >= 0 else None
        at += max(size, 0)
        headers, at = _number(buffer, at)
        for _ in range(2 * headers if at <= end else 0):  # names and values
            size, at = _number(buffer, at)
            at += max(size, 0)
    except IndexError:
        raise feed.ended() from None
    if at > len(buffer):
        raise feed.ended()
    if at != end:
        raise ContradictionError("one of its records has another length than it says")
    return place, at, delta, value


def _number(buffer: bytes, at: int) -> tuple[int, int]:
    """A number as records have it (zigzag, seven bits a byte, the lowest first), and where it ends."""
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
            raise ContradictionError("a number in one of its records has too many digits")
    return (number >> 1) ^ -(number & 1), at + 1
