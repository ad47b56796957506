"""Memory and Valkey return the same after any operations in any order (hypothesis, derandomized)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import redis
from hypothesis import HealthCheck, given, settings

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.facts_and_questions import OffsetRange, Portion, Portions, Question, Reading, Since
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedValkey
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from tests.builders import replace_monitors, select
from tests.store.memory import MemoryWindows
from tests.store.packed import pack_shard_facts

TIMES = (1_767_258_000_000_000, 1_767_344_400_000_000)
offsets, grid, partitions = st.integers(0, 8), st.integers(-3, 8), st.integers(0, 1)
people = st.sampled_from([bytes([number]) * 16 for number in range(4)])
shards = st.lists(st.integers(0, 3), unique=True)


@dataclass(frozen=True)
class Visit:
    """A visit to one of the first two rows of a shard, in a slot and perhaps at a designated time."""

    shard: int
    nth: int
    person: bytes
    slot: int
    instant: int | None
    stamp: int


visits = st.builds(Visit, st.integers(0, 3), st.integers(0, 1), people, grid, st.none() | st.sampled_from(TIMES), grid)
ranges = st.dictionaries(partitions, st.tuples(offsets, offsets).map(sorted), max_size=2)
steps = st.one_of(
    st.tuples(st.just("begin"), partitions, offsets, grid),
    st.tuples(st.just("restart"), partitions, offsets, grid),
    st.tuples(st.just("write"), ranges, st.lists(visits, max_size=6)),
    st.tuples(st.just("evict"), shards, grid, st.lists(st.sampled_from(TIMES), unique=True)),
    st.tuples(st.just("open"), shards, grid),
    st.tuples(st.just("settle"), shards, grid),
    st.tuples(st.just("clock"), grid),
)


def make_facts(parameters: Parameters, batch: list[Visit]) -> Portions:
    """Return the facts of a batch, by shard."""
    facts: dict[int, list[Portion]] = {}
    for visit in batch:
        row = int(parameters.registry.by_shard[visit.shard][visit.nth])
        at = {} if visit.instant is None else {visit.instant: [(row, visit.person)]}
        seen = {row: [(visit.person, visit.slot)]}
        timed: Any = {"stamped" if parameters.find_stamped(np.array(TIMES)).any() else "present": at}
        packed = pack_shard_facts(visit.stamp, seen=seen, reported=seen, **timed)
        facts.setdefault(visit.shard, []).extend(packed)
    return facts


def apply(windows: RedisStore, parameters: Parameters, clock: SteppedClock, step: tuple[object, ...]) -> dict[int, int]:
    """Do one step; return the result of a write, or which shards are settled."""
    match step:
        case ("clock", int(slot)):
            clock.move_to(parameters.grid.start(slot) + parameters.tolerance)
        case ("open", list(named), int(slot)):
            windows.open(named, slot)
        case ("settle", list(named), int(tick)):
            readings = windows.read({shard: Question(tick=tick) for shard in named})
            return {shard: int(reading.settled) for shard, reading in readings.items()}
        case ("write", dict(bounds), list(batch)):
            return windows.write(
                [OffsetRange(part, *ends) for part, ends in bounds.items()], make_facts(parameters, batch)
            )
        case ("evict", list(named), int(slot), list(times)):
            windows.evict(named, slot, times, [time for time in TIMES if time not in times])
        case ("begin", int(partition), int(offset), int(complete_from)):
            windows.begin(partition, offset, complete_from)
        case ("restart", int(partition), int(offset), int(complete_from)):
            windows.restart(partition, offset, complete_from)
        case _:
            raise AssertionError(step)
    return {}


def read_known(
    windows: RedisStore, parameters: Parameters
) -> dict[int, tuple[Reading, list[list[int]], list[list[int]]]]:
    """Return all readings, without the server's time."""
    rows = {shard: [int(row) for row in of_shard[:2]] for shard, of_shard in enumerate(parameters.registry.by_shard)}
    slots = range(-4, 10)
    asked = {
        shard: Question(
            tuple((first, of_shard) for first in slots),
            TIMES,
            since=tuple(Since(first, tick, row) for first in slots for tick in slots for row in of_shard),
        )
        for shard, of_shard in rows.items()
    }
    return {
        shard: (
            replace(reading, time=0, counts=(), present={}, stamps={}),
            [counts.tolist() for counts in reading.counts],
            [
                *(reading.present[instant].tolist() for instant in TIMES),
                *(
                    stamps.count_since(np.full(parameters.registry.by_shard[shard].size, slot)).tolist()
                    for stamps in reading.stamps.values()
                    for slot in slots
                ),
            ],
        )
        for shard, reading in windows.read(asked).items()
    }


@pytest.mark.promise(27)
@pytest.mark.parametrize("answers", [1, 2])
def test_memory_equals_valkey(
    answers: int,
    parameters: Parameters,
    clock: SteppedClock,
    valkey: EmbeddedValkey,
    open_windows: Callable[..., RedisStore],
) -> None:
    """Memory and Valkey return the same readings for random operations, with one or two answers per time."""
    (evening,) = select(parameters, AtTimes)
    parameters = replace_monitors(parameters, at_times=(replace(evening, answers=answers),))
    stored = open_windows(valkey, parameters, clock=clock)

    @settings(
        max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(st.lists(steps, max_size=10))
    def agree(taken: list[tuple[object, ...]]) -> None:
        with redis.Redis.from_url(valkey.url) as client:
            client.flushall()
        clock.move_to(parameters.grid.origin)
        twin = MemoryWindows(parameters, clock)
        for step in taken:
            assert apply(twin, parameters, clock, step) == apply(stored, parameters, clock, step)
            assert twin.read_progress() == stored.read_progress()
        assert read_known(twin, parameters) == read_known(stored, parameters)
        assert twin.is_empty() == stored.is_empty()

    agree()
