"""Find records without a broker timestamp. A visit's fate depends on this timestamp (docs/rules.md, rule 7)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from monitor.kafka.kafka_python_3_0.batches import LOG_APPEND_TIME, FetchedRecord


def find_unstamped(records: Sequence[FetchedRecord]) -> tuple[int, int] | None:
    """Return the first run [begin, end) of records without a broker timestamp; None if all records have one."""
    if all(record.timestamp_type == LOG_APPEND_TIME for record in records):
        return None
    begin = sum(1 for _ in takewhile(lambda record: record.timestamp_type == LOG_APPEND_TIME, records))
    run = takewhile(lambda record: record.timestamp_type != LOG_APPEND_TIME, records[begin:])
    return begin, begin + sum(1 for _ in run)
