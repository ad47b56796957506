"""Clocks that are ahead or behind, and servers that hang: no tick is decided too early, and enough time is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from monitor.errors import UnreachableError
from monitor.operate.check.verdicts import SHORTEST_READING
from monitor.ticks.shared_by_partitions import StoreClock
from monitor.time.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, parse_instant
from monitor.time.slot_grid import SlotGrid
from tests.ticks.worlds import World

MakeWorld = Callable[..., World]
LEAST: Final = 3 * SECOND + 2 * SHORTEST_READING
"""The shortest release delay without a warning, with a tolerance of a second."""

AWAY = UnreachableError("Redis does not answer")


class TestFastClock:
    @pytest.mark.promise(34)
    @pytest.mark.parametrize("heard", [True, False])
    def test_fast_clock_decides_nothing_without_store(self, heard: bool, make_world: MakeWorld) -> None:
        """
        A clock that is ahead decides no tick while the store is unreachable.

        An "unknown" for next year would block all ticks before it.

            slot           100            8860
            this clock     takes over     jumps here, and finds the store away
            the ledger     .              nothing, and tick 100 may be decided
        """
        world = make_world()
        release = world.take_partition()
        if heard:
            world.context.store_clock.update(world.parameters.grid.start(100))
        world.store.error = AWAY
        world.clock.instant += 365 * DAY
        max_lead = world.parameters.grid.find_slot(world.clock.instant) - 1
        assert not release.decide_tick(max_lead, world.stop)
        assert world.statuses_by_tick() == []
        assert world.owners[0].may_decide(100)
        assert "the store's clock is not known to have reached" in release.trouble

    @pytest.mark.promise(34)
    def test_trouble_lasts_and_is_logged_once(self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
        """The trouble stays until a tick is decided, and is logged once.

        The log must not fill, and /readyz must not flicker.
        """
        world = make_world()
        world.clock.step = 0
        world.publish_up_to(99)
        release = world.take_partition()
        world.clock.instant = world.parameters.grid.as_of(100) + HOUR // 2
        for _ in range(3):
            assert release.find_next_tick() == 100
            assert not release.decide_tick(100, world.stop)
        assert "the store's clock is not known to have reached" in release.trouble
        assert caplog.text.count("the store's clock is not known to have reached") == 1
        world.true_clock.instant = world.clock.instant
        assert release.decide_tick(100, world.stop)
        assert (release.trouble, world.observer.lost_ticks) == ("", [])

    @pytest.mark.promise(34)
    def test_corrected_clock_loses_no_tick(self, make_world: MakeWorld) -> None:
        """After a takeover with a clock one year ahead, no tick is lost once the clock is corrected."""
        world = make_world()
        world.clock.instant += 365 * DAY
        release = world.take_partition()
        assert not world.owners[0].may_decide(100)
        world.set_clocks(world.parameters.grid.start(100))
        assert release.find_next_tick() == 100
        for tick in (100, 101):
            world.set_clocks(world.parameters.grid.as_of(tick) + SECOND)
            assert release.find_next_tick() == tick
            assert release.decide_tick(tick, world.stop)
            assert world.clock.instant - world.parameters.grid.as_of(tick) < 40 * SECOND, "not at the slot's end"
        assert world.statuses_by_tick() == [(100, ["safe"]), (101, ["safe"])]

    @pytest.mark.promise(34)
    def test_ledger_ahead_is_reported_and_counted(
        self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        """
        A ledger with answers ahead of the clock is reported, its answers remain, and each refused tick is counted.

            slot      100   101   102   103
            ledger    …─────────────┤ 102
            closes         100x  101x 102x   103
        """
        world = make_world()
        world.publish_up_to(102)
        release = world.take_partition()
        troubles = []
        for slot in (100, 101, 102, 103):
            world.set_clocks(world.parameters.grid.start(slot) + SECOND)
            for _ in range(3):
                tick = release.find_next_tick()
            troubles.append(release.trouble)
            assert tick == slot
            assert release.owner is not None
            assert release.owner.may_decide(slot) is (slot == 103)
        reason = (
            "ledger partition 0 contains answers up to 2026-01-05T07:00:00Z, which is ahead of the clock: "
            "no tick is decided before then"
        )
        assert troubles == [reason, reason, reason, ""]
        assert caplog.text.count(reason) == 1
        assert world.observer.refusals == [0, 0]
        assert world.observer.lost_ticks == []


def test_each_tick_updates_the_estimate(make_world: MakeWorld) -> None:
    """Each tick reads the store's clock, so an outage is estimated from the last tick before it."""
    world = make_world()
    release = world.take_partition()
    world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
    assert release.decide_tick(100, world.stop)
    assert world.statuses_by_tick() == [(100, ["safe"])]
    assert world.context.store_clock.has_reached(world.parameters.grid.as_of(100))
    assert not world.context.store_clock.has_reached(world.parameters.grid.as_of(101))


def test_estimate_uses_a_monotonic_clock() -> None:
    """A reading of 1000 s at 5 s gives an estimate of exactly 1060 s at 65 s."""
    now = [5.0]
    store = StoreClock(lambda: now[0])
    assert not store.has_reached(-(2**60))
    assert store.cap(7) == 7
    store.update(1000 * SECOND)
    now[0] = 65.0
    assert store.has_reached(1060 * SECOND)
    assert not store.has_reached(1060 * SECOND + 1)
    assert [store.cap(instant * SECOND) for instant in (1059, 1061)] == [1059 * SECOND, 1060 * SECOND]


@pytest.mark.promise(40)
def test_append_leaves_time_for_a_takeover(make_world: MakeWorld) -> None:
    """
    An append is given up after half of the time that is left, so that the tick can be decided after a takeover.

        slot 101    ├─ 30 s ─┼── append ──┼── takeover ──┼─ 30 s ─┤ two tolerances before the end
    """
    world = make_world(changes={"grid": SlotGrid(parse_instant("2026-01-01T00:00:00Z"), 102 * SECOND)})
    assert (world.parameters.release_delay, world.parameters.tolerance) == (30 * SECOND, SECOND)
    world.set_clocks(world.parameters.grid.start(100))
    world.clock.step = 0
    release = world.take_partition()
    world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
    assert release.decide_tick(100, world.stop)
    assert world.writers[-1].within == pytest.approx((102 - 2 - 30 - 30) / 2)


@pytest.mark.promise(40)
def test_store_that_hangs_is_asked_once(make_world: MakeWorld) -> None:
    """
    While the store does not answer, a tick makes no further request: each one could take seconds of the slot.

    The last reading of the store's clock plus the time since then shows that tick 101 has closed.

        store      answers   away      answers
        tick       100       101       102
        upkeep     1         none      2
    """
    world = make_world(changes={"release_delay": MINUTE})
    opened: list[int] = []

    def record(shards: Sequence[int], slot: int) -> None:
        assert list(shards) == [0]
        opened.append(slot)

    world.store.open = record  # type: ignore[method-assign]  # as if it was opened
    release = world.take_partition()
    for tick, error in ((100, None), (101, UnreachableError("Redis does not answer")), (102, None)):
        world.set_clocks(world.parameters.grid.as_of(tick) + 2 * SECOND)
        if error is not None:
            world.context.store_clock.update(world.clock.instant)
        world.store.error = error
        before = world.store.checks
        assert release.decide_tick(tick, world.stop)
        assert world.store.checks == before or error is None
    assert opened == [101, 103]
    assert [statuses for _, statuses in world.statuses_by_tick()] == [["safe"], ["unknown"], ["safe"]]


@pytest.mark.parametrize(
    ("delay", "ahead", "status"),
    [
        (LEAST, 0, "safe"),
        (LEAST, SECOND, "safe"),
        (LEAST, -SECOND, "safe"),
        (3 * SECOND - MILLISECOND, 0, "safe"),
        (3 * SECOND - MILLISECOND, SECOND, "unknown"),
    ],
)
def test_delay_leaves_time_to_read(delay: int, ahead: int, status: str, make_world: MakeWorld) -> None:
    """
    A release delay without a warning of `check` leaves 100 ms to read, although Redis's clock differs by the tolerance.

        seconds after as_of    0         1         2         3
        this machine                     read  (1.1)
        Redis, ahead                               read  (2.1)
        reading ends                               |     2.1, with a delay of 3.2; before 2 with one of less than 3
    """
    world = make_world(changes={"release_delay": delay})
    release = world.take_partition()
    world.clock.step = SECOND // 10
    begins, reading = world.parameters.grid.as_of(100) + SECOND, SHORTEST_READING if delay == LEAST else 0
    world.clock.instant = max(begins, begins - ahead) + reading
    world.true_clock.instant = world.clock.instant + ahead
    assert release.decide_tick(100, world.stop)
    assert world.statuses_by_tick() == [(100, [status])]
