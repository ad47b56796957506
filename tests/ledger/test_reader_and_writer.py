"""Appends to and reads of the ledger on a real Kafka: one fenced writer per partition."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from kafka import OffsetSpec, TopicPartition
from kafka.errors import ProducerFencedError

from monitor.errors import FencedError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import LEAST_MESSAGE_BYTES
from monitor.kinds.record_sizes import LARGEST_SNAPSHOT
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.read_ledger import read_first_offset, read_partition
from monitor.records.output_records import OutputRecord
from tests.ticks.deciding import leave_open

MakeTopic = Callable[..., tuple[str, str]]
OpenWriter = Callable[..., Writer]


def record(text: str, size: int = 0) -> OutputRecord:
    return OutputRecord(text.encode(), text.encode().ljust(size), (("ce_id", text.encode()),), 1_767_225_600_000)


def keys(connections: KafkaConnections, topic: str, until: int | None = None) -> list[str]:
    """Return the keys in partition 0, including uncommitted and aborted records."""
    return [keys_found.key.decode() for _offset, keys_found in read_partition(connections, topic, 0, until)]


def read_committed(connections: KafkaConnections, topic: str) -> list[str]:
    """Return the keys in partition 0 that a read_committed subscriber sees."""
    place = TopicPartition(topic, 0)
    with closing(
        connections.create_consumer(isolation_level="read_committed", auto_offset_reset="earliest")
    ) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        keys_found: list[str] = []
        deadline = time.monotonic() + 10
        while consumer.position(place) < end and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=50).values():
                keys_found += [record.key.decode() for record in records]
    return keys_found


def test_appended_records_are_read_back(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """Keys, values, headers and timestamps are read back; `append` returns the last offset, and -1 for no records."""
    name, topic_id = make_topic("ledger")
    writer = open_writer(name, topic_id)
    records = [record("a"), record("b")]
    assert writer.append([]) == -1
    assert writer.append(records) == 1
    assert writer.append([record("c")]) == 3, "offset 2 is the first transaction's marker"
    assert list(read_partition(connections, name, 0)) == [(0, records[0]), (1, records[1]), (3, record("c"))]


@pytest.mark.promise(30)
def test_zombie_is_fenced(connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter) -> None:
    """A fenced writer fails at each further append, and the new writer continues."""
    name, topic_id = make_topic("ledger")
    zombie = open_writer(name, topic_id)
    zombie.append([record("first")])
    owner = open_writer(name, topic_id)
    with pytest.raises(FencedError, match=f"another owner has taken over {name}-0"):
        zombie.append([record("late")])
    owner.append([record("second")])
    with pytest.raises(FencedError):
        zombie.append([record("later")])
    assert read_committed(connections, name) == ["first", "second"]


@pytest.mark.promise(31)
def test_aborted_records_count(connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter) -> None:
    """Records of a zombie's aborted transaction count: read_uncommitted subscribers may have seen them."""
    name, topic_id = make_topic("ledger")
    with leave_open(connections, name, topic_id, [record("seen")]) as zombie:
        owner = open_writer(name, topic_id)
        owner.append([record("after")])
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
    assert keys(connections, name) == ["seen", "after"]
    assert read_committed(connections, name) == ["after"]


def test_open_transaction_is_read(connections: KafkaConnections, make_topic: MakeTopic) -> None:
    """Records of an open transaction are read: the end is the high watermark and not the last stable offset."""
    name, topic_id = make_topic("ledger")
    with leave_open(connections, name, topic_id, [record("seen")]):
        assert keys(connections, name) == ["seen"]
        assert read_committed(connections, name) == []


def test_trailing_markers_do_not_delay(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """Transaction markers at the end, which no poll returns, do not delay the read until its timeout."""
    name, topic_id = make_topic("ledger")
    writer = open_writer(name, topic_id)
    for text in "abc":
        writer.append([record(text)])
    began = time.monotonic()
    assert keys(connections, name) == ["a", "b", "c"]
    assert time.monotonic() - began < 5


def test_removed_marker_does_not_delay(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter, admin: Any, eventually: Any
) -> None:
    """If the broker has removed a transaction marker that an earlier read had to pass, the next read ends at once.

    offset   0  1   2       3  4
    log      a  b  marker
    then                    c  marker      records below 3 were removed, also the marker
    """
    name, topic_id = make_topic("ledger")
    writer = open_writer(name, topic_id)
    writer.append([record("a"), record("b")])
    place = TopicPartition(name, 0)
    eventually(lambda: admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset == 3)
    admin.delete_records({place: 3})
    began = time.monotonic()
    assert keys(connections, name) == []
    writer.append([record("c")])
    assert [key.key for _offset, key in read_partition(connections, name, 0, None, 2)] == [b"c"]
    assert time.monotonic() - began < 5


def test_read_ends_at_until(connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter) -> None:
    """A read ends at `until`, which a takeover sets to its own record."""
    name, topic_id = make_topic("ledger")
    open_writer(name, topic_id).append([record(text) for text in "abcd"])
    assert keys(connections, name, until=2) == ["a", "b"]


def test_empty_partition(connections: KafkaConnections, make_topic: MakeTopic) -> None:
    """An empty partition yields no record, and its first offset is 0."""
    name, _ = make_topic("ledger")
    assert keys(connections, name) == []
    assert read_first_offset(connections, name, 0) == 0


def test_first_offset_rises_with_expiry(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter, admin: Any
) -> None:
    """The first offset rises as records expire, also if the partition becomes empty."""
    name, topic_id = make_topic("ledger")
    open_writer(name, topic_id).append([record("a"), record("b")])
    admin.delete_records({TopicPartition(name, 0): 2})
    assert read_first_offset(connections, name, 0) == 2
    assert keys(connections, name) == []


def test_new_writer_after_refused_record(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """After a record that exceeds max.message.bytes its tick is not committed, and a new writer can append."""
    name, topic_id = make_topic("ledger", **{"max.message.bytes": "9000"})
    with pytest.raises(UnreachableError, match=f"{name}-0 cannot be appended to"):
        open_writer(name, topic_id).append([record("small"), record("large", 200_000)])
    open_writer(name, topic_id).append([record("after")])
    assert read_committed(connections, name) == ["after"]


def test_many_records_fit_smallest_limit(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """The writer's batches fit the smallest max.message.bytes that the service accepts."""
    name, topic_id = make_topic("ledger", **{"max.message.bytes": str(LEAST_MESSAGE_BYTES)})
    records = [record(f"place-{number}", 500) for number in range(2_000)]
    open_writer(name, topic_id).append(records)
    assert read_committed(connections, name) == [record.key.decode() for record in records]


def test_record_larger_than_a_batch(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """A record larger than the writer's batch size is appended in a separate batch."""
    name, topic_id = make_topic("ledger")
    open_writer(name, topic_id).append([record("small"), record("large", 1_000_000), record("after")])
    assert read_committed(connections, name) == ["small", "large", "after"]


def test_largest_accepted_record(connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter) -> None:
    """The largest record that `check` accepts is appended and read: no other limit of broker or client is smaller."""
    name, topic_id = make_topic("ledger", **{"max.message.bytes": str(LARGEST_SNAPSHOT)})
    open_writer(name, topic_id).append([record("small"), record("large", LARGEST_SNAPSHOT - 1_024), record("after")])
    assert keys(connections, name) == ["small", "large", "after"]


def test_partitions_have_separate_fences(make_topic: MakeTopic, open_writer: OpenWriter) -> None:
    """A writer of one partition does not fence the writer of another."""
    name, topic_id = make_topic("ledger", 2)
    first, second = open_writer(name, topic_id, 0), open_writer(name, topic_id, 1)
    assert first.append([record("a")]) == 0
    assert second.append([record("b")]) == 0
