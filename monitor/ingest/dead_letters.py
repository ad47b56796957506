"""Refused visits and records, and the writer of their topic. They are durable there before progress passes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batches import Unreadable
from monitor.records.dead_letter_record import Origin, encode_visit, make_dead_letter
from monitor.records.visit_contract import Fault, Reason, open_record

FLUSH_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 2.0
BATCH_BYTES: Final = 256 * 1024

# The part of max.message.bytes that is reserved for a record's headers and framing.
OVERHEAD_BYTES: Final = 4_096

Value = bytes | Unreadable | None
"""A record's value, None for a tombstone, or the placeholder of unreadable records."""

SINGLE: Final = 100
"""The most dead letters for single visits of one record. One more dead letter covers its other refused visits."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record, or one visit of it, that becomes a dead letter. It contains personal data: never log it."""

    record: int
    """The index of the record among the decoded records."""
    index: int | None
    """The index of the visit in the record, None for the whole record."""
    fault: Fault
    payload: bytes
    """The raw bytes of a whole record, or the visit as JSON."""
    several: Mapping[Reason, int] | None = None
    """If the refusal covers several visits, their number by reason; then `index` is the index of the first, and
    `payload` is the whole record.
    """

    @property
    def reason(self) -> Reason:
        """The reason, from the closed list."""
        return self.fault.reason

    @property
    def error(self) -> str:
        """The reason in words, without any content of the visit."""
        return self.fault.error

    @property
    def count(self) -> int:
        """The number of records or visits that it covers."""
        return sum(self.several.values()) if self.several else 1


def count_by_reason(refused: Iterable[Refusal]) -> Counter[str]:
    """Count the refused records and visits by reason."""
    counts: Counter[str] = Counter()
    for refusal in refused:
        for reason, count in (refusal.several or {refusal.reason: 1}).items():
            counts[reason.value] += count
    return counts


def refuse_unreadable(record: int, value: Unreadable) -> Refusal:
    """Return the refusal of the unreadable records of a batch."""
    return Refusal(record, None, value.fault, value.raw, {Reason.UNREADABLE_BATCH: value.records})


def refuse(
    values: Sequence[Value],
    faults: Iterable[tuple[int, int, Fault]],
    more: Mapping[int, tuple[int, Mapping[Reason, int]]] | None = None,
) -> list[Refusal]:
    """Return the refusals of single visits, in the order of the records.

    The payload of a refusal is the visit as it was sent, with all of its fields. If many visits of a record are
    refused, only the first ones have their own refusal, and one more covers the others, so that junk cannot flood the
    dead-letter topic.

    Args:
        values: the values of the records.
        faults: the refused visits as (record, index, fault).
        more: by record, further refused visits: the index of the first, and their number by reason.
    """
    refused: list[Refusal] = []
    more = more or {}
    for record, group in groupby(sorted(faults), key=itemgetter(0)):
        of_record = list(group)
        value = values[record]
        raw = value if isinstance(value, bytes) else b""
        visits = open_record(raw)
        for _record, index, fault in of_record[:SINGLE]:
            payload = b"" if isinstance(visits, Fault) else encode_visit(visits[index])
            refused.append(Refusal(record, index, fault, payload))
        others = Counter(fault.reason for _record, _index, fault in of_record[SINGLE:])
        first = of_record[SINGLE][1] if others else None
        if record in more:
            at, counted = more[record]
            others.update(counted)
            first = at if first is None else min(first, at)
        if first is not None:
            refused.append(_refuse_others(record, first, others, raw))
    return refused


def _refuse_others(record: int, index: int, several: Mapping[Reason, int], raw: bytes) -> Refusal:
    counts = ", ".join(f"{count} {reason.value}" for reason, count in sorted(several.items()))
    error = f"visits: expected valid visits; refused besides {SINGLE} others of this record: {counts}"
    return Refusal(record, index, Fault(Reason.OTHERS_REFUSED, error), raw, several)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused visit or record, with its position in the input."""

    refusal: Refusal
    partition: int
    offset: int


class DeadLetterTopic:
    """A writer of dead letters, for one thread.

    After Kafka refuses a record, the producer's sequence is broken, so a new producer replaces it.
    """

    def __init__(self, connections: KafkaConnections, topic: str, input_topic: str, max_message_bytes: int) -> None:
        self._connections = connections
        self._topic = topic
        self._input = input_topic
        self._limit = max(0, max_message_bytes - OVERHEAD_BYTES)
        self._producer: Any = None

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters and wait until all in-sync replicas have them.

        Raises:
            UnreachableError: Kafka does not accept them now; some may have been written.
        """
        try:
            with self._connections.translate_errors("Write"):
                self._put(letters)
        except UnreachableError:
            self.close()
            raise

    def _put(self, letters: Sequence[DeadLetter]) -> None:
        if self._producer is None:
            # With a batch size above the topic's limit, kafka-python would split a refused batch into equal ones,
            # forever.
            batch_size = max(1, min(BATCH_BYTES, self._limit))
            self._producer = self._connections.create_producer(linger_ms=5, batch_size=batch_size)
        sent = []
        for letter in letters:
            refusal = letter.refusal
            origin = Origin(self._input, letter.partition, letter.offset)
            count = refusal.count if refusal.several else None
            record = make_dead_letter(refusal.fault, refusal.payload, origin, refusal.index, self._limit, count)
            sent.append(self._producer.send(self._topic, value=record.value, headers=record.headers))
        self._producer.flush(timeout=FLUSH_SECONDS)
        for future in sent:
            future.get(timeout=0.001)

    def close(self) -> None:
        """Close the producer."""
        if self._producer is not None:
            self._producer.close(timeout=CLOSE_SECONDS)
            self._producer = None
