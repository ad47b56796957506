"""Reading crafted batches: all forms that Java reads, and no more than the bounds allow."""

from __future__ import annotations

import random
import struct

import pytest
import snappy
import zstandard
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder

from monitor.kafka.decompress import NAMES
from monitor.kafka.kafka_python_3_0.batches import Bounds, FetchedRecord, Unreadable, read_batch
from tests.ingest import crafted
from tests.ingest.crafted import BY_BROKER, GZIP, LZ4, NONE, SNAPPY, ZSTD
from tests.ingest.crafted_batches import (
    ACCEPTED,
    FRAMED,
    PACKS,
    RECORDS,
    VALUES,
    ZIPPED,
    compress_xerial,
    find_unread,
    flip,
    read,
)


@pytest.mark.promise(25)
@pytest.mark.parametrize("codec", PACKS)
def test_batch_beyond_bounds(codec: int) -> None:
    """A batch is lost from the record on that exceeds the bounds; earlier records are returned, with every codec."""
    bounds = Bounds()
    value = bytes(1_000_000)
    body = crafted.records([value] * 80)
    records = read(crafted.batch(PACKS[codec](body), 80, codec))
    given = [record.value for record in records[:-1]]
    assert given == [value] * len(given)
    assert bounds.batch_bytes - 5_000_000 < len(given) * len(value) <= bounds.batch_bytes
    rest = find_unread(records)
    assert (rest.first, rest.end, rest.records, rest.lost) == (len(given), 80, 80 - len(given), True)
    assert rest.why == f"{NAMES[codec]} decompresses it to more than {bounds.batch_bytes} bytes"


def test_record_bounds() -> None:
    """One record and the number of records are bounded.

    A record is parsed as a whole, and even a small record has a cost.
    """
    bounds = Bounds()
    body = crafted.record(b"small") + crafted.record(bytes(bounds.record_bytes), 1)
    records = read(crafted.batch(zstandard.compress(body), 2, ZSTD))
    assert [record.value for record in records[:-1]] == [b"small"]
    assert find_unread(records).why == f"one of its records has a length of more than {bounds.record_bytes} bytes"
    records = read(crafted.batch(b"", bounds.records + 1, ZSTD))
    assert find_unread(records).why == f"it has more than {bounds.records} records"
    assert find_unread(records).records == bounds.records + 1
    plain = read(crafted.batch(body, 2))
    assert [len(record.value or b"") for record in plain if isinstance(record.value, bytes)] == [5, bounds.record_bytes]


def test_bounds_follow_topic() -> None:
    """The bounds grow with the topic's limit: if batches of 10 MB are allowed, one may contain a record of 80 MB."""
    assert Bounds(10_000_000).record_bytes == 80_000_000
    assert Bounds(10_000_000).batch_bytes == 640_000_000
    assert Bounds(1_000).batch_bytes == Bounds().batch_bytes == 64 * 1_048_588


@pytest.mark.promise(25)
@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (5, RECORDS),
        (GZIP, ZIPPED[:-12]),
        (GZIP, b"no gzip"),
        (GZIP, flip(ZIPPED, 12)),
        (LZ4, FRAMED[:20]),
        (LZ4, b"none"),
        (LZ4, flip(FRAMED, 4)),
        (SNAPPY, snappy.compress(RECORDS)[:-2]),
        (SNAPPY, compress_xerial(snappy.compress(RECORDS))[:-2]),
        (SNAPPY, b"\xff\xff\xff\x7f\x00" + bytes(40)),
        (SNAPPY, b""),
        (ZSTD, zstandard.compress(RECORDS)[:-6]),
        (ZSTD, b"no zstd"),
        (ZSTD, b""),
    ],
)
def test_undecompressible_batch(codec: int, data: bytes) -> None:
    """A batch that this client cannot decompress counts as lost: the broker could read it, so it may contain visits."""
    rest = find_unread(read(crafted.batch(data, len(VALUES), codec), stamped_by_brokers=False))
    assert rest.lost
    assert rest.end == len(VALUES)
    assert rest.first + rest.records == rest.end
    assert rest.stamp_ms == 1_000
    assert rest.raw == crafted.batch(data, len(VALUES), codec)


def test_random_bytes() -> None:
    """After random changes behind the header, a batch yields records or one placeholder of the unreadable rest."""
    draw = random.Random(9)
    for codec, data in list(ACCEPTED.values()) * 60:
        changed = bytearray(data)
        for _ in range(draw.choice([1, 1, 2, 8])):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        records = read(crafted.batch(bytes(changed), len(VALUES), codec))
        offsets = [record.offset for record in records]
        rest = records[-1].value
        if isinstance(rest, Unreadable):
            assert (rest.first, rest.end) == (len(records) - 1, len(VALUES))
        else:
            assert len(records) == len(VALUES)
        assert offsets == list(range(len(records)))


@pytest.mark.promise(36)
@pytest.mark.parametrize("replayed", [False, True], ids=["run", "replay"])
@pytest.mark.parametrize("by", [0, BY_BROKER], ids=["producer", "broker"])
@pytest.mark.parametrize("body", [RECORDS, RECORDS[:-3], crafted.record(b"{}", off=1)], ids=["good", "cut", "wrong"])
def test_only_brokers_stamp(body: bytes, by: int, replayed: bool) -> None:  # from a table
    """A record, and the unreadable rest of a batch, have a stamp only from a broker. In a replay, producers stamp."""
    records = read(crafted.batch(body, len(VALUES), by, 1_000), stamped_by_brokers=not replayed)
    stamps = {record.stamp_ms for record in records}
    stamps |= {record.value.stamp_ms for record in records if isinstance(record.value, Unreadable)}
    assert stamps == {1_000 if by or replayed else None}


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_old_formats(codec: int) -> None:
    """Batches of earlier formats are read and bounded. Kafka 3 keeps them; a compressed one is in one record."""
    assert [(record.offset, record.stamp_ms) for record in read_earlier(codec, 3, 10)] == [(0, 5), (1, 5), (2, 5)]
    bombed = read_earlier(GZIP, 80, 1_000_000)
    assert len(bombed) == 1
    assert (find_unread(bombed).first, find_unread(bombed).end, find_unread(bombed).lost) == (0, 80, True)


def read_earlier(codec: int, count: int, size: int) -> list[FetchedRecord]:
    """Read `count` records in the previous format, as a broker stores them."""
    builder = MemoryRecordsBuilder(magic=1, compression_type=codec, batch_size=2**40)
    for _ in range(count):
        builder.append(5, None, bytes(size))
    builder.close()
    encoded = bytes(builder.buffer())
    if codec:
        encoded = struct.pack(">q", count - 1) + encoded[8:]  # a broker gives the batch the offset of its last record
    batches = MemoryRecords(encoded)
    records: list[FetchedRecord] = []
    while (batch := batches.next_batch()) is not None:
        records += read_batch(batch, len(records), Bounds(), stamped_by_brokers=False)
    return records
