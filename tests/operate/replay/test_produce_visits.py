"""Lines become records on a real Kafka, stamped with the time of their report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from monitor.errors import ReplayError
from monitor.kafka.connections import KafkaConnections
from monitor.operate.replay.produce_visits import BAD_LINE_BYTES, BATCH_VISITS, Feed
from monitor.operate.replay.read_visits import BAD_REPORT_TIME, Line
from tests.kit.topics import create_topic, read_topic
from tests.shared_kafka import SharedKafka


@pytest.fixture
def connections(kafka: SharedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,))


@pytest.fixture
def name(connections: KafkaConnections, topic: Callable[[str], str]) -> str:
    created = topic("fed")
    create_topic(connections, created)
    return created


@pytest.fixture
def feed(connections: KafkaConnections, name: str) -> Iterator[Callable[[list[Line]], Feed]]:
    opened: list[Feed] = []

    def open_feed(lines: list[Line]) -> Feed:
        opened.append(Feed(connections, name, lines))
        return opened[-1]

    yield open_feed
    for feed in opened:
        feed.close()


def line(second: int, number: int, text: str = "", *, is_visit: bool = True) -> Line:
    return Line(second * 1_000_000, number, (text or json.dumps({"n": number})).encode(), is_visit)


def test_feed_until_an_instant(connections: KafkaConnections, name: str, feed: Callable[[list[Line]], Feed]) -> None:
    """Exactly the lines reported before an instant are in Kafka."""
    lines = feed([line(1, 0), line(2, 1), line(3, 2)])
    assert lines.produce_until(2_000_000) == 1
    records = read_topic(connections.bootstrap_servers, name)
    assert [record.timestamp for record in records] == [1_000]
    assert lines.produce_until(2_000_001) == 1
    assert lines.produce_until(9_000_000) == 1
    assert lines.produce_until(99_000_000) == 0
    records = read_topic(connections.bootstrap_servers, name)
    assert [(record.timestamp, json.loads(record.value)) for record in records] == [
        (1_000, {"n": 0}),
        (2_000, {"n": 1}),
        (3_000, {"n": 2}),
    ]


def test_batches_and_bad_lines(connections: KafkaConnections, name: str, feed: Callable[[list[Line]], Feed]) -> None:
    """Visits of one instant share a record; an invalid line has its own."""
    lines = [line(1, 0), line(1, 1), line(1, 2, "{no json", is_visit=False), line(1, 3), line(2, 4)]
    assert feed(lines).produce_until(9_000_000) == 5
    records = read_topic(connections.bootstrap_servers, name)
    assert [record.value for record in records] == [
        b'{"visits":[{"n": 0},{"n": 1}]}',
        b"{no json",
        b'{"n": 3}',
        b'{"n": 4}',
    ]


def test_batches_are_bounded(connections: KafkaConnections, name: str, feed: Callable[[list[Line]], Feed]) -> None:
    """A record has at most 500 visits."""
    feed([line(1, n) for n in range(BATCH_VISITS + 1)]).produce_until(9_000_000)
    records = read_topic(connections.bootstrap_servers, name)
    assert [len(json.loads(record.value).get("visits", [0])) for record in records] == [500, 1]


def test_long_bad_line_is_cut(connections: KafkaConnections, name: str, feed: Callable[[list[Line]], Feed]) -> None:
    """An invalid line that is too long for a record is cut, and is then no JSON."""
    long = line(1, 0, "x" * 3_000_000, is_visit=False)._replace(fault=BAD_REPORT_TIME)
    lines = feed([long, line(1, 1)])
    lines.produce_until(9_000_000)
    assert lines.refusals.reasons == {"not_json": 1}
    records = read_topic(connections.bootstrap_servers, name)
    assert [record.value for record in records] == [
        b"x" * BAD_LINE_BYTES,
        b'{"n": 1}',
    ]


def test_refusal_is_an_error(feed: Callable[[list[Line]], Feed], name: str) -> None:
    """A record that Kafka refuses is an error."""
    with pytest.raises(ReplayError, match=f"Kafka refused 1 records for {name}"):
        feed([line(1, 0, "x" * 2_000_000)]).produce_until(9_000_000)
