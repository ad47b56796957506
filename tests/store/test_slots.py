"""A tick counts the facts stamped up to its slot, and later facts wait, in every store of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import redis

from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, OffsetRange, Portions, Question, Reading
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedValkey
from monitor.store.keys import Keys
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from monitor.time.instants import SECOND
from tests.store.packed import pack_shard_facts

ANN, BOB, EVE = (letter * 16 for letter in (b"a", b"b", b"e"))
EVENING = 1_767_258_000_000_000
MERGED = 50_000  # facts that one script moves


@pytest.fixture
def row(parameters: Parameters) -> int:
    """A row of shard 2."""
    return int(parameters.registry.by_shard[2][0])


def make_facts(row: int, stamp: int, *people: bytes, last: int | None = None) -> Portions:
    """Return facts of people at the row in a slot and in the evening, stamped in slot `stamp`."""
    slot = stamp if last is None else last
    visits, stays = [(person, slot) for person in people], [(row, person) for person in people]
    return {2: pack_shard_facts(stamp, {row: visits}, {EVENING: stays})}


def ask(windows: RedisStore, row: int, tick: int) -> Reading:
    """Return what tick t reads of the row, from the first slot on, and of the evening."""
    return windows.read({2: Question(((COMPLETE_FROM_START, [row]),), (EVENING,), tick)})[2]


def count(windows: RedisStore, row: int, tick: int) -> tuple[int, int]:
    """Return the numbers of people in the window and in the evening."""
    reading = ask(windows, row, tick)
    assert reading.settled
    return reading.counts[0][0], int(reading.present[EVENING][0])


@pytest.fixture
def at(parameters: Parameters, clock: SteppedClock) -> Callable[[int], None]:
    """A function that moves the clock to a slot, a tolerance after its start: `at(6)`."""
    return lambda slot: clock.move_to(parameters.grid.start(slot) + parameters.tolerance)


At = Callable[[int], None]


@pytest.mark.promise(27)
def test_later_facts_wait(windows: RedisStore, row: int, at: At) -> None:
    """Facts stamped after the tick wait for the next tick.

    Slots 5 and 6 were written together, and tick 5 is read in slot 6.
    """
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([OffsetRange(0, 0, 3)], {2: [*make_facts(row, 5, ANN, BOB)[2], *make_facts(row, 6, EVE, last=5)[2]]})
    assert count(windows, row, 5) == (2, 2)
    at(7)
    assert count(windows, row, 6) == (3, 3)


def test_open_after_the_ledger(windows: RedisStore, row: int, at: At) -> None:
    """After the tick is in the ledger, the next slot is opened, and the tick cannot be counted again."""
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([OffsetRange(0, 0, 2)], {2: [*make_facts(row, 5, ANN)[2], *make_facts(row, 6, BOB)[2]]})
    assert count(windows, row, 5) == (1, 1)
    windows.open([2], 6)
    assert not ask(windows, row, 5).settled
    windows.write([OffsetRange(0, 2, 3)], make_facts(row, 6, EVE))
    at(7)
    assert count(windows, row, 6) == (3, 3)


def test_open_ignores_future_slots(windows: RedisStore, row: int, at: At) -> None:
    """A slot that has not begun is not opened, even for an owner with a fast clock."""
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([OffsetRange(0, 0, 2)], {2: [*make_facts(row, 6, ANN)[2], *make_facts(row, 7, BOB)[2]]})
    windows.open([2], 9)
    at(7)
    assert count(windows, row, 6) == (1, 1)


def test_write_opens_closed_slots(windows: RedisStore, row: int, at: At) -> None:
    """The next write opens a closed slot: in slot 7, nobody can decide tick 5."""
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([OffsetRange(0, 0, 1)], make_facts(row, 6, ANN))
    at(7)
    windows.write([OffsetRange(0, 1, 2)], make_facts(row, 7, BOB))
    assert windows.read({2: Question(((COMPLETE_FROM_START, [row]),))})[2].counts[0][0] == 1
    assert count(windows, row, 6) == (1, 1)


def test_person_waits_in_two_slots(windows: RedisStore, row: int, at: At) -> None:
    """
    Equal facts stamped in two slots wait separately: a fast broker stamps slot 7 during slot 6.

        tick 6 counts Ann by the first record; by the second alone she would be missing
    """
    at(6)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([OffsetRange(0, 0, 1)], make_facts(row, 6, ANN))
    windows.write([OffsetRange(0, 1, 2)], make_facts(row, 7, ANN))
    at(7)
    assert count(windows, row, 6) == (1, 1)
    at(8)
    assert windows.read({2: Question(((7, [row]),), (), 7)})[2].counts[0][0] == 1


def test_write_without_advance_stores_nothing(windows: RedisStore, row: int, at: At) -> None:
    """A write that advances no progress stores nothing: before `begin`, and after a gap."""
    at(6)
    windows.write([OffsetRange(0, 0, 1)], make_facts(row, 5, ANN))
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([OffsetRange(0, 3, 4)], make_facts(row, 5, BOB))
    assert count(windows, row, 5) == (0, 0)


def test_fast_clock_at_begin(windows: RedisStore, row: int, at: At) -> None:
    """A clock twenty slots ahead at `begin` costs at most one tick after a failover to a right clock."""
    at(26)
    windows.begin(0, 0, COMPLETE_FROM_START)
    at(6)
    windows.write([OffsetRange(0, 0, 1)], make_facts(row, 5, ANN))
    windows.write([OffsetRange(0, 1, 2)], make_facts(row, 6, BOB))
    assert count(windows, row, 5) == (1, 1)
    at(7)
    assert count(windows, row, 6) == (2, 2)


@pytest.mark.promise(27)
def test_facts_shown_by_a_fast_clock(windows: RedisStore, row: int, at: At) -> None:
    """Facts shown by a fast clock make the tick unknown.

    Slot 6 was opened in slot 8, so tick 5 cannot be counted in slot 6.
    """
    at(8)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.write([OffsetRange(0, 0, 2)], {2: [*make_facts(row, 5, ANN)[2], *make_facts(row, 6, BOB)[2]]})
    at(6)
    assert not ask(windows, row, 5).settled
    at(7)
    assert count(windows, row, 6) == (2, 2)


@pytest.mark.parametrize(("others", "settled"), [((BOB, EVE), False), ((), True)])
def test_reading_again_after_failover(
    windows: RedisStore, row: int, clock: SteppedClock, parameters: Parameters, others: Sequence[bytes], settled: bool
) -> None:
    """After a failover to a slow clock tick 5 is read again, if nobody was reported in slot 6.

    Slots of one hour: slot 5 is from 05:00, and tick 5 closes it (docs/architecture.md, section 3).

    Redis's clock  step                                   opened  shown  in the window   waiting
    05:50:00       Ann, stamped in slot 5, is written     5       5      Ann
    06:00:00.5     Bob, stamped in slot 6, is written     5       5      Ann             Bob
    06:00:01       tick 5 is read: 1                      5       5      Ann             Bob
    06:00:30       slot 6 is opened                       6       6      Ann, Bob
    06:10:00       Eve, stamped in slot 6, is written     6       6      Ann, Bob, Eve
    05:59:00       failover, then a write without facts   6       6      Ann, Bob, Eve
    06:00:01       tick 5 is refused
    07:00:01       tick 6 is read: 3                      6       6      Ann, Bob, Eve
    """

    def at(slot: int, seconds: float) -> None:
        clock.move_to(parameters.grid.start(slot) + int(seconds * SECOND))

    at(5, 3_000)
    windows.begin(0, 0, COMPLETE_FROM_START)
    windows.open([2], 5)
    windows.write([OffsetRange(0, 0, 1)], make_facts(row, 5, ANN))
    at(6, 0.5)
    for offset, person in enumerate(others[:1], 1):
        windows.write([OffsetRange(0, offset, offset + 1)], make_facts(row, 6, person))
    at(6, 1)
    assert count(windows, row, 5) == (1, 1)
    at(6, 30)
    windows.open([2], 6)
    at(6, 600)
    for offset, person in enumerate(others[1:], 2):
        windows.write([OffsetRange(0, offset, offset + 1)], make_facts(row, 6, person))
    at(5, 3_540)
    windows.write([OffsetRange(0, 1 + len(others), 2 + len(others))], {})
    at(6, 1)
    assert ask(windows, row, 5).settled == settled
    at(7, 1)
    assert count(windows, row, 6) == (1 + len(others),) * 2


@pytest.fixture
def stored(open_windows: Callable[..., RedisStore], server: EmbeddedValkey, clock: SteppedClock) -> RedisStore:
    """Windows in each server, on the stepped clock."""
    return open_windows(server, clock=clock)


@pytest.mark.promise(27)
def test_expired_numbers(stored: RedisStore, raw: redis.Redis, row: int, at: At) -> None:
    """A shard whose meta hash has expired begins empty, because facts are kept longer than the hash."""
    at(8)
    stored.begin(0, 0, COMPLETE_FROM_START)
    stored.write(
        [OffsetRange(0, 0, 3)],
        {2: [*make_facts(row, 5, ANN)[2], *make_facts(row, 7, BOB)[2], *make_facts(row, 8, EVE)[2]]},
    )
    keys = Keys("test", "0123456789abcdef")
    raw.delete(keys.meta(2))
    assert raw.exists(keys.window(2, row), keys.time(2, EVENING)) == 2
    assert raw.exists(keys.waiting(2)) == 1
    at(6)  # the new server has a slow clock
    stored.begin(0, 0, COMPLETE_FROM_START)
    assert (raw.zcard(keys.window(2, row)), raw.zcard(keys.waiting(2)), raw.exists(keys.time(2, EVENING))) == (1, 1, 0)
    stored.write([OffsetRange(0, 0, 1)], make_facts(row, 5, ANN))
    assert count(stored, row, 5) == (1, 1)


def test_waiting_facts_in_portions(stored: RedisStore, parameters: Parameters, row: int, at: At) -> None:
    """A tick is not settled while facts of its slot still wait."""
    people = [number.to_bytes(16, "big") for number in range(2 * MERGED + 1)]
    packed = {2: pack_shard_facts(6, {row: [(person, 6) for person in people]})}
    at(6)
    stored.begin(0, 0, COMPLETE_FROM_START)
    stored.write([OffsetRange(0, 0, 1)], packed)
    at(7)
    looks = [ask(stored, row, 6) for _ in range(4)]
    assert not looks[0].settled
    assert looks[-1].settled
    assert {look.counts[0][0] for look in looks if look.settled} == {len(people)}
    assert parameters.registry.shard[row] == 2
