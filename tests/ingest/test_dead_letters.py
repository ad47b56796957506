"""Bad records and visits become dead letters, which are durable and complete, and all others count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from monitor.errors import UnreachableError
from monitor.ingest.dead_letters import OVERHEAD_BYTES, DeadLetter, DeadLetterTopic, Refusal
from monitor.kafka.connections import KafkaConnections
from monitor.records.visit_contract import Fault, Reason
from tests.faults.bad_records import KINDS, make_bad_records
from tests.ingest.world import NOW_SLOT, Drain, World
from tests.kit.topics import create_topic, read_topic
from tests.shared_kafka import SharedKafka

LIMIT = 65_536
BAD = [
    bad._replace(value=bad.value and bad.value.replace(b"edge-0", b"inn"))
    for bad, _ in zip(make_bad_records("x"), KINDS, strict=False)
]


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


@pytest.mark.promise(25)
def test_bad_records(world: World, drain: Drain, name: str) -> None:
    """Each bad record is one dead letter with reason and position, and the good records around it count."""
    world.create()
    for number, bad in enumerate(BAD):
        world.put([f"good-{number}"])
        world.put_raw(bad.value)
    world.put(["good-last"])
    with closing(DeadLetterTopic(world.connections, name, world.topic, LIMIT)) as writer:
        drain(world, world.reader(writer))
    letters = [dict(record.headers) for record in read_topic(world.connections.bootstrap_servers, name)]
    assert [letter["offset"].decode() for letter in letters] == [str(2 * number + 1) for number in range(len(BAD))]
    assert [{(letter["index"].decode(), letter["reason"].decode())} for letter in letters] == [
        bad.letters for bad in BAD
    ]
    assert {(letter["topic"].decode(), letter["partition"]) for letter in letters} == {(world.topic, b"0")}
    assert world.count("inn", NOW_SLOT) == len(BAD) + 1
    assert world.seen.fates["applied"] == len(BAD) + 1
    assert world.seen.fates["dead_letter"] == len(BAD) == sum(world.seen.reasons.values())


@pytest.mark.promise(26)
def test_fates_add_up(world: World, drain: Drain) -> None:
    """Every visit has one fate, and fates add up. The delay of each valid visit is seen, also if it is expired."""
    #   slot       … 41      | 43 …             45 (now)   46   47
    #   inn, W = 3:  expired | applied from slot 43 on     F    refused      42 has an evening, counted until 45
    world.create()
    world.put_raw(world.visit("a", "inn", 45))
    world.put_raw(world.visit("b", "inn", 43))
    world.put_raw(world.visit("c", "inn", 41))
    world.put_raw(world.visit("d", "inn", 46))
    world.put_raw(world.visit("e", "inn", 47))
    world.put_raw(world.visit("f", "farm", 44))
    world.put_raw(world.visit("g", "駅", 38))
    world.put_raw(world.visit("h", "attic", 45))
    world.put_raw(world.visit("i", "駅", 42), slot=46)
    drain(world, world.reader())
    assert world.seen.fates == {"applied": 4, "too_late": 1, "expired": 1, "not_watched": 1, "dead_letter": 2}
    assert world.seen.fates.total() == world.seen.records == 9
    within = {1: 3, 3: 4, 6: 6, 12: 7, math.inf: 7}  # those of b, c, f, g and i are 10 minutes less than 2, 4, 1, 7, 4
    assert {hours: world.seen.delays[3600 * hours] for hours in within} == within
    assert world.seen.delay_seconds == 3600 * (2 + 4 + 1 + 7 + 4) - 5 * 600
