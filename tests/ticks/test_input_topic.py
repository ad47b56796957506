"""End offsets of the input topic, and checks of both topics, on a real Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import OffsetSpec, TopicPartition
from kafka.errors import KafkaTimeoutError

from monitor.contracts.clock import SteppedClock
from monitor.contracts.parameters import Parameters
from monitor.errors import InputChangedError, LedgerChangedError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.owner import LedgerTopic, Owner
from tests.ingest import crafted
from tests.ticks.owning import publish
from tests.ticks.worlds import release_instant

MakeTopic = Callable[..., tuple[str, str]]


@pytest.fixture
def producer(connections: KafkaConnections) -> Iterator[Any]:
    with closing(connections.create_producer()) as made:
        yield made


@pytest.fixture
def ledger(make_topic: MakeTopic) -> tuple[str, str]:
    """The output topic and its id."""
    return make_topic("ledger")


def put(producer: Any, topic: str, partition: int, records: int) -> None:
    sent = [producer.send(topic, value=b"x", partition=partition) for _ in range(records)]
    for future in sent:
        future.get(timeout=10)


def recreate(admin: Any, topic: str, partitions: int, eventually: Callable[..., Any]) -> None:
    """Delete a topic and create it again under the same name."""
    admin.delete_topics([topic])
    eventually(lambda: topic not in admin.list_topics())
    admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}}, wait_for_metadata=True)


@pytest.mark.promise(40)
def test_owner_records_decide_no_tick(
    connections: KafkaConnections,
    make_topic: MakeTopic,
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
        publish(owner, 0, {})
    clock.move_to(release_instant(parameters, 3))
    terms = owners[0].state.terms
    assert terms is not None
    owners[0]._writer.append([owners[0]._records.build(terms, 0, 1)])
    for _ in range(2):
        take_over(place, 1, parameters)
    name, topic_id = make_topic("visits")
    as_of = parameters.grid.as_of
    with closing(InputTopic(connections, name, topic_id, (place.topic, place.topic_id))) as topic:
        assert topic.find_undecided([0, 1, 2], 0, as_of(0)) == [2]
        assert topic.find_undecided([0, 1, 2], 1, as_of(1)) == [1, 2]
        assert topic.find_undecided([0, 1], 2, as_of(2)) == [0, 1]


def test_end_offsets_count_acknowledged_records(
    connections: KafkaConnections, make_topic: MakeTopic, ledger: tuple[str, str], producer: Any
) -> None:
    """The end offset of each partition counts all acknowledged records, and is 0 for an empty partition."""
    name, topic_id = make_topic("visits", 3)
    put(producer, name, 0, 2)
    put(producer, name, 2, 5)
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        assert topic.read_end_offsets() == {0: 2, 1: 0, 2: 5}
        put(producer, name, 1, 1)
        assert topic.read_end_offsets() == {0: 2, 1: 1, 2: 5}


@pytest.mark.promise(5)
def test_end_offsets_include_open_transaction(
    connections: KafkaConnections, make_topic: MakeTopic, ledger: tuple[str, str], producer: Any
) -> None:
    """
    The end offset includes records after an open transaction, which read_committed consumers can't see.

        offset    0  1  2  3
                  o  x  x  x         "o" is open: the last stable offset is 0, the high watermark 4
    """
    name, topic_id = make_topic("visits")
    with closing(connections.create_producer(transactional_id=f"{name}-open")) as open_one:
        open_one.init_transactions()
        open_one.begin_transaction()
        put(open_one, name, 0, 1)
        put(producer, name, 0, 3)
        with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
            assert topic.read_end_offsets() == {0: 4}
        open_one.abort_transaction()


@pytest.mark.promise(5, 27)
def test_end_offsets_wait_for_appends(
    connections: KafkaConnections, make_topic: MakeTopic, ledger: tuple[str, str]
) -> None:
    """
    End offsets that are read after a batch was stamped include it, although Kafka is still decompressing it.

        batch       stamped ---- validated ---- in the log
        readings              1   2   3   4               all include it
    """
    name, topic_id = make_topic("visits", 1, **{"message.timestamp.type": "LogAppendTime"})
    slow = crafted.batch(crafted.compress_zeros(b"{}", [10_000_000] * 60, crafted.GZIP), 61, crafted.GZIP)
    place = TopicPartition(name, 0)
    readings: list[tuple[int, int]] = []
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic, ThreadPoolExecutor(1) as pool:
        topic.read_end_offsets()
        sending = pool.submit(crafted.produce, connections, name, slow)
        while not sending.done():
            began = time.time_ns() // 1_000_000
            readings.append((began, topic.read_end_offsets()[0]))
        assert sending.result() == 0
        stamp = topic._admin.list_partition_offsets({place: OffsetSpec.MAX_TIMESTAMP})[place].timestamp
    assert all(end == 61 for began, end in readings if began > stamp)


@pytest.mark.promise(5)
def test_added_partition_appears_at_once(
    connections: KafkaConnections,
    make_topic: MakeTopic,
    ledger: tuple[str, str],
    producer: Any,
    admin: Any,
    eventually: Callable[..., Any],
) -> None:
    """The next end offsets contain an added partition, whose records must be read before a place is safe."""
    name, topic_id = make_topic("visits", 1)
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        assert topic.read_end_offsets() == {0: 0}
        admin.create_partitions({name: 2})
        eventually(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 2)
        assert topic.read_end_offsets() == {0: 0, 1: 0}
        with closing(connections.create_producer()) as fresh:
            put(fresh, name, 1, 4)
        assert topic.read_end_offsets() == {0: 0, 1: 4}


@pytest.mark.promise(5)
def test_too_few_partitions_are_refused(
    connections: KafkaConnections,
    make_topic: MakeTopic,
    ledger: tuple[str, str],
    admin: Any,
    eventually: Callable[..., Any],
) -> None:
    """
    A listing with fewer partitions than the ledger records is refused: the visits of the others would be missed.

        listed      1            2
        offsets     unreachable  both
    """
    name, topic_id = make_topic("visits", 1)
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        topic.expect_partitions(2)
        topic.expect_partitions(1)
        for ask in (topic.read_end_offsets, topic.require_same):
            with pytest.raises(
                UnreachableError, match=r"lists 1 partitions of .*, which had 2: its metadata is outdated"
            ):
                ask()
        admin.create_partitions({name: 2})
        eventually(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 2)
        assert topic.read_end_offsets() == {0: 0, 1: 0}
        assert topic.most_partitions == 2


def test_shrinking_listing_is_refused(
    connections: KafkaConnections, make_topic: MakeTopic, ledger: tuple[str, str]
) -> None:
    """Partitions are never removed, so a listing shorter than the longest one is refused."""
    name, topic_id = make_topic("visits", 3)
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        assert sorted(topic.read_end_offsets()) == [0, 1, 2]
        assert topic.most_partitions == 3
        describe = topic._admin.describe_topics

        def lagging(names: list[str]) -> Any:
            found = describe(names)
            found[0]["partitions"] = found[0]["partitions"][:2]
            return found

        topic._admin.describe_topics = lagging
        with pytest.raises(UnreachableError, match="lists 2 partitions"):
            topic.read_end_offsets()


def test_threads_share_end_offsets(
    connections: KafkaConnections, make_topic: MakeTopic, ledger: tuple[str, str], producer: Any
) -> None:
    """The first partition thread reads the end offsets of a tick, and the others use them."""
    name, topic_id = make_topic("visits")
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        assert topic.read_end_offsets_at(7) == {0: 0}
        put(producer, name, 0, 2)
        assert topic.read_end_offsets_at(7) == {0: 0}
        assert topic.read_end_offsets_at(8) == {0: 2}


@pytest.mark.promise(5)
def test_corrected_clock_reads_end_offsets_again(
    connections: KafkaConnections, make_topic: MakeTopic, ledger: tuple[str, str], producer: Any
) -> None:
    """
    After a clock that was ahead is corrected, end offsets are read again for the earlier tick.

        clock       tick 70 (ahead)     tick 61 (corrected)
        records     0                   2: both count at tick 61
    """
    name, topic_id = make_topic("visits")
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        assert topic.read_end_offsets_at(70) == {0: 0}
        put(producer, name, 0, 2)
        assert topic.read_end_offsets_at(61) == {0: 2}


def test_waiting_threads_share_one_failure(
    connections: KafkaConnections,
    make_topic: MakeTopic,
    ledger: tuple[str, str],
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads that wait for a failing request fail with it.

    One hanging broker must not delay them one after the other.
    """
    name, topic_id = make_topic("visits")
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
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

        topic._admin.describe_topics = hanging
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
        del topic._admin.describe_topics
        assert topic.read_end_offsets_at(7) == {0: 0}


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_recreated_input_is_reported(
    partitions: int,
    connections: KafkaConnections,
    make_topic: MakeTopic,
    ledger: tuple[str, str],
    admin: Any,
    eventually: Callable[..., Any],
) -> None:
    """A re-created input, which has another id, is reported at each call, for any number of partitions."""
    name, topic_id = make_topic("visits", 2)
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        assert topic.read_end_offsets() == {0: 0, 1: 0}
        recreate(admin, name, partitions, eventually)
        for _ in range(2):
            with pytest.raises(InputChangedError, match=f"'{name}'.*deleted or re-created"):
                topic.read_end_offsets()


def test_deleted_input_is_reported(
    connections: KafkaConnections,
    make_topic: MakeTopic,
    ledger: tuple[str, str],
    admin: Any,
    eventually: Callable[..., Any],
) -> None:
    """A deleted input topic is reported."""
    name, topic_id = make_topic("visits")
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        topic.read_end_offsets()
        admin.delete_topics([name])
        eventually(lambda: name not in admin.list_topics())
        with pytest.raises(InputChangedError):
            topic.read_end_offsets()


def test_recreated_ledger_is_reported(
    connections: KafkaConnections,
    make_topic: MakeTopic,
    ledger: tuple[str, str],
    admin: Any,
    eventually: Callable[..., Any],
) -> None:
    """A re-created ledger is reported with and without reading end offsets.

    Owners that know different topics under one name would not fence each other.
    """
    name, topic_id = make_topic("visits")
    with closing(InputTopic(connections, name, topic_id, ledger)) as topic:
        topic.require_same()
        assert topic.read_end_offsets() == {0: 0}
        recreate(admin, ledger[0], 1, eventually)
        for ask in (topic.read_end_offsets, topic.require_same):
            with pytest.raises(LedgerChangedError, match=f"'{ledger[0]}'.*deleted or re-created"):
                ask()
