"""Where a reader starts a partition, and from which slot the facts are complete (see `tests.ingest.world`)."""

from __future__ import annotations

import pytest

from monitor.errors import UnreachableError
from monitor.ingest import reading_thread as reader_module
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR
from tests.conftest import Eventually
from tests.ingest.world import HORIZON_START, NOW_SLOT, Drain, World, persons, read_committed


def test_whole_log_is_complete(world: World, drain: Drain) -> None:
    """A log that starts at offset 0 is read as a whole, and its facts are complete."""
    #   slot   40    44 45
    #   inn    aaa      bb      counts from slot 43: b, from slot 40: a and b
    world.create()
    world.put(persons(3, "a"), slot=40)
    world.put(persons(2, "b"), slot=45)
    drain(world, world.reader())
    assert world.count("inn", 43) == 2
    assert world.complete_from() == {COMPLETE_FROM_START}
    assert world.seen.recoveries == {"no_progress": 1}
    assert +world.seen.fates == {"applied": 5}


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
