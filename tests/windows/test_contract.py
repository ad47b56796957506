"""What every store of windows keeps to: one suite for memory, Valkey, Redis and a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.public.clock import SteppedClock
from monitor.public.parameters import Parameters
from monitor.windows.facts import COMPLETE_FROM_START, NEVER, Question, ShardFacts, Span, Windows
from monitor.windows.packing import pack_shard_facts

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


def seen(row: int, *visits: tuple[bytes, int], shard: int = 2, stamp: int = OPEN) -> dict[int, list[ShardFacts]]:
    """Facts: these people were last seen at the row in these slots, as records stamped in a slot say."""
    return {shard: [pack_shard_facts(stamp, seen={row: visits})]}


def present(instant: int, *visits: tuple[int, bytes], shard: int = 2, stamp: int = OPEN) -> dict[int, list[ShardFacts]]:
    """Facts: these people were at these rows at a designated time."""
    return {shard: [pack_shard_facts(stamp, present={instant: visits})]}


def count(windows: Windows, row: int, first_slot: int, shard: int = 2) -> int:
    """Distinct people at the row from a slot on."""
    reading = windows.read({shard: Question(windows=((row, first_slot),))})[shard]
    return reading.counts[row, first_slot]


def lowest(windows: Windows) -> dict[int, int]:
    """By partition, the lowest progress of all shards."""
    shards = windows.progress()
    return {partition: min(shard.get(partition, -1) for shard in shards) for partition in shards[0]}


def test_a_store_that_nothing_was_written_to_is_empty(windows: Windows) -> None:
    assert windows.empty()
    assert windows.progress() == [{}, {}, {}, {}]
    windows.begin(0, 0, COMPLETE_FROM_START)
    assert not windows.empty()


def test_nothing_is_known_before_it_was_begun(windows: Windows, row: int, parameters: Parameters) -> None:
    reading = windows.read({2: Question(windows=((row, 0),), times=(EVENING,))})[2]
    assert reading.progress == {}
    assert (reading.complete_from, reading.evicted_before, reading.times_evicted_until) == (
        COMPLETE_FROM_START,
        COMPLETE_FROM_START,
        NEVER,
    )
    assert reading.counts == {(row, 0): 0}
    assert reading.present[EVENING].tolist() == [0] * parameters.registry.by_shard[2].size


def test_a_store_in_order_passes_its_check(windows: Windows) -> None:
    windows.check()


def test_one_person_counts_once_however_often_they_come(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 3)], seen(row, (ANN, 5), (ANN, 7), (BOB, 6)))
    # slot    5 6 7
    # Ann     x   x
    # Bob       x
    # window  [---]
    assert count(windows, row, 5) == 2


def test_a_later_visit_does_not_fall_out_of_an_earlier_window(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 2)], seen(row, (ANN, 3), (ANN, 9)))
    # slot           2 3 4 5 6 7 8 9
    # Ann              x           x
    # window at 5   [--------]          she was there, though she came again after it
    assert count(windows, row, 2) == 1


def test_who_was_last_seen_before_the_window_does_not_count(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 2)], seen(row, (ANN, 3), (BOB, 4)))
    # slot    3 4 5 6
    # Ann     x
    # Bob       x
    # window   [-----]
    assert count(windows, row, 4) == 1


def test_slots_before_the_origin_count_as_others_do(windows: Windows, row: int) -> None:
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([Span(0, 0, 2)], seen(row, (ANN, -3), (BOB, -8)))
    # slot    -8 … -5 -4 -3
    # Ann                x
    # Bob      x
    # window       [------]
    assert count(windows, row, -5) == 1


def test_writing_again_changes_nothing(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    for _ in range(3):
        assert windows.write([Span(0, 0, 2)], seen(row, (ANN, 3), (BOB, 4))) == {0: 2}
    assert count(windows, row, 0) == 2
    assert lowest(windows) == {0: 2}


def test_the_order_of_writes_does_not_matter(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 1)], seen(row, (ANN, 9)))
    windows.write([Span(0, 1, 2)], seen(row, (ANN, 3)))
    # slot    3 … 9
    # Ann     2nd 1st
    # window     [--]    the older visit, written later, does not hide the newer one
    assert count(windows, row, 8) == 1


def test_a_zombie_write_after_newer_ones_takes_nothing_back(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 10)], seen(row, (ANN, 5)))
    windows.write([Span(0, 10, 20)], seen(row, (BOB, 6)))
    # offsets  0 ——— 10 ——— 20
    # zombie   0 ——— 10
    assert windows.write([Span(0, 0, 10)], seen(row, (ANN, 5))) == {0: 20}
    assert count(windows, row, 5) == 2


def test_a_write_that_would_leave_a_hole_does_not_advance(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    # offsets  0 ——— 10        20 ——— 30
    # progress 0
    assert windows.write([Span(0, 20, 30)], seen(row, (ANN, 5))) == {0: 0}
    assert lowest(windows) == {0: 0}


def test_without_progress_a_write_does_not_advance(windows: Windows, row: int) -> None:
    assert windows.write([Span(0, 0, 10)], seen(row, (ANN, 5))) == {0: -1}
    assert windows.progress() == [{}, {}, {}, {}]


def test_an_overlapping_write_advances_to_its_end(windows: Windows) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 10)], {})
    # offsets  0 ——— 10
    #             5 ——— 15
    assert windows.write([Span(0, 5, 15)], {}) == {0: 15}


def test_every_shard_advances_also_without_facts_for_it(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 10)], seen(row, (ANN, 5)))
    assert windows.progress() == [{0: 10}] * 4


def test_partitions_advance_by_themselves(windows: Windows) -> None:
    windows.begin(0, 0, 0)
    windows.begin(7, 100, 0)
    assert windows.write([Span(0, 0, 10), Span(7, 105, 110)], {}) == {0: 10, 7: 100}


def test_begin_leaves_progress_that_is_there_alone(windows: Windows) -> None:
    windows.begin(0, 5, 3)
    windows.begin(0, 50, 30)
    assert windows.progress() == [{0: 5}] * 4
    assert windows.read({0: Question()})[0].complete_from == 3


def test_a_second_partition_raises_since_but_never_lowers_it(windows: Windows) -> None:
    windows.begin(0, 0, 30)
    windows.begin(1, 0, COMPLETE_FROM_START)
    assert windows.read({0: Question()})[0].complete_from == 30
    windows.begin(2, 0, 40)
    assert windows.read({0: Question()})[0].complete_from == 40


def test_restart_sets_progress_back_and_raises_since(windows: Windows) -> None:
    windows.begin(0, 0, 3)
    windows.write([Span(0, 0, 100)], {})
    windows.restart(0, 20, 8)
    assert windows.progress() == [{0: 20}] * 4
    windows.restart(0, 10, 4)
    assert windows.read({shard: Question() for shard in EVERY_SHARD})[3].complete_from == 8


def test_offsets_and_instants_of_sixteen_digits_stay_exact(windows: Windows) -> None:
    start = 2**53 - 10
    windows.begin(0, start, 0)
    assert windows.write([Span(0, start, start + 7)], {}) == {0: start + 7}
    windows.evict(EVERY_SHARD, 0, [EVENING + 1], [])
    assert windows.read({1: Question()})[1].times_evicted_until == EVENING + 1


def test_people_at_a_designated_time_are_counted_by_location(windows: Windows, parameters: Parameters) -> None:
    rows = parameters.registry.by_shard[2]
    first, last = int(rows[0]), int(rows[-1])
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 4)], present(EVENING, (first, ANN), (first, BOB), (last, EVE), (first, ANN)))
    windows.write([Span(0, 4, 5)], present(EVENING, (first, ANN)))
    counts = windows.read({2: Question(times=(EVENING,))})[2].present[EVENING]
    assert counts.tolist() == [2, *[0] * (rows.size - 2), 1]
    assert counts.dtype == np.int64


def test_designated_times_are_kept_apart(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 1)], present(EVENING, (row, ANN)))
    windows.write([Span(0, 1, 3)], present(MORNING, (row, ANN), (row, BOB)))
    reading = windows.read({2: Question(times=(MORNING, EVENING))})[2]
    assert [int(reading.present[instant][0]) for instant in (MORNING, EVENING)] == [2, 1]


def test_one_person_at_two_places_at_one_time_counts_at_both(windows: Windows, parameters: Parameters) -> None:
    first, second = (int(row) for row in parameters.registry.by_shard[2][:2])
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 2)], present(EVENING, (first, ANN), (second, ANN)))
    assert windows.read({2: Question(times=(EVENING,))})[2].present[EVENING][:2].tolist() == [1, 1]


def test_trimming_shows_as_trimmed(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 3)], seen(row, (ANN, 3), (BOB, 4), (EVE, 5)))
    windows.evict(EVERY_SHARD, 4, [], [])
    # slot    3 4 5
    # Ann     x         cut off
    # Bob       x
    # Eve         x
    assert count(windows, row, 0) == 2
    assert windows.read({2: Question()})[2].evicted_before == 4


def test_trimmed_and_dropped_are_never_lowered(windows: Windows) -> None:
    windows.evict(EVERY_SHARD, 9, [EVENING], [])
    windows.evict(EVERY_SHARD, 4, [MORNING], [])
    reading = windows.read({0: Question()})[0]
    assert (reading.evicted_before, reading.times_evicted_until) == (9, EVENING)


def test_a_dropped_time_is_gone_and_shows_as_dropped(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 1)], present(MORNING, (row, ANN)))
    windows.write([Span(0, 1, 2)], present(EVENING, (row, ANN)))
    windows.evict([2], 0, [MORNING], [EVENING])
    reading = windows.read({2: Question(times=(MORNING, EVENING))})[2]
    assert [int(reading.present[instant][0]) for instant in (MORNING, EVENING)] == [0, 1]
    assert reading.times_evicted_until == MORNING


def test_only_the_shards_that_are_named_are_tidied(windows: Windows, row: int) -> None:
    windows.begin(0, 0, 0)
    windows.write([Span(0, 0, 1)], seen(row, (ANN, 3)))
    windows.evict([0, 1], 5, [], [])
    assert count(windows, row, 0) == 1
    assert [reading.evicted_before for reading in windows.read({1: Question(), 2: Question()}).values()] == [
        5,
        COMPLETE_FROM_START,
    ]


def test_tidying_leaves_progress_and_since_alone(windows: Windows) -> None:
    windows.begin(0, 5, 3)
    windows.evict(EVERY_SHARD, 9, [EVENING], [])
    assert windows.progress() == [{0: 5}] * 4
    assert windows.read({0: Question()})[0].complete_from == 3


def test_a_batch_larger_than_one_command_is_written_whole(windows: Windows, row: int) -> None:
    people = [number.to_bytes(16, "big") for number in range(25_001)]
    facts = pack_shard_facts(
        OPEN, seen={row: [(who, 5) for who in people]}, present={EVENING: [(row, who) for who in people]}
    )
    windows.begin(0, 0, 0)
    assert windows.write([Span(0, 0, 50)], {2: [facts]}) == {0: 50}
    reading = windows.read({2: Question(windows=((row, 5),), times=(EVENING,))})[2]
    assert (reading.counts[row, 5], int(reading.present[EVENING][0])) == (25_001, 25_001)


def test_no_facts_are_no_facts(windows: Windows) -> None:
    windows.begin(0, 0, 0)
    assert windows.write([Span(0, 0, 1)], {2: [ShardFacts(OPEN)]}) == {0: 1}
    assert windows.write([], {}) == {}
    assert windows.read({}) == {}


def test_time_is_the_stores_clock(windows: Windows, clock: SteppedClock) -> None:
    """The same clock that a reading has, for one shard or for all, before anything is written."""
    clock.move_to(EVENING)
    assert windows.time() == windows.time(EVERY_SHARD) == EVENING
    assert windows.empty()
