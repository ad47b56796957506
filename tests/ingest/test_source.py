"""The input topic as a member of the group sees it, on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Protocol

import pytest

from monitor.brokers.connections import KafkaConnections
from monitor.errors import UnreachableError
from monitor.ingest.columns import Value
from monitor.ingest.source import Fetched, InputLog
from monitor.tools.embedded import EmbeddedKafka

CODECS = ["gzip", "snappy", "lz4", "zstd"]
"""All that Kafka knows."""


class Eventually(Protocol):
    """The type of the fixture `eventually`."""

    def __call__(self, condition: Callable[[], Any], deadline_seconds: float = 10.0) -> Any:
        """The condition's first true value."""


@pytest.fixture
def connections(kafka: EmbeddedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,), session_timeout_ms=2_000)


@pytest.fixture
def name(connections: KafkaConnections, topic: Callable[[str], str]) -> str:
    """A topic of two partitions."""
    made = topic("visits")
    with closing(connections.admin()) as admin:
        configs = {"message.timestamp.before.max.ms": str(2**63 - 1), "retention.ms": "-1"}
        admin.create_topics({made: {"num_partitions": 2, "replication_factor": 1, "configs": configs}})
    return made


@pytest.fixture
def put(connections: KafkaConnections, name: str) -> Iterator[Callable[..., None]]:
    """Produces a record to a partition with a timestamp in ms."""
    with closing(connections.producer()) as producer:
        yield lambda value, partition=0, stamp=1_000: producer.send(
            name, value=value, partition=partition, timestamp_ms=stamp
        ).get(timeout=10)


@pytest.fixture
def source(connections: KafkaConnections, name: str, eventually: Eventually) -> Iterator[InputLog]:
    """A member that was assigned both partitions and told nothing yet."""
    made = InputLog(connections, name, name)
    eventually(lambda: (made.poll(250), made.waiting == {0, 1})[1])
    yield made
    made.close({})


def test_a_member_that_polls_briefly_is_assigned_its_partitions_all_the_same(
    connections: KafkaConnections, topic: Callable[[str], str], eventually: Eventually
) -> None:
    """Each poll is over before a join is: kafka-python forgets joins that it began because of new metadata."""
    for _ in range(3):
        name = topic("brief")
        with closing(connections.admin()) as admin:
            made = {"num_partitions": 2, "replication_factor": 1, "configs": {}}
            admin.create_topics({name: made}, wait_for_metadata=True)
        with closing(_Closer(InputLog(connections, name, name))) as member:
            eventually(partial(is_assigned, member.source, {0, 1}), 20)


def test_partitions_that_are_added_are_assigned_to_a_member_that_polls_briefly(
    connections: KafkaConnections, topic: Callable[[str], str], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.brokers.connections.METADATA_MAX_AGE_MS", 200)
    name = topic("added")
    with closing(connections.admin()) as admin:
        made = {"num_partitions": 1, "replication_factor": 1, "configs": {}}
        admin.create_topics({name: made}, wait_for_metadata=True)
        with closing(_Closer(InputLog(connections, name, name))) as member:
            for partitions in (1, 2, 3, 4):
                if partitions > 1:
                    admin.create_partitions({name: partitions})
                eventually(partial(is_assigned, member.source, set(range(partitions))), 20)


def test_partitions_move_among_members_that_poll_briefly(
    connections: KafkaConnections, name: str, eventually: Eventually
) -> None:
    """One, two, three and again two members share two partitions; no rebalance is lost on the way."""

    def settled(members: list[InputLog], *shares: int) -> bool:
        for member in members:
            member.poll(1)
        return sorted(len(member.waiting) for member in members) == list(shares)

    first, second, third = (InputLog(connections, name, name) for _ in range(3))
    with closing(_Closer(first)), closing(_Closer(second)):
        eventually(partial(settled, [first], 2), 20)
        eventually(partial(settled, [first, second], 1, 1), 30)
        with closing(_Closer(third)):
            eventually(partial(settled, [first, second, third], 0, 1, 1), 30)
        eventually(partial(settled, [first, second], 1, 1), 30)


def is_assigned(source: InputLog, partitions: set[int]) -> bool:
    """Whether these partitions are, after one more brief poll."""
    source.poll(1)
    return source.waiting == partitions


def fetched(source: InputLog, eventually: Eventually) -> Fetched:
    found: list[Fetched] = eventually(lambda: source.poll(100))
    (only,) = found
    return only


def values_read(source: InputLog, number: int, eventually: Eventually) -> list[Value]:
    """So many values, over as many polls as it takes."""
    read: list[Value] = []

    def enough() -> bool:
        for some in source.poll(100):
            read.extend(some.values)
        return len(read) >= number

    eventually(enough)
    return read


def test_nothing_is_read_before_somebody_says_where_to_begin(source: InputLog, put: Callable[..., None]) -> None:
    put(b"a")
    assert all(source.poll(100) == [] for _ in range(3))
    assert source.waiting == {0, 1}
    assert source.reading == {}


def test_what_is_fetched_carries_values_timestamps_and_offsets(
    source: InputLog, put: Callable[..., None], eventually: Eventually
) -> None:
    for stamp, value in enumerate((b"a", b"b", b"c"), start=5):
        put(value, stamp=stamp)
    source.resume(0, 1)
    assert fetched(source, eventually) == Fetched(0, 1, 3, [b"b", b"c"], [6, 7], [1, 2])
    assert source.reading == {0: 3}
    assert source.waiting == {1}


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_read_however_their_producer_compressed_them(
    codec: str, connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """One that could not be decompressed would be tried again for ever, and nothing behind it be read."""
    values = [b"small", b"many blocks " * 30_000, b"last"]
    with closing(connections.producer(compression_type=codec, linger_ms=200)) as producer:
        sent = [producer.send(name, value=value, partition=0) for value in values]
        assert [future.get(timeout=10).offset for future in sent] == [0, 1, 2]
    source.resume(0, 0)
    assert values_read(source, len(values), eventually) == values


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_read_that_the_broker_compressed(
    codec: str, connections: KafkaConnections, topic: Callable[[str], str], eventually: Eventually
) -> None:
    """By the topic's compression.type: in the forms that Java writes, which other libraries than ours wrote."""
    name = topic("compressed")
    values = [b"small", b"many blocks " * 30_000, b"last"]
    with closing(connections.admin()) as admin:
        made = {"num_partitions": 1, "replication_factor": 1, "configs": {"compression.type": codec}}
        admin.create_topics({name: made}, wait_for_metadata=True)
    with closing(connections.producer()) as producer:
        for value in values:
            producer.send(name, value=value, partition=0).get(timeout=10)
    with closing(_Closer(InputLog(connections, name, name))) as member:
        eventually(partial(is_assigned, member.source, {0}), 20)
        member.source.resume(0, 0)
        assert values_read(member.source, len(values), eventually) == values


def test_a_parked_partition_is_read_again_from_where_it_is_told(
    source: InputLog, put: Callable[..., None], eventually: Eventually
) -> None:
    source.resume(0, 0)
    source.resume(1, 0)
    put(b"a")
    fetched(source, eventually)
    source.park([0])
    assert source.waiting == {0}
    put(b"b")
    put(b"other", partition=1)
    assert fetched(source, eventually).partition == 1
    source.resume(0, 0)
    assert fetched(source, eventually).values == [b"a", b"b"]


def test_a_partition_that_is_not_assigned_cannot_be_told_to_go_on(source: InputLog) -> None:
    source.waiting.add(7)
    source.resume(7, 0)
    assert 7 not in source.waiting
    assert 7 not in source.reading


def test_bounds_and_offsets_by_time(source: InputLog, put: Callable[..., None]) -> None:
    """Instants are microseconds: 10,000 ms is 10,000,000."""
    for stamp in (10_000, 20_000, 30_000):
        put(b"v", stamp=stamp)
    assert source.bounds(0) == (0, 3)
    assert source.bounds(1) == (0, 0)
    assert source.offset_at(0, 20_000_000) == 1
    assert source.offset_at(0, 20_000_001) == 1
    assert source.offset_at(0, 20_001_000) == 2
    assert source.offset_at(0, 30_001_000) is None
    assert source.offset_at(0, -5) == 0


def test_lag_is_what_lies_between_the_position_and_the_end(
    source: InputLog, put: Callable[..., None], eventually: Eventually
) -> None:
    for _ in range(4):
        put(b"v")
    source.resume(0, 0)
    assert fetched(source, eventually).end == 4
    assert source.lag() == {0: 0}
    source._next[0] = 1
    assert source.lag() == {0: 3}


def test_a_position_that_has_left_the_log_is_an_error_that_says_which_kafka(
    source: InputLog, eventually: Eventually, kafka: EmbeddedKafka
) -> None:
    source.resume(0, 50)

    def refused() -> str:
        try:
            source.poll(100)
        except UnreachableError as error:
            return str(error)
        return ""

    assert eventually(refused).startswith(f"Kafka at {kafka.bootstrap_servers} cannot be used: ")


def test_leaving_hands_the_partitions_to_the_other_member(
    connections: KafkaConnections, source: InputLog, name: str, eventually: Eventually
) -> None:
    other = InputLog(connections, name, name)
    with closing(_Closer(other)):
        eventually(lambda: (source.poll(250), other.poll(250), len(source.waiting) == len(other.waiting) == 1)[2], 30)
        other.close({})
        eventually(lambda: (source.poll(250), len(source.waiting) == 2)[1], 30)


class _Closer:
    """Lets `closing` close a member."""

    def __init__(self, source: InputLog) -> None:
        self.source = source

    def close(self) -> None:
        self.source.close({})
