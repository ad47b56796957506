"""One in-memory ledger partition: which ticks are decided when, and which ones are lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from monitor.errors import FencedError, LedgerChangedError, UnreachableError
from monitor.ticks.run_partition import LONGEST_WAIT, NEAR_RELEASE
from monitor.time.instants import HOUR, MINUTE, SECOND
from tests.ticks.worlds import RunningClock, World, release_instant

MakeWorld = Callable[..., World]
AWAY = UnreachableError("Redis does not answer")
NO_BROKER = UnreachableError("no broker answers")


def at(world: World, tick: int, after: int = SECOND) -> None:
    """Set both clocks to an offset from a tick's end."""
    world.set_clocks(world.parameters.grid.as_of(tick) + after)


class TestNextTick:
    @pytest.mark.promise(40)
    def test_killed_first_owner_leaves_its_tick(self, make_world: MakeWorld) -> None:
        """
        If the first owner was killed before its first answer, the next owner decides that tick or counts it as lost.

            slot      100         101         103
            first     takes over  killed
            second                100, or     100 and 101 are lost, 102 is decided
        """
        world = make_world()
        world.partition().take_over()
        at(world, 100)
        second = world.take_partition()
        assert second.find_next_tick() == 100
        at(world, 102)
        assert second.decide_tick(second.find_next_tick(), world.stop)
        assert world.statuses_by_tick() == [(102, ["safe"])]
        assert world.observer.lost_ticks == [(0, 2)]

    @pytest.mark.promise(40)
    @pytest.mark.parametrize(
        ("last", "after", "expected"),
        [
            (98, SECOND, 99),
            (99, SECOND, 100),
            (90, SECOND, 99),
            (98, HOUR - 2 * SECOND, 99),
            (98, HOUR - 2 * SECOND + 1, 100),
        ],
    )
    def test_new_owner_decides_last_closed_tick(
        self, last: int, after: int, expected: int, make_world: MakeWorld
    ) -> None:
        """A new owner decides the last closed tick, 99 in slot 100, unless the ledger contains it.

        It may do so until two tolerances (2 s) before slot 100 ends, and not later.
        """
        world = make_world()
        world.publish_up_to(last)
        world.clock.step = 0
        at(world, 99, after)
        assert world.take_partition().find_next_tick() == expected


class TestReleaseTime:
    @pytest.mark.promise(20)
    @pytest.mark.parametrize(
        ("after", "expected"),
        [(-5 * SECOND, 30 * SECOND), (10 * SECOND, 40 * SECOND), (HOUR // 2, HOUR // 2 + 30 * SECOND)],
    )
    def test_answers_leave_after_the_release_delay(self, after: int, expected: int, make_world: MakeWorld) -> None:
        """Answers leave `release_delay` after as_of, or after a later takeover.

        `after` and `expected` count from tick 99's end.
        """
        world = make_world()
        world.publish_up_to(98)
        world.clock.step = 0
        at(world, 99, after)
        release = world.take_partition()
        at(world, 99, max(after, SECOND))
        assert release.decide_tick(99, world.stop)
        assert world.clock.instant - world.parameters.grid.as_of(99) == expected

    @pytest.mark.promise(20)
    def test_answers_leave_before_next_slot_closes(self, make_world: MakeWorld) -> None:
        """Answers leave before any clock closes the next slot, even if the whole release delay does not fit."""
        world = make_world()
        world.publish_up_to(98)
        at(world, 100, -10 * SECOND)
        release = world.take_partition()
        world.clock.step = 1
        assert release.decide_tick(99, world.stop)
        assert world.statuses_by_tick() == [(99, ["safe"])]
        assert 0 <= world.clock.instant - (world.parameters.grid.as_of(100) - 2 * SECOND) < SECOND

    def test_heartbeats_during_long_release_delay(self, make_world: MakeWorld) -> None:
        """The thread sends heartbeats while it waits half an hour for the release."""
        world = make_world(changes={"release_delay": 30 * MINUTE})
        release = world.take_partition()
        at(world, 100)
        world.clock.step = 0
        heartbeats = [world.clock.instant]
        release._note_heartbeat = lambda: heartbeats.append(world.clock.instant)  # type: ignore[method-assign]  # noqa: SLF001  # to record it
        assert release.decide_tick(100, world.stop)
        heartbeats.append(world.clock.instant)
        assert heartbeats[-1] == release_instant(world.parameters, 100)
        assert max(later - sooner for sooner, later in pairwise(heartbeats)) <= LONGEST_WAIT

    def test_heartbeats_while_facts_lag(self, make_world: MakeWorld) -> None:
        """The thread sends heartbeats while it waits five minutes for facts.

        Each reading of the clock takes five seconds.
        """
        world = make_world(changes={"release_delay": 5 * MINUTE})
        release = world.take_partition()
        at(world, 100)
        world.clock.step, world.input.end = 5 * SECOND, 7
        heartbeats = [world.clock.instant]
        release._note_heartbeat = lambda: heartbeats.append(world.clock.instant)  # type: ignore[method-assign]  # noqa: SLF001  # to record it
        assert release.decide_tick(100, world.stop)
        assert len(heartbeats) > 5 * MINUTE // (10 * SECOND)
        assert max(later - sooner for sooner, later in pairwise(heartbeats)) <= 15 * SECOND
        assert world.statuses_by_tick() == [(100, ["unknown"])]

    def test_clock_set_back_ends_the_wait(self, make_world: MakeWorld) -> None:
        """A clock that is set back by two seconds ends the wait, so no answer leaves before its time."""
        world = make_world(changes={"release_delay": 30 * MINUTE})
        release = world.take_partition()
        at(world, 100)

        def set_back(instant: int, _wake: Any) -> bool:
            world.clock.instant = instant - LONGEST_WAIT - 2 * SECOND
            return True

        world.clock.wait_until = set_back
        assert not release.decide_tick(100, world.stop)
        assert world.statuses_by_tick() == []


def test_ledger_records_input_partitions(make_world: MakeWorld) -> None:
    """The number of input partitions is written to the ledger, so later owners refuse listings with fewer."""
    world = make_world()
    release = world.take_partition()
    at(world, 100)
    world.input.most_partitions = 3
    assert release.decide_tick(100, world.stop)
    terms = world.ledgers[0].terms
    assert terms is not None
    assert terms.input_partitions == 3


class TestStop:
    @pytest.mark.promise(40)
    @pytest.mark.parametrize(("left", "decided"), [(NEAR_RELEASE, [99]), (NEAR_RELEASE + SECOND, [])])
    def test_stop_finishes_only_near_releases(self, left: int, decided: list[int], make_world: MakeWorld) -> None:
        """On a stop a near release still leaves; a far one is left to the next owner."""
        world = make_world(changes={"release_delay": MINUTE})
        world.publish_up_to(98)
        world.clock.step = 0
        at(world, 99, -SECOND)
        release = world.take_partition()
        at(world, 99)
        true_wait = world.clock.wait_until

        def wait(instant: int, wake: Any) -> bool:
            if instant >= release_instant(world.parameters, 99) - left:
                world.clock.instant = release_instant(world.parameters, 99) - left
                world.clock.wait_until = true_wait
                world.stop.set()
                return False
            return bool(true_wait(instant, wake))

        world.clock.wait_until = wait
        assert release.decide_tick(99, world.stop) is bool(decided)
        assert [tick for tick, _ in world.statuses_by_tick()] == decided
        world.stop.clear()
        release.close()
        successor = world.take_partition()
        assert successor.find_next_tick() == (100 if decided else 99)

    def test_stop_before_evidence_decides_nothing(self, make_world: MakeWorld) -> None:
        """On a stop before the facts are complete no tick is decided: a successor may know more than "unknown"."""
        world = make_world()
        world.publish_up_to(98)
        world.input.end = 7
        release = world.take_partition()
        world.stop.set()
        assert not release.decide_tick(99, world.stop)
        assert world.statuses_by_tick() == []
        assert release.trouble == ""


class TestLostTicks:
    @pytest.mark.promise(40)
    def test_lost_ticks_are_counted_once(self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
        """Ticks 91 to 98 are counted as lost and logged once.

        The ledger ends with tick 90, and nothing ran until slot 100.
        """
        world = make_world()
        world.publish_up_to(90)
        release = world.take_partition()
        at(world, 99)
        assert release.decide_tick(release.find_next_tick(), world.stop)
        assert world.observer.lost_ticks == [(0, 8)]
        assert (
            "ledger partition 0: the ticks of 2026-01-04T20:00:00Z to 2026-01-05T03:00:00Z are lost (8): no instance"
            in caplog.text
        )
        at(world, 100)
        assert release.decide_tick(100, world.stop)
        assert world.observer.lost_ticks == [(0, 8)]

    @pytest.mark.promise(20)
    def test_tick_too_late_is_lost(self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
        """
        The process is stopped within tick 100's release and continues in slot 102: tick 100 is lost.

            slot      100   101   102
            tick 100        |     x        nothing of it gets into the ledger
            tick 101              decided
        """
        world = make_world()
        world.publish_up_to(99)
        release = world.take_partition()
        at(world, 100)

        def oversleep(*_: Any) -> bool:
            at(world, 101)
            return True

        world.clock.wait_until = oversleep  # the process is stopped within the wait
        assert not release.decide_tick(100, world.stop)
        assert world.statuses_by_tick() == []
        world.clock.wait_until = RunningClock.wait_until.__get__(world.clock)
        assert release.take_over()
        assert release.find_next_tick() == 101
        assert release.decide_tick(101, world.stop)
        assert world.statuses_by_tick() == [(101, ["safe"])]
        assert world.observer.lost_ticks == [(0, 1)]
        assert "(1): the next slot was about to close" in caplog.text

    def test_pause_between_ticks_is_logged(self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
        """A process that decided tick 100 and continues in slot 105 logs the reason for the lost ticks."""
        world = make_world()
        release = world.take_partition()
        at(world, 100)
        release.decide_tick(100, world.stop)
        at(world, 104)
        assert release.decide_tick(release.find_next_tick(), world.stop)
        assert world.observer.lost_ticks == [(0, 3)]
        assert "this instance was stopped, or delayed" in caplog.text

    @pytest.mark.promise(40)
    @pytest.mark.parametrize("acknowledged", [True, False])
    def test_failed_append_counts_lost_ticks_once(self, acknowledged: bool, make_world: MakeWorld) -> None:
        """If the append after a gap fails, the lost ticks are counted once, whether or not the append took effect."""
        world = make_world()
        world.publish_up_to(90)
        release = world.take_partition()
        (writer,) = world.writers
        writer.refused, writer.unacknowledged = (None, NO_BROKER) if acknowledged else (NO_BROKER, None)
        at(world, 99)
        assert not release.decide_tick(99, world.stop)
        assert world.observer.lost_ticks == []
        release.take_over()
        while release.find_next_tick() < 101:
            at(world, release.find_next_tick())
            assert release.decide_tick(release.find_next_tick(), world.stop)
        assert world.observer.lost_ticks == [(0, 8)]

    def test_lost_counter_exists_before_any_loss(self, make_world: MakeWorld) -> None:
        """The counter of lost ticks exists before the first loss: a rate would miss the event that creates it."""
        world = make_world()
        shown: list[tuple[int, int]] = []

        def lost(partition: int, monitors: Sequence[str], ticks: int, answers: int = 0) -> None:
            shown.append((partition, ticks))

        world.observer.count_lost = lost  # type: ignore[method-assign]  # to see the zero
        world.partition(0).take_over()
        assert shown == [(0, 0)]


class TestFailures:
    @pytest.mark.parametrize("error", [NO_BROKER, FencedError("another owner writes")])
    def test_failure_is_followed_by_takeover(self, error: Exception, make_world: MakeWorld) -> None:
        """After a failure the partition is taken over again, the trouble is shown until then, and no tick is lost."""
        world = make_world()
        world.publish_up_to(99)
        release = world.take_partition()
        world.writers[0].refused = error
        at(world, 100)
        assert not release.decide_tick(100, world.stop)
        assert (release.owner, release.trouble) == (None, str(error))
        release.take_over()
        assert release.trouble == ""
        assert release.decide_tick(release.find_next_tick(), world.stop)
        assert world.statuses_by_tick() == [(100, ["safe"])]
        assert world.observer.lost_ticks == []

    @pytest.mark.parametrize("trouble", [LedgerChangedError("re-created"), NO_BROKER])
    def test_no_append_without_topic_check(self, trouble: Exception, make_world: MakeWorld) -> None:
        """While the store is unreachable, nothing is appended unless the topics are known to be the same."""
        world = make_world()
        release = world.take_partition()
        at(world, 100, 2 * SECOND)
        world.context.store_clock.update(world.clock.instant)
        world.store.error, world.input.error = AWAY, trouble
        if isinstance(trouble, LedgerChangedError):
            with pytest.raises(LedgerChangedError):
                release.decide_tick(100, world.stop)
        else:
            assert not release.decide_tick(100, world.stop)
            assert release.owner is None
        assert world.statuses_by_tick() == []
