"""Reads the output topic in a thread, without a consumer group and without commits, and reconnects when it fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from monitor.client.topic_consumer import Published, Subscriber
from monitor.client.verification import Trust, Verification
from monitor.errors import TopicError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.page.public_records import Entry, read_entries
from monitor.time.instants import MILLISECOND

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2.0
ASK_SECONDS: Final = 5.0


class Polled(NamedTuple):
    """The records for subscribers, and the number of foreign records (`read_entries`).

    If answers are verified, `problem` and `unverified` are those of the verification.
    """

    entries: Sequence[Entry]
    foreign: int
    problem: str = ""
    unverified: str = ""


def verify(records: Sequence[Published], verification: Verification | None) -> Polled:
    """Return the records of a poll that subscribers may receive.

    With a verification, records since the last checkpoint are returned with the next one. It must receive each record
    once: confirm the id of the topic first, because after a failure the records are read again.
    """
    if verification is None:
        entries, foreign = read_entries(records)
        return Polled(entries, foreign)
    entries, foreign = read_entries(verification.check(records))
    return Polled(entries, foreign, verification.problem, verification.unverified)


class TopicReader:
    """Reads the output topic from `history` before its latest record on. Both durations are in microseconds.

    `topic_id` is Kafka's id of the topic. `trust`: the public key with which the records are verified, if they are.
    `places`: the number of places of the registry.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        slot: int,
        history: int,
        trust: Trust | None,
        places: int,
    ) -> None:
        self._open = partial(Subscriber, connections, topic, slot // MILLISECOND, history // MILLISECOND)
        self._trust, self._places = trust, places
        self._verification: Verification | None = None
        self._subscriber: Subscriber | None = None
        self._at: Mapping[int, int] = {}
        self.topic_id = ""

    def read_to_end(self) -> Iterator[Polled]:
        """Connect, and yield the records up to the present end.

        Raises:
            TopicError: the topic does not exist.
            UnreachableError: Kafka does not answer.
        """
        subscriber = self._connect()
        while True:
            records, after = subscriber.poll(), subscriber.positions
            subscriber.require_same_topic()
            yield self._take(records, after)
            if subscriber.is_at_end():
                return

    def follow(self, deliver: Callable[[Polled], None], stop: threading.Event) -> None:
        """Deliver records until `stop` is set.

        If Kafka fails, connect again and continue after the last delivery. Records are delivered only after Kafka has
        confirmed the id of the topic: kafka-python fetches by name, so a poll may also return records of a new topic
        from the middle. Every few seconds the connection is checked, because a poll does not fail if Kafka does not
        answer. A delivery follows, perhaps empty: it shows that Kafka answers.
        """
        asked = time.monotonic()
        while not stop.is_set():
            try:
                subscriber = self._subscriber or self._connect()
                records, after = subscriber.poll(), subscriber.positions
                is_due = time.monotonic() - asked >= ASK_SECONDS
                if is_due or records:
                    subscriber.require_same_topic()
                if is_due:
                    subscriber.is_at_end()
                    asked = time.monotonic()
                if is_due or after != self._at:
                    deliver(self._take(records, after))
            except (UnreachableError, TopicError) as error:
                log.warning("%s", error)
                self.close()
                stop.wait(RETRY_SECONDS)
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._subscriber is not None:
            self._subscriber.close()
        self._subscriber = None

    def _connect(self) -> Subscriber:
        """Connect, and continue if the topic still has its id. A new one is read from `history` back on."""
        subscriber = self._subscriber = self._open()
        if subscriber.topic_id != self.topic_id:
            self.topic_id, self._at = subscriber.topic_id, {}  # the offsets were those of the earlier topic
            self._verification = self._begin_verification()
        subscriber.continue_at(self._at)
        return subscriber

    def _begin_verification(self) -> Verification | None:
        if self._trust is None:
            return None
        return Verification(self._trust.verifier, self.topic_id, self._places, self._trust.since)

    def _take(self, records: Sequence[Published], after: Mapping[int, int]) -> Polled:
        self._at = after
        return verify(records, self._verification)
