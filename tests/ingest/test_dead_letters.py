"""The writer of dead letters on a real Kafka: durable, complete, and usable after a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from monitor.errors import UnreachableError
from monitor.ingest.dead_letters import OVERHEAD_BYTES, DeadLetter, DeadLetterTopic, Refusal
from monitor.kafka.connections import KafkaConnections
from monitor.records.visit_contract import Fault, Reason
from tests.kit.topics import create_topic, read_topic
from tests.shared_kafka import SharedKafka

LIMIT = 65_536


def letter(payload: bytes, offset: int = 0, index: int | None = None) -> DeadLetter:
    return DeadLetter(Refusal(0, index, Fault(Reason.NOT_JSON, "value: expected strict JSON"), payload), 3, offset)


@pytest.fixture
def connections(kafka: SharedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,))


@pytest.fixture
def name(connections: KafkaConnections, topic: Callable[[str], str]) -> str:
    """A topic with records of at most 64 KiB."""
    topic_name = topic("dead")
    create_topic(connections, topic_name, configs={"max.message.bytes": str(LIMIT)})
    return topic_name


@pytest.fixture
def writer(connections: KafkaConnections, name: str) -> Iterator[DeadLetterTopic]:
    with closing(DeadLetterTopic(connections, name, "visits", LIMIT)) as writer:
        yield writer


def test_put_is_durable(connections: KafkaConnections, name: str, writer: DeadLetterTopic) -> None:
    """When `put` returns, the dead letters are in the topic."""
    writer.put([letter(b"whole", 17), letter(b'{"person_id":"p"}', 18, 4)])
    whole, visit = read_topic(connections.bootstrap_servers, name)
    assert (whole.key, whole.value) == (None, b"whole")
    assert dict(whole.headers) == {
        "reason": b"not_json",
        "error": b"value: expected strict JSON",
        "topic": b"visits",
        "partition": b"3",
        "offset": b"17",
        "index": b"-",
    }
    assert dict(visit.headers)["index"] == b"4"


def test_many_large_dead_letters(connections: KafkaConnections, name: str, writer: DeadLetterTopic) -> None:
    """Large dead letters do not form batches that exceed the topic's limit."""
    writer.put([letter(b"x" * size, size) for size in range(20_000, 60_000, 1_000)])
    records = read_topic(connections.bootstrap_servers, name)
    assert [len(record.value) for record in records] == list(range(20_000, 60_000, 1_000))


def test_dead_letter_at_the_limit(connections: KafkaConnections, name: str, writer: DeadLetterTopic) -> None:
    """A truncated value fills the limit minus the reserve for headers."""
    writer.put([letter(b"x" * LIMIT)])
    (record,) = read_topic(connections.bootstrap_servers, name)
    assert record.value == b"x" * (LIMIT - OVERHEAD_BYTES)
    assert dict(record.headers)["truncated"] == b"true"


def test_writer_recovers_from_refusal(connections: KafkaConnections, topic: Callable[[str], str]) -> None:
    """A refused dead letter raises an error. The writer works again when the topic's limit is raised."""
    name = topic("small")
    create_topic(connections, name, configs={"max.message.bytes": str(2_048)})
    with closing(DeadLetterTopic(connections, name, "visits", LIMIT)) as writer:
        with pytest.raises(UnreachableError, match="Kafka at 127"):
            writer.put([letter(b"x" * 30_000)])
        writer.put([letter(b"y" * 100)])
    records = read_topic(connections.bootstrap_servers, name)
    assert [record.value for record in records] == [b"y" * 100]


def test_missing_topic(
    connections: KafkaConnections, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the topic, `put` raises an error."""
    monkeypatch.setattr("monitor.kafka.connections.REQUEST_TIMEOUT_MS", 500)
    with (
        closing(DeadLetterTopic(connections, topic("none"), "visits", LIMIT)) as writer,
        pytest.raises(UnreachableError),
    ):
        writer.put([letter(b"x")])
