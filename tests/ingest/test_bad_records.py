"""Bad records and visits become dead letters, and all others count (see `tests.ingest.world`)."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from monitor.contracts.instants import HOUR, format_instant
from monitor.ingest.dead_letters import DeadLetterTopic
from tests.faults.bad_records import HUGE, KINDS, make_bad_records
from tests.ingest.world import NOW_SLOT, Drain, World, persons, read_all

BAD = [
    bad._replace(value=bad.value and bad.value.replace(b"edge-0", b"inn"))
    for bad, _ in zip(make_bad_records("x"), KINDS, strict=False)
]


@pytest.fixture
def dead_topic(world: World) -> str:
    """A dead-letter topic with records of at most 64 KiB."""
    name = f"{world.topic}.dead"
    with closing(world.connections.create_admin()) as admin:
        configs = {"max.message.bytes": "65536"}
        settings = {"num_partitions": 1, "replication_factor": 1, "configs": configs}
        admin.create_topics({name: settings}, wait_for_metadata=True)
    return name


@pytest.mark.promise(25)
def test_bad_records(world: World, drain: Drain, dead_topic: str) -> None:
    """Each bad record is one dead letter with reason and position, and the good records around it count."""
    world.create()
    for number, bad in enumerate(BAD):
        world.put([f"good-{number}"])
        world.put_raw(bad.value)
    world.put(["good-last"])
    writer = DeadLetterTopic(world.connections, dead_topic, world.topic, 65_536)
    with closing(writer):
        drain(world, world.reader(writer))
    letters = [dict(record.headers) for record in read_all(world, dead_topic)]
    assert [letter["offset"].decode() for letter in letters] == [str(2 * number + 1) for number in range(len(BAD))]
    assert [{(letter["index"].decode(), letter["reason"].decode())} for letter in letters] == [
        bad.letters for bad in BAD
    ]
    assert {(letter["topic"].decode(), letter["partition"]) for letter in letters} == {(world.topic, b"0")}
    assert world.count("inn", NOW_SLOT) == len(BAD) + 1
    assert world.seen.fates["applied"] == len(BAD) + 1
    assert world.seen.fates["dead_letter"] == len(BAD) == sum(world.seen.reasons.values())


def test_large_dead_letter_is_truncated(world: World, drain: Drain, dead_topic: str) -> None:
    """A dead letter beyond the topic's limit is truncated, and has a header for that."""
    world.create()
    whole = b'{"no": "' + b"x" * 1_000_000
    world.put_raw(whole)
    world.put_raw(world.visit("x" * HUGE))
    world.put_raw(b"short")
    writer = DeadLetterTopic(world.connections, dead_topic, world.topic, 65_536)
    with closing(writer):
        drain(world, world.reader(writer))
    first, second, third = read_all(world, dead_topic)
    assert dict(first.headers)["truncated"] == dict(second.headers)["truncated"] == b"true"
    assert whole.startswith(first.value)
    assert 60_000 < len(first.value) < 65_536
    assert "truncated" not in dict(third.headers)
    assert third.value == b"short"


@pytest.mark.promise(25)
def test_bad_visits_of_a_batch(world: World, drain: Drain) -> None:
    """The bad visits of a batch are dead letters, and the others count."""
    world.create()
    good = [json.loads(world.visit(person)) for person in persons(3)]
    visits = [
        good[0],
        {**good[0], "location_id": "attic"},
        good[1],
        "no visit",
        {**good[0], "person_id": "tab\tbed"},
        good[2],
        json.loads(world.visit("later", slot=NOW_SLOT + 2)),
    ]
    world.put_raw(json.dumps({"batch_id": 5, "visits": visits}).encode())
    drain(world, world.reader())
    letters = [(letter.refusal.index, str(letter.refusal.reason)) for letter in world.dead.letters]
    assert letters == [(1, "unknown_location"), (3, "not_a_visit"), (4, "bad_id"), (6, "too_far_ahead")]
    assert world.count("inn", NOW_SLOT) == 3
    assert +world.seen.fates == {"applied": 3, "dead_letter": 4}


def test_empty_batch(world: World, drain: Drain) -> None:
    """An empty batch has no effect."""
    world.create()
    world.put_raw(b'{"batch_id": "b", "visits": []}')
    world.put(persons(1))
    drain(world, world.reader())
    assert not world.dead.letters
    assert +world.seen.fates == {"applied": 1}


@pytest.mark.promise(9)
def test_record_of_ten_thousand_visits(world: World, drain: Drain) -> None:
    """All visits of a large record count."""
    world.create()
    arrived = format_instant(world.parameters.grid.start(NOW_SLOT))
    visits = [{"person_id": f"{n}", "location_id": "inn", "arrived_at": arrived} for n in range(10_000)]
    world.put_raw(json.dumps({"visits": visits}, separators=(",", ":")).encode())
    drain(world, world.reader())
    assert world.count("inn", NOW_SLOT) == 10_000


@pytest.mark.promise(26)
def test_fates_add_up(world: World, drain: Drain) -> None:
    """Every visit has one fate, and fates add up."""
    #   slot       … 41      | 43 …             45 (now)   46   47
    #   inn, W = 3:  expired | applied from slot 43 on     F    refused      42 has an evening that is still counted
    world.create()
    world.put_raw(world.visit("a", "inn", 45))
    world.put_raw(world.visit("b", "inn", 43))
    world.put_raw(world.visit("c", "inn", 41))
    world.put_raw(world.visit("d", "inn", 46))
    world.put_raw(world.visit("e", "inn", 47))
    world.put_raw(world.visit("f", "farm", 44))
    world.put_raw(world.visit("g", "駅", 38))
    world.put_raw(world.visit("h", "attic", 45))
    drain(world, world.reader())
    assert world.seen.fates == {"applied": 4, "expired": 1, "not_watched": 1, "dead_letter": 2}
    assert world.seen.fates.total() == world.seen.records == 8


def test_person_counts_by_last_slot(world: World, drain: Drain) -> None:
    """A returning person counts once, by the last slot, in any order of the visits."""
    world.create(2)
    world.put(["back"], slot=45)
    world.put_raw(world.visit("back", slot=43), 45)
    drain(world, world.reader())
    assert [world.count("inn", first) for first in (43, 44, 45, 46)] == [1, 1, 1, 0]
    assert world.parameters.grid.length == HOUR
