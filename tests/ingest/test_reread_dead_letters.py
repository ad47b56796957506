"""Dead letters are written once, also when records are read again (see `tests.ingest.world`)."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest

from monitor.errors import UnreachableError
from monitor.ingest.start_offsets import StartOffsets
from tests.conftest import Eventually
from tests.ingest.world import HORIZON_START, NOW_SLOT, Drain, World, persons, read_committed


def read_letter_offsets(world: World) -> list[int]:
    """Return the offsets of the dead letters, in the order of writing."""
    return [letter.offset for letter in world.dead.letters]


@pytest.mark.promise(26)
def test_unread_records_are_read(world: World, drain: Drain) -> None:
    """Records that no group has read are read at any age, after Redis was emptied while no reader ran."""
    #   slot        5   6   7 … 17 | 18 19 …  45
    #   log         x x | x a x    | a             slots that count begin at 18
    #   committed       ^
    world.create()
    for _ in range(2):
        world.put_raw(b"not json", slot=5)
    world.clock.move_to(world.parameters.grid.start(6))
    world.read_through(drain)
    world.put_raw(b"not json", slot=6)
    world.put(persons(1), slot=6)
    world.put_raw(b"not json", slot=7)
    world.put(persons(1), slot=NOW_SLOT)
    world.clock.move_to(world.parameters.grid.start(NOW_SLOT))
    world.empty_store()
    world.read_through(drain)
    assert read_letter_offsets(world) == [0, 1, 2, 4]
    assert +world.seen.fates == {"dead_letter": 4, "applied": 2}
    assert world.complete_from() == {HORIZON_START}


@pytest.mark.promise(26)
@pytest.mark.parametrize("read_before", [True, False], ids=["read before", "first start"])
def test_expired_group_offsets(world: World, drain: Drain, read_before: bool) -> None:  # from a table
    """
    After brokers have deleted the offsets of the groups, and Redis has lost its facts, each record still gets a fate.

    The ledger shows that the service has read the topic before. Otherwise the start is the first one.

        slot        5   6 … 17 | 18 …  45
        log         x   x x    |   a        no instance runs from slot 6 on
        read        ^          | first start: from here
    """
    world.create()
    world.put_raw(b"not json", slot=5)
    world.clock.move_to(world.parameters.grid.start(5))
    world.read_through(drain)
    world.expire_groups()
    for _ in range(2):
        world.put_raw(b"not json", slot=6)
    world.put(persons(1), slot=NOW_SLOT)
    world.clock.move_to(world.parameters.grid.start(NOW_SLOT))
    world.empty_store()
    world.dead.letters.clear()
    world.read_before = read_before
    world.read_through(drain)
    assert read_letter_offsets(world) == ([0, 1, 2] if read_before else [])
    assert world.complete_from() == {HORIZON_START}


@pytest.mark.promise(26)
def test_unwritten_dead_letter_survives_a_flush(world: World, eventually: Eventually, drain: Drain) -> None:
    """
    A dead letter that could not be written yet is written after a flush, though no window reaches back to its record.

        slot        6                        …  45
        log         x                           a
        reader      begins, cannot write it     begins again: Redis was emptied
        committed   0
    """
    world.create()
    world.put_raw(b"not json", slot=6)
    world.clock.move_to(world.parameters.grid.start(6))
    world.dead.refuses = 1
    reader = world.reader()

    def fails() -> bool:
        with suppress(UnreachableError):
            reader.step(20)
        return not world.dead.refuses

    eventually(fails)
    world.close_reader(reader)
    world.put(persons(1), slot=NOW_SLOT)
    world.clock.move_to(world.parameters.grid.start(NOW_SLOT))
    world.empty_store()
    world.read_through(drain)
    assert read_letter_offsets(world) == [0]


@pytest.mark.promise(26)
def test_added_partition_is_read_whole(world: World, drain: Drain) -> None:
    """
    An input partition that was added while no instance ran is read from its beginning, however old its records are.

        slot           6   7   8  …  45
        partition 0    x           |      read
        partition 1        x   x   |      the window has passed them
    """
    world.create()
    world.put_raw(b"not json", slot=6)
    world.clock.move_to(world.parameters.grid.start(6))
    world.read_through(drain)
    add_partition(world)
    for slot in (7, 8):
        world.put_raw(b"not json", slot=slot, partition=1)
    world.clock.move_to(world.parameters.grid.start(NOW_SLOT))
    world.read_through(drain)
    assert [(letter.partition, letter.offset) for letter in world.dead.letters] == [(0, 0), (1, 0), (1, 1)]


def add_partition(world: World) -> None:
    """Add a second partition to the topic, and wait until the producer knows it."""
    with closing(world.connections.create_admin()) as admin:
        admin.create_partitions({world.topic: 2})
    world.producer.close()
    world.producer = world.connections.create_producer()


def test_first_start_commits_all_partitions(world: World, eventually: Eventually) -> None:
    """
    The first start of the service commits where it begins in each partition, also in those that another instance reads.

        slot           5   6 … 17 | 18 …  45
        partition 0    x          |       x
        partition 1    x   x      |
        committed                 0: 1, 1: 2
    """
    world.create(2)
    for partition, slot in ((0, 5), (0, NOW_SLOT), (1, 5), (1, 6)):
        world.put_raw(b"not json", slot=slot, partition=partition)
    reader = world.reader()
    eventually(lambda: (reader.step(20), reader.assigned == {0, 1})[1])
    StartOffsets(world.parameters, world.source, world.windows).find(0, world.windows.read_progress())
    assert read_committed(world) == {0: 1, 1: 2}


OTHER = "fedcba9876543210"


@pytest.mark.promise(39)
def test_new_configuration_repeats_no_dead_letter(world: World, drain: Drain) -> None:
    """A new configuration reads old records and counts their fates, but writes only dead letters that are missing."""
    world.create()
    world.put_raw(b"not json")
    world.put(persons(2))
    world.read_through(drain)
    world.put_raw(b"not json either")
    world.read_through(drain, OTHER)
    assert read_letter_offsets(world) == [0, 3]
    assert world.seen.reasons == {"not_json": 3}
    assert world.seen.fates["applied"] == 4


def test_dead_letters_from_the_lowest_commit(world: World, drain: Drain) -> None:
    """Dead letters are written from the lowest committed offset on.

    A group that is behind has not written its own yet.
    """
    #   first      ├ x ┤ committed: 1
    #   second     ├ x │ x ┤ committed: 2
    #   third      │   ├ x │ x ┤
    third = "00000000deadbeef"
    world.create()
    world.put_raw(b"not json")
    world.read_through(drain)
    world.put_raw(b"not json")
    world.read_through(drain, OTHER)
    world.put_raw(b"not json")
    world.read_through(drain, third)
    assert read_letter_offsets(world) == [0, 1, 1, 2]


def test_truncated_log_repeats_dead_letters(
    world: World, drain: Drain, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a truncation, dead letters are written below the committed offset, because the records there are new."""
    world.create()
    for _ in range(4):
        world.put_raw(b"not json")
    world.read_through(drain)
    world.empty_store()
    reader = world.reader()
    drain(world, reader)
    assert read_letter_offsets(world) == [0, 1, 2, 3]
    world.source.truncated[0] = 1
    world.source.park()
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 1)[1])
    drain(world, reader)
    assert read_letter_offsets(world) == [0, 1, 2, 3, 1, 2, 3]
    world.empty_store()
    world.source.park()
    drain(world, reader)
    assert read_letter_offsets(world) == [0, 1, 2, 3, 1, 2, 3, 0, 1, 2, 3]
