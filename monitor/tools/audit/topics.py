"""A run that is still on Kafka: its input and its output, read off the topics (docs/interface.md, section 4). Its own reading.

Consumers come from the caller, who knows where Kafka is and how to log in; what they bring is opened here.
"""

from __future__ import annotations

import heapq
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Any, Final, NoReturn

from kafka import TopicPartition

from monitor.tools.audit.records import Told
from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.text import AuditError
from monitor.tools.audit.visits import Line, Visits, judged, line

OpenConsumer = Callable[..., Any]
"""Opens a kafka-python consumer that belongs to no group; takes its settings by name, `isolation_level` for one.

One of the input topic may give, as the value of its last record, what stands for all of a batch that cannot be read:
`records`, how many they are, and `end`, the offset behind them.
"""

_POLL_MS: Final = 500
_PATIENCE_SECONDS: Final = 30.0
_DEEPEST: Final = 200
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BEFORE_ALL: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a topic still holds: partitions, records, and whether some of its first ones are gone."""

    partitions: int
    records: int
    expired: bool


class Topic:
    """A topic from its beginning to its end at the time it was opened.

    Raises:
        AuditError: there is no such topic, or (while reading) nothing more comes.
    """

    def __init__(self, open_consumer: OpenConsumer, name: str, *, committed: bool) -> None:
        self._open = open_consumer
        self._settings = {"isolation_level": "read_committed" if committed else "read_uncommitted"}
        self._name = name
        with closing(self._consumer()) as consumer:
            partitions = consumer.partitions_for_topic(name)
            if not partitions:
                raise AuditError(f"there is no topic {name}")
            places = [TopicPartition(name, partition) for partition in sorted(partitions)]
            self._first = {place.partition: at for place, at in consumer.beginning_offsets(places).items()}
            self._end = {place.partition: at for place, at in consumer.end_offsets(places).items()}

    def _consumer(self) -> Any:
        return self._open(**self._settings)

    @property
    def kept(self) -> Kept:
        """What it holds; offsets of transactions' markers count as records."""
        records = sum(self._end.values()) - sum(self._first.values())
        return Kept(len(self._end), records, any(self._first.values()))

    def records(self, partition: int) -> Iterator[Any]:
        """Yield the records of a partition, as kafka-python gives them."""
        place, end = TopicPartition(self._name, partition), self._end[partition]
        with closing(self._consumer()) as consumer:
            consumer.assign([place])
            consumer.seek(place, self._first[partition])
            heard = time.monotonic()
            while consumer.position(place) < end:
                found = consumer.poll(timeout_ms=_POLL_MS).get(place, ())
                if found:
                    heard = time.monotonic()
                    if not isinstance(found[-1].value, bytes | None):
                        consumer.seek(place, found[-1].value.end)
                elif time.monotonic() - heard > _PATIENCE_SECONDS:
                    raise AuditError(f"partition {partition} of {self._name} cannot be read to offset {end}")
                yield from (record for record in found if record.offset < end)

    @property
    def partitions(self) -> list[int]:
        """The partitions' numbers."""
        return sorted(self._end)


def read_input(topic: Topic, terms: AuditTerms) -> Visits:
    """Judge each visit of the input topic by itself, by when Kafka stamped its record.

    Raises:
        AuditError: the topic holds no visit, or cannot be read.
    """
    lines = (
        one
        for partition in topic.partitions
        for record in topic.records(partition)
        for one in opened(record.value, record.timestamp * 1_000, terms)
    )
    try:
        return judged(lines, terms)
    except ValueError as error:
        raise AuditError(f"the input topic: {error}") from error


def opened(value: Any, stamped: int, terms: AuditTerms) -> Iterator[Line | int]:
    """What an input record holds: its visits, and for each dead letter the instant at which it was stamped."""
    if not isinstance(value, bytes | None):
        yield from repeat(stamped, value.records)
        return
    visits = parse_visits(value)
    if visits is None:
        yield stamped
        return
    for visit in visits:
        try:
            yield _line(visit, stamped, terms)
        except ValueError:
            yield stamped


def _line(visit: Any, stamped: int, terms: AuditTerms) -> Line:
    """A visit of the wire, which `line` judges further. Raises ValueError if it is none."""
    if not isinstance(visit, dict):
        raise ValueError("expected an object")  # noqa: TRY004  # all that is no visit is one kind of error here
    person, location, arrived = (visit.get(name) for name in ("person_id", "location_id", "arrived_at"))
    left = visit.get("left_at")
    if not (isinstance(person, str) and isinstance(location, str) and isinstance(arrived, str)):
        raise ValueError("expected texts")  # noqa: TRY004  # as above
    if not isinstance(left, str | None):
        raise ValueError("expected a text")  # noqa: TRY004  # as above
    return line(person, location, arrived, left, stamped, terms)


def parse_visits(value: bytes | None) -> list[Any] | None:
    """What should be visits; None for a record that cannot be opened: no strict JSON, neither a visit nor a batch."""
    text = value or b""
    hook = _encodable if b"\\u" in text else None  # a lone surrogate can only be escaped
    try:
        record = json.loads(text.decode(), parse_constant=_refuse, object_pairs_hook=hook)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or _too_deep(text):
        return None
    visits = record.get("visits", [record])
    return visits if isinstance(visits, list) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _encodable(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, unless a lone surrogate is in it, be it under a key that is told twice."""
    json.dumps(pairs, ensure_ascii=False).encode()
    return dict(pairs)


def _too_deep(text: bytes) -> bool:
    if text.count(b"[") + text.count(b"{") <= _DEEPEST:
        return False
    brackets = re.findall(rb"[\[\]{}]", _STRING.sub(b"", text))
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets)) > _DEEPEST


def read_output(topic: Topic) -> Iterator[Told]:
    """Yield the records of the output topic by tick, then partition and offset; one without a tick with the one before.

    Also those of aborted transactions: subscribers may have seen them.

    Raises:
        AuditError: one is no record of the output topic, or it cannot be read.
    """
    parts = [_keyed(topic, partition) for partition in topic.partitions]
    return (told for _key, told in heapq.merge(*parts, key=lambda keyed: keyed[0]))


def _keyed(topic: Topic, partition: int) -> Iterator[tuple[tuple[int, int, int], Told]]:
    tick = _BEFORE_ALL
    for record in topic.records(partition):
        place = f"partition {partition}, offset {record.offset}"
        try:
            headers = {name: text.decode() for name, text in record.headers}
            value = json.loads(record.value)
            told = Told(
                place, record.key.decode(), headers, value, repr((record.key, record.headers, record.value)).encode()
            )
            tick = max(tick, int(value.get("tick", tick)))
        except (ValueError, TypeError, AttributeError) as error:
            # By its kind alone: it may quote what was read, and that may be another topic than was meant.
            raise AuditError(f"{place}: expected a record of the output topic ({type(error).__name__})") from None
        yield (tick, partition, record.offset), told
