"""One ledger partition on lists, tick by tick: which tick is decided when, by whom, and which one is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from monitor.errors import FencedError, LedgerChangedError, UnreachableError
from monitor.public.instants import HOUR, MINUTE, SECOND
from monitor.release.partition import LEAVING, TURN
from monitor.windows.facts import Span
from monitor.windows.packing import pack_shard_facts
from tests.release.worlds import RunningClock, World, released

MakeWorld = Callable[..., World]
AWAY = UnreachableError("Redis does not answer")
NO_BROKER = UnreachableError("no broker answers")


def at(world: World, tick: int, after: int = SECOND) -> None:
    """Set both clocks to so long after a tick's end."""
    world.set_clocks(world.parameters.grid.as_of(tick) + after)


class TestWhichTick:
    def test_in_an_empty_ledger_the_first_tick_is_that_of_the_slot_of_the_takeover(self, make_world: MakeWorld) -> None:
        """Nobody was asked to decide any before."""
        world = make_world()
        release = world.partition()
        assert release.take_over()
        assert release.next_tick() == 100
        at(world, 100)
        assert release.next_tick() == 100
        assert release.tick(100, world.stop)
        assert release.next_tick() == 101
        assert world.told() == [(100, ["safe"])]

    def test_a_ledger_that_was_taken_over_and_holds_no_answer_yet_owes_that_slots_tick(
        self, make_world: MakeWorld
    ) -> None:
        """
        Killed before its very first answer: the next one decides that tick, or counts it as lost.

            slot      100         101         103
            first     takes over  killed
            second                100, or     100 and 101 are lost, 102 is decided
        """
        world = make_world()
        world.partition().take_over()
        at(world, 100)
        second = world.partition()
        second.take_over()
        assert second.next_tick() == 100
        at(world, 102)
        assert second.tick(second.next_tick(), world.stop)
        assert world.told() == [(102, ["safe"])]
        assert world.counted.lost_ticks == [(0, 2)]

    @pytest.mark.parametrize(("last", "expected"), [(98, 99), (99, 100), (90, 99)])
    def test_who_takes_over_decides_the_last_closed_tick_if_the_ledger_does_not_have_it(
        self, last: int, expected: int, make_world: MakeWorld
    ) -> None:
        """In slot 100 that is tick 99, however long nothing ran; what the ledger has is never decided again."""
        world = make_world()
        world.published(last)
        release = world.partition()
        release.take_over()
        assert release.next_tick() == expected

    @pytest.mark.parametrize(("left", "expected"), [(2 * SECOND, 99), (2 * SECOND - 1, 100)])
    def test_until_the_next_slot_closes_by_any_clock_and_not_longer(
        self, left: int, expected: int, make_world: MakeWorld
    ) -> None:
        """Clocks may differ by a second each way: two seconds before slot 100 ends is the last instant for tick 99."""
        world = make_world()
        world.published(98)
        world.clock.step = 0
        at(world, 100, -left)
        release = world.partition()
        release.take_over()
        assert release.next_tick() == expected

    def test_what_is_counted_late_is_what_would_have_been_counted_at_once(self, make_world: MakeWorld) -> None:
        """
        Two people come in slot 100, two more in slot 101; whoever counts tick 100, and when, T = 2.

            slot            100      101                    102
            reports         2 at 1   2 at 2
            counted at once          tick 100: 1 noisy      tick 101: 2 noisy
            by a successor               late: the same
        """
        told = []
        for late in (SECOND, 50 * MINUTE):
            world = make_world()
            world.published(99)
            release = world.partition()
            release.take_over()
            world.store.write([Span(0, 0, 1)], {0: [pack_shard_facts(100, {1: [(b"a" * 16, 100), (b"b" * 16, 100)]})]})
            at(world, 100)
            world.store.write([Span(0, 1, 2)], {0: [pack_shard_facts(101, {2: [(b"a" * 16, 101), (b"b" * 16, 101)]})]})
            if late > MINUTE:
                release.close()
                at(world, 100, late)
                release = world.partition()
                release.take_over()
            assert release.tick(100, world.stop)
            at(world, 101)
            assert release.tick(101, world.stop)
            told.append([dict(said) for owner in world.owners for _, said in owner.told])
        assert told[0] == told[1]
        assert [said["stations", "noisy_count"] for said in told[0]] == [1, 1]


class TestWhenAnswersLeave:
    @pytest.mark.parametrize(
        ("after", "expected"),
        [(-5 * SECOND, 30 * SECOND), (10 * SECOND, 40 * SECOND), (HOUR // 2, HOUR // 2 + 30 * SECOND)],
    )
    def test_they_leave_at_the_release_or_as_long_after_a_later_takeover(
        self, after: int, expected: int, make_world: MakeWorld
    ) -> None:
        """Never when reading happened to be done; `after` and `expected` count from tick 99's end."""
        world = make_world()
        world.published(98)
        world.clock.step = 0
        at(world, 99, after)
        release = world.partition()
        release.take_over()
        at(world, 99, max(after, SECOND))
        assert release.tick(99, world.stop)
        assert world.clock.instant - world.parameters.grid.as_of(99) == expected

    def test_they_leave_before_the_next_slot_closes_by_any_clock(self, make_world: MakeWorld) -> None:
        """Ten seconds before that, the whole release delay of 30 s can't be waited for; by a clock that goes on."""
        world = make_world()
        world.published(98)
        at(world, 100, -10 * SECOND)
        release = world.partition()
        release.take_over()
        world.clock.step = 1
        assert release.tick(99, world.stop)
        assert world.told() == [(99, ["safe"])]
        assert 0 <= world.clock.instant - (world.parameters.grid.as_of(100) - 2 * SECOND) < SECOND

    def test_a_long_release_delay_is_waited_for_in_turns(self, make_world: MakeWorld) -> None:
        """The facts are complete at once, the release comes half an hour later: the thread is seen to go on."""
        world = make_world(changes={"release_delay": 30 * MINUTE})
        release = world.partition()
        release.take_over()
        at(world, 100)
        world.clock.step = 0
        heard = [world.clock.instant]
        release._turn = lambda: heard.append(world.clock.instant)  # type: ignore[method-assign]  # to hear each turn
        assert release.tick(100, world.stop)
        heard.append(world.clock.instant)
        assert heard[-1] == released(world.parameters, 100)
        assert max(later - sooner for sooner, later in pairwise(heard)) <= TURN

    def test_facts_that_lag_are_waited_for_in_turns(self, make_world: MakeWorld) -> None:
        """Until the release, five minutes later; each look at the clock takes five seconds."""
        world = make_world(changes={"release_delay": 5 * MINUTE})
        release = world.partition()
        release.take_over()
        at(world, 100)
        world.clock.step, world.input.end = 5 * SECOND, 7
        heard = [world.clock.instant]
        release._turn = lambda: heard.append(world.clock.instant)  # type: ignore[method-assign]  # to hear each turn
        assert release.tick(100, world.stop)
        assert len(heard) > 5 * MINUTE // (10 * SECOND)
        assert max(later - sooner for sooner, later in pairwise(heard)) <= 10 * SECOND
        assert world.told() == [(100, ["unknown"])]

    def test_a_clock_that_is_set_back_ends_the_wait_for_the_release(self, make_world: MakeWorld) -> None:
        """By two seconds, between two turns: nothing leaves before its time by the clock as it is now."""
        world = make_world(changes={"release_delay": 30 * MINUTE})
        release = world.partition()
        release.take_over()
        at(world, 100)

        def set_back(instant: int, _wake: Any) -> bool:
            world.clock.instant = instant - TURN - 2 * SECOND
            return True

        world.clock.wait_until = set_back
        assert not release.tick(100, world.stop)
        assert world.told() == []


def test_the_ledger_is_told_how_many_partitions_the_input_has(make_world: MakeWorld) -> None:
    """Whoever takes over later believes no listing with fewer: a broker may lag in metadata."""
    world = make_world()
    release = world.partition()
    release.take_over()
    at(world, 100)
    world.input.most = 3
    assert release.tick(100, world.stop)
    assert world.owners[0].input_partitions == 3


class TestStop:
    @pytest.mark.parametrize(("left", "decided"), [(LEAVING, [99]), (LEAVING + SECOND, [])])
    def test_a_release_that_is_near_is_finished_and_a_far_one_is_left(
        self, left: int, decided: list[int], make_world: MakeWorld
    ) -> None:
        """Told to stop with so much of the wait left; who comes next decides what was left."""
        world = make_world(changes={"release_delay": MINUTE})
        world.published(98)
        world.clock.step = 0
        at(world, 99, -SECOND)
        release = world.partition()
        release.take_over()
        at(world, 99)
        true_wait = world.clock.wait_until

        def wait(instant: int, wake: Any) -> bool:
            if instant >= released(world.parameters, 99) - left:
                world.clock.instant = released(world.parameters, 99) - left
                world.clock.wait_until = true_wait
                world.stop.set()
                return False
            return bool(true_wait(instant, wake))

        world.clock.wait_until = wait
        assert release.tick(99, world.stop) is bool(decided)
        assert [tick for tick, _ in world.told()] == decided
        world.stop.clear()
        release.close()
        successor = world.partition()
        successor.take_over()
        assert successor.next_tick() == (100 if decided else 99)

    def test_told_to_stop_before_all_is_read_it_decides_nothing(self, make_world: MakeWorld) -> None:
        """Its reader ends too: "unknown" would be its own doing, and a successor can do better."""
        world = make_world()
        world.published(98)
        world.input.end = 7
        release = world.partition()
        release.take_over()
        world.stop.set()
        assert not release.tick(99, world.stop)
        assert world.told() == []
        assert release.trouble == ""


class TestLost:
    def test_ticks_that_nobody_decided_are_counted_once_and_logged_with_their_reason(
        self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The ledger ends with tick 90, and nothing ran until slot 100: 91 to 98 are lost, 99 is decided."""
        world = make_world()
        world.published(90)
        release = world.partition()
        release.take_over()
        at(world, 99)
        assert release.tick(release.next_tick(), world.stop)
        assert world.counted.lost_ticks == [(0, 8)]
        assert (
            "ledger partition 0: the ticks of 2026-01-04T20:00:00Z to 2026-01-05T03:00:00Z are lost (8): no instance"
            in caplog.text
        )
        at(world, 100)
        assert release.tick(100, world.stop)
        assert world.counted.lost_ticks == [(0, 8)]

    def test_a_tick_that_cannot_leave_before_the_next_slot_closes_is_lost(
        self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        """
        The process was stopped within tick 100's release, and goes on in slot 102.

            slot      100   101   102
            tick 100        |     x        nothing of it gets into the ledger
            tick 101              decided
        """
        world = make_world()
        world.published(99)
        release = world.partition()
        release.take_over()
        at(world, 100)

        def oversleep(*_: Any) -> bool:
            at(world, 101)
            return True

        world.clock.wait_until = oversleep  # the process is stopped within the wait
        assert not release.tick(100, world.stop)
        assert world.told() == []
        world.clock.wait_until = RunningClock.wait_until.__get__(world.clock)
        assert release.next_tick() == 101
        assert release.tick(101, world.stop)
        assert world.told() == [(101, ["safe"])]
        assert world.counted.lost_ticks == [(0, 1)]
        assert "(1): the next slot was about to close" in caplog.text

    def test_a_process_that_was_stopped_between_two_ticks_says_so(
        self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Decided 100, went on in slot 105."""
        world = make_world()
        release = world.partition()
        release.take_over()
        at(world, 100)
        release.tick(100, world.stop)
        at(world, 104)
        assert release.tick(release.next_tick(), world.stop)
        assert world.counted.lost_ticks == [(0, 3)]
        assert "this instance was stopped, or held up" in caplog.text

    @pytest.mark.parametrize("acknowledged", [True, False])
    def test_what_is_lost_is_counted_once_though_an_append_fails(
        self, acknowledged: bool, make_world: MakeWorld
    ) -> None:
        """Tick 99's append after a gap fails, whether it is in the ledger or not; the next owner finds out."""
        world = make_world()
        world.published(90)
        release = world.partition()
        release.take_over()
        (owner,) = world.owners
        owner.refused, owner.unacknowledged = (None, NO_BROKER) if acknowledged else (NO_BROKER, None)
        at(world, 99)
        assert not release.tick(99, world.stop)
        assert world.counted.lost_ticks == []
        release.take_over()
        while release.next_tick() < 101:
            at(world, release.next_tick())
            assert release.tick(release.next_tick(), world.stop)
        assert world.counted.lost_ticks == [(0, 8)]

    def test_that_ticks_can_be_lost_is_shown_before_any_is(self, make_world: MakeWorld) -> None:
        """A rate over a counter that appears with its first event misses that event."""
        world = make_world()
        shown: list[tuple[int, int]] = []

        def lost(partition: int, monitors: Sequence[str], ticks: int) -> None:
            shown.append((partition, ticks))

        world.counted.lost = lost  # type: ignore[method-assign]  # to see the zero
        world.partition(0).take_over()
        assert shown == [(0, 0)]


class TestGivenUp:
    @pytest.mark.parametrize("error", [NO_BROKER, FencedError("another owner writes")])
    def test_what_failed_is_taken_over_again_and_the_tick_is_decided_then(
        self, error: Exception, make_world: MakeWorld
    ) -> None:
        """The reason is told until it works; no tick is lost."""
        world = make_world()
        world.published(99)
        release = world.partition()
        release.take_over()
        world.owners[0].refused = error
        at(world, 100)
        assert not release.tick(100, world.stop)
        assert (release.owner, release.trouble) == (None, str(error))
        release.take_over()
        assert release.trouble == ""
        assert release.tick(release.next_tick(), world.stop)
        assert world.told() == [(100, ["safe"])]
        assert world.counted.lost_ticks == []

    @pytest.mark.parametrize("trouble", [LedgerChangedError("made anew"), NO_BROKER])
    def test_nothing_is_written_to_a_ledger_that_may_be_another_one_while_the_store_is_away(
        self, trouble: Exception, make_world: MakeWorld
    ) -> None:
        """Not even "unknown", whose bytes may differ from what the other ledger's owner says."""
        world = make_world()
        release = world.partition()
        release.take_over()
        at(world, 100, 2 * SECOND)
        world.parts.store_clock.hear(world.clock.instant)
        world.store.trouble, world.input.trouble = AWAY, trouble
        if isinstance(trouble, LedgerChangedError):
            with pytest.raises(LedgerChangedError):
                release.tick(100, world.stop)
        else:
            assert not release.tick(100, world.stop)
            assert release.owner is None
        assert world.told() == []

    def test_a_partition_that_is_let_go_shows_no_last_tick_any_longer(self, make_world: MakeWorld) -> None:
        """Another instance decides it; one that stands still would raise an alarm."""
        world = make_world()
        release = world.partition()
        release.take_over()
        release.close()
        assert world.counted.gone == [0]
