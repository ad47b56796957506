"""Record batches encoded in bulk have the bytes that kafka-python encodes record by record."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from monitor.kafka.kafka_python_3_0.batch_queue import _FilledBuilder
from monitor.kafka.record_batches import RecordBatch, encode_batches

HEADER_BYTES = 61


class Written(NamedTuple):
    key: bytes = b"stations/park"
    value: bytes = b'{"status":"safe"}'
    headers: tuple[tuple[str, Any], ...] = (("ce_specversion", b"1.0"), ("ce_id", b"stations/park/1"))
    timestamp_ms: int = 1_767_225_600_000


def encode_one_by_one(records: list[Written]) -> bytes:
    """Return the bytes of one batch by kafka-python alone: the oracle."""
    builder = MemoryRecordsBuilder(2, 0, 2**30)
    for number, record in enumerate(records):
        assert builder.append(record.timestamp_ms, record.key, record.value, list(record.headers)) is not None, number
    return finish(builder)


def finish(builder: MemoryRecordsBuilder) -> bytes:
    builder.set_producer_state(7, 1, 40, True)
    builder.close()
    return bytes(builder.buffer())


def draw_record(rng: Random) -> Written:
    """Draw a record whose lengths and timestamps reach every length of a varint that can occur."""
    size = rng.choice((0, 1, 63, 64, 8_191, 8_192, 20_000, 1_048_576) if rng.random() < 0.05 else (5, 60, 70, 300))
    shared = ("ce_source", b"town")
    headers = tuple(
        rng.choice((shared, ("ce_id", rng.randbytes(rng.randrange(90))), ("é", b""), ("n", None))) for _ in range(6)
    )
    stamp = 1_767_225_600_000 + rng.choice((0, 0, 1, -1, 64, -64, 3_600_000, -(2**40)))
    return Written(rng.randbytes(rng.randrange(200)), rng.randbytes(size), headers[: rng.randrange(7)], stamp)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_those_of_kafka_python(seed: int) -> None:
    """Each batch, with its header and checksum, equals the one that kafka-python encodes from the same records."""
    rng = Random(seed)
    records = [draw_record(rng) for _ in range(300)]
    rest = iter(records)
    for batch in encode_batches(records, 128 * 1024):
        batch_records = [next(rest) for _ in range(batch.records)]
        assert finish(_FilledBuilder(batch)) == encode_one_by_one(batch_records)
    assert next(rest, None) is None


def test_batches_keep_to_the_limit() -> None:
    """A batch has at most `limit` bytes with its header, unless it is one record; hardly any space is unused."""
    rng = Random(1)
    limit = 4_096
    records = [Written(value=rng.randbytes(rng.choice((10, 100, 1_000, 9_000)))) for _ in range(2_000)]
    batches = list(encode_batches(records, limit))
    assert all(len(batch.body) + HEADER_BYTES <= limit or batch.records == 1 for batch in batches)
    assert sum(batch.records for batch in batches) == len(records)
    small = list(encode_batches([Written()] * 10_000, limit))
    assert all(len(batch.body) > 0.75 * limit for batch in small[:-1])


def test_no_records_give_no_batch() -> None:
    """Without records there is no batch."""
    assert list(encode_batches([], 1_000)) == []


def test_filled_builder_accepts_no_record() -> None:
    """kafka-python cannot add a record to an encoded batch, and reads the records back."""
    (batch,) = encode_batches([Written(), Written(key=b"other")], 10_000)
    builder = _FilledBuilder(batch)
    builder.append(1, b"", b"", [])
    assert builder.next_offset() == 2
    assert builder.is_full()
    (read,) = MemoryRecords(finish(builder))
    assert [record.key for record in read] == [b"stations/park", b"other"]
    assert isinstance(batch, RecordBatch)
