"""Read a run that is still on Kafka: its input and its output topic (docs/interface.md, section 4).

The caller opens the consumers, because it knows how to connect to Kafka. The records are decoded here.
"""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

from kafka import TopicPartition

from monitor.tools.audit.partition_ticks import read_tick
from monitor.tools.audit.records import ReadRecord, decode_record
from monitor.tools.audit.strict_json import is_too_deep, refuse_constant
from monitor.tools.audit.terms import AuditTerms, Grid
from monitor.tools.audit.text import AuditError
from monitor.tools.audit.visits import Line, Visits, accept_visits, parse_line

OpenConsumer = Callable[..., Any]
"""A function that opens a kafka-python consumer without a group. It takes settings by name, such as `isolation_level`.

If a batch cannot be read, a consumer of the input topic may return a record in its place, as the last one of a poll.
The value of this record is an object: `records` is the number of records in the batch, and `end` the offset after them.
"""

LogEnds = Callable[[str], Mapping[int, int]]

_POLL_MS: Final = 500
_PATIENCE_SECONDS: Final = 30.0
_BEFORE_ALL: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class TopicContents:
    """The number of records that a topic still contains, and whether earlier ones have expired."""

    partitions: int
    records: int
    expired: bool


class Topic:
    """A topic, from its first record to the end offsets at the time of opening.

    `log_ends`: the ends of the logs by partition, which include records behind an open transaction. Without it, the
    ends are those that a consumer sees.

    Raises:
        AuditError: the topic does not exist, or Kafka stops returning records before the end offset.
    """

    def __init__(
        self, open_consumer: OpenConsumer, name: str, *, committed: bool, log_ends: LogEnds | None = None
    ) -> None:
        self._open = open_consumer
        self._settings = {"isolation_level": "read_committed" if committed else "read_uncommitted"}
        self._name = name
        with closing(self._connect()) as consumer:
            partitions = consumer.partitions_for_topic(name)
            if not partitions:
                raise AuditError(f"there is no topic {name}")
            assigned = [TopicPartition(name, partition) for partition in sorted(partitions)]
            beginnings, ends = consumer.beginning_offsets(assigned), consumer.end_offsets(assigned)
            self._first = {place.partition: offset for place, offset in beginnings.items()}
            self._end = {place.partition: offset for place, offset in ends.items()}
        if log_ends is not None:
            self._end |= log_ends(name)

    def _connect(self) -> Any:
        return self._open(**self._settings)

    @property
    def contents(self) -> TopicContents:
        """The records that the topic still contains. Offsets of transaction markers count as records."""
        records = sum(self._end.values()) - sum(self._first.values())
        return TopicContents(len(self._end), records, any(self._first.values()))

    def read_records(self, partition: int) -> Iterator[Any]:
        """Yield the records of a partition, as kafka-python returns them."""
        place, end = TopicPartition(self._name, partition), self._end[partition]
        with closing(self._connect()) as consumer:
            consumer.assign([place])
            consumer.seek(place, self._first[partition])
            heard = time.monotonic()
            while consumer.position(place) < end:
                batch = consumer.poll(timeout_ms=_POLL_MS).get(place, ())
                if batch:
                    heard = time.monotonic()
                    if not isinstance(batch[-1].value, bytes | None):
                        consumer.seek(place, batch[-1].value.end)
                elif time.monotonic() - heard > _PATIENCE_SECONDS:
                    raise AuditError(
                        f"partition {partition} of {self._name} cannot be read to offset {end}: no record arrived for "
                        f"{_PATIENCE_SECONDS:g} s. Does a producer have an open transaction?"
                    )
                yield from (record for record in batch if record.offset < end)

    @property
    def partitions(self) -> list[int]:
        """The numbers of the partitions."""
        return sorted(self._end)


def read_input(topic: Topic, terms: AuditTerms, people: dict[str, int] | None = None) -> Visits:
    """Accept or refuse each visit of the input topic. The timestamp of its record is the time of report.

    Raises:
        AuditError: the topic cannot be read.
    """
    lines = (
        line
        for partition in topic.partitions
        for record in topic.read_records(partition)
        for line in decode(record.value, record.timestamp * 1_000, terms)
    )
    return accept_visits(lines, terms, people)


def decode(value: Any, stamped: int, terms: AuditTerms) -> Iterator[Line | int]:
    """Yield the visits of an input record, and `stamped`, the instant of its timestamp, for each dead letter in it."""
    if not isinstance(value, bytes | None):
        yield from repeat(stamped, value.records)
        return
    visits = parse_visits(value)
    if visits is None:
        yield stamped
        return
    for visit in visits:
        try:
            yield _parse_visit(visit, stamped, terms)
        except ValueError:
            yield stamped


def _parse_visit(visit: Any, stamped: int, terms: AuditTerms) -> Line:
    """Parse a visit from its JSON. Raise ValueError if it is invalid."""
    if not isinstance(visit, dict):
        raise ValueError("expected an object")  # noqa: TRY004  # every invalid visit is the same kind of error here
    person, location, arrived = (visit.get(name) for name in ("person_id", "location_id", "arrived_at"))
    left = visit.get("left_at")
    if not (isinstance(person, str) and isinstance(location, str) and isinstance(arrived, str)):
        raise ValueError("expected strings")  # noqa: TRY004  # as above
    if not isinstance(left, str | None):
        raise ValueError("expected a string")  # noqa: TRY004  # as above
    consent = visit.get("consent", False)
    if not isinstance(consent, bool):
        raise ValueError("expected true or false")  # noqa: TRY004  # as above
    return parse_line(person, location, arrived, left, stamped, terms)._replace(consent=consent)


def parse_visits(value: bytes | None) -> list[Any] | None:
    """Return the visits of a record, not yet checked; None if it is not strict JSON, or neither a visit nor a batch."""
    text = value or b""
    hook = _require_encodable if b"\\u" in text else None  # UTF-8 has no lone surrogate, so only an escape can be one
    try:
        record = json.loads(text.decode(), parse_constant=refuse_constant, object_pairs_hook=hook)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or is_too_deep(text):
        return None
    visits = record.get("visits", [record])
    return visits if isinstance(visits, list) else None


def _require_encodable(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raise ValueError for a lone surrogate, even in a pair that a repeated key hides."""
    json.dumps(pairs, ensure_ascii=False).encode()
    return dict(pairs)


def read_output(topic: Topic, grid: Grid) -> Iterator[ReadRecord]:
    """Yield the records of the output topic, sorted by tick, partition and offset.

    A record without a tick stays after its predecessor. Records of aborted transactions are included, because
    subscribers may have seen them.

    Raises:
        AuditError: the topic cannot be read.
    """
    parts = [_read_partition(topic, partition, grid) for partition in topic.partitions]
    return (record for _key, record in heapq.merge(*parts, key=lambda keyed: keyed[0]))


def _read_partition(topic: Topic, partition: int, grid: Grid) -> Iterator[tuple[tuple[int, int, int], ReadRecord]]:
    """Yield each record of a partition with its (tick, partition, offset)."""
    tick = _BEFORE_ALL
    for record in topic.read_records(partition):
        read = decode_record(f"partition {partition}, offset {record.offset}", partition, record)
        found = read_tick(read.value, grid) if "ce_type" in read.headers else None
        tick = tick if found is None else max(tick, found)
        yield (tick, partition, record.offset), read
