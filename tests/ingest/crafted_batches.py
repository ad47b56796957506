"""Batches in all forms that Kafka accepts and Java reads, and functions that read them."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable

import lz4.frame
import snappy
import zstandard
from kafka.record import MemoryRecords

from monitor.kafka.kafka_python_3_0.batches import Bounds, FetchedRecord, Unreadable, read_batch
from tests.ingest import crafted
from tests.ingest.crafted import GZIP, LZ4, NONE, SNAPPY, ZSTD

VALUES = [b"alpha", b"beta", None, b"gamma"]
RECORDS = crafted.records(VALUES)
HALF = len(RECORDS) // 2


def flip(data: bytes, place: int) -> bytes:
    """Return the same bytes with one byte changed."""
    changed = bytearray(data)
    changed[place] ^= 0xFF
    return bytes(changed)


def compress_gzip(flags: int, extra: bytes = b"") -> bytes:
    """Return the records as gzip, with flags in the header and the fields that they announce."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(RECORDS) + deflate.flush()
    trailer = struct.pack("<II", zlib.crc32(RECORDS), len(RECORDS))
    return b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\xff" + extra + body + trailer


def compress_xerial(*chunks: bytes, order: str = ">") -> bytes:
    """Return a stream of snappy-java; some other libraries use another byte order."""
    sized = b"".join(struct.pack(">i", len(chunk)) + chunk for chunk in chunks)
    return b"\x82SNAPPY\x00" + struct.pack(order + "ii", 1, 1) + sized


def compress_lz4(data: bytes) -> bytes:
    """Return an lz4 frame as Kafka accepts it."""
    return bytes(lz4.frame.compress(data, block_linked=False))


def compress_chunks(data: bytes) -> bytes:
    """Return a stream of snappy-java in chunks of a megabyte."""
    return compress_xerial(*[snappy.compress(data[at : at + 1_000_000]) for at in range(0, len(data), 1_000_000)])


def compress_wide_zstd() -> bytes:
    """Return a zstd frame with the largest window that Java accepts: 128 MiB."""
    settings = zstandard.ZstdCompressionParameters(window_log=27)
    compress = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return compress.compress(RECORDS) + compress.flush()


PACKS: dict[int, Callable[[bytes], bytes]] = {
    GZIP: gzip.compress,
    SNAPPY: compress_chunks,
    LZ4: compress_lz4,
    ZSTD: zstandard.compress,
}
ZIPPED = gzip.compress(RECORDS, mtime=0)
FRAMED = lz4.frame.compress(RECORDS, content_checksum=True, block_linked=False)
SKIPPED = struct.pack("<II", 0x184D2A50, 5) + b"hello"
# Apache Kafka 4.3 accepts each form, and its console consumer reads it (tested with both).
ACCEPTED: dict[str, tuple[int, bytes]] = {
    "none": (NONE, RECORDS),
    "gzip": (GZIP, ZIPPED),
    "gzip, then bytes": (GZIP, ZIPPED + b"garbage"),
    "gzip, then zeros": (GZIP, ZIPPED + bytes(40)),
    "gzip, two members": (GZIP, gzip.compress(RECORDS[:HALF]) + gzip.compress(RECORDS[HALF:])),
    "gzip, two members, then bytes": (GZIP, gzip.compress(RECORDS[:HALF]) + gzip.compress(RECORDS[HALF:]) + b"xyz"),
    "gzip, reserved flags": (GZIP, compress_gzip(0xE0)),
    "gzip, a name": (GZIP, compress_gzip(8, b"name\0")),
    "gzip, more in the header": (GZIP, compress_gzip(4, b"\x03\x00abc")),
    "lz4": (LZ4, FRAMED),
    "lz4, wrong content checksum": (LZ4, flip(FRAMED, -1)),
    "lz4, then bytes": (LZ4, FRAMED + b"garbage"),
    "lz4, size": (LZ4, lz4.frame.compress(RECORDS, store_size=True, block_linked=False)),
    "lz4, block checksums": (LZ4, lz4.frame.compress(RECORDS, block_checksum=True, block_linked=False)),
    "snappy, bare": (SNAPPY, snappy.compress(RECORDS)),
    "snappy, stream": (SNAPPY, compress_xerial(snappy.compress(RECORDS))),
    "snappy, chunks": (SNAPPY, compress_xerial(snappy.compress(RECORDS[:HALF]), snappy.compress(RECORDS[HALF:]))),
    "snappy, two streams": (
        SNAPPY,
        compress_xerial(snappy.compress(RECORDS[:HALF])) + compress_xerial(snappy.compress(RECORDS[HALF:])),
    ),
    "snappy, empty chunk": (SNAPPY, compress_xerial(snappy.compress(b""), snappy.compress(RECORDS))),
    "snappy, then bytes": (SNAPPY, compress_xerial(snappy.compress(RECORDS)) + b"abc"),
    "snappy, numbers the other way round": (SNAPPY, compress_xerial(snappy.compress(RECORDS), order="<")),
    "zstd": (ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(RECORDS)),
    "zstd, no size": (ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(RECORDS)),
    "zstd, two frames": (ZSTD, zstandard.compress(RECORDS[:HALF]) + zstandard.compress(RECORDS[HALF:])),
    "zstd, frames to skip": (ZSTD, SKIPPED + zstandard.compress(RECORDS) + SKIPPED),
    "zstd, wide window": (ZSTD, compress_wide_zstd()),
}


def read(
    encoded: bytes, bounds: Bounds | None = None, begin: int = 0, *, stamped_by_brokers: bool = True
) -> list[FetchedRecord]:
    """Read one batch without Kafka."""
    batch = MemoryRecords(encoded).next_batch()
    return list(read_batch(batch, begin, bounds or Bounds(), stamped_by_brokers=stamped_by_brokers))


def find_unread(records: list[FetchedRecord]) -> Unreadable:
    """Return the placeholder of the unreadable rest, which is the last record."""
    value = records[-1].value
    assert isinstance(value, Unreadable)
    return value
