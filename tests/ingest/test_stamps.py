"""Records that the broker did not stamp are noticed one by one, and lost rather than counted or skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.brokers.connections import KafkaConnections
from monitor.ingest.source import InputLog
from monitor.ingest.stamps import first_run
from monitor.tools.embedded import EmbeddedKafka

TYPE = "message.timestamp.type"


class Eventually(Protocol):
    """The type of the fixture `eventually`."""

    def __call__(self, condition: Callable[[], Any], deadline_seconds: float = 10.0) -> Any:
        """The condition's first true value."""


@dataclass(frozen=True)
class Stamp:
    """A record's type of timestamp, alone."""

    timestamp_type: int


@pytest.mark.parametrize(
    ("types", "expected"),
    [("", None), ("111", None), ("0", (0, 1)), ("1101", (2, 3)), ("0011", (0, 2)), ("10010", (1, 3))],
)
def test_the_first_run_of_records_that_the_broker_did_not_stamp_is_found(
    types: str, expected: tuple[int, int] | None
) -> None:
    """0 is the producer's time, 1 the broker's."""
    assert first_run([Stamp(int(kind)) for kind in types]) == expected


class Topic:
    """A topic whose timestamp type may be changed, with a producer."""

    def __init__(self, connections: KafkaConnections, name: str) -> None:
        self.name = name
        self._admin, self._producer = connections.admin(), connections.producer()
        made = {"num_partitions": 1, "replication_factor": 1, "configs": {TYPE: "LogAppendTime"}}
        self._admin.create_topics({name: made}, wait_for_metadata=True)

    def put(self, value: bytes, kind: str) -> None:
        """Produce a record under a timestamp type; those before the topic has turned to it hold nothing."""
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self.name, configs={TYPE: kind})])
        for _ in range(200):
            if (self._send(b"") == 1_000) == (kind == "CreateTime"):
                self._send(value)
                return
        pytest.fail(f"the topic did not turn to {kind}")

    def _send(self, value: bytes) -> int:
        """The stamp that the record got; the producer's is 1,000."""
        return int(self._producer.send(self.name, value=value, timestamp_ms=1_000).get(timeout=10).timestamp)

    def close(self) -> None:
        self._admin.close()
        self._producer.close()


@pytest.fixture
def connections(kafka: EmbeddedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,))


@pytest.fixture
def visits(connections: KafkaConnections, topic: Callable[[str], str]) -> Iterator[Topic]:
    """A topic that its broker stamps."""
    with closing(Topic(connections, topic("visits"))) as made:
        yield made


def read(
    connections: KafkaConnections, group: str, name: str, eventually: Eventually, *, checked: bool
) -> tuple[list[bytes], list[int]]:
    """All values up to `end`, and where reading went on behind records that the broker did not stamp."""
    found: list[bytes] = []
    passed: list[int] = []
    source = InputLog(connections, name, group, stamped_by_brokers=checked)

    def step() -> bool:
        for partition in list(source.waiting):
            truncated = source.truncated.pop(partition, None)
            passed.extend([] if truncated is None else [truncated])
            source.resume(partition, truncated or 0)
        found.extend(value for some in source.poll(100) for value in some.values if isinstance(value, bytes))
        return found[-1:] == [b"end"]

    try:
        eventually(step, 20)
    finally:
        source.close({})
    return found, passed


def test_records_that_the_broker_did_not_stamp_are_lost_and_those_around_them_read(
    connections: KafkaConnections, visits: Topic, eventually: Eventually
) -> None:
    """Somebody turned the topic to CreateTime twice; a reader that does not look takes them all."""
    kinds = {b"a": "LogAppendTime", b"b": "CreateTime", b"c": "LogAppendTime", b"d": "CreateTime"}
    for value, kind in kinds.items():
        visits.put(value, kind)
    visits.put(b"end", "LogAppendTime")
    taken, nothing = read(connections, f"{visits.name}-taken", visits.name, eventually, checked=False)
    assert ([value for value in taken if value], nothing) == ([b"a", b"b", b"c", b"d", b"end"], [])
    found, passed = read(connections, f"{visits.name}-checked", visits.name, eventually, checked=True)
    assert [value for value in found if value] == [b"a", b"c", b"end"]
    assert len(passed) == 2
