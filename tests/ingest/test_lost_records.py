"""Records that are lost before they are read (see `tests.ingest.world`)."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import LogTruncationError

from monitor.errors import UnreachableError
from monitor.ingest import reading_thread as reader_module
from monitor.ingest.reading_thread import Reader
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START
from monitor.store.keys import Keys
from tests.conftest import Eventually
from tests.ingest.world import FINGERPRINT, NOW_SLOT, Drain, World, persons


def lose(world: World, drain: Drain, eventually: Eventually) -> Reader:
    """Let the progress of three records be beyond the log's end, and return a reader that has read one more record.

    Visits of lost records end by slot 45 + F, so facts are complete from slot 45 + F + 1.
    """
    world.create()
    world.put(persons(3))
    world.read_through(drain)
    for shard in range(4):
        world.raw.hset(world.meta(shard), "p0", 90)
    reader = world.reader()
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 1)[1])
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.windows.read_progress() == [{0: 3}] * 4
    world.put(persons(1, "after"))
    drain(world, reader)
    assert world.windows.read_progress() == [{0: 4}] * 4
    return reader


@pytest.mark.promise(7)
def test_failover_forgets_a_loss(
    world: World, drain: Drain, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A loss is recorded again after a failover to a replica that has the state before the loss.

    log          |--- 3 ---|  … 4 … 104
    progress     90           3 … 4   90 (failed over)   4 … 104
    complete     start        47      start              47
    """
    monkeypatch.setattr(reader_module, "CHECK_SECONDS", 0.0)
    reader = lose(world, drain, eventually)
    whole_from = world.complete_from()
    for shard in range(4):
        world.raw.hset(world.meta(shard), mapping={"p0": 90, "complete_from": COMPLETE_FROM_START})
    world.put(persons(100, "more"))
    reader.step(20)
    drain(world, reader)
    assert world.complete_from() == whole_from
    assert world.windows.read_progress() == [{0: 104}] * 4
    assert world.count("inn", NOW_SLOT) == 104
    assert world.seen.recoveries["log_lost_records"] == 2


def test_repeated_loss_keeps_lower_shard(
    world: World, drain: Drain, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A repeated loss does not raise the progress of a shard that lost its last batch in the same failover.

    log          |--- 3 ---|  … 4
    inn's shard  90           4        1   and not the facts of 1 to 4: to be read again from 1
    others       90           4        90  (failed over)
    """
    monkeypatch.setattr(reader_module, "CHECK_SECONDS", 0.0)
    reader, inn = lose(world, drain, eventually), int(world.parameters.registry.shard[0])
    for shard in range(4):
        world.raw.hset(
            world.meta(shard), mapping={"p0": 1 if shard == inn else 90, "complete_from": COMPLETE_FROM_START}
        )
    world.raw.zremrangebyscore(Keys(world.parameters.name, FINGERPRINT).window(inn, 0), "-inf", "(+inf")
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 2)[1])
    drain(world, reader)
    assert world.windows.read_progress() == [{0: 4}] * 4
    assert world.count("inn", NOW_SLOT) == 3  # of the records 1, 2 and 3


@pytest.mark.promise(7)
@pytest.mark.parametrize(("kept", "read_from"), [(2, 2), (None, 0)])
def test_truncated_log(
    world: World,
    drain: Drain,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    kept: int | None,
    read_from: int,
) -> None:
    """A log truncated below the position leaves facts incomplete, even if it has grown again.

    Other partitions have no gap.
    """
    world.create(2)
    world.put(persons(5, "a"))
    world.put(persons(5, "b"), partition=1)
    reader = world.reader()
    drain(world, reader)
    poll = KafkaConsumer.poll
    place = TopicPartition(world.topic, 0)

    def cut(consumer: KafkaConsumer, **how: Any) -> Any:
        polled = poll(consumer, **how)
        if place.partition not in world.source.positions or not polled:
            return polled
        monkeypatch.setattr(KafkaConsumer, "poll", poll)
        raise LogTruncationError({place: None if kept is None else OffsetAndMetadata(kept, "", 1)})

    monkeypatch.setattr(KafkaConsumer, "poll", cut)
    world.put(persons(3, "c"), partition=1)
    world.seen.records = 0
    eventually(lambda: (reader.step(50), world.seen.recoveries["log_lost_records"] == 1)[1])
    drain(world, reader)
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.seen.records == 5 - read_from + 3
    assert world.windows.read_progress() == [{0: 5, 1: 8}] * 4
    assert world.count("inn", NOW_SLOT) == 13


@pytest.mark.promise(7)
def test_loss_is_recorded_later(
    world: World, drain: Drain, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss that cannot be recorded, because the store does not answer, is recorded at the next try."""
    world.create()
    world.put(persons(3))
    reader = world.reader()
    drain(world, reader)
    restart = world.windows.restart

    def fail(*_: Any) -> None:
        monkeypatch.setattr(world.windows, "restart", restart)
        raise UnreachableError("the store does not answer")

    monkeypatch.setattr(world.windows, "restart", fail)
    world.source.truncated[0] = 1
    world.source.park()
    with pytest.raises(UnreachableError):
        reader.step(20)
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 1)[1])
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
