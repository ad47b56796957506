"""When an instance is ready: on a real Kafka with progress that the tests set, and on a Kafka that does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from monitor.errors import UnreachableError
from monitor.ingest.startup_readiness import Readiness
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from monitor.time.clock import SystemClock
from tests.ingest.world import World
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka
from tests.store.memory import MemoryWindows


@pytest.fixture
def connections(kafka: SharedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,))


@pytest.fixture
def produced(connections: KafkaConnections, topic: Callable[[str], str]) -> tuple[str, Callable[[int, int], None]]:
    """A topic of two partitions, and a function that produces a number of records to one of them."""
    name = topic("visits")
    create_topic(connections, name, 2)

    def produce(partition: int, number: int) -> None:
        with closing(connections.create_producer()) as producer:
            for _ in range(number):
                producer.send(name, value=b"v", partition=partition).get(timeout=10)

    return name, produce


def look(readiness: Readiness) -> str:
    """Look once more, and return the reason for waiting."""
    readiness.look()
    return readiness.waiting


@pytest.mark.promise(39)
def test_ready_at_first_end_offsets(
    connections: KafkaConnections, parameters: Parameters, produced: tuple[str, Callable[[int, int], None]]
) -> None:
    """Ready when all shards have reached the first end offsets of all partitions: the lowest progress decides.

    Later records or lost progress change nothing.
    """
    name, produce = produced
    windows = MemoryWindows(parameters, SystemClock())
    readiness = Readiness(connections, name, windows)
    assert "not known yet" in readiness.waiting
    produce(0, 3)
    assert "at most 3 records are left, in 2 of 2 partitions" in look(readiness)
    windows.begin(0, 1, 0)
    assert "at most 2 records are left, in 2 of 2 partitions" in look(readiness)
    produce(0, 1)
    produce(1, 1)
    windows.restart(0, 3, 0)
    assert "at most 0 records are left, in 1 of 2 partitions" in look(readiness)
    windows.begin(1, 0, 0)
    del windows.shards[-1].progress[0]
    assert "at most 3 records are left, in 1 of 2 partitions" in look(readiness)
    windows.restart(0, 3, 0)
    assert look(readiness) == ""
    windows.restart(0, 0, 0)
    assert look(readiness) == ""


def test_remaining_time_is_estimated(
    connections: KafkaConnections, parameters: Parameters, produced: tuple[str, Callable[[int, int], None]]
) -> None:
    """Once records have been read, the remaining time follows from the rate since the first look.

    Of 10 records, 4 were read in 60 s; the other 6 take 90 s at this rate.
    """
    name, produce = produced
    produce(0, 10)
    now = [0.0]
    windows = MemoryWindows(parameters, SystemClock())
    readiness = Readiness(connections, name, windows, lambda: now[0])
    windows.begin(1, 0, 0)
    assert look(readiness).endswith("up to the end offsets at startup")
    now[0] = 60.0
    assert look(readiness).endswith("up to the end offsets at startup")
    windows.begin(0, 4, 0)
    assert look(readiness).endswith(
        "at most 6 records are left, in 1 of 2 partitions, up to the end offsets at startup"
        ", about 1m30s at the present rate"
    )


def test_missing_topic_is_reported(connections: KafkaConnections, parameters: Parameters) -> None:
    """A missing topic is reported as the reason for waiting: it does not count as read."""
    readiness = Readiness(connections, "no-such-topic", MemoryWindows(parameters, SystemClock()))
    with pytest.raises(UnreachableError, match="no partition of no-such-topic"):
        readiness.look()
    assert readiness.waiting.startswith("reading the input: the progress is not known now: Kafka lists no")
    assert not readiness.ready


@pytest.fixture
def own_kafka() -> Iterator[EmbeddedKafka]:
    """A Kafka that a test may pause."""
    with EmbeddedKafka() as server:
        yield server
        server.resume()


def test_silent_broker_is_reported(
    own_kafka: EmbeddedKafka,
    store: EmbeddedValkey,
    parameters: Parameters,
    topic: Callable[[str], str],
    eventually: Callable[..., Any],
) -> None:
    """The reader is not ready while Kafka is silent, and ready again afterwards.

    Kafka     answers    paused                       answers
    reader    ready      waits: Kafka does not …      ready
    """
    world = World(own_kafka, store, parameters, topic("visits"))
    world.create()
    reasons: list[str] = []
    with world.running(reasons.append):
        eventually(lambda: world.source.positions and reasons and reasons[-1] == "", 30)
        own_kafka.pause()
        eventually(lambda: "Kafka does not return the ends" in reasons[-1], 20)
        own_kafka.resume()
        eventually(lambda: reasons[-1] == "", 30)
    world.close()
