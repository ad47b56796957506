"""Records without a broker timestamp are detected one by one, and count as lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import zstandard
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.ingest.poll_input import InputLog, find_unstamped
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batches import FetchedRecord
from monitor.kafka.kafka_python_3_0.fetcher import FetchState
from monitor.operate.check.live import InputProbe
from monitor.time.instants import HOUR
from tests.conftest import Eventually
from tests.ingest import crafted
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka

TYPE = "message.timestamp.type"


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
def connections(kafka: SharedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,))


@pytest.fixture
def visits(connections: KafkaConnections, topic: Callable[[str], str]) -> Iterator[Topic]:
    """A topic with broker timestamps."""
    with closing(Topic(connections, topic("visits"))) as created:
        yield created


def read(
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
    taken, nothing = read(connections, f"{visits.name}-taken", visits.name, eventually, checked=False)
    assert ([value for value in taken if value], nothing) == ([b"a", b"b", b"c", b"d", b"end"], [])
    values, passed = read(connections, f"{visits.name}-checked", visits.name, eventually, checked=True)
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
    values, passed = read(connections, f"{visits.name}-broken", visits.name, eventually, checked=True)
    assert [value for value in values if value] == [b"a", b"end"]
    assert not [offset for offset in passed if begin < offset < begin + 20]
