"""The connection between the supervisor and one of its processes: requests for metrics and health, and the answers.

A pair of sockets connects the two. No port is opened, so nobody else can ask a process. The connection ends when either
side ends, so a process stops when its supervisor has ended.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, Self

from prometheus_client.metrics_core import Metric

from monitor.operate.health import Health
from monitor.operate.metrics import Metrics

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a process: its metrics, the loops that have stalled, and the reason why each waiting loop waits."""

    families: Sequence[Metric]
    stalled: Sequence[str]
    waiting: Mapping[str, str]


class Link:
    """The supervisor's end. Several threads may use it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._theirs = theirs
        self._connection = Connection(ours.detach())
        self._lock = threading.Lock()
        self._number = 0

    @property
    def child_descriptor(self) -> int:
        """The file descriptor that the process inherits."""
        return self._theirs.fileno()

    def release_child_end(self) -> None:
        """Close the process's end in this process. Call this once the process has been started."""
        self._theirs.close()

    def ask(self, seconds: float = ANSWER_SECONDS) -> Snapshot | None:
        """Return the state of the process; None if it does not answer in time or has ended."""
        with self._lock:
            try:
                self._number += 1
                self._connection.send(self._number)
                while self._connection.poll(seconds):
                    number, snapshot = self._connection.recv()
                    if number == self._number:  # a late answer to an earlier question is skipped
                        return snapshot if isinstance(snapshot, Snapshot) else None
            except (EOFError, OSError):
                return None
            return None

    def close(self) -> None:
        """Close both ends."""
        self._theirs.close()
        with self._lock:
            self._connection.close()


class Responder:
    """The process's end: a thread that answers the supervisor, and sets `stop` when the supervisor has ended."""

    def __init__(self, descriptor: int, metrics: Metrics, health: Health, stop: threading.Event) -> None:
        self._connection = Connection(descriptor)
        self._metrics, self._health, self._stop = metrics, health, stop
        self._thread = threading.Thread(target=self._answer, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Leave the thread running until the process ends, because it may be waiting for a request."""

    def _answer(self) -> None:
        try:
            while True:
                number = self._connection.recv()
                self._connection.send((number, self._take_snapshot()))
        except (EOFError, OSError):
            if not self._stop.is_set():
                log.warning("the supervising process has ended: this process stops")
                self._stop.set()

    def _take_snapshot(self) -> Snapshot:
        families = list(self._metrics.registry.collect())
        return Snapshot(families, self._health.list_stalled(), self._health.list_waiting())
