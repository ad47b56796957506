"""Which output partitions this instance owns: a second consumer group, over the output topic, that reads nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition

from monitor.brokers.connections import KafkaConnections
from monitor.errors import FailedError, UnreachableError

log = logging.getLogger(__name__)

POLL_MS: Final = 250
FIRST_BACKOFF_SECONDS: Final = 1.0
LONGEST_BACKOFF_SECONDS: Final = 8.0
COMMIT_SECONDS: Final = 60.0


class _Ownership(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    """Keeps the set of owned partitions; it runs on the network thread. Nothing is fetched: all stay paused."""

    def __init__(self, wake: threading.Event) -> None:
        self.consumer: Any = None
        self.owned: frozenset[int] = frozenset()
        self._wake = wake

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        for partition in assigned:
            self.consumer.pause(partition)
            self.consumer.seek(partition, 0)
        self._now_owned(self.owned | {partition.partition for partition in assigned})

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._now_owned(self.owned - {partition.partition for partition in revoked})

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.on_partitions_revoked(lost)

    def _now_owned(self, owned: frozenset[int]) -> None:
        self.owned = owned
        self._wake.set()


class Membership:
    """A member of the release group, kept alive by a thread of its own; `wake` is set when ownership changes.

    Ownership is a hint that keeps two instances from taking the ledger from each other in turns. What makes one
    writer is the fence (ledger.Owner): no answer depends on this.
    """

    def __init__(self, connections: KafkaConnections, topic: str, group: str, wake: threading.Event) -> None:
        self._connections = connections
        self._topic = topic
        self._wake = wake
        self._committed: float | None = None
        self._failure: Exception | None = None
        self._ownership = _Ownership(wake)
        self._consumer = connections.member(group)
        self._ownership.consumer = self._consumer
        self._consumer.subscribe([topic], listener=self._ownership)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="release-membership", daemon=True)
        self._thread.start()

    @property
    def owned(self) -> frozenset[int]:
        """The output partitions that this instance owns now.

        Raises:
            FailedError: the thread that keeps the membership alive has ended, by a fault of a program.
        """
        if self._failure is not None:
            raise FailedError(f"the release group's member ended: {self._failure!r}") from self._failure
        return self._ownership.owned

    @property
    def joined(self) -> bool:
        """Whether it shares the partitions out with others: from the start."""
        return True

    def _run(self) -> None:
        try:
            self._poll()
        except Exception as error:  # it is raised where ownership is asked for
            log.exception("the release group's member ends by a fault of a program")
            self._failure = error
            self._wake.set()

    def _poll(self) -> None:
        pause = FIRST_BACKOFF_SECONDS
        while not self._stop.is_set():
            try:
                with self._connections.translate_errors():
                    self._consumer.poll(timeout_ms=POLL_MS)
                    self._commit_now_and_then()
            except UnreachableError as error:
                log.warning("the release group cannot be reached: %s", error)
                self._stop.wait(pause)
                pause = min(2 * pause, LONGEST_BACKOFF_SECONDS)
                continue
            pause = FIRST_BACKOFF_SECONDS

    def _commit_now_and_then(self) -> None:
        """Commit an offset, which nobody reads: brokers keep a group that has some for days after its last member."""
        owned = self._ownership.owned
        if not owned or (self._committed is not None and time.monotonic() - self._committed < COMMIT_SECONDS):
            return
        self._committed = time.monotonic()
        nothing = OffsetAndMetadata(0, "", -1)
        self._consumer.commit_async({TopicPartition(self._topic, partition): nothing for partition in owned})

    def close(self) -> None:
        """Leave the group, so that others take over at once."""
        self._stop.set()
        self._thread.join(timeout=5)
        self._consumer.close(autocommit=False, timeout_ms=5_000)
