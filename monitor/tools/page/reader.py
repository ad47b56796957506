"""Reads the output topic in a thread, without a consumer group and without commits, and reconnects when it fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.contracts.instants import MILLISECOND
from monitor.contracts.signed_notes import Verifier
from monitor.errors import TopicError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.tools.client.subscriber import Published, Subscriber
from monitor.tools.client.verification import Verification
from monitor.tools.page.entries import Entry, read_entries

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2.0
ASK_SECONDS: Final = 5.0


class Polled(NamedTuple):
    """The records for subscribers, the position after them, and the number of foreign records (`read_entries`).

    If answers are verified, `position` is before the records that wait for their checkpoint, and `problem` is that of
    the verification.
    """

    entries: Sequence[Entry]
    position: Mapping[int, int]
    foreign: int
    problem: str = ""


Deliver = Callable[[str, Polled], None]
"""Takes Kafka's id of the topic, and the records of a poll with the position after them."""


@dataclass(frozen=True, slots=True)
class Source:
    """The output topic, and how far back to read it: `history` before its latest record. Both are in microseconds.

    `verifier`: the public key with which the records are verified, if they are.
    """

    connections: KafkaConnections
    topic: str
    slot: int
    history: int
    verifier: Verifier | None = None

    def verify(self, topic_id: str) -> Verification | None:
        """Return the verification of all records of a topic, which outlives connections; None if none is verified."""
        return None if self.verifier is None else Verification(self.verifier, topic_id)

    def open(self, topic_id: str = "", position: Mapping[int, int] | None = None) -> Subscriber:
        """Connect, and continue at a position if the topic still has this id. Else begin `history` back.

        Raises:
            TopicError: the topic does not exist.
            UnreachableError: Kafka does not answer.
        """
        subscriber = Subscriber(self.connections, self.topic, self.slot // MILLISECOND, self.history // MILLISECOND)
        try:
            subscriber.continue_at((position or {}) if subscriber.topic_id == topic_id else {})
        except BaseException:
            subscriber.close()
            raise
        return subscriber


def verify(records: Sequence[Published], position: Mapping[int, int], verification: Verification | None) -> Polled:
    """Return the records of a poll that subscribers may receive, given the position after the poll.

    With a verification, records since the last checkpoint are returned with the next one. It must receive each record
    once: confirm the id of the topic first, because after a failure the records are read again.
    """
    if verification is None:
        entries, foreign = read_entries(records)
        return Polled(entries, position, foreign)
    entries, foreign = read_entries(verification.check(records))
    return Polled(entries, {**position, **verification.waiting}, foreign, verification.problem)


def follow(
    source: Source,
    deliver: Deliver,
    subscriber: Subscriber,
    position: Mapping[int, int],
    verification: Verification | None,
    stop: threading.Event,
) -> None:
    """Deliver records until `stop` is set. If Kafka fails, connect again and continue after the last delivery.

    Records are delivered only after Kafka has confirmed the id of the topic: kafka-python fetches by name, so a poll
    may also return records of a new topic from the middle. Every few seconds the connection is checked, because a poll
    does not fail if Kafka does not answer. A delivery follows, perhaps empty: it shows that Kafka answers.
    """
    current: Subscriber | None = subscriber
    topic_id, at, asked = subscriber.topic_id, dict(position), time.monotonic()
    while not stop.is_set():
        try:
            current = current or source.open(topic_id, at)
            if current.topic_id != topic_id:
                topic_id, at = current.topic_id, {}  # the offsets were those of the earlier topic
                verification = source.verify(topic_id)
            records, after = current.poll(), current.positions
            is_due = time.monotonic() - asked >= ASK_SECONDS
            if is_due or records:
                current.require_same_topic()
            if is_due:
                current.is_at_end()
                asked = time.monotonic()
            if is_due or after != at:
                at = after
                deliver(topic_id, verify(records, after, verification))
        except (UnreachableError, TopicError) as error:
            log.warning("%s", error)
            _close(current)
            current = None
            stop.wait(RETRY_SECONDS)
    _close(current)


def _close(subscriber: Subscriber | None) -> None:
    if subscriber is not None:
        subscriber.close()
