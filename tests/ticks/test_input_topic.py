"""End offsets of the input topic, checks of both topics, and closing while a broker hangs, on a real Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from kafka import OffsetSpec, TopicPartition
from kafka.errors import KafkaTimeoutError

from monitor.errors import InputChangedError, LedgerChangedError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedKafka
from monitor.ticks.collect_answers import Decision
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.loop import TickLoop
from monitor.ticks.owner import LedgerTopic, Owner
from monitor.time.clock import SteppedClock
from tests.ingest import crafted
from tests.kit.topics import create_topic, recreate_topic
from tests.ticks.deciding import decide
from tests.ticks.worlds import World, reading_instant
from tests.topic_fixtures import read_topic_id

Open = Callable[..., tuple[str, InputTopic]]
Put = Callable[[str, int, int], None]
LIMIT_SECONDS: Final = 0.5
SLACK_SECONDS: Final = 3.0  # on a busy machine; a request that hangs fails after ten seconds


@pytest.fixture
def ledger(make_topic: Callable[..., tuple[str, str]]) -> tuple[str, str]:
    """The output topic and its id."""
    return make_topic("ledger")


@pytest.fixture
def open_input(
    connections: KafkaConnections, make_topic: Callable[..., tuple[str, str]], ledger: tuple[str, str]
) -> Iterator[Open]:
    """A function that creates an input topic, and returns its name and its reader, which is closed at the end."""
    with ExitStack() as opened:

        def create(partitions: int = 1, output: tuple[str, str] = ledger, **configs: str) -> tuple[str, InputTopic]:
            name, topic_id = make_topic("visits", partitions, **configs)
            return name, opened.enter_context(closing(InputTopic(connections, name, topic_id, output)))

        yield create


@pytest.mark.promise(40)
def test_owner_records_decide_no_tick(
    open_input: Open,
    make_ledger: Callable[..., LedgerTopic],
    make_parameters: Callable[..., Parameters],
    take_over: Callable[..., Owner],
    clock: SteppedClock,
) -> None:
    """
    A partition that is taken over again and again, without a decided tick, is undecided.

        partition 0   owner, tick 0, owner (tick 1, without answers)
        partition 1   owner, tick 0, owner, owner
        partition 2   nothing but its first record
    """
    parameters, place = make_parameters(places=8, shards=3), make_ledger(ledger_partitions=3)
    owners = [take_over(place, partition, parameters) for partition in (0, 1)]
    for owner in owners:
        decide(owner, 0)
    clock.move_to(reading_instant(parameters, 3))
    owners[0].append(1, Decision((), {}))
    for _ in range(2):
        take_over(place, 1, parameters)
    _, topic = open_input(output=(place.topic, place.topic_id))
    as_of = parameters.grid.as_of
    assert topic.find_undecided([0, 1, 2], 0, as_of(0)) == [2]
    assert topic.find_undecided([0, 1, 2], 1, as_of(1)) == [1, 2]
    assert topic.find_undecided([0, 1], 2, as_of(2)) == [0, 1]


@pytest.mark.promise(5)
def test_end_offsets_include_open_transaction(open_input: Open, put: Put, connections: KafkaConnections) -> None:
    """
    The end offset includes records after an open transaction, which read_committed consumers can't see.

        offset    0  1  2  3
                  o  x  x  x         "o" is open: the last stable offset is 0, the high watermark 4
    """
    name, topic = open_input()
    with closing(connections.create_producer(transactional_id=f"{name}-open")) as open_one:
        open_one.init_transactions()
        open_one.begin_transaction()
        open_one.send(name, value=b"o", partition=0).get(timeout=10)
        put(name, 0, 3)
        assert topic.read_end_offsets() == {0: 4}
        open_one.abort_transaction()


@pytest.mark.promise(5, 27)
def test_end_offsets_wait_for_appends(open_input: Open, connections: KafkaConnections, admin: Any) -> None:
    """
    End offsets that are read after a batch was stamped include it, although Kafka is still decompressing it.

        batch       stamped ---- validated ---- in the log
        readings              1   2   3   4               all include it
    """
    name, topic = open_input(1, **{"message.timestamp.type": "LogAppendTime"})
    slow = crafted.batch(crafted.compress_zeros(b"{}", [10_000_000] * 60, crafted.GZIP), 61, crafted.GZIP)
    place = TopicPartition(name, 0)
    readings: list[tuple[int, int]] = []
    with ThreadPoolExecutor(1) as pool:
        topic.read_end_offsets()
        sending = pool.submit(crafted.produce, connections, name, slow)
        while not sending.done():
            began = time.time_ns() // 1_000_000
            readings.append((began, topic.read_end_offsets()[0]))
        assert sending.result() == 0
        stamp = admin.list_partition_offsets({place: OffsetSpec.MAX_TIMESTAMP})[place].timestamp
    assert all(end == 61 for began, end in readings if began > stamp)


@pytest.mark.promise(5)
def test_added_partition_appears_at_once(
    open_input: Open, put: Put, admin: Any, eventually: Callable[..., Any]
) -> None:
    """The next end offsets contain an added partition, whose records must be read before a place is safe."""
    name, topic = open_input(1)
    assert topic.read_end_offsets() == {0: 0}
    admin.create_partitions({name: 2})
    eventually(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 2)
    assert topic.read_end_offsets() == {0: 0, 1: 0}
    put(name, 1, 4)
    assert topic.read_end_offsets() == {0: 0, 1: 4}
    assert topic.most_partitions == 2, "a listing with fewer is refused from now on"


@pytest.mark.promise(5)
def test_too_few_partitions_are_refused(open_input: Open, admin: Any, eventually: Callable[..., Any]) -> None:
    """
    A listing with fewer partitions than the ledger records is refused: the visits of the others would be missed.

        listed      1            2
        offsets     unreachable  both
    """
    name, topic = open_input(1)
    topic.expect_partitions(2)
    topic.expect_partitions(1)
    for ask in (topic.read_end_offsets, topic.require_same):
        with pytest.raises(UnreachableError, match=r"lists 1 partitions of .*, which had 2: its metadata is outdated"):
            ask()
    admin.create_partitions({name: 2})
    eventually(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 2)
    assert topic.read_end_offsets() == {0: 0, 1: 0}
    assert topic.most_partitions == 2


@pytest.mark.promise(5)
def test_end_offsets_belong_to_one_tick(open_input: Open, put: Put) -> None:
    """
    The partition threads share the end offsets of a tick; for an earlier tick, they are read again.

        clock       tick 70 (ahead)     tick 61 (corrected)
        records     0                   2: both count at tick 61
    """
    name, topic = open_input()
    assert topic.read_end_offsets_at(70) == {0: 0}
    put(name, 0, 2)
    assert topic.read_end_offsets_at(70) == {0: 0}
    assert topic.read_end_offsets_at(61) == {0: 2}


def test_waiting_threads_share_one_failure(
    open_input: Open, admin: Any, eventually: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that wait for a failing request fail with it.

    One hanging broker must not delay them one after the other.
    """
    monkeypatch.setattr(KafkaConnections, "create_admin", lambda _: admin)
    _, topic = open_input()
    calls: list[int] = []
    began: list[float] = []
    answering = threading.Event()

    def monotonic() -> float:
        began.append(time.perf_counter())
        return began[-1]

    def hanging(_names: list[str]) -> Any:
        calls.append(1)
        answering.wait(20)
        raise KafkaTimeoutError("no answer")

    admin.describe_topics = hanging
    monkeypatch.setattr("monitor.ticks.input_topic.time", SimpleNamespace(monotonic=monotonic))
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(topic.read_end_offsets_at, 7) for _ in range(5)]
        eventually(lambda: calls and len(began) == 5)
        answering.set()
        errors = [str(future.exception()) for future in waiting]
    assert len(calls) == 1
    assert len(errors) == 5
    assert len(set(errors)) == 1
    assert "did not answer in time" in errors[0]
    del admin.describe_topics
    assert topic.read_end_offsets_at(7) == {0: 0}


@pytest.mark.parametrize("partitions", [1, 3])
def test_recreated_input_is_reported(partitions: int, open_input: Open, connections: KafkaConnections) -> None:
    """A re-created input, which has another id, is reported at each call, for any number of partitions."""
    name, topic = open_input(2)
    assert topic.read_end_offsets() == {0: 0, 1: 0}
    recreate_topic(connections, name, partitions)
    for ask in (topic.read_end_offsets, topic.require_same, topic.read_end_offsets):
        with pytest.raises(InputChangedError, match=f"'{name}'.*deleted or re-created"):
            ask()


def test_deleted_input_is_reported(open_input: Open, admin: Any, eventually: Callable[..., Any]) -> None:
    """A deleted input topic is reported."""
    name, topic = open_input()
    topic.read_end_offsets()
    admin.delete_topics([name])
    eventually(lambda: name not in admin.list_topics())
    for ask in (topic.read_end_offsets, topic.require_same):
        with pytest.raises(InputChangedError):
            ask()


def test_recreated_ledger_is_reported(open_input: Open, ledger: tuple[str, str], connections: KafkaConnections) -> None:
    """A re-created ledger is reported with and without reading end offsets.

    Owners that know different topics under one name would not fence each other.
    """
    _, topic = open_input()
    topic.require_same()
    assert topic.read_end_offsets() == {0: 0}
    recreate_topic(connections, ledger[0])
    for ask in (topic.read_end_offsets, topic.require_same):
        with pytest.raises(LedgerChangedError, match=f"'{ledger[0]}'.*deleted or re-created"):
            ask()


@pytest.fixture
def own_kafka(kafka: object) -> Iterator[EmbeddedKafka]:
    """A Kafka that a test may pause."""
    with EmbeddedKafka() as server:
        yield server
        server.resume()


@pytest.fixture
def paused_input(own_kafka: EmbeddedKafka) -> Iterator[InputTopic]:
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
    paused_input: InputTopic,
    make_world: Callable[..., World],
    in_thread: Callable[..., Any],
    eventually: Callable[..., Any],
) -> None:
    """A loop whose topic check hangs closes within its limit, and the check ends, because its client is closed."""
    world = make_world()
    loop = TickLoop(replace(world.context, input_topic=paused_input), world.take_over, cast("Any", world), 1)
    own_kafka.pause()
    eventually(lambda: has_stopped(own_kafka.pid))
    checking = in_thread(loop.check_topics)
    eventually(paused_input._lock.locked)  # noqa: SLF001  # nothing else shows that a request waits
    began = time.monotonic()
    loop.close(LIMIT_SECONDS)
    assert time.monotonic() - began < LIMIT_SECONDS + SLACK_SECONDS
    checking.join(SLACK_SECONDS)
    assert not checking.is_alive()


def test_closed_topic_opens_no_client(paused_input: InputTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was closed, the input topic refuses requests, and opens no other client."""
    paused_input.close()
    opened: list[KafkaConnections] = []
    monkeypatch.setattr(KafkaConnections, "create_admin", opened.append)
    for request in (
        lambda: paused_input.find_undecided([0], 7, 0),
        paused_input.read_end_offsets,
        paused_input.require_same,
    ):
        with pytest.raises(UnreachableError, match="closed"):
            request()
    assert opened == []
