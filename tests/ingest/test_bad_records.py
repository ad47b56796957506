"""Bad records and visits become dead letters, and all others count (see `tests.ingest.world`)."""

from __future__ import annotations

import math
from contextlib import closing

import pytest

from monitor.ingest.dead_letters import DeadLetterTopic
from tests.faults.bad_records import KINDS, make_bad_records
from tests.ingest.world import NOW_SLOT, Drain, World
from tests.kit.topics import create_topic, read_topic

BAD = [
    bad._replace(value=bad.value and bad.value.replace(b"edge-0", b"inn"))
    for bad, _ in zip(make_bad_records("x"), KINDS, strict=False)
]


@pytest.fixture
def dead_topic(world: World) -> str:
    """A dead-letter topic with records of at most 64 KiB."""
    name = f"{world.topic}.dead"
    create_topic(world.connections, name, configs={"max.message.bytes": "65536"})
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
    letters = [dict(record.headers) for record in read_topic(world.connections.bootstrap_servers, dead_topic)]
    assert [letter["offset"].decode() for letter in letters] == [str(2 * number + 1) for number in range(len(BAD))]
    assert [{(letter["index"].decode(), letter["reason"].decode())} for letter in letters] == [
        bad.letters for bad in BAD
    ]
    assert {(letter["topic"].decode(), letter["partition"]) for letter in letters} == {(world.topic, b"0")}
    assert world.count("inn", NOW_SLOT) == len(BAD) + 1
    assert world.seen.fates["applied"] == len(BAD) + 1
    assert world.seen.fates["dead_letter"] == len(BAD) == sum(world.seen.reasons.values())


@pytest.mark.promise(26)
def test_fates_add_up(world: World, drain: Drain) -> None:
    """Every visit has one fate, and fates add up. The delay of each valid visit is seen, also if it is expired."""
    #   slot       … 41      | 43 …             45 (now)   46   47
    #   inn, W = 3:  expired | applied from slot 43 on     F    refused      42 has an evening, counted until 45
    world.create()
    world.put_raw(world.visit("a", "inn", 45))
    world.put_raw(world.visit("b", "inn", 43))
    world.put_raw(world.visit("c", "inn", 41))
    world.put_raw(world.visit("d", "inn", 46))
    world.put_raw(world.visit("e", "inn", 47))
    world.put_raw(world.visit("f", "farm", 44))
    world.put_raw(world.visit("g", "駅", 38))
    world.put_raw(world.visit("h", "attic", 45))
    world.put_raw(world.visit("i", "駅", 42), slot=46)
    drain(world, world.reader())
    assert world.seen.fates == {"applied": 4, "too_late": 1, "expired": 1, "not_watched": 1, "dead_letter": 2}
    assert world.seen.fates.total() == world.seen.records == 9
    within = {1: 3, 3: 4, 6: 6, 12: 7, math.inf: 7}  # those of b, c, f, g and i are 10 minutes less than 2, 4, 1, 7, 4
    assert {hours: world.seen.delays[3600 * hours] for hours in within} == within
    assert world.seen.delay_seconds == 3600 * (2 + 4 + 1 + 7 + 4) - 5 * 600
