"""The loop over an instance's partitions: each on a thread of its own, so that none holds another up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from monitor import failpoints
from monitor.errors import LedgerChangedError, LedgerError, UnreachableError
from monitor.public.clock import SteppedClock
from monitor.public.instants import MINUTE, SECOND
from monitor.public.parameters import Parameters
from monitor.release.loop import ReleaseLoop
from monitor.release.owner import LedgerPlace
from tests.release.worlds import Owned, Taken, World, released

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]
MakeWorld = Callable[..., World]
RunWorld = Callable[..., World]
Eventually = Callable[..., Any]


def note_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long partition 0's thread wants to pause, each time it does; it goes on at once."""
    paused: list[float] = []
    wait = threading.Event.wait

    def noting(event: threading.Event, seconds: float | None = None) -> bool:
        if seconds is not None and threading.current_thread().name == "ledger-0":
            paused.append(seconds)
            seconds = 0.01
        return wait(event, seconds)

    monkeypatch.setattr(threading.Event, "wait", noting)
    return paused


def ticks_of(world: World, partition: int = 0) -> list[int]:
    """The ticks that a partition's owners published."""
    return [tick for tick, _ in world.told(partition)]


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that have read all that a tick counts, each time one has: they wait for the release from then on."""
    threads: list[str] = []
    monkeypatch.setitem(failpoints._armed, "tick.read", lambda: threads.append(threading.current_thread().name))
    return threads


def is_ready(world: World) -> bool:
    """Whether every partition was taken over, and all is well."""
    return len(world.loop.owners) == len(world.owned) and world.said[-1:] == [""]


class TestOnRealServers:
    def test_the_loop_decides_one_tick_a_slot_until_told_to_stop(
        self,
        make_site: MakeSite,
        make_parameters: Make,
        clock: SteppedClock,
        in_thread: Callable[..., Any],
        eventually: Eventually,
        kinds: Callable[..., list[str]],
    ) -> None:
        """Taken over within slot 0, so tick 0 is the first."""
        parameters = make_parameters()
        site = make_site(parameters, clock)
        loop, stop, wake = ReleaseLoop(site.parts, Owned(), 1), threading.Event(), threading.Event()
        thread = in_thread(lambda: loop.run(stop, wake, lambda _: None))
        try:
            eventually(lambda: loop.owners, 20)
            for tick in range(3):
                clock.move_to(released(parameters, tick))
                eventually(lambda expected=tick: loop.last_tick == expected)
        finally:
            stop.set()
            wake.set()
            thread.join(20)
            loop.close()
        assert loop.decided.number == 3
        assert kinds(site.place).count("over_time") == 9

    def test_what_is_owned_is_taken_over_and_what_is_not_is_let_go(
        self,
        make_site: MakeSite,
        make_parameters: Make,
        clock: SteppedClock,
        make_ledger: Callable[..., LedgerPlace],
        eventually: Eventually,
    ) -> None:
        """Partitions beyond Q hold no shards, so they are not taken over."""
        site = make_site(make_parameters(places=8, shards=2), clock, make_ledger(ledger_partitions=2))
        owned = Owned(frozenset({0, 1, 2}))
        with closing(ReleaseLoop(site.parts, owned, 2)) as loop:
            loop.reconcile()
            eventually(lambda: sorted(loop.owners) == [0, 1], 20)
            kept = loop.owners[1]
            owned.owned = frozenset({1})
            loop.reconcile()
            assert dict(loop.owners) == {1: kept}
            eventually(lambda: site.counted.gone == [0])
            assert site.counted.takeovers == ["takeover", "takeover"]


class TestSideBySide:
    def test_a_partition_that_its_ledger_holds_up_does_not_delay_the_others(
        self, run_world: RunWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        The ledger takes more than an hour for partition 0's answers to tick 100.

            slot           100      101      102
            partition 0       |────────────────── 100
            partition 1       | 100    | 101
        """
        answering = threading.Event()
        decide = Taken.decide

        def slow(owner: Taken, tick: int, evidence: Any) -> Any:
            if owner.partition == 0:
                answering.wait(30)
            return decide(owner, tick, evidence)

        monkeypatch.setattr(Taken, "decide", slow)
        world = run_world(2)
        try:
            eventually(lambda: is_ready(world))
            for tick in (100, 101):
                world.clock.move_to(released(world.parameters, tick))
                eventually(lambda expected=tick: ticks_of(world, 1)[-1:] == [expected])
            assert ticks_of(world, 0) == []
        finally:
            answering.set()
        eventually(lambda: ticks_of(world, 0) == [100, 101])

    def test_a_partition_that_cannot_be_had_does_not_keep_the_others_from_deciding(
        self, run_world: RunWorld, eventually: Eventually
    ) -> None:
        """
        Partition 0 has no leader; health tells of it, partition 1 goes on, and 0 follows once it can be had.

            tick           100        101
            partition 0               100, 101       the last closed tick is decided by who takes over
            partition 1    100        101
        """
        world = run_world(2, lambda world: world.failing.add(0) or world.published(99, 0))
        eventually(lambda: "taking over: partition 0 has no leader" in world.said and 1 in world.loop.owners)
        world.clock.move_to(released(world.parameters, 100))
        eventually(lambda: ticks_of(world, 1) == [100])
        world.failing.clear()
        eventually(lambda: 0 in world.loop.owners, 20)
        eventually(lambda: world.said[-1] == "")
        world.clock.move_to(world.clock.now() + world.parameters.release_delay)
        eventually(lambda: ticks_of(world, 0) == [100])
        world.clock.move_to(released(world.parameters, 101))
        eventually(lambda: ticks_of(world, 1) == ticks_of(world, 0) == [100, 101])
        assert world.counted.lost_ticks == []

    def test_a_partition_is_taken_over_while_another_one_waits_for_its_release(
        self, run_world: RunWorld, eventually: Eventually
    ) -> None:
        """
        Its owner has left within tick 100's release: the one that stays is not blocked in its own wait.

            partition 0    |········· 100
            partition 1      taken over ········· 100
        """

        def owns_the_first(world: World) -> None:
            world.owned = frozenset({0})
            world.published(99, 1)

        world = run_world(2, owns_the_first)
        eventually(lambda: is_ready(world))
        world.clock.move_to(world.parameters.grid.as_of(100) + 10 * SECOND)
        world.owned = frozenset({0, 1})
        world.wake.set()
        eventually(lambda: 1 in world.loop.owners)
        world.clock.move_to(released(world.parameters, 100))
        eventually(lambda: ticks_of(world, 0) == [100])
        assert ticks_of(world, 1) == []
        world.clock.move_to(released(world.parameters, 100) + 10 * SECOND)
        eventually(lambda: ticks_of(world, 1) == [100])
        assert world.counted.lost_ticks == []

    def test_a_look_around_that_hangs_does_not_keep_a_partition_from_being_taken_over(
        self, run_world: RunWorld, eventually: Eventually
    ) -> None:
        """A broker of several that hangs may hold the look up for ten seconds; ownership changes meanwhile."""
        answering, looked = threading.Event(), threading.Event()

        def hangs(_partitions: int) -> dict[int, int]:
            looked.set()
            answering.wait(30)
            return {}

        def prepare(world: World) -> None:
            world.owned = frozenset()
            world.input.newest = hangs  # type: ignore[method-assign,assignment]  # a broker that hangs

        world = run_world(1, prepare)
        try:
            assert looked.wait(10)
            world.owned = frozenset({0})
            world.wake.set()
            eventually(lambda: world.loop.owners)
        finally:
            answering.set()

    def test_what_a_look_around_finds_ends_the_loop(self, make_world: MakeWorld) -> None:
        """A topic that is another one now: everything must be made again."""
        world = make_world()
        world.owned = frozenset()
        world.input.trouble = LedgerChangedError("made anew")
        with pytest.raises(LedgerChangedError):
            world.run()

    def test_pauses_between_attempts_to_take_over_grow_and_stay_short(
        self, run_world: RunWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """0.5 s, then 1, then 2 each time: a broker that is back is found within a slot."""
        paused = note_pauses(monkeypatch)
        world = run_world(1, lambda world: world.failing.add(0))
        eventually(lambda: len(paused) > 5)
        assert paused[:5] == [0.5, 1, 2, 2, 2]
        world.failing.clear()
        eventually(lambda: is_ready(world))

    def test_after_an_append_that_failed_it_is_taken_over_at_once_and_then_ever_more_rarely(
        self, run_world: RunWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was open may yet leave within the slot; but each takeover writes to a ledger that takes no answers."""
        paused = note_pauses(monkeypatch)
        decide = Taken.decide

        def refused(*_: Any) -> Any:
            raise UnreachableError("the record is too large")

        monkeypatch.setattr(Taken, "decide", refused)
        world = run_world(1, lambda world: world.published(99))
        eventually(lambda: is_ready(world))
        for attempt in range(8):
            world.clock.move_to(world.parameters.grid.as_of(100) + (attempt + 1) * world.parameters.release_delay)
            eventually(lambda seen=attempt: len(world.tried) > seen + 1)
        assert paused[:6] == [0.5, 1, 2, 4, 8, 8]
        monkeypatch.setattr(Taken, "decide", decide)
        world.clock.move_to(world.clock.now() + world.parameters.release_delay)
        eventually(lambda: ticks_of(world) == [100])


class TestOwnership:
    def test_a_partition_that_is_lost_within_its_release_is_finished_if_that_is_near(
        self, run_world: RunWorld, eventually: Eventually, waiting: list[str]
    ) -> None:
        """The successor would fence this one if it came first; then it decides the tick itself."""
        world = run_world(2)
        eventually(lambda: is_ready(world))
        world.clock.move_to(released(world.parameters, 100) - 2 * SECOND)
        eventually(lambda: len(waiting) == 2)
        world.owned = frozenset({1})
        world.wake.set()
        eventually(lambda: list(world.loop.owners) == [1])
        world.clock.move_to(released(world.parameters, 100))
        eventually(lambda: ticks_of(world, 0) == ticks_of(world, 1) == [100])
        eventually(lambda: world.counted.gone == [0])

    def test_a_partition_that_is_lost_far_from_its_release_is_let_go_at_once(
        self, run_world: RunWorld, eventually: Eventually
    ) -> None:
        """Another one takes it over, and decides it in time."""
        world = run_world(2, release_delay=30 * MINUTE)
        eventually(lambda: is_ready(world))
        world.clock.move_to(world.parameters.grid.as_of(100) + 2 * SECOND)
        world.owned = frozenset({1})
        world.wake.set()
        eventually(lambda: world.counted.gone == [0])
        world.clock.move_to(released(world.parameters, 100))
        eventually(lambda: ticks_of(world, 1) == [100])
        assert ticks_of(world, 0) == []

    def test_a_partition_that_comes_back_is_run_again_once_its_last_release_is_done(
        self, run_world: RunWorld, eventually: Eventually, waiting: list[str]
    ) -> None:
        """Two threads of one instance would fence each other."""
        world = run_world(1)
        eventually(lambda: is_ready(world))
        world.clock.move_to(released(world.parameters, 100) - 2 * SECOND)
        eventually(lambda: waiting)
        world.owned = frozenset()
        world.wake.set()
        eventually(lambda: not world.loop.owners)
        world.owned = frozenset({0})
        turns = len(world.said)
        world.wake.set()
        eventually(lambda: len(world.said) > turns)
        assert world.tried == [0]
        world.clock.move_to(released(world.parameters, 100))
        eventually(lambda: ticks_of(world) == [100])
        eventually(lambda: world.tried == [0, 0])
        world.clock.move_to(released(world.parameters, 101))
        eventually(lambda: ticks_of(world) == [100, 101])

    def test_an_instance_that_owns_nothing_counts_nothing(self, run_world: RunWorld, eventually: Eventually) -> None:
        """Neither a tick, nor a lost one."""
        world = run_world(1, lambda world: setattr(world, "owned", frozenset()))
        for tick in (100, 103):
            world.clock.move_to(released(world.parameters, tick))
            turns = len(world.said)
            world.wake.set()
            eventually(lambda seen=turns: len(world.said) > seen)
        assert (world.counted.ticks, world.counted.lost_ticks, world.loop.last_tick) == ([], [], None)

    def test_a_wake_just_after_a_slot_has_closed_does_not_pass_its_tick_over(
        self, run_world: RunWorld, eventually: Eventually
    ) -> None:
        """
        Ownership changes within the tolerance, when tick 100 has closed and is not asked for yet.

            slot    100        │ 101
                               as_of  wake  as_of + tolerance: tick 100
        """
        world = run_world(1)
        eventually(lambda: is_ready(world))
        world.clock.move_to(world.parameters.grid.as_of(100) + world.parameters.tolerance // 2)
        turns = len(world.said)
        world.wake.set()
        eventually(lambda: len(world.said) > turns)
        world.clock.move_to(released(world.parameters, 100))
        eventually(lambda: ticks_of(world) == [100])

    def test_all_partitions_are_told_to_stop_at_once_and_waited_for_together(
        self, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
    ) -> None:
        """Four whose ledger hangs: leaving takes the time of one of them, not of all."""
        monkeypatch.setattr("monitor.release.loop.JOIN_SECONDS", 1.0)
        world, answering = make_world(ledger_partitions=4), threading.Event()
        world.owned = frozenset(range(4))
        hanging: list[int] = []

        def hangs(partition: int) -> Any:
            hanging.append(partition)
            answering.wait(30)
            raise UnreachableError("no broker answers")

        loop = ReleaseLoop(replace(world.parts, take_over=hangs), world, 4)
        loop.reconcile()
        eventually(lambda: sorted(hanging) == [0, 1, 2, 3])
        began = time.monotonic()
        loop.close()
        took = time.monotonic() - began
        answering.set()
        assert 1.0 <= took < 2.5

    def test_what_ends_one_partition_ends_the_loop(self, run_world: RunWorld, eventually: Eventually) -> None:
        """Everything must be looked at again, and the reason is raised where the loop runs."""
        world = run_world(2)
        eventually(lambda: is_ready(world))
        world.owners[0].refused = LedgerError("it belongs to another service")
        raised: list[BaseException] = []
        true_sync = world.loop.reconcile

        def reconcile() -> None:
            try:
                true_sync()
            except LedgerError as error:
                raised.append(error)
                world.stop.set()

        world.loop.reconcile = reconcile  # type: ignore[method-assign]  # to see what is raised
        world.clock.move_to(released(world.parameters, 100))
        eventually(lambda: raised)
        assert str(raised[0]) == "it belongs to another service"
