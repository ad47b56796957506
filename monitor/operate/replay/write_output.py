"""Write the whole output topic to a file: one JSON line per record, sorted by tick, partition and offset."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from monitor.errors import UsageError
from monitor.kafka.connections import KafkaConnections
from monitor.ledger.read_ledger import read_partition
from monitor.records.output_records import OutputRecord

_BEFORE_ALL: Final = -(2**62)


class _Line(msgspec.Struct):
    """A line of the file. The value is copied as it is."""

    key: str
    headers: dict[str, str]
    value: msgspec.Raw
    partition: int
    offset: int


class _Value(msgspec.Struct):
    """What is read of a value."""

    tick: int | None = None


_ENCODER: Final = msgspec.json.Encoder()
_VALUES: Final = msgspec.json.Decoder(_Value)


def write_output(connections: KafkaConnections, topic: str, partitions: int, path: Path) -> int:
    """Write every record of the topic, and return their number. A record without a tick stays after its predecessor.

    Raises:
        UsageError: the file cannot be written.
        UnreachableError: the topic cannot be read.
    """
    parts = [_read_partition(connections, topic, partition) for partition in range(partitions)]
    written = 0
    try:
        with path.open("wb") as file:
            for _tick, _partition, _offset, line in heapq.merge(*parts):
                file.write(line)
                written += 1
    except OSError as error:
        raise UsageError(f"--alerts {path} cannot be written: {error.strerror or error}") from error
    return written


def _read_partition(connections: KafkaConnections, topic: str, partition: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield (tick, partition, offset, line)."""
    tick = _BEFORE_ALL
    for offset, record in read_partition(connections, topic, partition):
        named = _VALUES.decode(record.value).tick
        tick = tick if named is None else named
        yield tick, partition, offset, _write_line(record, partition, offset)


def _write_line(record: OutputRecord, partition: int, offset: int) -> bytes:
    headers = {name: value.decode() for name, value in record.headers}
    line = _Line(record.key.decode(), headers, msgspec.Raw(record.value), partition, offset)
    return _ENCODER.encode(line) + b"\n"
