"""Fetching unusual, large and damaged batches from a real Kafka."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import product
from typing import Any

import pytest
import zstandard
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from monitor.errors import UnreachableError
from monitor.ingest.poll_input import Fetched, InputLog
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batches import LOG_END, Unreadable
from monitor.kafka.kafka_python_3_0.fetcher import (
    POLL_BYTES,
    FetchState,
    _Records,
    read_leniently,
    return_resumed,
)
from tests.conftest import Eventually
from tests.ingest import crafted
from tests.ingest.crafted import ZSTD
from tests.ingest.crafted_batches import ACCEPTED, PACKS, RECORDS, VALUES, find_unread
from tests.ingest.world import BY_PRODUCERS, Damage
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka


@pytest.fixture
def connections(kafka: SharedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,), session_timeout_ms=2_000)


@pytest.fixture
def name(connections: KafkaConnections, topic: Callable[[str], str]) -> str:
    """A topic of one partition that accepts any timestamps."""
    topic_name = topic("batches")
    create_topic(connections, topic_name)
    return topic_name


@pytest.fixture
def source(connections: KafkaConnections, name: str, eventually: Eventually) -> Iterator[InputLog]:
    """A member that reads the partition from its start."""
    member = InputLog(connections, name, name, reading=BY_PRODUCERS())
    eventually(lambda: (member.poll(250), member.waiting == {0})[1], 20)
    member.resume(0, 0)
    yield member
    member.close({})


def fetch(source: InputLog, end: int, eventually: Eventually, deadline_seconds: float = 20.0) -> list[Fetched]:
    """Return everything read up to an offset; after failures, continue as the reader does."""
    found: list[Fetched] = []

    def there() -> bool:
        try:
            found.extend(source.poll(100))
        except UnreachableError:
            source.park()
        for partition in set(source.waiting):
            source.resume(partition, found[-1].end if found else 0)
        return bool(found) and found[-1].end >= end

    eventually(there, deadline_seconds)
    return found


@pytest.mark.promise(25)
def test_forms_that_java_accepts(
    connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """Batches are read in every form that the broker and Java accept; kafka-python alone stops or fails at some."""
    offsets = [
        crafted.produce(connections, name, crafted.batch(data, len(VALUES), codec)) for codec, data in ACCEPTED.values()
    ]
    found = fetch(source, len(VALUES) * len(ACCEPTED), eventually)
    values = {record.offset: record.value for part in found for record in part.records}
    rest = dict.fromkeys(ACCEPTED, VALUES)
    assert dict(zip(ACCEPTED, [[values[at + n] for n in range(len(VALUES))] for at in offsets], strict=True)) == rest


@pytest.mark.promise(25)
def test_invented_offsets(connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually) -> None:
    """Offsets from a producer are ignored. The broker stores two records numbered 0 and 7 at the offsets 0 and 1."""
    crafted.produce(connections, name, crafted.batch(crafted.record(b"a", 0) + crafted.record(b"b", 7), 2))
    others = [b"%d" % n for n in range(8)]
    crafted.produce(connections, name, crafted.batch(crafted.records(others), len(others)))
    found = fetch(source, 10, eventually)
    assert [record.value for part in found for record in part.records] == [b"a", b"b", *others]
    assert [record.offset for part in found for record in part.records] == list(range(10))


@pytest.mark.parametrize("codec", PACKS)
def test_record_with_wrong_length(
    codec: int, connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """A record with a wrong length and the rest of its batch are skipped, as by Java's consumer.

    The broker does not check lengths within compressed batches.
    """
    pack = PACKS[codec]
    for off in (1, -1, 5):
        wrong = crafted.record(b"a") + crafted.record(b"wrong", 1, off=off) + crafted.record(b"c", 2)
        crafted.produce(connections, name, crafted.batch(pack(wrong), 3, codec))
    found = fetch(source, 9, eventually)
    values = [record.value for part in found for record in part.records]
    assert [value for value in values if isinstance(value, bytes)] == [b"a"] * 3
    rest = [(value.first, value.end, value.records, value.lost) for value in values if isinstance(value, Unreadable)]
    assert rest == [(1, 3, 2, False), (4, 6, 2, False), (7, 9, 2, False)]


def test_large_batch_in_portions(
    connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """A poll returns at most 4 MiB and a record, of 40 MB that were compressed to a few kilobytes."""
    values = [b"x" * 1_000_000] * 40
    crafted.produce(connections, name, crafted.batch(zstandard.compress(crafted.records(values)), len(values), ZSTD))
    found = fetch(source, len(values), eventually)
    sizes = [sum(len(record.value) for record in part.records if isinstance(record.value, bytes)) for part in found]
    assert sum(sizes) == 40_000_000
    assert max(sizes) <= POLL_BYTES + 1_000_000


@pytest.mark.parametrize("change", [return_resumed, partial(read_leniently, state=FetchState())])
def test_resumed_partitions_are_read(
    connections: KafkaConnections, topic: Callable[[str], str], change: Callable[[Any], Any], eventually: Eventually
) -> None:
    """Two partitions are read in turns of three records. Meanwhile the other one is paused with fetched records."""
    both = topic("resumed")
    create_topic(connections, both, 2)
    with closing(connections.create_producer()) as producer:
        for number, partition in product(range(5), range(2)):
            producer.send(both, partition=partition, value=b"%d" % number)
        producer.flush()
    partitions = [TopicPartition(both, partition) for partition in range(2)]
    found: dict[int, list[bytes]] = {0: [], 1: []}
    with closing(change(connections.create_consumer(auto_offset_reset="earliest"))) as consumer:
        consumer.assign(partitions)

        def read_in_turns() -> bool:
            read, waits = sorted(partitions, key=lambda one: len(found[one.partition]))
            consumer.pause(waits)
            consumer.resume(read)
            for one, records in consumer.poll(timeout_ms=500, max_records=3).items():
                found[one.partition] += [record.value for record in records]
            return all(len(values) == 5 for values in found.values())

        eventually(read_in_turns, 20)
    assert found == {partition: [b"%d" % number for number in range(5)] for partition in range(2)}


def test_data_without_frames() -> None:
    """Data without frames of batches are fetched again, and then lost up to the log's end.

    Without frames, the next batch cannot be found.
    """
    good = crafted.batch(RECORDS, len(VALUES))
    wrong = good[:8] + struct.pack(">i", 4) + good[12:]
    reading, place = FetchState(tries=2, left=POLL_BYTES), TopicPartition("t", 0)
    fetched = [_Records(reading, 0, place, MemoryRecords(good + wrong)) for _ in range(2)]
    assert [record.value for record in fetched[0].take(10)] == VALUES
    with pytest.raises(CorruptRecordError, match="offset 4 are damaged"):
        fetched[0].take(10)
    assert fetched[0].record_iterator is None
    rest = find_unread(fetched[1].take(10))
    assert (rest.first, rest.end, rest.stamp_ms, rest.lost) == (4, LOG_END, None, True)
    assert "all records from offset 4" in rest.fault.error


@pytest.mark.promise(25)
def test_temporary_damage(
    connections: KafkaConnections, kafka: SharedKafka, name: str, source: InputLog, eventually: Eventually
) -> None:
    """A batch with a temporarily wrong checksum is fetched again. kafka-python alone loops without end."""
    crafted.produce(connections, name, crafted.batch(crafted.records([b"harmed", b"next"]), 2))
    damage = Damage(kafka, name, b"harmed")
    damage.flip()

    def refused() -> bool:
        try:
            source.poll(100)
        except UnreachableError as error:
            return "checksum" in str(error)
        return False

    eventually(refused)
    damage.flip()
    source.park()
    source.resume(0, 0)
    found = fetch(source, 2, eventually)
    assert [record.value for part in found for record in part.records] == [b"harmed", b"next"]


def break_consumer(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[KafkaConsumer]:
    """Let the first consumer that polls from now on fail each time. Return all that poll, in their order."""
    poll, consumers = KafkaConsumer.poll, list[KafkaConsumer]()

    def fail_first(consumer: KafkaConsumer, **settings: Any) -> Any:
        if consumer not in consumers:
            consumers.append(consumer)
        if consumer is consumers[0]:
            raise error
        return poll(consumer, **settings)

    monkeypatch.setattr(KafkaConsumer, "poll", fail_first)
    return consumers


@pytest.mark.promise(25)
@pytest.mark.parametrize(
    "error", [RuntimeError("a fault"), AssertionError(), MemoryError(), KeyError(TopicPartition("t", 0))]
)
def test_unexpected_poll_error(
    error: Exception,
    connections: KafkaConnections,
    name: str,
    source: InputLog,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After any error of a poll, a new consumer continues; otherwise it would end the reading thread."""
    consumers = break_consumer(monkeypatch, error)
    with pytest.raises(UnreachableError, match=type(error).__name__):
        source.poll(100)
    crafted.produce(connections, name, crafted.batch(crafted.records([b"good"]), 1))
    assert [record.value for record in fetch(source, 1, eventually)[-1].records] == [b"good"]
    assert len(consumers) == 2


def test_failing_consumer_is_replaced(
    connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer is replaced after several failed polls in a row, but not after one."""
    crafted.produce(connections, name, crafted.batch(crafted.records([b"good"]), 1))
    consumers = break_consumer(monkeypatch, OSError("broken"))
    for _ in range(3):
        with pytest.raises(UnreachableError):
            source.poll(100)
        assert len(consumers) == 1
    assert [record.value for record in fetch(source, 1, eventually)[-1].records] == [b"good"]
    assert len(consumers) == 2
