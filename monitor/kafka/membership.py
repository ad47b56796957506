"""Ownership of output partitions, by membership in a second consumer group. Its members read nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition

from monitor.errors import FailedError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.observe.logs import log_unexpected

log = logging.getLogger(__name__)

POLL_MS: Final = 250  # also the member's retry_backoff_ms: with less, kafka-python wakes its threads more often
FIRST_BACKOFF_SECONDS: Final = 1.0
LONGEST_BACKOFF_SECONDS: Final = 8.0
COMMIT_SECONDS: Final = 60.0
JOIN_SECONDS: Final = 5.0
LEAVE_MS: Final = 5_000


class _Ownership(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    """The set of owned partitions, updated on the network thread. All stay paused, so nothing is fetched."""

    def __init__(self, wake: threading.Event) -> None:
        self.consumer: Any = None
        self.owned: frozenset[int] = frozenset()
        self._wake = wake

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        for partition in assigned:
            self.consumer.pause(partition)
            self.consumer.seek(partition, 0)
        self._set_owned(self.owned | {partition.partition for partition in assigned})

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._set_owned(self.owned - {partition.partition for partition in revoked})

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.on_partitions_revoked(lost)

    def _set_owned(self, owned: frozenset[int]) -> None:
        self.owned = owned
        self._wake.set()


class Membership:
    """A member of the release group, which a separate thread polls. `wake` is set when ownership changes.

    Ownership is a hint: it keeps two instances from taking a ledger partition from each other in turns. Kafka's fence
    ensures that there is one writer (`monitor.ledger.append_to_ledger.Writer`), so no answer depends on the hint.
    """

    def __init__(self, connections: KafkaConnections, topic: str, group: str, wake: threading.Event) -> None:
        self._connections = connections
        self._topic = topic
        self._wake = wake
        self._committed_at: float | None = None
        self._failure: Exception | None = None
        self._ownership = _Ownership(wake)
        self._consumer = connections.create_member(group, retry_backoff_ms=POLL_MS)
        self._ownership.consumer = self._consumer
        self._consumer.subscribe([topic], listener=self._ownership)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="release-membership", daemon=True)
        self._thread.start()

    @property
    def owned(self) -> frozenset[int]:
        """The output partitions that this instance owns now.

        Raises:
            FailedError: the thread that keeps the membership alive has ended with an unexpected error.
        """
        if self._failure is not None:
            raise FailedError(
                f"the thread that polls the release group has ended ({type(self._failure).__name__}): the log says "
                "where; start the service again"
            ) from self._failure
        return self._ownership.owned

    def _run(self) -> None:
        try:
            self._poll()
        except Exception as error:  # noqa: BLE001  # `owned` raises it
            log_unexpected(log, "the thread that polls the release group ended with an unexpected error", error=error)
            self._failure = error
            self._wake.set()

    def _poll(self) -> None:
        pause = FIRST_BACKOFF_SECONDS
        while not self._stop.is_set():
            try:
                with self._connections.translate_errors():
                    self._consumer.poll(timeout_ms=POLL_MS)
                    self._commit_periodically()
            except UnreachableError as error:
                log.warning("the release group cannot be reached: %s", error)
                self._stop.wait(pause)
                pause = min(2 * pause, LONGEST_BACKOFF_SECONDS)
                continue
            pause = FIRST_BACKOFF_SECONDS

    def _commit_periodically(self) -> None:
        """Commit an unused offset, because Kafka keeps a group with offsets for days after its last member has left."""
        owned = self._ownership.owned
        if not owned or (self._committed_at is not None and time.monotonic() - self._committed_at < COMMIT_SECONDS):
            return
        self._committed_at = time.monotonic()
        unused = OffsetAndMetadata(0, "", -1)
        self._consumer.commit_async({TopicPartition(self._topic, partition): unused for partition in owned})

    def close(self) -> None:
        """Leave the group, so that other instances take over at once."""
        self._stop.set()
        self._thread.join(JOIN_SECONDS)
        self._consumer.close(autocommit=False, timeout_ms=LEAVE_MS)
