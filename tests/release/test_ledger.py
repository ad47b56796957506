"""One writer per ledger partition, on a real Kafka: fenced, read to the end, and made anew after any refusal."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from kafka import TopicPartition

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topics import LEAST_MESSAGE_BYTES
from monitor.contracts.record_sizes import LARGEST_SNAPSHOT
from monitor.errors import FencedError, UnreachableError
from monitor.release.ledger import LedgerRecord, Writer, first_offset, read_partition

MakeTopic = Callable[..., tuple[str, str]]
OpenWriter = Callable[..., Writer]


def record(text: str, size: int = 0) -> LedgerRecord:
    return LedgerRecord(text.encode(), text.encode().ljust(size), (("ce_id", text.encode()),), 1_767_225_600_000)


def keys(connections: KafkaConnections, topic: str, until: int | None = None) -> list[str]:
    """What is in partition 0, uncommitted and aborted records included."""
    return [found.key.decode() for _offset, found in read_partition(connections, topic, 0, until)]


def committed(connections: KafkaConnections, topic: str) -> list[str]:
    """What a read_committed subscriber sees of partition 0."""
    place = TopicPartition(topic, 0)
    with closing(connections.consumer(isolation_level="read_committed", auto_offset_reset="earliest")) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        found: list[str] = []
        deadline = time.monotonic() + 10
        while consumer.position(place) < end and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=50).values():
                found += [each.key.decode() for each in records]
    return found


def left_open(writer: Writer, topic: str, *records: LedgerRecord) -> None:
    """Send within a transaction that is never committed, as a process does that is killed."""
    producer: Any = writer._producer
    producer.begin_transaction()
    sent = [producer.send(topic, key=each.key, value=each.value, partition=0) for each in records]
    producer.flush()
    for future in sent:
        future.get(timeout=10)


def test_what_is_appended_is_read_back_as_it_was(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """Keys, bytes, headers and timestamps; the offset of the last is returned, and -1 for nothing at all."""
    name, topic_id = make_topic("ledger")
    writer = open_writer(name, topic_id)
    records = [record("a"), record("b")]
    assert writer.append([]) == -1
    assert writer.append(records) == 1
    assert writer.append([record("c")]) == 3, "offset 2 is the first transaction's marker"
    assert list(read_partition(connections, name, 0)) == [(0, records[0]), (1, records[1]), (3, record("c"))]


def test_a_zombie_is_fenced_and_nothing_of_it_gets_in(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """The one that took over goes on; the one before is told, at every further attempt."""
    name, topic_id = make_topic("ledger")
    zombie = open_writer(name, topic_id)
    zombie.append([record("first")])
    owner = open_writer(name, topic_id)
    with pytest.raises(FencedError, match=f"another owner has taken over {name}-0"):
        zombie.append([record("late")])
    owner.append([record("second")])
    with pytest.raises(FencedError):
        zombie.append([record("later")])
    assert committed(connections, name) == ["first", "second"]


def test_a_zombies_open_transaction_is_aborted_and_still_counts(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """Subscribers with read_uncommitted may have seen it: the ledger's reader takes it in, others never do."""
    name, topic_id = make_topic("ledger")
    zombie = open_writer(name, topic_id)
    left_open(zombie, name, record("seen"))
    owner = open_writer(name, topic_id)
    owner.append([record("after")])
    with pytest.raises(FencedError):
        zombie._run(zombie._producer.commit_transaction, 10.0)
    assert keys(connections, name) == ["seen", "after"]
    assert committed(connections, name) == ["after"]


def test_records_of_an_open_transaction_are_read_before_it_ends(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """The end is the high watermark, not the last stable offset."""
    name, topic_id = make_topic("ledger")
    left_open(open_writer(name, topic_id), name, record("seen"))
    assert keys(connections, name) == ["seen"]
    assert committed(connections, name) == []


def test_markers_at_the_end_are_passed_without_waiting(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """The last offsets are those of markers, which no poll returns: far less than the 30 s of giving up."""
    name, topic_id = make_topic("ledger")
    writer = open_writer(name, topic_id)
    for text in "abc":
        writer.append([record(text)])
    began = time.monotonic()
    assert keys(connections, name) == ["a", "b", "c"]
    assert time.monotonic() - began < 5


def test_reading_ends_at_until(connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter) -> None:
    """A takeover reads up to its own record; what comes after is not asked for."""
    name, topic_id = make_topic("ledger")
    open_writer(name, topic_id).append([record(text) for text in "abcd"])
    assert keys(connections, name, until=2) == ["a", "b"]


def test_an_empty_partition_has_nothing_to_read(connections: KafkaConnections, make_topic: MakeTopic) -> None:
    """At once, and it begins at offset 0."""
    name, _ = make_topic("ledger")
    assert keys(connections, name) == []
    assert first_offset(connections, name, 0) == 0


def test_the_first_offset_rises_as_records_expire(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter, admin: Any
) -> None:
    """An empty partition that begins above 0 held records once."""
    name, topic_id = make_topic("ledger")
    open_writer(name, topic_id).append([record("a"), record("b")])
    admin.delete_records({TopicPartition(name, 0): 2})
    assert first_offset(connections, name, 0) == 2
    assert keys(connections, name) == []


def test_after_a_refused_record_a_new_writer_works(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """The broker refuses what exceeds max.message.bytes; nothing of that tick is committed, and the next owner's is."""
    name, topic_id = make_topic("ledger", **{"max.message.bytes": "9000"})
    with pytest.raises(UnreachableError, match=f"could not append to {name}-0"):
        open_writer(name, topic_id).append([record("small"), record("large", 50_000)])
    open_writer(name, topic_id).append([record("after")])
    assert committed(connections, name) == ["after"]


def test_a_tick_of_many_records_fits_the_least_message_size_that_the_start_allows(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """max.message.bytes limits whole batches, so the writer's batches must not outgrow it."""
    name, topic_id = make_topic("ledger", **{"max.message.bytes": str(LEAST_MESSAGE_BYTES)})
    records = [record(f"place-{number}", 500) for number in range(2_000)]
    open_writer(name, topic_id).append(records)
    assert committed(connections, name) == [each.key.decode() for each in records]


def test_a_record_as_large_as_the_topic_takes_is_appended(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """A snapshot larger than the writer's batches goes in a batch of its own."""
    name, topic_id = make_topic("ledger")
    open_writer(name, topic_id).append([record("small"), record("large", 1_000_000), record("after")])
    assert committed(connections, name) == ["small", "large", "after"]


def test_a_record_as_large_as_check_accepts_is_appended_and_read(
    connections: KafkaConnections, make_topic: MakeTopic, open_writer: OpenWriter
) -> None:
    """Where the topic takes it, as `topics --create` has it: no other limit of brokers or clients stands in the way."""
    name, topic_id = make_topic("ledger", **{"max.message.bytes": str(LARGEST_SNAPSHOT)})
    open_writer(name, topic_id).append([record("small"), record("large", LARGEST_SNAPSHOT - 1_024), record("after")])
    assert keys(connections, name) == ["small", "large", "after"]


def test_another_partition_is_not_fenced(make_topic: MakeTopic, open_writer: OpenWriter) -> None:
    """Each has a fence of its own."""
    name, topic_id = make_topic("ledger", 2)
    first, second = open_writer(name, topic_id, 0), open_writer(name, topic_id, 1)
    assert first.append([record("a")]) == 0
    assert second.append([record("b")]) == 0
