"""The contract of every store of windows: one suite for memory, Valkey, Redis and a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.kinds.facts_and_questions import (
    COMPLETE_FROM_START,
    CONSENT,
    NEVER,
    BucketCount,
    OffsetRange,
    Portions,
    Question,
    Since,
)
from monitor.kinds.parameters import Parameters
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
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


def count(windows: RedisStore, row: int, first_slot: int, shard: int = 2) -> int:
    """Return the distinct people at the row from a slot on."""
    reading = windows.read({shard: Question(windows=((first_slot, [row]),))})[shard]
    return int(reading.counts[0][0])


def test_store_before_begin(windows: RedisStore, row: int, parameters: Parameters) -> None:
    """Before `begin`, the store is empty, there is no progress, a write does not start it, and nobody is counted."""
    assert windows.is_empty()
    assert windows.write([OffsetRange(0, 0, 10)], make_seen(row, (ANN, 5))) == {0: -1}
    assert windows.read_progress() == [{}, {}, {}, {}]
    reading = windows.read({2: Question(windows=((0, [row]),), times=(EVENING,))})[2]
    assert reading.progress == {}
    assert (reading.complete_from, reading.evicted_before, reading.times_evicted_until) == (
        COMPLETE_FROM_START,
        COMPLETE_FROM_START,
        NEVER,
    )
    assert reading.counts[0].tolist() == [0]
    assert reading.present[EVENING].tolist() == [0] * parameters.registry.by_shard[2].size
    windows.begin(0, 0, COMPLETE_FROM_START)
    assert not windows.is_empty()
    assert windows.write([], {}) == {}
    assert windows.read({}) == {}


Visits = tuple[tuple[bytes, int], ...]
IN_WINDOW: dict[str, tuple[Visits, int, int]] = {
    "several times": (((ANN, 5), (ANN, 7), (BOB, 6)), 5, 2),
    "again after the window": (((ANN, 3), (ANN, 9)), 2, 1),  # at tick 5: she was there, although she came again later
    "before the window": (((ANN, 3), (BOB, 4)), 4, 1),
    "before the origin": (((ANN, -3), (BOB, -8)), -5, 1),
}


@pytest.mark.promise(9)
@pytest.mark.parametrize(("visits", "first_slot", "people"), IN_WINDOW.values(), ids=IN_WINDOW)
def test_people_in_a_window(windows: RedisStore, row: int, visits: Visits, first_slot: int, people: int) -> None:
    """A window counts each person once who came in its first slot or later. There is no upper bound."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 3)], make_seen(row, *visits))
    assert count(windows, row, first_slot) == people


@pytest.mark.promise(9)
def test_people_by_what_was_reported_since(windows: RedisStore, row: int) -> None:
    """
    A count since a tick has the people in the window with a record that was stamped after the tick's slot.

        record     ann: slot -7, stamp -7    ann: slot -8, stamp -5    bob: slot -6, stamp -6    eve: slot -1, stamp -2
    """
    windows.begin(0, 0, 0)
    stamped = [(-7, (ANN, -7)), (-5, (ANN, -8)), (-6, (BOB, -6)), (-2, (EVE, -1))]
    for offset, (stamp, visit) in enumerate(stamped):
        packed = {2: pack_shard_facts(stamp, seen={row: [visit]}, reported={row: [visit]})}
        for _ in range(2):
            windows.write([OffsetRange(0, offset, offset + 1)], packed)
    expected = {(-8, -8): 3, (-7, -8): 3, (-7, -7): 2, (-8, -6): 2, (-7, -6): 1, (-6, -7): 2, (-5, -7): 1, (-8, -2): 0}
    asked = tuple(Since(start, tick, row) for start, tick in expected)
    assert list(windows.read({2: Question(since=asked)})[2].since.values()) == list(expected.values())


@pytest.mark.promise(9)
def test_people_by_bucket(windows: RedisStore, row: int) -> None:
    """
    A person counts once in each bucket with a report, also after later reports; buckets are evicted whole.

        bucket     -8 -7    -6 -5
        reported   ann bob   ann ann
    """
    windows.begin(0, 0, 0)
    asked = tuple(BucketCount(row, last) for last in (-9, -7, -5))
    reports = [(-7, ANN, -7), (-8, BOB, -7), (-6, ANN, -5), (-5, ANN, -5)]
    for offset, (stamp, person, last) in enumerate(reports):
        portions = {2: pack_shard_facts(stamp, bucketed={row: [(person, last)]})}
        for _ in range(2):
            windows.write([OffsetRange(0, offset, offset + 1)], portions)
    assert list(windows.read({2: Question(buckets=asked)})[2].buckets.values()) == [0, 2, 1]
    windows.evict([2], -6, [], [])  # F = 1, so the earlier bucket may have a visit in slot -6
    assert list(windows.read({2: Question(buckets=asked)})[2].buckets.values()) == [0, 2, 1]
    windows.evict([2], -5, [], [])
    assert list(windows.read({2: Question(buckets=asked)})[2].buckets.values()) == [0, 0, 1]


@pytest.mark.promise(41)
def test_consent_is_counted_separately(windows: RedisStore, parameters: Parameters) -> None:
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


@pytest.mark.promise(6, 27)
def test_writes_in_any_order(windows: RedisStore, row: int) -> None:
    """A write advances every shard that has reached its start. Writing again, late, or in another order adds nothing.

    Ann came in slot 9 and then in slot 3; the older visit, written later, does not hide the newer one.
    """
    windows.begin(0, 0, 0)
    late, early = (make_seen(row, (ANN, slot), (BOB, 5)) for slot in (9, 3))
    for start, end, facts, reached in (
        (0, 10, late, 10),
        (10, 20, early, 20),
        (0, 10, late, 20),  # a zombie
        (15, 25, {}, 25),
    ):
        assert windows.write([OffsetRange(0, start, end)], facts) == {0: reached}
        assert windows.read_progress() == [{0: reached}] * 4
    assert [count(windows, row, first_slot) for first_slot in (5, 8, 10)] == [2, 1, 0]


@pytest.mark.promise(6)
def test_write_after_a_gap(windows: RedisStore, row: int) -> None:
    """A write after a gap does not advance progress, and another partition advances independently."""
    windows.begin(0, 0, 0)
    windows.begin(7, 100, 0)
    assert windows.write([OffsetRange(0, 20, 30), OffsetRange(7, 100, 110)], make_seen(row, (ANN, 5))) == {0: 0, 7: 110}
    assert windows.read_progress() == [{0: 0, 7: 110}] * 4


def test_begin(windows: RedisStore) -> None:
    """`begin` changes no progress that exists. A further partition may raise `complete_from`, but never lowers it."""
    for partition, offset, complete_from, then in (
        (0, 5, 3, 3),
        (0, 50, 30, 3),
        (1, 0, COMPLETE_FROM_START, 3),
        (2, 0, 9, 9),
    ):
        windows.begin(partition, offset, complete_from)
        assert windows.read({0: Question()})[0].complete_from == then
    assert windows.read_progress() == [{0: 5, 1: 0, 2: 0}] * 4


def test_restart(windows: RedisStore) -> None:
    """`restart` may move progress back, and raises `complete_from`."""
    windows.begin(0, 0, 3)
    windows.write([OffsetRange(0, 0, 100)], {})
    windows.restart(0, 20, 8)
    assert windows.read_progress() == [{0: 20}] * 4
    windows.restart(0, 10, 4)
    assert windows.read({shard: Question() for shard in EVERY_SHARD})[3].complete_from == 8


def test_numbers_of_sixteen_digits(windows: RedisStore) -> None:
    """Offsets and instants of 16 digits stay exact."""
    start = 2**53 - 10
    windows.begin(0, start, 0)
    assert windows.write([OffsetRange(0, start, start + 7)], {}) == {0: start + 7}
    windows.evict(EVERY_SHARD, 0, [EVENING + 1], [])
    assert windows.read({1: Question()})[1].times_evicted_until == EVENING + 1


@pytest.mark.promise(16)
def test_people_at_designated_times(windows: RedisStore, parameters: Parameters) -> None:
    """People are counted by designated time and location. A person at two places at one time counts at both."""
    rows = parameters.registry.by_shard[2]
    first, last = int(rows[0]), int(rows[-1])
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 4)], make_present(EVENING, (first, ANN), (first, BOB), (last, ANN), (first, ANN)))
    windows.write([OffsetRange(0, 4, 5)], make_present(EVENING, (first, ANN)))
    windows.write([OffsetRange(0, 5, 6)], make_present(MORNING, (last, EVE)))
    present = windows.read({2: Question(times=(EVENING, MORNING))})[2].present
    assert present[EVENING].tolist() == [2, *[0] * (rows.size - 2), 1]
    assert present[MORNING].tolist() == [*[0] * (rows.size - 1), 1]
    assert present[EVENING].dtype == np.int64


@pytest.mark.promise(6)
def test_eviction_is_recorded(windows: RedisStore, row: int) -> None:
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


def test_evicted_time_is_recorded(windows: RedisStore, row: int) -> None:
    """An evicted designated time has no people, and raises `times_evicted_until`."""
    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 1)], make_present(MORNING, (row, ANN)))
    windows.write([OffsetRange(0, 1, 2)], make_present(EVENING, (row, ANN)))
    windows.evict([2], 0, [MORNING], [EVENING])
    reading = windows.read({2: Question(times=(MORNING, EVENING))})[2]
    assert [int(reading.present[instant][0]) for instant in (MORNING, EVENING)] == [0, 1]
    assert reading.times_evicted_until == MORNING


def test_eviction_changes_nothing_else(windows: RedisStore, row: int) -> None:
    """Eviction never lowers its bounds, and changes neither other shards nor progress and `complete_from`."""
    windows.begin(0, 5, 3)
    windows.write([OffsetRange(0, 5, 6)], make_seen(row, (ANN, 3)))
    windows.evict([0, 1], 9, [EVENING], [])
    windows.evict([0, 1], 4, [MORNING], [])
    reading, other = windows.read({0: Question(), 2: Question()}).values()
    assert (reading.evicted_before, reading.times_evicted_until) == (9, EVENING)
    assert (other.evicted_before, other.times_evicted_until) == (COMPLETE_FROM_START, NEVER)
    assert (reading.progress, reading.complete_from) == (other.progress, other.complete_from) == ({0: 6}, 3)
    assert count(windows, row, 0) == 1


def test_large_batch(windows: RedisStore, row: int) -> None:
    """A batch larger than one command is written completely."""
    people = [number.to_bytes(16, "big") for number in range(25_001)]
    facts = pack_shard_facts(
        OPEN, seen={row: [(person, 5) for person in people]}, present={EVENING: [(row, person) for person in people]}
    )
    windows.begin(0, 0, 0)
    assert windows.write([OffsetRange(0, 0, 50)], {2: facts}) == {0: 50}
    reading = windows.read({2: Question(windows=((5, [row]),), times=(EVENING,))})[2]
    assert (reading.counts[0][0], int(reading.present[EVENING][0])) == (25_001, 25_001)


def test_time(windows: RedisStore, clock: SteppedClock) -> None:
    """`time` is the store's clock, for one shard or for all, before anything is written."""
    clock.move_to(EVENING)
    assert windows.time() == windows.time(EVERY_SHARD) == EVENING
    assert windows.is_empty()


@pytest.mark.promise(44)
def test_longest_length_remains(windows: RedisStore, parameters: Parameters) -> None:
    """Of several lengths of a person at a place, in any order, the longest remains. Waiting facts do not count."""
    row = int(parameters.registry.by_shard[2][0])

    def stays(*lengths: tuple[int, bytes], stamp: int = OPEN) -> Portions:
        return {2: pack_shard_facts(stamp, stays=[(EVENING, length, row, person) for length, person in lengths])}

    windows.begin(0, 0, 0)
    windows.write([OffsetRange(0, 0, 2)], stays((60, ANN), (600, ANN), (7, BOB)))
    windows.write([OffsetRange(0, 2, 3)], stays((300, ANN)))
    windows.write([OffsetRange(0, 3, 4)], stays((9, EVE), stamp=10**6))
    reading = windows.read({2: Question(times=(EVENING,), stays=(EVENING,))})[2]
    assert sorted(reading.stays[EVENING]) == [(ANN, row, 600), (BOB, row, 7)]
    windows.evict([2], 0, [EVENING], [])
    windows.write([OffsetRange(0, 4, 5)], stays((300, ANN)))
    assert list(windows.read({2: Question(stays=(EVENING,))})[2].stays[EVENING]) == []
