"""Retries: pauses grow, and failed connections leave nothing behind."""

from __future__ import annotations

import gc
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from monitor.errors import UnreachableError
from monitor.ingest.reading_thread import run_reader
from monitor.kafka.connections import KafkaConnections

pytestmark = pytest.mark.long


class _SlowReader:
    """A reader with slow steps. Each second step fails."""

    waiting_for = ""

    def __init__(self, stop: threading.Event) -> None:
        self.steps, self.stop = 0, stop

    def step(self, _timeout_ms: int) -> bool:
        self.steps += 1
        self.stop.wait(0.3)  # longer than the first pauses, so that the length of a step does not reset them
        if self.steps % 2 == 0:
            raise UnreachableError("not reachable")
        return True

    def close(self) -> None:
        """Close nothing."""


@pytest.mark.promise(38)
def test_pauses_grow_despite_slow_steps(caplog: pytest.LogCaptureFixture, eventually: Callable[..., Any]) -> None:
    """Pauses double after each failure, although successful steps take longer than the first pauses."""
    stop = threading.Event()
    thread = threading.Thread(target=run_reader, args=(_SlowReader(stop), stop, lambda _waiting: None), daemon=True)
    with caplog.at_level(logging.WARNING, "monitor.ingest.reading_thread"):
        thread.start()
        try:
            eventually(lambda: len(caplog.messages) >= 5, deadline_seconds=30)
        finally:
            stop.set()
            thread.join(10)
    assert [float(line.split()[3]) for line in caplog.messages[:5]] == [0.1, 0.2, 0.4, 0.8, 1.6]


@pytest.fixture
def quiet_kafka() -> Iterator[None]:
    """Silence kafka-python: its log records of failures keep sockets open for as long as pytest keeps the records."""
    logger = logging.getLogger("kafka")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(level)


@pytest.mark.usefixtures("quiet_kafka")
def test_failed_client_leaves_no_thread(eventually: Callable[..., Any]) -> None:
    """
    A client that cannot connect leaves no thread.

    kafka-python would leave a thread and its sockets per attempt, and exhaust them in a day without brokers.
    """
    connections = KafkaConnections(("127.0.0.1:9",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the garbage collector closes the refused connection's socket
        before = threading.active_count()
        with pytest.raises(UnreachableError, match="ECONNREFUSED"):
            connections.create_admin()
        gc.collect()
    eventually(lambda: threading.active_count() <= before)
