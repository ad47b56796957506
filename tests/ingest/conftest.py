"""A small configuration in which every rule of acceptance has a case, and the fixtures of the reader's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from monitor.errors import UnreachableError
from monitor.ingest.reading_thread import Reader
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedValkey
from monitor.privacy.over_time import OverTimeRule
from monitor.store.hash_persons import PersonHasher
from monitor.time.instants import DAY, HOUR, MINUTE, parse_instant
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid
from tests.builders import build_parameters, watch
from tests.conftest import Eventually
from tests.ingest.world import World
from tests.shared_kafka import SharedKafka


def _rule(window: int) -> OverTimeRule:
    return OverTimeRule(Fraction(1), 1, 20, window, 1)


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    """Slots of one hour from 15:00 UTC; rows 0-2 watched (row 1 by two monitors); three at_times monitors; F = 1."""
    instant = parse_instant("2026-11-20T12:00:00Z")
    return build_parameters(
        ("inn", "bath", "駅", "mill", "farm", "a/b"),
        shards=4,
        max_lead=1,
        grid=SlotGrid(parse_instant("2026-11-19T00:00:00+09:00"), HOUR),
        over_time=(watch("short", (0, 1), _rule(3)), watch("long", (1, 2), _rule(8))),
        at_times=(
            AtTimes("evening", Schedule.of(("18:00",), "Asia/Tokyo"), Fraction(1), 5, 4 * HOUR),
            AtTimes("noon", Schedule((instant, instant + 90 * MINUTE)), Fraction(1), 5, 2 * HOUR),
            AtTimes("late", Schedule((instant, instant + 30 * MINUTE)), Fraction(1), 5, DAY),
        ),
    )


@pytest.fixture(scope="session")
def hasher() -> PersonHasher:
    """Keyed hashes under a fixed key."""
    return PersonHasher(b"0123456789abcdef")


@pytest.fixture
def world(
    kafka: SharedKafka, store: EmbeddedValkey, parameters: Parameters, topic: Callable[[str], str]
) -> Iterator[World]:
    created = World(kafka, store, parameters, topic("visits"))
    yield created
    created.close()


@pytest.fixture
def drain(eventually: Eventually) -> Callable[..., None]:
    """A function that runs readers in turns until everything is read."""

    def turn(world: World, *readers: Reader) -> bool:
        busy = False
        for reader in readers:
            try:
                busy |= reader.step(20)
            except UnreachableError:
                busy = True
        return not busy and world.is_read()

    def take_turns(world: World, *readers: Reader) -> bool:
        return any(turn(world, *readers) for _ in range(20))

    return lambda world, *readers: eventually(lambda: take_turns(world, *readers), 60)
