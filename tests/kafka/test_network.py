"""Corrections of kafka-python's clients: a producer waits, and does not spin, while a leader or a broker is missing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka.admin import NewTopic
from kafka.cluster import ClusterMetadata
from kafka.producer.sender import Sender

from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.network import ProducersNetworkClient
from monitor.operate.servers import EmbeddedKafka

pytestmark = pytest.mark.servers

RecordCalls = Callable[[type, str], list[list[Any]]]

ROUNDS_FOR_A_REQUEST = 100
"""More than a sender needs for one request. Without the corrections, it makes thousands of rounds meanwhile."""


@pytest.fixture
def own_kafka() -> Iterator[EmbeddedKafka]:
    """A Kafka that a test may stop."""
    with EmbeddedKafka() as server:
        yield server


@pytest.fixture
def record_calls(monkeypatch: pytest.MonkeyPatch) -> RecordCalls:
    """A function that records the arguments of the calls of a method from now on."""

    def start(owner: type, name: str) -> list[list[Any]]:
        calls: list[list[Any]] = []
        method = getattr(owner, name)

        def record(instance: Any, *arguments: Any, **named: Any) -> Any:
            calls.append([*arguments, *named.values()])
            return method(instance, *arguments, **named)

        monkeypatch.setattr(owner, name, record)
        return calls

    return start


def test_producer_waits_for_a_leader(
    connections: KafkaConnections,
    topic: Callable[[str], str],
    eventually: Callable[..., Any],
    record_calls: RecordCalls,
) -> None:
    """While a topic is deleted, the sender makes a few rounds for each request of metadata."""
    name = topic("deleted")
    with closing(connections.create_admin()) as admin, closing(connections.create_producer()) as producer:
        admin.create_topics([NewTopic(name, 1, 1)])
        producer.send(name, b"before").get(10)
        admin.delete_topics([name])
        pending = producer.send(name, b"after")
        requests, rounds = record_calls(ClusterMetadata, "metadata_request"), record_calls(Sender, "run_once")
        eventually(lambda: len(requests) >= 5, 20)
        assert len(rounds) < ROUNDS_FOR_A_REQUEST * len(requests)
        admin.create_topics([NewTopic(name, 1, 1)])
        assert pending.get(20).topic == name


def test_producer_waits_for_a_broker(
    own_kafka: EmbeddedKafka, topic: Callable[[str], str], eventually: Callable[..., Any], record_calls: RecordCalls
) -> None:
    """While a broker accepts connections but does not answer, each round of the sender waits for a tenth of a second.

    broker   answers   killed   accepts, silent   answers
    sender   sends     waits    waits             sends
    """
    name = topic("visits")
    connections = KafkaConnections((own_kafka.bootstrap_servers,))
    with closing(connections.create_admin()) as admin, closing(connections.create_producer()) as producer:
        admin.create_topics([NewTopic(name, 1, 1)])
        producer.send(name, b"before").get(10)
        own_kafka.kill()
        host, port = own_kafka.bootstrap_servers.split(":")
        with socket.create_server((host, int(port))) as silent:
            pending = producer.send(name, b"after")
            with silent.accept()[0]:
                polls = record_calls(ProducersNetworkClient, "poll")
                eventually(lambda: len(polls) >= 10, 20)
                assert sum(timeout_ms for (timeout_ms,) in polls) >= 500
        own_kafka.restart()
        assert pending.get(30).topic == name
