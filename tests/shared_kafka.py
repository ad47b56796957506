"""The Kafka of the tests: one for all processes of a parallel run, because an idle broker also needs processor time.

The process that starts the others starts it, and puts its address into the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from monitor.operate.servers import EmbeddedKafka, NodeSettings

_VARIABLE: Final = "TESTS_SHARED_KAFKA"


@dataclass(frozen=True, slots=True)
class SharedKafka:
    """A broker that perhaps another process has started: its address, process id and folder. No test may stop it."""

    bootstrap_servers: str
    pid: int
    folder: str


def start_kafka() -> EmbeddedKafka:
    """Start a broker for tests.

    Raises:
        EmbeddedError: Kafka is not installed, or does not start.
    """
    # Tests write old timestamps. The broker would delete such records in its retention checks, half a minute after its
    # start and then every five minutes. A busy machine must not end the broker's session, in which it sends heartbeats.
    day = str(24 * 3_600_000)
    lasting = {"broker.session.timeout.ms": "60000", "broker.heartbeat.interval.ms": "2000"}
    settings = NodeSettings({"log.retention.check.interval.ms": day, "log.initial.task.delay.ms": day, **lasting})
    server = EmbeddedKafka(settings, report=lambda line: print(line, flush=True))
    server.start()
    return server


def describe(server: EmbeddedKafka) -> SharedKafka:
    """Return what tests may know about a broker."""
    return SharedKafka(server.bootstrap_servers, server.pid, str(server.folder))


def share_kafka() -> Callable[[], None]:
    """Start a broker for all processes that this process starts. Return the function that stops it.

    Raises:
        EmbeddedError: as `start_kafka`.
    """
    server = start_kafka()
    os.environ[_VARIABLE] = json.dumps(asdict(describe(server)))
    return server.stop


def find_shared_kafka() -> SharedKafka | None:
    """Return the broker that this process shares with others; None if it needs its own."""
    described = os.environ.get(_VARIABLE)
    return None if described is None else SharedKafka(**json.loads(described))
