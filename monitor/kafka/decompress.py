"""Incremental decompression of record batches, as lenient as Kafka's Java client.

Each codec accepts all data that Java accepts, and ignores the same parts: bytes after the gzip stream and the lz4
frame, reserved flags, and lz4's checksum of the content. Checksums of codecs are ignored even where Java verifies them,
because the checksum of the batch has shown that these are the producer's bytes. Data is decompressed on demand, so the
caller can stop at any size.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import lz4.block
import snappy
import zstandard

PIECE_BYTES: Final = 256 * 1024
"""The size of one decompressed piece. An lz4 block may be larger (up to 4 MiB), and so may a snappy block."""

_FEED_BYTES: Final = 64 * 1024

_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP_TRAILER: Final = 8
_HEADER_CHECK, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16

_LZ4_MAGIC: Final = 0x184D2204
_LZ4_FRAME: Final = struct.Struct("<IBB")
_LZ4_SIZE: Final = struct.Struct("<I")
_LZ4_BLOCKS: Final = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_LZ4_PLAIN: Final = 0x8000_0000
_LZ4_INDEPENDENT, _LZ4_BLOCK_SUM, _LZ4_CONTENT_SIZE = 0x20, 0x10, 0x08
_LZ4_RATIO: Final = 255  # the largest ratio that lz4 can reach
_LZ4_LINK: Final = 64 * 1024

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_BYTES: Final = 16
_SNAPPY_RATIO: Final = 32  # the largest ratio of snappy: three bytes copy at most 64


class CodecError(Exception):
    """The bytes cannot be decompressed. The error text does not quote them."""


def decompress(codec: int, data: bytes) -> Iterator[bytes]:
    """Yield the decompressed records of a batch, piece by piece.

    Args:
        codec: Kafka's number of the codec, 0 for none.
        data: the bytes after the batch's header.

    Raises:
        CodecError: (while iterating) the next bytes cannot be decompressed.
    """
    read = _CODECS.get(codec)
    if read is None:
        raise CodecError(f"codec {codec} is unknown")
    try:
        yield from read(data)
    except (zlib.error, zstandard.ZstdError, snappy.UncompressError, lz4.block.LZ4BlockError) as error:
        raise CodecError(f"{NAMES[codec]} cannot decompress it") from error
    except (struct.error, IndexError) as error:
        raise CodecError(f"{NAMES[codec]} cannot decompress it: it ends early") from error


def _read_plain(data: bytes) -> Iterator[bytes]:
    yield data


def _read_gzip(data: bytes) -> Iterator[bytes]:
    """Yield the content of all members, and ignore other bytes after them."""
    view, at = memoryview(data), 0
    while data.startswith(_GZIP_MAGIC, at):
        at = _skip_gzip_header(data, at)
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        while not inflate.eof:
            chunk = inflate.unconsumed_tail or view[at : at + _FEED_BYTES]
            at += 0 if inflate.unconsumed_tail else len(chunk)
            piece = inflate.decompress(chunk, PIECE_BYTES)
            if piece:
                yield piece
            elif not chunk:
                raise IndexError
        at += _GZIP_TRAILER - len(inflate.unused_data)
    if not data.startswith(_GZIP_MAGIC):
        raise CodecError("gzip cannot decompress it: wrong magic number")


def _skip_gzip_header(data: bytes, at: int) -> int:
    flags = data[at + 3]
    at += 10
    if flags & _EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for text in (_NAME, _COMMENT):
        if flags & text:
            end = data.find(b"\x00", at)
            at = len(data) if end < 0 else end + 1
    return at + (2 if flags & _HEADER_CHECK else 0)


def _read_lz4(data: bytes) -> Iterator[bytes]:
    """Yield the blocks of the first frame; ignore checksums and all bytes after the frame."""
    magic, flags, sizes = _LZ4_FRAME.unpack_from(data)
    block_limit = _LZ4_BLOCKS.get(sizes >> 4)
    if magic != _LZ4_MAGIC or block_limit is None:
        raise CodecError("lz4 cannot decompress it: wrong magic number")
    at = _LZ4_FRAME.size + (8 if flags & _LZ4_CONTENT_SIZE else 0) + 1
    before = b""
    while True:
        (size,) = _LZ4_SIZE.unpack_from(data, at)
        at += _LZ4_SIZE.size
        if not size:
            return
        block = data[at : at + (size & ~_LZ4_PLAIN)]
        at += (size & ~_LZ4_PLAIN) + (4 if flags & _LZ4_BLOCK_SUM else 0)
        if not size & _LZ4_PLAIN:
            room = min(block_limit, _LZ4_RATIO * len(block))
            block = lz4.block.decompress(block, uncompressed_size=room, dict=before)
        yield block
        if not flags & _LZ4_INDEPENDENT:
            before = (before + block)[-_LZ4_LINK:]


def _read_snappy(data: bytes) -> Iterator[bytes]:
    """Yield the chunks of one or several streams of snappy-java, or one bare block."""
    if not data.startswith(_XERIAL):
        yield _decompress_snappy_block(data)
        return
    at = _XERIAL_BYTES
    while at + 4 <= len(data):
        if data.startswith(_XERIAL[:4], at):
            at += _XERIAL_BYTES
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        if size > len(data) - at - 4:
            raise IndexError
        yield _decompress_snappy_block(data[at + 4 : at + 4 + size])
        at += 4 + size


def _decompress_snappy_block(block: bytes) -> bytes:
    """Decompress a block.

    Raises:
        CodecError: the block states a length that compression cannot reach.
    """
    length = 0
    for index, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:  # noqa: PLR2004  # the last byte of the varint
            break
    if length > _SNAPPY_RATIO * len(block):
        raise CodecError("snappy cannot decompress it: its length is impossible")
    return bytes(snappy.decompress(block))


def _read_zstd(data: bytes) -> Iterator[bytes]:
    """Yield the content of all frames."""
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        while piece := reader.read(PIECE_BYTES):
            yield piece


NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""The names of the codecs, by Kafka's numbers."""

_CODECS: Final[dict[int, Callable[[bytes], Iterator[bytes]]]] = dict(
    enumerate((_read_plain, _read_gzip, _read_snappy, _read_lz4, _read_zstd))
)
