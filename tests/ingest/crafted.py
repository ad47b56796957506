"""Record batches built byte by byte, in forms that no usual producer sends, and the request that sends them."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import crc32c
import zstandard
from kafka import TopicPartition
from kafka.protocol.producer import ProduceRequest

from monitor.kafka.connections import KafkaConnections

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
BY_BROKER: Final = 8
"""The attribute of a batch that a broker has stamped. A broker refuses it from a producer."""

_NOT_YET: Final = (3, 6)  # errors of a new topic whose leader does not know it yet
_DEADLINE_SECONDS: Final = 10.0
_PIECE_BYTES: Final = 8_000_000

_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_BEFORE_CRC: Final = struct.Struct(">qiibI")


def varint(number: int) -> bytes:
    """Return a zigzag varint: seven bits per byte, the lowest first."""
    left = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])


def record(
    value: bytes | None, delta: int = 0, *, off: int = 0, headers: bytes = b"\x00", key: bytes = b"\x01"
) -> bytes:
    """Return one record. `off` is added to its length field; `key` and `headers` are as on the wire."""
    sized = varint(-1) if value is None else varint(len(value)) + value
    body = b"\x00" + varint(0) + varint(delta) + key + sized + headers
    return varint(len(body) + off) + body


def records(values: Sequence[bytes | None]) -> bytes:
    """Return several records, one after the other."""
    return b"".join(record(value, delta) for delta, value in enumerate(values))


def compress_zeros(first: bytes, sizes: Sequence[int], codec: int) -> bytes:
    """Return the compressed records of a batch: `first`, and one of as many zeros as each of these sizes.

    The zeros are compressed piece by piece, so that they need no memory here.
    """
    level_of_gzip, window = 9, 16 + zlib.MAX_WBITS
    packer = (
        zstandard.ZstdCompressor(level=1).compressobj()
        if codec == ZSTD
        else zlib.compressobj(level_of_gzip, zlib.DEFLATED, window)
    )
    packed = [packer.compress(record(first))]
    for delta, size in enumerate(sizes, start=1):
        fields = b"\x00" + varint(0) + varint(delta) + varint(-1) + varint(size)
        packed.append(packer.compress(varint(len(fields) + size + 1) + fields))
        packed += [packer.compress(bytes(min(_PIECE_BYTES, size - at))) for at in range(0, size, _PIECE_BYTES)]
        packed.append(packer.compress(b"\x00"))
    return b"".join([*packed, packer.flush()])


def batch(body: bytes, count: int, codec: int = NONE, stamp: int = 1_000, *, spoilt: bool = False) -> bytes:
    """Return a batch of `count` records with this compressed body; `spoilt`: with a wrong checksum.

    `codec` may be combined with `BY_BROKER`.
    """
    after = _AFTER_CRC.pack(codec, count - 1, stamp, stamp, -1, -1, -1, count) + body
    crc = crc32c.crc32c(after) ^ int(spoilt)
    return _BEFORE_CRC.pack(0, len(after) + 9, -1, 2, crc) + after


def produce(connections: KafkaConnections, topic: str, encoded: bytes, partition: int = 0) -> int:
    """Send a batch as it is, and return the offset of its first record.

    Raises:
        ValueError: the broker refuses it; the first argument is the error code.
    """
    data = ProduceRequest.TopicProduceData
    parts = [data.PartitionProduceData(index=partition, records=encoded)]
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[data(name=topic, partition_data=parts)],
        min_version=7,
        max_version=9,
    )
    with closing(connections.create_consumer()) as client:
        client.partitions_for_topic(topic)
        manager = client._client._manager  # noqa: SLF001  # kafka-python sends only batches that it encodes
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            answer: Any = manager.run(_send, manager, request, TopicPartition(topic, partition))
            (answered,) = answer.responses[0].partition_responses
            if not answered.error_code:
                return int(answered.base_offset)
            if answered.error_code not in _NOT_YET or time.monotonic() > deadline:
                raise ValueError(answered.error_code, answered.error_message)


async def _send(manager: Any, request: Any, place: TopicPartition) -> Any:
    return await manager.send(request, node_id=manager.cluster.leader_for_partition(place))
