"""People at a designated time, counted by what was reported since an earlier tick: memory, Valkey, Redis, a cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import redis

from monitor.errors import UnreachableError
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.facts_and_questions import CONSENT, OffsetRange, Question
from monitor.kinds.parameters import Parameters
from monitor.store.redis_store import RedisStore
from tests.builders import replace_monitors, select
from tests.store.packed import pack_shard_facts

ANN, BOB, EVE = (letter * 16 for letter in (b"a", b"b", b"e"))
EVENING = 1_767_258_000_000_000
SHARD = 2


@pytest.fixture(scope="session")
def parameters(parameters: Parameters) -> Parameters:
    """The parameters of the other stores, with two answers about the designated time."""
    (evening,) = select(parameters, AtTimes)
    return replace_monitors(parameters, at_times=(replace(evening, answers=2),), hot_spots=())


@pytest.fixture
def rows(parameters: Parameters) -> list[int]:
    """The rows of the shard."""
    of_shard: list[int] = parameters.registry.by_shard[SHARD].tolist()
    return of_shard


def write(windows: RedisStore, offset: int, stamp: int, *people: tuple[int, bytes]) -> None:
    """Write a record twice, as a reader and a zombie do."""
    portions = {SHARD: pack_shard_facts(stamp, stamped={EVENING: people})}
    for _ in range(2):
        windows.write([OffsetRange(0, offset, offset + 1)], portions)


def count_since(windows: RedisStore, start: int, rows: list[int]) -> list[int]:
    """Return the people at each row of the shard by the records that were stamped after a slot."""
    reading = windows.read({SHARD: Question(times=(EVENING,))})[SHARD]
    counts: list[int] = reading.stamps[EVENING].count_since(np.full(len(rows), start)).tolist()
    return counts


@pytest.mark.promise(9)
def test_people_at_a_time_by_what_was_reported_since(windows: RedisStore, rows: list[int]) -> None:
    """
    A person counts by the latest stamp at each place, in any order of the records. Waiting facts do not count.

        stamp            -9       -8       -7     -6
        first place      ann      ann bob  ann
        last place       ann                      eve (consents)
    """
    windows.begin(0, 0, 0)
    first, last = rows[0], rows[-1]
    write(windows, 0, -8, (first, ANN))
    write(windows, 1, -7, (first, ANN))
    write(windows, 2, -9, (first, ANN), (last, ANN))
    write(windows, 3, -8, (first, BOB))
    write(windows, 4, -6, (last, EVE), (last + CONSENT, EVE))
    write(windows, 5, 10**6, (first, EVE))
    counts = {start: count_since(windows, start, rows) for start in range(-10, -4)}
    assert {start: (of[0], of[-1], sum(of)) for start, of in counts.items()} == {
        -10: (2, 2, 4),
        -9: (2, 1, 3),
        -8: (1, 1, 2),
        -7: (0, 1, 1),
        -6: (0, 0, 0),
        -5: (0, 0, 0),
    }
    reading = windows.read({SHARD: Question(times=(EVENING,), consenting=(EVENING,))})[SHARD]
    assert (reading.present[EVENING].tolist(), reading.consenting[EVENING].sum()) == (counts[-10], 1)


@pytest.mark.promise(6)
def test_evicted_time_has_no_stamps(windows: RedisStore, rows: list[int]) -> None:
    """An evicted time has no people, and later facts about it are not stored."""
    windows.begin(0, 0, 0)
    write(windows, 0, -7, (rows[0], ANN))
    windows.evict([SHARD], 0, [EVENING], [])
    assert sum(count_since(windows, -10, rows)) == 0
    write(windows, 1, -6, (rows[0], BOB))
    assert sum(count_since(windows, -10, rows)) == 0


@pytest.mark.promise(6)
def test_lost_stamps_are_noticed(redis_windows: RedisStore, raw: redis.Redis, rows: list[int]) -> None:
    """If the set of a time is lost, the shard loses its progress, so that its facts are read again."""
    redis_windows.begin(0, 0, 0)
    write(redis_windows, 0, -7, (rows[0], ANN))
    (key,) = raw.scan_iter(match="*:t:*")
    assert raw.type(key) == b"zset"
    raw.delete(key)
    with pytest.raises(UnreachableError, match="lacks keys of a shard"):
        redis_windows.read({SHARD: Question(times=(EVENING,))})
    assert redis_windows.read_progress()[SHARD] == {}
