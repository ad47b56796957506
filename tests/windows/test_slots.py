"""Which facts a tick counts: those stamped up to its slot, and no others; the rest waits. On every store of windows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from monitor.public.clock import SteppedClock
from monitor.public.parameters import Parameters
from monitor.tools.embedded import EmbeddedValkey
from monitor.windows.facts import COMPLETE_FROM_START, Question, Reading, ShardFacts, Span, Windows
from monitor.windows.keys import Keys
from monitor.windows.packing import pack_shard_facts
from monitor.windows.redis_store import RedisWindows

ANN, BOB, EVE = (letter * 16 for letter in (b"a", b"b", b"e"))
EVENING = 1_767_258_000_000_000
MERGED = 50_000  # facts that one script moves


@pytest.fixture
def row(parameters: Parameters) -> int:
    """A row of shard 2."""
    return int(parameters.registry.by_shard[2][0])


def facts(row: int, stamp: int, *people: bytes, last: int | None = None) -> dict[int, list[ShardFacts]]:
    """These people were at the row in a slot, and in the evening, as records stamped in slot `stamp` say."""
    slot = stamp if last is None else last
    visits, stays = [(who, slot) for who in people], [(row, who) for who in people]
    return {2: [pack_shard_facts(stamp, {row: visits}, {EVENING: stays})]}


def ask(windows: Windows, row: int, tick: int) -> Reading:
    """What tick t reads of the row, from the first slot on, and of the evening."""
    return windows.read({2: Question(((row, COMPLETE_FROM_START),), (EVENING,), tick)})[2]


def counted(windows: Windows, row: int, tick: int) -> tuple[int, int]:
    """The people in the window and in the evening."""
    reading = ask(windows, row, tick)
    assert reading.settled
    return reading.counts[row, COMPLETE_FROM_START], int(reading.present[EVENING][0])


@pytest.fixture
def at(parameters: Parameters, clock: SteppedClock) -> Callable[[int], None]:
    """Moves the clock to a slot: `at(6)`."""
    return lambda slot: clock.move_to(parameters.grid.start(slot))


At = Callable[[int], None]


def test_what_is_stamped_after_the_tick_waits_for_the_next_one(windows: Windows, row: int, at: At) -> None:
    """In slot 6 tick 5 is read, after what was stamped in slots 5 and 6 was written together."""
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([Span(0, 0, 3)], {2: [*facts(row, 5, ANN, BOB)[2], *facts(row, 6, EVE, last=5)[2]]})
    assert counted(windows, row, 5) == (2, 2)
    at(7)
    assert counted(windows, row, 6) == (3, 3)


def test_once_the_tick_is_in_the_ledger_the_next_slot_comes_in_and_the_tick_is_not_counted_again(
    windows: Windows, row: int, at: At
) -> None:
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([Span(0, 0, 2)], {2: [*facts(row, 5, ANN)[2], *facts(row, 6, BOB)[2]]})
    assert counted(windows, row, 5) == (1, 1)
    windows.open([2], 6)
    assert not ask(windows, row, 5).settled
    windows.write([Span(0, 2, 3)], facts(row, 6, EVE))
    at(7)
    assert counted(windows, row, 6) == (3, 3)


def test_a_slot_that_has_not_begun_is_not_opened(windows: Windows, row: int, at: At) -> None:
    """An owner whose clock is fast says so: what a fast broker stamps waits all the same."""
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([Span(0, 0, 2)], {2: [*facts(row, 6, ANN)[2], *facts(row, 7, BOB)[2]]})
    windows.open([2], 9)
    at(7)
    assert counted(windows, row, 6) == (1, 1)


def test_a_slot_that_has_closed_is_opened_by_whoever_writes_next(windows: Windows, row: int, at: At) -> None:
    """Nobody decided tick 5: by slot 7 nobody will."""
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([Span(0, 0, 1)], facts(row, 6, ANN))
    at(7)
    windows.write([Span(0, 1, 2)], facts(row, 7, BOB))
    assert windows.read({2: Question(((row, COMPLETE_FROM_START),))})[2].counts[row, COMPLETE_FROM_START] == 1
    assert counted(windows, row, 6) == (1, 1)


def test_the_same_person_told_of_in_two_slots_waits_twice(windows: Windows, row: int, at: At) -> None:
    """
    A fast broker stamps slot 7 while slot 6 lasts: what waits of both has the same bytes but for its stamp.

        tick 6 counts Ann by the first record; by the second alone she would be missing
    """
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([Span(0, 0, 1)], facts(row, 6, ANN))
    windows.write([Span(0, 1, 2)], facts(row, 7, ANN))
    at(7)
    assert counted(windows, row, 6) == (1, 1)
    at(8)
    assert windows.read({2: Question(((row, 7),), (), 7)})[2].counts[row, 7] == 1


def test_what_was_written_is_not_stored_again_by_a_write_that_moves_nothing(windows: Windows, row: int, at: At) -> None:
    """Before the shard is begun nothing says what its windows may hold; and a hole is not written behind."""
    at(6)
    windows.write([Span(0, 0, 1)], facts(row, 5, ANN))
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([Span(0, 3, 4)], facts(row, 5, BOB))
    assert counted(windows, row, 5) == (0, 0)


def test_a_clock_that_was_ahead_when_the_shard_began_costs_one_tick_at_most(windows: Windows, row: int, at: At) -> None:
    """The store failed over from a host that was twenty slots ahead: what it opened is closed again."""
    at(26)
    windows.begin(0, 0, COMPLETE_FROM_START)
    at(6)
    windows.write([Span(0, 0, 1)], facts(row, 5, ANN))
    windows.write([Span(0, 1, 2)], facts(row, 6, BOB))
    assert counted(windows, row, 5) == (1, 1)
    at(7)
    assert counted(windows, row, 6) == (2, 2)


def test_what_a_fast_clock_has_shown_makes_the_tick_unknown_and_not_wrong(windows: Windows, row: int, at: At) -> None:
    """Slot 8 by the store's clock: what was stamped in slot 6 came in; back in slot 6, tick 5 cannot be counted."""
    at(8)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([Span(0, 0, 2)], {2: [*facts(row, 5, ANN)[2], *facts(row, 6, BOB)[2]]})
    at(6)
    assert not ask(windows, row, 5).settled
    at(7)
    assert counted(windows, row, 6) == (2, 2)


@pytest.fixture
def stored(open_windows: Callable[..., RedisWindows], server: EmbeddedValkey, clock: SteppedClock) -> RedisWindows:
    """Windows in each server, on the stepped clock."""
    return open_windows(server, clock=clock)


def test_a_shard_whose_numbers_have_expired_begins_empty(
    stored: RedisWindows, raw: redis.Redis, row: int, at: At
) -> None:
    """Facts are kept longer than the hash that says which of them may be there."""
    at(8)
    stored.begin(0, 0, COMPLETE_FROM_START)
    stored.write([Span(0, 0, 3)], {2: [*facts(row, 5, ANN)[2], *facts(row, 7, BOB)[2], *facts(row, 8, EVE)[2]]})
    keys = Keys("test", "0123456789abcdef")
    raw.delete(keys.meta(2))
    assert raw.exists(keys.window(2, row), keys.time(2, EVENING)) == 2
    assert raw.exists(keys.waiting(2)) == 1
    at(6)  # the server that took over is slow
    stored.begin(0, 0, COMPLETE_FROM_START)
    assert not raw.exists(keys.window(2, row), keys.time(2, EVENING), keys.waiting(2))
    stored.write([Span(0, 0, 1)], facts(row, 5, ANN))
    assert counted(stored, row, 5) == (1, 1)


def test_more_than_one_script_moves_is_counted_once_all_is_in(
    stored: RedisWindows, parameters: Parameters, row: int, at: At
) -> None:
    """A tick is not settled while facts of its slot wait still, whichever look that takes."""
    people = [number.to_bytes(16, "big") for number in range(2 * MERGED + 1)]
    packed = {2: [pack_shard_facts(6, {row: [(who, 6) for who in people]})]}
    at(6)
    stored.begin(0, 0, COMPLETE_FROM_START)
    stored.write([Span(0, 0, 1)], packed)
    at(7)
    looks = [ask(stored, row, 6) for _ in range(4)]
    assert not looks[0].settled
    assert looks[-1].settled
    assert {look.counts[row, COMPLETE_FROM_START] for look in looks if look.settled} == {len(people)}
    assert parameters.registry.shard[row] == 2
