"""Compressed record batches, a piece at a time: as leniently as Kafka's own (Java) client reads them.

Each codec reads what Java reads and ignores what Java ignores: bytes after gzip's stream and lz4's frame, reserved
flags, lz4's checksum of the content. Where Java looks at a checksum of the codec, it is not looked at here: the batch's
own checksum has shown that these are the bytes that the producer sent. Nothing is decompressed before it is asked for,
so whoever reads decides when it has been enough.
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
"""How much one step decompresses; an lz4 block may be 4 MiB, and a snappy block is as long as it says."""

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
_LZ4_RATIO: Final = 255  # an lz4 block cannot grow by more
_LZ4_LINK: Final = 64 * 1024

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_BYTES: Final = 16
_SNAPPY_RATIO: Final = 32  # a snappy block cannot grow by more: three bytes copy at most 64


class CodecError(Exception):
    """The bytes are none of the codec's, as far as this client can tell. Its text holds nothing of them."""


def pieces(codec: int, data: bytes) -> Iterator[bytes]:
    """Decompress the records of a batch, piece by piece.

    Args:
        codec: the batch's codec as Kafka numbers them, 0 for none.
        data: what follows the batch's header.

    Raises:
        CodecError: (while reading) they cannot be decompressed, or not any further.
    """
    read = _CODECS.get(codec)
    if read is None:
        raise CodecError(f"codec {codec} is not known")
    try:
        yield from read(data)
    except (zlib.error, zstandard.ZstdError, snappy.UncompressError, lz4.block.LZ4BlockError) as error:
        raise CodecError(f"{NAMES[codec]} cannot decompress it") from error
    except (struct.error, IndexError) as error:
        raise CodecError(f"{NAMES[codec]} cannot decompress it: it ends early") from error


def _plain(data: bytes) -> Iterator[bytes]:
    yield data


def _gzip(data: bytes) -> Iterator[bytes]:
    """Yield what all members hold; what follows them and is none is ignored."""
    view, at = memoryview(data), 0
    while data.startswith(_GZIP_MAGIC, at):
        at = _after_gzip_header(data, at)
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        while not inflate.eof:
            fed = inflate.unconsumed_tail or view[at : at + _FEED_BYTES]
            at += 0 if inflate.unconsumed_tail else len(fed)
            piece = inflate.decompress(fed, PIECE_BYTES)
            if piece:
                yield piece
            elif not fed:
                raise IndexError
        at += _GZIP_TRAILER - len(inflate.unused_data)
    if not data.startswith(_GZIP_MAGIC):
        raise CodecError("gzip cannot decompress it: it begins otherwise")


def _after_gzip_header(data: bytes, at: int) -> int:
    flags = data[at + 3]
    at += 10
    if flags & _EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for text in (_NAME, _COMMENT):
        if flags & text:
            end = data.find(b"\x00", at)
            at = len(data) if end < 0 else end + 1
    return at + (2 if flags & _HEADER_CHECK else 0)


def _lz4(data: bytes) -> Iterator[bytes]:
    """Yield the blocks of the first frame; what follows it is ignored, and so are all checksums."""
    magic, flags, sizes = _LZ4_FRAME.unpack_from(data)
    most = _LZ4_BLOCKS.get(sizes >> 4)
    if magic != _LZ4_MAGIC or most is None:
        raise CodecError("lz4 cannot decompress it: it begins otherwise")
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
            room = min(most, _LZ4_RATIO * len(block))
            block = lz4.block.decompress(block, uncompressed_size=room, dict=before)
        yield block
        if not flags & _LZ4_INDEPENDENT:
            before = (before + block)[-_LZ4_LINK:]


def _snappy(data: bytes) -> Iterator[bytes]:
    """Yield the chunks of snappy-java's stream, or of several of them, or a bare block."""
    if not data.startswith(_XERIAL):
        yield _snappy_block(data)
        return
    at = _XERIAL_BYTES
    while at + 4 <= len(data):
        if data.startswith(_XERIAL[:4], at):
            at += _XERIAL_BYTES
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        if size > len(data) - at - 4:
            raise IndexError
        yield _snappy_block(data[at + 4 : at + 4 + size])
        at += 4 + size


def _snappy_block(block: bytes) -> bytes:
    """Decompress a block, unless it says that it holds more than it can."""
    said = 0
    for place, byte in enumerate(block[:5]):
        said |= (byte & 0x7F) << 7 * place
        if byte < 0x80:  # noqa: PLR2004  # the last byte of a number
            break
    if said > _SNAPPY_RATIO * len(block):
        raise CodecError("snappy cannot decompress it: it says that it holds more than it can")
    return bytes(snappy.decompress(block))


def _zstd(data: bytes) -> Iterator[bytes]:
    """Yield what all frames hold."""
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        while piece := reader.read(PIECE_BYTES):
            yield piece


NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""What the codecs are called, by Kafka's numbers."""

_CODECS: Final[dict[int, Callable[[bytes], Iterator[bytes]]]] = dict(enumerate((_plain, _gzip, _snappy, _lz4, _zstd)))
