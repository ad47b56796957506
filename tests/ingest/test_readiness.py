"""When an instance is ready: on a real Kafka, with progress that the test sets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from monitor.brokers.connections import KafkaConnections
from monitor.errors import UnreachableError
from monitor.ingest.readiness import Readiness
from monitor.public.clock import SystemClock
from monitor.public.parameters import Parameters
from monitor.tools.embedded import EmbeddedKafka
from tests.windows.memory import MemoryWindows


@pytest.fixture
def connections(kafka: EmbeddedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,))


@pytest.fixture
def produced(connections: KafkaConnections, topic: Callable[[str], str]) -> tuple[str, Callable[[int, int], None]]:
    """A topic of two partitions, and what produces so many records to one of them."""
    name = topic("visits")
    with closing(connections.admin()) as admin:
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)

    def produce(partition: int, number: int) -> None:
        with closing(connections.producer()) as producer:
            for _ in range(number):
                producer.send(name, value=b"v", partition=partition).get(timeout=10)

    return name, produce


def look(readiness: Readiness) -> str:
    """What it waits for, after one more look."""
    readiness.look()
    return readiness.waiting


def test_it_is_ready_once_all_shards_have_reached_where_all_partitions_ended_when_it_first_looked(
    connections: KafkaConnections, parameters: Parameters, produced: tuple[str, Callable[[int, int], None]]
) -> None:
    """What comes later does not matter, nor whether progress goes back later."""
    name, produce = produced
    windows = MemoryWindows(parameters, SystemClock())
    readiness = Readiness(connections, name, windows)
    assert "not known yet" in readiness.waiting
    produce(0, 3)
    assert "3 records at most until it has reached where 2 of 2 partitions ended" in look(readiness)
    windows.begin(0, 1, 0)
    assert "2 records at most until it has reached where 2 of 2 partitions ended" in look(readiness)
    produce(0, 1)
    produce(1, 1)
    windows.restart(0, 3, 0)
    assert "0 records at most until it has reached where 1 of 2 partitions ended" in look(readiness)
    windows.begin(1, 0, 0)
    assert look(readiness) == ""
    windows.restart(0, 0, 0)
    assert look(readiness) == ""


def test_one_shard_that_lags_keeps_it_from_being_ready(
    connections: KafkaConnections, parameters: Parameters, produced: tuple[str, Callable[[int, int], None]]
) -> None:
    """The least progress counts."""

    class Lagging(MemoryWindows):
        """The last shard knows nothing of partition 0."""

        def progress(self) -> list[dict[int, int]]:
            *others, last = super().progress()
            return [*others, {partition: reached for partition, reached in last.items() if partition}]

    name, produce = produced
    produce(0, 3)
    windows = Lagging(parameters, SystemClock())
    for partition, end in ((0, 3), (1, 0)):
        windows.begin(partition, end, 0)
    assert "3 records at most until it has reached where 1 of 2 partitions ended" in look(
        Readiness(connections, name, windows)
    )


def test_what_can_not_be_asked_is_told_as_what_is_waited_for(
    connections: KafkaConnections, parameters: Parameters
) -> None:
    """A topic that is not there is not one that is read to its end."""
    readiness = Readiness(connections, "no-such-topic", MemoryWindows(parameters, SystemClock()))
    with pytest.raises(UnreachableError, match="no partition of no-such-topic"):
        readiness.look()
    assert readiness.waiting.startswith(
        "reading the input: how far it is read is not known now: the brokers tell of no"
    )
    assert not readiness.ready
