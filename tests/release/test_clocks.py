"""Wrong clocks: this machine's runs ahead, or the store's is away; nothing false is said, and the reason is shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from monitor.errors import UnreachableError
from monitor.public.instants import DAY, HOUR, SECOND
from monitor.release.store_clock import StoreClock
from tests.release.worlds import World

MakeWorld = Callable[..., World]
AWAY = UnreachableError("Redis does not answer")


class TestAhead:
    @pytest.mark.parametrize("heard", [True, False])
    def test_a_clock_that_runs_ahead_while_the_store_is_away_says_nothing(
        self, heard: bool, make_world: MakeWorld
    ) -> None:
        """
        "unknown" for a tick of next year would keep everybody from deciding until then.

            slot           100            8860
            this clock     takes over     jumps here, and finds the store away
            the ledger     .              nothing, and tick 100 may be decided
        """
        world = make_world()
        release = world.partition()
        release.take_over()
        if heard:
            world.context.store_clock.update(world.parameters.grid.start(100))
        world.store.trouble = AWAY
        world.clock.instant += 365 * DAY
        max_lead = world.parameters.grid.slot_of(world.clock.instant) - 1
        assert not release.decide_tick(max_lead, world.stop)
        assert world.told() == []
        assert world.owners[0].may_decide(100)
        assert "the store's clock is not known to have reached" in release.trouble

    def test_the_trouble_lasts_until_a_tick_is_decided_and_is_logged_once(
        self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is looked at twice a second: the log must not fill, and /readyz not flicker."""
        world = make_world()
        world.clock.step = 0
        world.published(99)
        release = world.partition()
        release.take_over()
        world.clock.instant = world.parameters.grid.as_of(100) + HOUR // 2
        for _ in range(3):
            assert release.next_tick() == 100
            assert not release.decide_tick(100, world.stop)
        assert "the store's clock is not known to have reached" in release.trouble
        assert caplog.text.count("the store's clock is not known to have reached") == 1
        world.right.instant = world.clock.instant
        assert release.decide_tick(100, world.stop)
        assert (release.trouble, world.counted.lost_ticks) == ("", [])

    def test_taken_over_while_the_clock_ran_ahead_it_decides_once_the_clock_is_right(
        self, make_world: MakeWorld
    ) -> None:
        """A year ahead at the takeover: no tick below that is lost when the clock has been set right."""
        world = make_world()
        world.clock.instant += 365 * DAY
        release = world.partition()
        release.take_over()
        assert not world.owners[0].may_decide(100)
        world.set_clocks(world.parameters.grid.start(100))
        assert release.next_tick() == 100
        for tick in (100, 101):
            world.set_clocks(world.parameters.grid.as_of(tick) + SECOND)
            assert release.next_tick() == tick
            assert release.decide_tick(tick, world.stop)
            assert world.clock.instant - world.parameters.grid.as_of(tick) < 40 * SECOND, "not at the slot's end"
        assert world.told() == [(100, ["safe"]), (101, ["safe"])]

    def test_a_ledger_that_holds_answers_from_ahead_of_the_clock_is_told_of_and_each_tick_that_it_refuses_counted(
        self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        """
        All clocks ran ahead, answered up to tick 102, and were set right: what was published stands.

            slot      100   101   102   103
            ledger    …─────────────┤ 102
            closes         100x  101x 102x   103
        """
        world = make_world()
        world.published(102)
        release = world.partition()
        release.take_over()
        troubles = []
        for slot in (100, 101, 102, 103):
            world.set_clocks(world.parameters.grid.start(slot) + SECOND)
            for _ in range(3):
                tick = release.next_tick()
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
        assert world.counted.refusals == [0, 0]
        assert world.counted.lost_ticks == []


class TestStoreAway:
    def test_what_it_told_before_and_the_time_since_tell_that_a_tick_has_closed(self, make_world: MakeWorld) -> None:
        """It was heard two seconds after the tick closed, which clocks may differ by at most: "unknown" is said."""
        world = make_world()
        release = world.partition()
        release.take_over()
        world.clock.instant = world.parameters.grid.as_of(100) + 2 * SECOND
        world.context.store_clock.update(world.clock.instant)
        world.store.trouble = AWAY
        assert release.decide_tick(100, world.stop)
        assert world.told() == [(100, ["unknown"])]

    def test_each_tick_hears_the_store(self, make_world: MakeWorld) -> None:
        """So an outage is reckoned from the last tick before it."""
        world = make_world()
        release = world.partition()
        release.take_over()
        world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
        assert release.decide_tick(100, world.stop)
        assert world.told() == [(100, ["safe"])]
        assert world.context.store_clock.has_reached(world.parameters.grid.as_of(100))
        assert not world.context.store_clock.has_reached(world.parameters.grid.as_of(101))

    def test_the_stores_clock_is_reckoned_by_a_monotonic_one(self) -> None:
        """Told 1000 s at 5 s: at 65 s it is 1060 s there, and not a microsecond more."""
        now = [5.0]
        store = StoreClock(lambda: now[0])
        assert not store.has_reached(-(2**60))
        assert store.cap(7) == 7
        store.update(1000 * SECOND)
        now[0] = 65.0
        assert store.has_reached(1060 * SECOND)
        assert not store.has_reached(1060 * SECOND + 1)
        assert [store.cap(instant * SECOND) for instant in (1059, 1061)] == [1059 * SECOND, 1060 * SECOND]
