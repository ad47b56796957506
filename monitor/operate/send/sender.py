"""Send the visits of a file to the input topic, in portions. Each is in Kafka before the next one is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from kafka.errors import KafkaError

from monitor.errors import SendError, TopicError, UnreachableError
from monitor.kafka.bulk_producer import BulkProducer
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import find_topics
from monitor.operate.send.judge import RECORD_VISITS, Judged, join_visits
from monitor.operate.send.visits_file import FileVisit
from monitor.time.clock import Clock
from monitor.time.instants import MILLISECOND

CLOSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """The input topic, and the file for messages that say how to send its rest."""

    connections: KafkaConnections
    topic: str
    path: Path

    def require_topic(self) -> None:
        """Check that the topic exists.

        Raises:
            TopicError: it does not.
            UnreachableError: Kafka cannot be used, or the user may not write to the topic.
        """
        with self.connections.open_admin() as admin:
            if not find_topics(admin, [self.topic], "Write"):
                raise TopicError(
                    f"kafka.topics.visits is {self.topic!r}: there is no such topic, so nothing was sent; create "
                    "it with `location-monitor topics --create`, or correct kafka.topics.visits or "
                    "kafka.bootstrap_servers"
                )

    def explain_position(self, sent: int, line: int) -> str:
        """Return how far the file was sent: the visits that Kafka has, and the first line that it may lack."""
        if not sent:
            return "No visit is known to be in Kafka. Send the file again: a visit that arrives twice counts once"
        return (
            f"Kafka has the {sent:,} visits before line {line}, and may have later ones. Send the rest with "
            f"`location-monitor send {self.path} --resume {line}`: a visit that arrives twice counts once"
        )


class Progress(NamedTuple):
    """How far a file was sent: the number of visits and the last line that Kafka has, and their last timestamp.

    `timestamp`: an instant.
    """

    visits: int
    line: int
    timestamp: int


def send_visits(target: Target, portions: Iterable[Judged], clock: Clock, stop: threading.Event) -> Iterator[Progress]:
    """Send the visits that are not left out, and yield the progress after each portion.

    Raises:
        UnreachableError: Kafka does not accept a record.
        SendError: `stop` is set.
    """
    sent = stamp = 0
    with target.connections.translate_errors("Write"):
        producer = BulkProducer(target.connections, target.topic)
    try:
        for judged in portions:
            kept = [visit for visit, cause in zip(judged.visits, judged.causes, strict=True) if cause is None]
            if stop.is_set() and kept:
                raise SendError(f"stopped by a signal. {target.explain_position(sent, kept[0].line)}")
            stamp = max(stamp, _send_portion(target, producer, kept, sent, clock.now()))
            sent += len(kept)
            yield Progress(sent, judged.visits[-1].line, stamp)
    finally:
        producer.close(CLOSE_SECONDS)


def _send_portion(target: Target, producer: BulkProducer, kept: list[FileVisit], sent: int, now: int) -> int:
    """Send visits, wait until Kafka has them, and return their last timestamp, an instant.

    The broker replaces the timestamp `now` (an instant), unless the topic has other settings.
    """
    if not kept:
        return 0
    parts = (kept[start : start + RECORD_VISITS] for start in range(0, len(kept), RECORD_VISITS))
    first: int = 0
    failure: BaseException
    try:
        deliveries = producer.produce([(None, join_visits(part), (), now // MILLISECOND) for part in parts])
        failed = [(delivery.positions.start, delivery.error) for delivery in deliveries if delivery.error is not None]
        if not failed:
            return max(delivery.timestamp for delivery in deliveries) * MILLISECOND
        first, failure = min(failed, key=itemgetter(0))
    except (KafkaError, OSError) as error:
        failure = error
    visit = first * RECORD_VISITS
    reason = target.connections.make_unreachable_error(failure, operation="Write")
    raise UnreachableError(f"{reason}. {target.explain_position(sent + visit, kept[visit].line)}") from failure
