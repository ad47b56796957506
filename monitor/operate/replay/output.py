"""Write the whole output topic to a file: one JSON line per record, sorted by tick, partition and offset."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from pathlib import Path

from monitor.errors import UsageError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.all_records import read_record
from monitor.ledger.reader import read_partition
from monitor.records.output_records import OutputRecord
from monitor.records.owner_record import LedgerRecord

_KeyedRecord = tuple[tuple[int, int, int], OutputRecord]

_BEFORE_ALL = -(2**62)


def write_output(connections: KafkaConnections, topic: str, partitions: int, path: Path) -> int:
    """Write every record of the topic, and return their number. A record without a tick stays after its predecessor.

    Raises:
        UsageError: the file cannot be written.
        UnreachableError: the topic cannot be read.
    """
    parts = [_read_partition(connections, topic, partition) for partition in range(partitions)]
    written = 0
    try:
        with path.open("w", encoding="utf-8") as file:
            for (_tick, partition, offset), record in heapq.merge(*parts, key=lambda keyed: keyed[0]):
                file.write(json.dumps(_to_json(record, partition, offset), ensure_ascii=False) + "\n")
                written += 1
    except OSError as error:
        raise UsageError(f"--alerts {path} cannot be written: {error.strerror or error}") from error
    return written


def _read_partition(connections: KafkaConnections, topic: str, partition: int) -> Iterator[_KeyedRecord]:
    tick = _BEFORE_ALL
    for offset, record in read_partition(connections, topic, partition):
        entry = read_record(record.key, record.value, record.headers)
        if not isinstance(entry, LedgerRecord | None) and entry.tick is not None:
            tick = entry.tick
        yield (tick, partition, offset), record


def _to_json(record: OutputRecord, partition: int, offset: int) -> dict[str, object]:
    return {
        "key": record.key.decode(),
        "headers": {name: value.decode() for name, value in record.headers},
        "value": json.loads(record.value),
        "partition": partition,
        "offset": offset,
    }
