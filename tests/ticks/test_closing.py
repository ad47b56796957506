"""Closing while a broker keeps its connections and does not answer, on a real Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.operate.servers import EmbeddedKafka
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.loop import TickLoop
from tests.kit.topics import create_topic
from tests.ticks.worlds import World
from tests.topic_fixtures import read_topic_id

LIMIT_SECONDS: Final = 0.5
SLACK_SECONDS: Final = 3.0  # on a busy machine; a request that hangs fails after ten seconds


@pytest.fixture
def own_kafka(kafka: object) -> Iterator[EmbeddedKafka]:
    """A Kafka that a test may pause."""
    with EmbeddedKafka() as server:
        yield server
        server.resume()


@pytest.fixture
def input_topic(own_kafka: EmbeddedKafka) -> Iterator[InputTopic]:
    """The input topic of a service, which has read its end offsets once."""
    connections = KafkaConnections((own_kafka.bootstrap_servers,))
    for name in ("visits", "alerts"):
        create_topic(connections, name)
    with closing(connections.create_admin()) as admin:
        topic_id, ledger_id = (read_topic_id(admin, name) for name in ("visits", "alerts"))
    with closing(InputTopic(connections, "visits", topic_id, ("alerts", ledger_id))) as topic:
        assert topic.read_end_offsets() == {0: 0}
        yield topic


def has_stopped(pid: int) -> bool:
    """Return whether all threads of a process have stopped, after SIGSTOP."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def test_closing_takes_no_longer_than_its_limit(
    own_kafka: EmbeddedKafka,
    input_topic: InputTopic,
    make_world: Callable[..., World],
    in_thread: Callable[..., Any],
    eventually: Callable[..., Any],
) -> None:
    """A loop whose topic check hangs closes within its limit, and the check ends, because its client is closed."""
    world = make_world()
    loop = TickLoop(replace(world.context, input_topic=input_topic), world.take_over, cast("Any", world), 1)
    own_kafka.pause()
    eventually(lambda: has_stopped(own_kafka.pid))
    checking = in_thread(loop.check_topics)
    eventually(input_topic._lock.locked)  # noqa: SLF001  # nothing else shows that a request waits
    began = time.monotonic()
    loop.close(LIMIT_SECONDS)
    assert time.monotonic() - began < LIMIT_SECONDS + SLACK_SECONDS
    checking.join(SLACK_SECONDS)
    assert not checking.is_alive()


def test_closed_topic_opens_no_client(input_topic: InputTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was closed, the input topic refuses requests, and opens no other client."""
    input_topic.close()
    opened: list[KafkaConnections] = []
    monkeypatch.setattr(KafkaConnections, "create_admin", opened.append)
    for request in (
        lambda: input_topic.find_undecided([0], 7, 0),
        input_topic.read_end_offsets,
        input_topic.require_same,
    ):
        with pytest.raises(UnreachableError, match="closed"):
            request()
    assert opened == []
