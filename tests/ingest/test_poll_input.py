"""The input topic as a member of the group reads it, on a real Kafka, also records without a broker timestamp."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

import pytest
import zstandard
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.errors import UnreachableError
from monitor.ingest.dead_letters import Value
from monitor.ingest.poll_input import Fetched, InputLog, find_unstamped
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batches import FetchedRecord
from monitor.kafka.kafka_python_3_0.fetcher import FetchState
from monitor.operate.check.live import InputProbe
from monitor.time.instants import HOUR
from tests.conftest import Eventually
from tests.ingest import crafted
from tests.ingest.world import BY_PRODUCERS
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka

TYPE = "message.timestamp.type"


@pytest.fixture
def connections(kafka: SharedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,), session_timeout_ms=2_000)


@pytest.fixture
def name(connections: KafkaConnections, topic: Callable[[str], str]) -> str:
    """A topic of two partitions."""
    topic_name = topic("visits")
    create_topic(connections, topic_name, 2)
    return topic_name


@pytest.fixture
def put(connections: KafkaConnections, name: str) -> Iterator[Callable[..., None]]:
    """A function that produces a record to a partition with a timestamp in ms."""
    with closing(connections.create_producer()) as producer:
        yield lambda value, partition=0, stamp=1_000: producer.send(
            name, value=value, partition=partition, timestamp_ms=stamp
        ).get(timeout=10)


@pytest.fixture
def source(connections: KafkaConnections, name: str, eventually: Eventually) -> Iterator[InputLog]:
    """A member with both partitions assigned, and no start offsets yet."""
    with join(connections, name) as member:
        eventually(lambda: (member.poll(250), member.waiting == {0, 1})[1])
        yield member


@contextmanager
def join(connections: KafkaConnections, name: str) -> Iterator[InputLog]:
    """Join the group of a topic's name, and leave it."""
    member = InputLog(connections, name, name, reading=BY_PRODUCERS())
    try:
        yield member
    finally:
        member.close({})


def test_short_polls_get_added_partitions(
    connections: KafkaConnections, topic: Callable[[str], str], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member with short polls is assigned partitions, and added ones. kafka-python alone forgets joins."""
    monkeypatch.setattr("monitor.kafka.connections.METADATA_MAX_AGE_MS", 200)
    name = topic("added")
    create_topic(connections, name)
    with closing(connections.create_admin()) as admin, join(connections, name) as member:
        for partitions in (1, 2, 3, 4):
            if partitions > 1:
                admin.create_partitions({name: partitions})
            eventually(partial(is_assigned, member, set(range(partitions))), 20)


def test_short_polls_rebalance(connections: KafkaConnections, name: str, eventually: Eventually) -> None:
    """One, two, three and again two members with short polls share two partitions; no rebalance is lost."""

    def settled(members: list[InputLog], *shares: int) -> bool:
        for member in members:
            member.poll(1)
        return sorted(len(member.waiting) for member in members) == list(shares)

    with join(connections, name) as first, join(connections, name) as second:
        eventually(partial(settled, [first], 2), 20)
        eventually(partial(settled, [first, second], 1, 1), 30)
        with join(connections, name) as third:
            eventually(partial(settled, [first, second, third], 0, 1, 1), 30)
        eventually(partial(settled, [first, second], 1, 1), 30)


def is_assigned(source: InputLog, partitions: set[int]) -> bool:
    """Poll briefly, and return whether these partitions are assigned."""
    source.poll(1)
    return source.waiting == partitions


def fetch(source: InputLog, eventually: Eventually) -> Fetched:
    fetched: list[Fetched] = eventually(lambda: source.poll(100))
    (only,) = fetched
    return only


def read_values(source: InputLog, number: int, eventually: Eventually) -> list[Value]:
    """Return `number` values, after as many polls as necessary."""
    read: list[Value] = []

    def enough() -> bool:
        for some in source.poll(100):
            read.extend(record.value for record in some.records)
        return len(read) >= number

    eventually(enough)
    return read


def test_fetched_records(source: InputLog, put: Callable[..., None], eventually: Eventually) -> None:
    """Fetched records have values, timestamps and offsets."""
    for stamp, value in enumerate((b"a", b"b", b"c"), start=5):
        put(value, stamp=stamp)
    source.resume(0, 1)
    assert fetch(source, eventually) == Fetched(0, 1, 3, [FetchedRecord(1, 6, b"b"), FetchedRecord(2, 7, b"c")])
    assert source.positions == {0: 3}
    assert source.waiting == {1}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_of_brokers(
    codec: str, connections: KafkaConnections, topic: Callable[[str], str], eventually: Eventually
) -> None:
    """Batches that the broker compressed (the topic's compression.type) are read.

    Brokers compress with Java's libraries.
    """
    name = topic("compressed")
    values = [b"small", b"many blocks " * 30_000, b"last"]
    create_topic(connections, name, configs={"compression.type": codec})
    with closing(connections.create_producer()) as producer:
        for value in values:
            producer.send(name, value=value, partition=0).get(timeout=10)
    with join(connections, name) as member:
        eventually(partial(is_assigned, member, {0}), 20)
        member.resume(0, 0)
        assert read_values(member, len(values), eventually) == values


def test_parked_partition_resumes(source: InputLog, put: Callable[..., None], eventually: Eventually) -> None:
    """A parked partition is read from the offset that `resume` sets."""
    source.resume(0, 0)
    source.resume(1, 0)
    put(b"a")
    fetch(source, eventually)
    source.park([0])
    assert source.waiting == {0}
    put(b"b")
    put(b"other", partition=1)
    assert fetch(source, eventually).partition == 1
    source.resume(0, 0)
    assert [record.value for record in fetch(source, eventually).records] == [b"a", b"b"]


def test_resume_without_assignment(source: InputLog) -> None:
    """`resume` ignores a partition that is not assigned."""
    source.waiting.add(7)
    source.resume(7, 0)
    assert 7 not in source.waiting
    assert 7 not in source.positions


def test_bounds_and_stamps(source: InputLog, put: Callable[..., None]) -> None:
    """Bounds and timestamps are those of the log. Instants are in µs: 10,000 ms is 10,000,000."""
    for stamp in (10_000, 20_000, 30_000):
        put(b"v", stamp=stamp)
    assert source.read_bounds(0) == (0, 3)
    assert source.read_bounds(1) == (0, 0)
    assert [source.read_stamp(0, offset, 3) for offset in (2, 0, 1)] == [30_000_000, 10_000_000, 20_000_000]
    assert source.read_stamp(0, 3, 3) is None


def test_position_outside_the_log(source: InputLog, eventually: Eventually, kafka: SharedKafka) -> None:
    """A position outside the log raises an error with Kafka's address."""
    source.resume(0, 50)

    def refused() -> str:
        try:
            source.poll(100)
        except UnreachableError as error:
            return str(error)
        return ""

    assert eventually(refused).startswith(f"Kafka at {kafka.bootstrap_servers} cannot be used: ")


@pytest.mark.parametrize(
    ("stamped", "expected"),
    [("", None), ("111", None), ("0", (0, 1)), ("1101", (2, 3)), ("0011", (0, 2)), ("10010", (1, 3))],
)
def test_find_unstamped(stamped: str, expected: tuple[int, int] | None) -> None:
    """The first run of records without a stamp is found; 1 is a record with a stamp, which may be the instant 0."""
    assert find_unstamped([FetchedRecord(0, 0 if one == "1" else None, b"") for one in stamped]) == expected


class Topic:
    """A topic with a changeable timestamp type, and a producer."""

    def __init__(self, connections: KafkaConnections, name: str) -> None:
        self.name = name
        self._admin, self._producer = connections.create_admin(), connections.create_producer()
        create_topic(connections, name, configs={TYPE: "LogAppendTime"})

    def put(self, value: bytes, kind: str) -> None:
        """Produce a record with a timestamp type; until the topic has changed to it, send empty records."""
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self.name, configs={TYPE: kind})])
        for _ in range(200):
            if (self._send(b"") == 1_000) == (kind == "CreateTime"):
                self._send(value)
                return
        pytest.fail(f"the topic did not turn to {kind}")

    def _send(self, value: bytes) -> int:
        """Send a record with the timestamp 1,000, and return the timestamp that it got."""
        return int(self._producer.send(self.name, value=value, timestamp_ms=1_000).get(timeout=10).timestamp)

    def close(self) -> None:
        self._admin.close()
        self._producer.close()


@pytest.fixture
def visits(connections: KafkaConnections, topic: Callable[[str], str]) -> Iterator[Topic]:
    """A topic with broker timestamps."""
    with closing(Topic(connections, topic("visits"))) as created:
        yield created


def read_all(
    connections: KafkaConnections, group: str, name: str, eventually: Eventually, *, checked: bool
) -> tuple[list[bytes], list[int]]:
    """Return all values up to `end`, and the offsets after records without a broker timestamp."""
    values: list[bytes] = []
    passed: list[int] = []
    source = InputLog(connections, name, group, reading=FetchState(stamped_by_brokers=checked))

    def step() -> bool:
        for partition in list(source.waiting):
            truncated = source.truncated.pop(partition, None)
            passed.extend([] if truncated is None else [truncated])
            source.resume(partition, truncated or 0)
        values.extend(
            record.value for fetch in source.poll(100) for record in fetch.records if isinstance(record.value, bytes)
        )
        return values[-1:] == [b"end"]

    try:
        eventually(step, 20)
    finally:
        source.close({})
    return values, passed


@pytest.mark.promise(36)
def test_unstamped_records_are_lost(connections: KafkaConnections, visits: Topic, eventually: Eventually) -> None:
    """Records without a broker timestamp are lost, and the others are read. The topic was set to CreateTime twice."""
    kinds = {b"a": "LogAppendTime", b"b": "CreateTime", b"c": "LogAppendTime", b"d": "CreateTime"}
    for value, kind in kinds.items():
        visits.put(value, kind)
    visits.put(b"end", "LogAppendTime")
    taken, nothing = read_all(connections, f"{visits.name}-taken", visits.name, eventually, checked=False)
    assert ([value for value in taken if value], nothing) == ([b"a", b"b", b"c", b"d", b"end"], [])
    values, passed = read_all(connections, f"{visits.name}-checked", visits.name, eventually, checked=True)
    assert [value for value in values if value] == [b"a", b"c", b"end"]
    assert len(passed) == 2


@pytest.mark.promise(6)
def test_producers_time_is_no_stamp(connections: KafkaConnections, visits: Topic) -> None:
    """For a record between two others that a producer stamped, no instant is returned; for the others, about now."""
    visits.put(b"a", "LogAppendTime")
    visits.put(b"b", "CreateTime")
    visits.put(b"c", "LogAppendTime")
    with closing(InputProbe(connections, visits.name, "", "check")) as probe:
        first, end = probe.read_bounds(0)
        stamps = [probe.read_stamp(0, offset, end) for offset in range(first, end)]
    begin, after = stamps.index(None), end - stamps[::-1].index(None)
    assert set(stamps[begin:after]) == {None}
    now = time.time_ns() // 1_000
    others = [stamp for stamp in stamps[:begin] + stamps[after:] if stamp is not None]
    assert len(others) >= 3
    assert all(now - HOUR < stamp <= now + HOUR for stamp in others)


@pytest.mark.promise(36)
def test_broken_batch_is_passed_at_once(connections: KafkaConnections, visits: Topic, eventually: Eventually) -> None:
    """The unreadable rest of a batch that a producer stamped is lost as a whole, not record by record."""
    visits.put(b"a", "LogAppendTime")
    visits.put(b"b", "CreateTime")
    bodies = [crafted.record(b"{}", delta, off=int(delta == 1)) for delta in range(20)]
    broken = crafted.batch(zstandard.compress(b"".join(bodies)), 20, crafted.ZSTD)
    begin = crafted.produce(connections, visits.name, broken)
    visits.put(b"end", "LogAppendTime")
    values, passed = read_all(connections, f"{visits.name}-broken", visits.name, eventually, checked=True)
    assert [value for value in values if value] == [b"a", b"end"]
    assert not [offset for offset in passed if begin < offset < begin + 20]
