"""Where a reader starts a partition, and from which slot facts are complete, also after losses (see `world`)."""

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
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR
from tests.conftest import Eventually
from tests.ingest.world import FINGERPRINT, HORIZON_START, NOW_SLOT, Drain, World, persons, read_committed


def test_start_without_progress(world: World, drain: Drain) -> None:
    """Without progress, reading starts F slots before the first slot from which facts are complete."""
    #   slot   5  6 … 17 | 18   19 …   45
    #   bath   xxxxxxxxx | is read
    world.create()
    world.put(persons(4, "old"), "bath", slot=5)
    world.put(persons(3, "early"), "bath", slot=17)
    world.put(persons(2, "reported"), "bath", slot=18)
    world.put(persons(1, "late"), "bath", slot=44)
    drain(world, world.reader())
    assert world.complete_from() == {HORIZON_START}
    assert world.seen.records == 3
    assert world.windows.read_progress() == [{0: 10}] * 4


def test_start_at_lowest_progress(world: World, drain: Drain) -> None:
    """Reading starts at the lowest progress of all shards, independent of the committed offset.

    Shard 2 was rolled back to offset 3.
    """
    world.create()
    world.put(persons(6), "駅")
    world.read_through(drain)
    assert read_committed(world) == {0: 6}
    before = world.count("駅", NOW_SLOT)
    world.raw.hset(world.meta(2), "p0", 3)
    world.seen.records = 0
    drain(world, world.reader())
    assert world.seen.records == 3
    assert world.count("駅", NOW_SLOT) == before == 6


def test_expired_records_lose_nothing(world: World, drain: Drain) -> None:
    """
    If the log still has records that are too old to count, the expired records are older still.

        slot      1  2  3  .  .  19 = first  .  .  45 = now
        log      (aaa bbb)cc                       d
        progress     ^
    """
    world.create()
    world.put(persons(3, "a"), slot=1)
    world.read_through(drain)
    world.put(persons(3, "b"), slot=2)
    world.put(persons(2, "c"), slot=3)
    world.put(persons(1, "d"))
    world.delete_below(6)
    world.seen.records = 0
    drain(world, world.reader())
    assert world.seen.recoveries["behind_the_log"] == 1
    assert world.seen.records == 3  # c was never read: no tick counts it, but it has a fate
    assert world.complete_from() == {HORIZON_START}
    assert world.windows.read_progress() == [{0: 9}] * 4


@pytest.mark.promise(7)
@pytest.mark.parametrize("fast", [0, HOUR, -HOUR], ids=["right", "an hour fast", "an hour slow"])
def test_deleted_recent_records(world: World, drain: Drain, fast: int) -> None:
    """
    Deleted recent records leave facts incomplete.

    Their visits may end up to F slots from now, by the store's clock.

    By a slow clock of the reader, facts would count as complete while visits may be missing.
    """
    world.clock = SteppedClock(world.clock.now() + fast)
    world.create()
    world.put(persons(3, "a"))
    world.read_through(drain)
    world.put(persons(4, "b"))
    world.delete_below(5)
    world.seen.records = 0
    drain(world, world.reader())
    assert world.seen.recoveries["log_lost_records"] == 1
    assert world.seen.records == 2
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.windows.read_progress() == [{0: 7}] * 4


@pytest.mark.parametrize(("before_slot_41", "whole_from"), [(1_001, 41), (1_000, 42), (1, 42), (0, 42)])
def test_deleted_records_within_tolerance(world: World, drain: Drain, before_slot_41: int, whole_from: int) -> None:
    """
    A deleted record may have a later timestamp than the first remaining one, by the tolerance of clocks.

        slot      40 |41             timestamps; x was deleted, "first" remains
                  x first
                 first|x             within the tolerance: x may be of slot 41, with a visit F slots ahead
    """
    world.create()
    stamp = world.parameters.grid.start(41) // 1_000 - before_slot_41
    for person in ("gone", "first"):
        world.producer.send(world.topic, value=world.visit(person), partition=0, timestamp_ms=stamp).get(timeout=10)
    world.delete_below(1)
    drain(world, world.reader())
    assert world.complete_from() == {whole_from + world.parameters.max_lead}


def test_log_start_passes_the_reader(world: World, drain: Drain, eventually: Eventually) -> None:
    """If the log's start passes the reader while it runs, reading continues from there."""
    world.create()
    world.put(persons(1, "a"))
    reader = world.reader()
    drain(world, reader)
    world.put(persons(1_000, "b"))
    world.delete_below(900)
    drain(world, reader)
    assert world.windows.read_progress() == [{0: 1_001}] * 4
    assert world.count("inn", NOW_SLOT) >= 102


@pytest.mark.promise(25)
def test_partition_holds_up_no_other(world: World, eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A partition that cannot be started is tried again later, and the others are read meanwhile.

        partition 0   xx        read
        partition 1   xxx       Kafka does not return its bounds: read later
    """
    monkeypatch.setattr(reader_module, "START_AGAIN_SECONDS", 0.1)
    world.create(2)
    world.put(persons(2, "a"))
    world.put(persons(3, "b"), partition=1)
    reader = world.reader()
    read_bounds = world.source.read_bounds

    def fail(partition: int) -> tuple[int, int]:
        if partition == 1:
            raise UnreachableError("partition 1 has no leader")
        return read_bounds(partition)

    monkeypatch.setattr(world.source, "read_bounds", fail)
    eventually(lambda: (reader.step(20), world.windows.read_progress() == [{0: 2}] * 4)[1])
    assert reader.waiting_for == "reading: input partition 1 cannot be started: partition 1 has no leader"
    monkeypatch.setattr(world.source, "read_bounds", read_bounds)
    eventually(lambda: (reader.step(20), world.windows.read_progress() == [{0: 2, 1: 3}] * 4)[1])
    assert reader.waiting_for == ""


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
