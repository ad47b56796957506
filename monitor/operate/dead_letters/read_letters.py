"""Read, filter and count dead letters. Values name people, so this module prints no value."""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kafka import TopicPartition
from pydantic import ValidationError

from monitor.errors import TopicError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import find_topics
from monitor.records.dead_letter_record import DeadLetterHeaders
from monitor.records.visit_contract import Reason
from monitor.time.instants import MILLISECOND

POLL_MS: Final = 250
READ_TIMEOUT_SECONDS: Final = 30.0
_MAX_RECORDS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of the topic of dead letters."""

    partition: int
    offset: int
    at: int
    """Its timestamp, an instant."""
    headers: DeadLetterHeaders | None
    """None if another program wrote the record."""
    value: bytes = field(repr=False)
    """The refused record or visit, which is personal data."""


@dataclass(slots=True)
class ReasonCount:
    """The dead letters of one reason: their number, the number of visits or records in them, first and last instant."""

    letters: int = 0
    refused: int = 0
    first: int = 0
    last: int = 0

    def add(self, letter: Letter) -> None:
        """Count a dead letter."""
        self.first = letter.at if not self.letters else min(self.first, letter.at)
        self.last = max(self.last, letter.at)
        self.letters += 1
        self.refused += 1 if letter.headers is None else int(letter.headers.count)


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts by reason, in the order of `Reason`, and the latest dead letters.

    `foreign`: the count of records that other programs wrote to the topic.
    """

    topic: str
    reasons: dict[Reason, ReasonCount]
    foreign: ReasonCount
    latest: tuple[Letter, ...]


def summarize(topic: str, letters: Iterable[Letter], latest: int) -> Summary:
    """Count dead letters by reason. Of the dead letters themselves, only the `latest` ones are kept in memory.

    Partitions are read one after the other, so the latest ones are those with the highest timestamps, in any order.
    """
    counts: dict[Reason, ReasonCount] = {}
    foreign, kept = ReasonCount(), list[tuple[int, int, int, Letter]]()
    for letter in letters:
        count = foreign if letter.headers is None else counts.setdefault(letter.headers.reason, ReasonCount())
        count.add(letter)
        heapq.heappush(kept, (letter.at, letter.partition, letter.offset, letter))
        if len(kept) > latest:
            heapq.heappop(kept)
    ordered = {reason: counts[reason] for reason in Reason if reason in counts}
    return Summary(topic, ordered, foreign, tuple(letter for *_, letter in sorted(kept)))


def read_letters(
    connections: KafkaConnections, topic: str, reasons: Collection[Reason], since: int | None
) -> Iterator[Letter]:
    """Yield the dead letters with one of the reasons (all if empty), from an instant on (None: all).

    They are read up to the present end of the topic. A record of another program has no reason.

    Partitions are read together. Within each partition, dead letters are in the order of their offsets.

    Raises:
        TopicError: the topic does not exist.
        UnreachableError: Kafka does not answer, or the user may not read the topic.
    """
    partitions = _find_partitions(connections, topic)
    consumer = connections.create_consumer(isolation_level="read_committed")
    try:
        with connections.translate_errors():
            ends = _seek_start(consumer, partitions, since)
            received_at = time.monotonic()
            while waiting := [tp for tp, end in ends.items() if consumer.position(tp) < end]:
                polled = consumer.poll(timeout_ms=POLL_MS, max_records=_MAX_RECORDS)
                if polled:
                    received_at = time.monotonic()
                elif time.monotonic() - received_at > READ_TIMEOUT_SECONDS:
                    silent = ", ".join(f"{topic}-{tp.partition}" for tp in waiting)
                    raise UnreachableError(
                        f"{silent}: Kafka returned no records for {READ_TIMEOUT_SECONDS:g} s, although the end is not "
                        "reached; check the brokers, and run the command again"
                    )
                letters = (_to_letter(record) for records in polled.values() for record in records)
                yield from (
                    letter
                    for letter in letters
                    if letter.offset < ends[TopicPartition(topic, letter.partition)]
                    and (since is None or letter.at >= since)
                    and (not reasons or (letter.headers is not None and letter.headers.reason in reasons))
                )
    finally:
        consumer.close(autocommit=False)


def _find_partitions(connections: KafkaConnections, topic: str) -> list[TopicPartition]:
    with connections.open_admin() as admin:
        found = find_topics(admin, [topic], "Read")
    if not found:
        raise TopicError(
            f"kafka.topics.dead_letters is {topic!r}: there is no such topic; create it with `location-monitor topics "
            "--create`, or correct kafka.topics.dead_letters or kafka.bootstrap_servers"
        )
    return [TopicPartition(topic, partition) for partition in range(len(found[topic]["partitions"]))]


def _seek_start(consumer: Any, topic_partitions: list[TopicPartition], since: int | None) -> dict[Any, int]:
    """Assign all partitions, seek to the first dead letters to read, and return the present end of each partition."""
    consumer.assign(topic_partitions)
    starts, ends = consumer.beginning_offsets(topic_partitions), consumer.end_offsets(topic_partitions)
    if since is not None:
        found = consumer.offsets_for_times(dict.fromkeys(topic_partitions, max(0, since // MILLISECOND)))
        starts = {tp: ends[tp] if found.get(tp) is None else found[tp].offset for tp in topic_partitions}
    for tp in topic_partitions:
        consumer.seek(tp, starts[tp])
    return {tp: int(end) for tp, end in ends.items()}


def _to_letter(record: Any) -> Letter:
    try:
        named = {name: (text or b"").decode() for name, text in record.headers or ()}
        headers = DeadLetterHeaders.model_validate(named)
    except (ValidationError, UnicodeDecodeError):
        headers = None
    return Letter(record.partition, record.offset, record.timestamp * MILLISECOND, headers, record.value or b"")
