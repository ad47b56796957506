"""The contract of every store of windows: one suite for memory, Valkey, Redis and a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.contracts.clock import SteppedClock
from monitor.contracts.parameters import Parameters
from monitor.store.facts import COMPLETE_FROM_START, CONSENT, NEVER, OffsetRange, Portions, Question
from monitor.store.redis_store import RedisWindows
from tests.store.packed import pack_shard_facts

ANN, BOB, EVE = (letter * 16 for letter in (b"a", b"b", b"e"))
EVENING = 1_767_258_000_000_000
MORNING = EVENING - 43_200_000_000
EVERY_SHARD = range(4)
OPEN = -(10**6)
"""A stamp long before any slot that is open: its facts go straight into the windows."""


@pytest.fixture
def row(parameters: Parameters) -> int:
    """A row of shard 2."""
    return int(parameters.registry.by_shard[2][0])


def make_seen(row: int, *visits: tuple[bytes, int], shard: int = 2, stamp: int = OPEN) -> Portions:
    """Return the facts of people last seen at the row in these slots, stamped in one slot."""
    return {shard: pack_shard_facts(stamp, seen={row: visits})}


def make_present(instant: int, *visits: tuple[int, bytes], shard: int = 2, stamp: int = OPEN) -> Portions:
    """Return the facts of people present at these rows at a designated time."""
    return {shard: pack_shard_facts(stamp, present={instant: visits})}


def count(windows: RedisWindows, row: int, first_slot: int, shard: int = 2) -> int:
    """Return the distinct people at the row from a slot on."""
    reading = windows.read({shard: Question(windows=((first_slot, [row]),))})[shard]
    return int(reading.counts[0][0])


def find_lowest(windows: RedisWindows) -> dict[int, int]:
    """Return, by partition, the lowest progress of all shards."""
    shards = windows.read_progress()
    return {partition: min(shard.get(partition, -1) for shard in shards) for partition in shards[0]}


def test_new_store_is_empty(windows: RedisWindows) -> None:
    """A store without keys is empty."""
    assert windows.is_empty()
    assert windows.read_progress() == [{}, {}, {}, {}]
    windows.begin(0, 0, COMPLETE_FROM_START)
    assert not windows.is_empty()


def test_store_before_begin(windows: RedisWindows, row: int, parameters: Parameters) -> None:
    """Before `begin`, there is no progress and nobody is counted."""
    reading = windows.read({2: Question(windows=((0, [row]),), times=(EVENING,))})[2]
    assert reading.progress == {}
    assert (reading.complete_from, reading.evicted_before, reading.times_evicted_until) == (
        COMPLETE_FROM_START,
        COMPLETE_FROM_START,
        NEVER,
    )
    assert reading.counts[0].tolist() == [0]
    assert reading.present[EVENING].tolist() == [0] * parameters.registry.by_shard[2].size


def test_check_passes(windows: RedisWindows) -> None:
    """A correct store passes its check."""
    windows.check()


@pytest.mark.promise(9)
def test_person_counts_once(windows: RedisWindows, row: int) -> None:
    """A person who comes several times counts once."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 3)], make_seen(row, (ANN, 5), (ANN, 7), (BOB, 6)))
    # slot    5 6 7
    # Ann     x   x
    # Bob       x
    # window  [---]
    assert count(windows, row, 5) == 2


@pytest.mark.promise(9)
def test_later_visit_stays_in_window(windows: RedisWindows, row: int) -> None:
    """A person who comes again later still counts in an earlier window."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 2)], make_seen(row, (ANN, 3), (ANN, 9)))
    # slot           2 3 4 5 6 7 8 9
    # Ann              x           x
    # window at 5   [--------]          she was there, although she came again later
    assert count(windows, row, 2) == 1


def test_visit_before_the_window(windows: RedisWindows, row: int) -> None:
    """A person last seen before the window does not count."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 2)], make_seen(row, (ANN, 3), (BOB, 4)))
    # slot    3 4 5 6
    # Ann     x
    # Bob       x
    # window   [-----]
    assert count(windows, row, 4) == 1


@pytest.mark.promise(41)
def test_consent_is_counted_separately(windows: RedisWindows, parameters: Parameters) -> None:
    """People who consented count once among all people, and once among those who consented, in any order of facts."""
    first, second = parameters.registry.by_shard[2][:2].tolist()
    facts = make_present(EVENING, (first, ANN), (first + CONSENT, ANN), (first, BOB), (second, EVE))
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 2)], facts)
    windows.write([OffsetRange(0, 2, 3)], make_present(EVENING, (first, ANN), (second + CONSENT, EVE), (second, EVE)))
    reading = windows.read({2: Question(times=(EVENING, MORNING), consenting=(EVENING,))})[2]
    assert reading.present[EVENING].tolist()[:2] == [2, 1]
    assert reading.consenting[EVENING].tolist()[:2] == [1, 1]
    assert set(reading.consenting) == {EVENING}


def test_slots_before_the_origin(windows: RedisWindows, row: int) -> None:
    """Slots before the origin count like others."""
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([OffsetRange(0, 0, 2)], make_seen(row, (ANN, -3), (BOB, -8)))
    # slot    -8 … -5 -4 -3
    # Ann                x
    # Bob      x
    # window       [------]
    assert count(windows, row, -5) == 1


@pytest.mark.promise(27)
def test_write_is_idempotent(windows: RedisWindows, row: int) -> None:
    """Writing again has no effect."""
    windows.begin(0, 0, 0)
    for _ in range(3):
        assert windows.write([OffsetRange(0, 0, 2)], make_seen(row, (ANN, 3), (BOB, 4))) == {0: 2}
    assert count(windows, row, 0) == 2
    assert find_lowest(windows) == {0: 2}


@pytest.mark.promise(27)
def test_order_of_writes(windows: RedisWindows, row: int) -> None:
    """The order of writes has no effect."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 1)], make_seen(row, (ANN, 9)))
    windows.write([OffsetRange(0, 1, 2)], make_seen(row, (ANN, 3)))
    # slot    3 … 9
    # Ann     2nd 1st
    # window     [--]    the older visit, written later, does not hide the newer one
    assert count(windows, row, 8) == 1


@pytest.mark.promise(6)
def test_zombie_write(windows: RedisWindows, row: int) -> None:
    """A late write of a zombie reverts nothing."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 10)], make_seen(row, (ANN, 5)))
    windows.write([OffsetRange(0, 10, 20)], make_seen(row, (BOB, 6)))
    # offsets  0 ——— 10 ——— 20
    # zombie   0 ——— 10
    assert windows.write([OffsetRange(0, 0, 10)], make_seen(row, (ANN, 5))) == {0: 20}
    assert count(windows, row, 5) == 2


@pytest.mark.promise(6)
def test_write_after_a_gap(windows: RedisWindows, row: int) -> None:
    """A write after a gap does not advance progress."""
    windows.begin(0, 0, 0)
    # offsets  0 ——— 10        20 ——— 30
    # progress 0
    assert windows.write([OffsetRange(0, 20, 30)], make_seen(row, (ANN, 5))) == {0: 0}
    assert find_lowest(windows) == {0: 0}


def test_write_without_progress(windows: RedisWindows, row: int) -> None:
    """A write without progress does not start it."""
    assert windows.write([OffsetRange(0, 0, 10)], make_seen(row, (ANN, 5))) == {0: -1}
    assert windows.read_progress() == [{}, {}, {}, {}]


def test_overlapping_write(windows: RedisWindows) -> None:
    """An overlapping write advances progress to its end."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 10)], {})
    # offsets  0 ——— 10
    #             5 ——— 15
    assert windows.write([OffsetRange(0, 5, 15)], {}) == {0: 15}


def test_shards_without_facts_advance(windows: RedisWindows, row: int) -> None:
    """A shard without facts advances too."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 10)], make_seen(row, (ANN, 5)))
    assert windows.read_progress() == [{0: 10}] * 4


def test_partitions_advance_independently(windows: RedisWindows) -> None:
    """Partitions advance independently of each other."""
    windows.begin(0, 0, 0)
    windows.begin(7, 100, 0)
    assert windows.write([OffsetRange(0, 0, 10), OffsetRange(7, 105, 110)], {}) == {0: 10, 7: 100}


def test_begin_keeps_progress(windows: RedisWindows) -> None:
    """`begin` does not change existing progress."""
    windows.begin(0, 5, 3)
    windows.begin(0, 50, 30)
    assert windows.read_progress() == [{0: 5}] * 4
    assert windows.read({0: Question()})[0].complete_from == 3


def test_begin_raises_complete_from(windows: RedisWindows) -> None:
    """A further partition may raise `complete_from`, but never lowers it."""
    windows.begin(0, 0, 30)
    windows.begin(1, 0, COMPLETE_FROM_START)
    assert windows.read({0: Question()})[0].complete_from == 30
    windows.begin(2, 0, 40)
    assert windows.read({0: Question()})[0].complete_from == 40


def test_restart(windows: RedisWindows) -> None:
    """`restart` may move progress back, and raises `complete_from`."""
    windows.begin(0, 0, 3)
    windows.write([OffsetRange(0, 0, 100)], {})
    windows.restart(0, 20, 8)
    assert windows.read_progress() == [{0: 20}] * 4
    windows.restart(0, 10, 4)
    assert windows.read({shard: Question() for shard in EVERY_SHARD})[3].complete_from == 8


def test_numbers_of_sixteen_digits(windows: RedisWindows) -> None:
    """Offsets and instants of 16 digits stay exact."""
    start = 2**53 - 10
    windows.begin(0, start, 0)
    assert windows.write([OffsetRange(0, start, start + 7)], {}) == {0: start + 7}
    windows.evict(EVERY_SHARD, 0, [EVENING + 1], [])
    assert windows.read({1: Question()})[1].times_evicted_until == EVENING + 1


def test_designated_time_by_location(windows: RedisWindows, parameters: Parameters) -> None:
    """People at a designated time are counted by location."""
    rows = parameters.registry.by_shard[2]
    first, last = int(rows[0]), int(rows[-1])
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 4)], make_present(EVENING, (first, ANN), (first, BOB), (last, EVE), (first, ANN)))
    windows.write([OffsetRange(0, 4, 5)], make_present(EVENING, (first, ANN)))
    counts = windows.read({2: Question(times=(EVENING,))})[2].present[EVENING]
    assert counts.tolist() == [2, *[0] * (rows.size - 2), 1]
    assert counts.dtype == np.int64


def test_designated_times_are_separate(windows: RedisWindows, row: int) -> None:
    """Designated times are counted separately."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 1)], make_present(EVENING, (row, ANN)))
    windows.write([OffsetRange(0, 1, 3)], make_present(MORNING, (row, ANN), (row, BOB)))
    reading = windows.read({2: Question(times=(MORNING, EVENING))})[2]
    assert [int(reading.present[instant][0]) for instant in (MORNING, EVENING)] == [2, 1]


@pytest.mark.promise(16)
def test_person_at_two_places(windows: RedisWindows, parameters: Parameters) -> None:
    """A person at two places at a designated time counts at both."""
    first, second = (int(row) for row in parameters.registry.by_shard[2][:2])
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 2)], make_present(EVENING, (first, ANN), (second, ANN)))
    assert windows.read({2: Question(times=(EVENING,))})[2].present[EVENING][:2].tolist() == [1, 1]


@pytest.mark.promise(6)
def test_eviction_is_recorded(windows: RedisWindows, row: int) -> None:
    """Eviction raises `evicted_before`."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 3)], make_seen(row, (ANN, 3), (BOB, 4), (EVE, 5)))
    windows.evict(EVERY_SHARD, 4, [], [])
    # slot    3 4 5
    # Ann     x         evicted
    # Bob       x
    # Eve         x
    assert count(windows, row, 0) == 2
    assert windows.read({2: Question()})[2].evicted_before == 4


def test_eviction_bounds_never_fall(windows: RedisWindows) -> None:
    """`evicted_before` and `times_evicted_until` are never lowered."""
    windows.evict(EVERY_SHARD, 9, [EVENING], [])
    windows.evict(EVERY_SHARD, 4, [MORNING], [])
    reading = windows.read({0: Question()})[0]
    assert (reading.evicted_before, reading.times_evicted_until) == (9, EVENING)


def test_evicted_time_is_recorded(windows: RedisWindows, row: int) -> None:
    """An evicted designated time has no people, and raises `times_evicted_until`."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 1)], make_present(MORNING, (row, ANN)))
    windows.write([OffsetRange(0, 1, 2)], make_present(EVENING, (row, ANN)))
    windows.evict([2], 0, [MORNING], [EVENING])
    reading = windows.read({2: Question(times=(MORNING, EVENING))})[2]
    assert [int(reading.present[instant][0]) for instant in (MORNING, EVENING)] == [0, 1]
    assert reading.times_evicted_until == MORNING


def test_evict_named_shards(windows: RedisWindows, row: int) -> None:
    """Only the named shards are evicted."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 1)], make_seen(row, (ANN, 3)))
    windows.evict([0, 1], 5, [], [])
    assert count(windows, row, 0) == 1
    assert [reading.evicted_before for reading in windows.read({1: Question(), 2: Question()}).values()] == [
        5,
        COMPLETE_FROM_START,
    ]


def test_evict_keeps_progress(windows: RedisWindows) -> None:
    """Eviction does not change progress and `complete_from`."""
    windows.begin(0, 5, 3)
    windows.evict(EVERY_SHARD, 9, [EVENING], [])
    assert windows.read_progress() == [{0: 5}] * 4
    assert windows.read({0: Question()})[0].complete_from == 3


def test_large_batch(windows: RedisWindows, row: int) -> None:
    """A batch larger than one command is written completely."""
    people = [number.to_bytes(16, "big") for number in range(25_001)]
    facts = pack_shard_facts(
        OPEN, seen={row: [(person, 5) for person in people]}, present={EVENING: [(row, person) for person in people]}
    )
    windows.begin(0, 0, 0)
    assert windows.write([OffsetRange(0, 0, 50)], {2: facts}) == {0: 50}
    reading = windows.read({2: Question(windows=((5, [row]),), times=(EVENING,))})[2]
    assert (reading.counts[0][0], int(reading.present[EVENING][0])) == (25_001, 25_001)


def test_empty_writes_and_reads(windows: RedisWindows) -> None:
    """Empty facts, writes and questions are allowed."""
    windows.begin(0, 0, 0)
    assert windows.write([OffsetRange(0, 0, 1)], {2: []}) == {0: 1}
    assert windows.write([], {}) == {}
    assert windows.read({}) == {}


def test_time(windows: RedisWindows, clock: SteppedClock) -> None:
    """`time` is the store's clock, for one shard or for all, before anything is written."""
    clock.move_to(EVENING)
    assert windows.time() == windows.time(EVERY_SHARD) == EVENING
    assert windows.is_empty()


@pytest.mark.promise(44)
def test_longest_length_remains(dwell_windows: RedisWindows, parameters: Parameters) -> None:
    """Of several lengths of a person at a place, in any order, the longest remains. Waiting facts do not count."""
    row = int(parameters.registry.by_shard[2][0])

    def stays(*lengths: tuple[int, bytes], stamp: int = OPEN) -> Portions:
        return {2: pack_shard_facts(stamp, stays=[(EVENING, length, row, person) for length, person in lengths])}

    dwell_windows.begin(0, 0, 0)
    dwell_windows.write([OffsetRange(0, 0, 2)], stays((60, ANN), (600, ANN), (7, BOB)))
    dwell_windows.write([OffsetRange(0, 2, 3)], stays((300, ANN)))
    dwell_windows.write([OffsetRange(0, 3, 4)], stays((9, EVE), stamp=10**6))
    reading = dwell_windows.read({2: Question(times=(EVENING,), stays=(EVENING,))})[2]
    assert sorted(reading.stays[EVENING]) == [(ANN, row, 600), (BOB, row, 7)]
    dwell_windows.evict([2], 0, [EVENING], [])
    dwell_windows.write([OffsetRange(0, 4, 5)], stays((300, ANN)))
    assert list(dwell_windows.read({2: Question(stays=(EVENING,))})[2].stays[EVENING]) == []
