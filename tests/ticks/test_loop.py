"""The loop over the partitions of an instance, each on a separate thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import pytest

from monitor.errors import LedgerChangedError, LedgerError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.observe import failpoints
from monitor.ticks.loop import TickLoop
from monitor.ticks.owner import LedgerTopic
from monitor.time.clock import SteppedClock
from monitor.time.instants import SECOND
from tests.conftest import Eventually
from tests.ticks.deciding import ledger, list_kinds
from tests.ticks.worlds import FakeWriter, World, release_instant

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]
MakeWorld = Callable[..., World]
RunWorld = Callable[..., World]


@dataclass
class FixedOwnership:
    """The ownership that the test sets."""

    owned: frozenset[int] = frozenset({0})
    joined: bool = True


def note_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses of partition 0's thread, and shorten them to 10 ms."""
    pauses: list[float] = []
    wait = threading.Event.wait

    def noting(event: threading.Event, seconds: float | None = None) -> bool:
        if seconds is not None and threading.current_thread().name == "ledger-0":
            pauses.append(seconds)
            seconds = 0.01
        return wait(event, seconds)

    monkeypatch.setattr(threading.Event, "wait", noting)
    return pauses


def list_ticks(world: World, partition: int = 0) -> list[int]:
    """Return the ticks that a partition's owners published."""
    return [tick for tick, _ in world.statuses_by_tick(partition)]


@pytest.fixture
def waiting() -> Iterator[list[str]]:
    """The names of the threads that have read the evidence of a tick and wait for its release."""
    threads: list[str] = []
    failpoints.arm("tick.read", lambda: threads.append(threading.current_thread().name))
    yield threads
    failpoints.disarm("tick.read")


def is_ready(world: World) -> bool:
    """Return whether every partition is taken over and there is no trouble."""
    return len(world.loop.owners) == len(world.owned) and world.troubles[-1:] == [""]


class TestOnRealServers:
    def test_loop_decides_one_tick_per_slot(
        self,
        make_site: MakeSite,
        make_parameters: Make,
        clock: SteppedClock,
        in_thread: Callable[..., Any],
        eventually: Eventually,
        connections: KafkaConnections,
    ) -> None:
        """The loop decides one tick per slot until it is stopped, starting with the slot of the takeover."""
        parameters = make_parameters()
        site = make_site(parameters, clock)
        loop, stop, wake = (
            TickLoop(site.context, site.take_over, cast("Any", FixedOwnership()), 1),
            threading.Event(),
            threading.Event(),
        )
        thread = in_thread(lambda: loop.run(stop, wake, lambda _: None))
        try:
            eventually(lambda: loop.owners, 20)
            for tick in range(3):
                clock.move_to(release_instant(parameters, tick))
                eventually(lambda expected=tick: loop.last_tick == expected)
        finally:
            stop.set()
            wake.set()
            thread.join(20)
            loop.close()
        assert loop.decided.number == 3
        assert [kind for kind in list_kinds(ledger(connections, site.place)) if kind.isdigit()] == [*"000111222"]

    def test_reconcile_starts_and_stops_partitions(
        self,
        make_site: MakeSite,
        make_parameters: Make,
        clock: SteppedClock,
        make_ledger: Callable[..., LedgerTopic],
        eventually: Eventually,
    ) -> None:
        """Owned partitions are taken over, lost ones are closed, and partitions beyond Q are ignored."""
        site = make_site(make_parameters(places=8, shards=2), clock, make_ledger(ledger_partitions=2))
        owned = FixedOwnership(frozenset({0, 1, 2}))
        with closing(TickLoop(site.context, site.take_over, cast("Any", owned), 2)) as loop:
            loop.reconcile()
            eventually(lambda: sorted(loop.owners) == [0, 1], 20)
            kept = loop.owners[1]
            owned.owned = frozenset({1})
            loop.reconcile()
            assert dict(loop.owners) == {1: kept}
            eventually(lambda: site.observer.forgotten == [0])
            assert site.observer.takeovers == ["takeover", "takeover"]


class TestSideBySide:
    @pytest.mark.promise(20, 40)
    def test_slow_ledger_does_not_delay_others(
        self, run_world: RunWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        An append that takes more than an hour in partition 0 does not delay partition 1.

            slot           100      101      102
            partition 0       |────────────────── 100
            partition 1       | 100    | 101
        """
        answering = threading.Event()
        append = FakeWriter.append

        def slow(writer: FakeWriter, *arguments: Any) -> Any:
            if writer.partition == 0:
                answering.wait(30)
            return append(writer, *arguments)

        monkeypatch.setattr(FakeWriter, "append", slow)
        world = run_world(2)
        try:
            eventually(lambda: is_ready(world))
            for tick in (100, 101):
                world.clock.move_to(release_instant(world.parameters, tick))
                eventually(lambda expected=tick: list_ticks(world, 1)[-1:] == [expected])
            assert list_ticks(world, 0) == []
        finally:
            answering.set()
        eventually(lambda: list_ticks(world, 0) == [100, 101])

    def test_unavailable_partition_does_not_delay_others(self, run_world: RunWorld, eventually: Eventually) -> None:
        """
        Partition 0 has no leader: the trouble says so, partition 1 continues, and 0 follows later.

            tick           100        101
            partition 0               100, 101       the last closed tick is decided by who takes over
            partition 1    100        101
        """
        world = run_world(2, lambda world: world.failing.add(0) or world.publish_up_to(99, 0))
        eventually(lambda: "taking over: partition 0 has no leader" in world.troubles and 1 in world.loop.owners)
        world.clock.move_to(release_instant(world.parameters, 100))
        eventually(lambda: list_ticks(world, 1) == [100])
        world.failing.clear()
        eventually(lambda: 0 in world.loop.owners, 20)
        eventually(lambda: world.troubles[-1] == "")
        world.clock.move_to(world.clock.now() + world.parameters.release_delay)
        eventually(lambda: list_ticks(world, 0) == [100])
        world.clock.move_to(release_instant(world.parameters, 101))
        eventually(lambda: list_ticks(world, 1) == list_ticks(world, 0) == [100, 101])
        assert world.observer.lost_ticks == []

    def test_hanging_check_delays_no_takeover(self, run_world: RunWorld, eventually: Eventually) -> None:
        """A topic check that hangs on one broker does not delay a takeover."""
        answering, checked = threading.Event(), threading.Event()

        def hangs() -> None:
            checked.set()
            answering.wait(30)

        def prepare(world: World) -> None:
            world.owned = frozenset()
            world.input.require_same = hangs  # type: ignore[method-assign]  # a broker that hangs

        world = run_world(1, prepare)
        try:
            assert checked.wait(10)
            world.owned = frozenset({0})
            world.wake.set()
            eventually(lambda: world.loop.owners)
        finally:
            answering.set()

    def test_failed_topic_check_ends_the_loop(self, make_world: MakeWorld) -> None:
        """A replaced topic that the topic check finds ends the loop."""
        world = make_world()
        world.owned = frozenset()
        world.input.error = LedgerChangedError("re-created")
        with pytest.raises(LedgerChangedError):
            world.run()

    def test_takeover_backoff(
        self, run_world: RunWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The pauses between takeover attempts are 0.5 s, 1 s, and then 2 s.

        A broker that returns is found within a slot.
        """
        pauses = note_pauses(monkeypatch)
        world = run_world(1, lambda world: world.failing.add(0))
        eventually(lambda: len(pauses) > 5)
        assert pauses[:5] == [0.5, 1, 2, 2, 2]
        world.failing.clear()
        eventually(lambda: is_ready(world))

    def test_append_backoff(self, run_world: RunWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a failed append the takeover follows at once, then with growing pauses.

        Each takeover writes to a ledger that takes no answers.
        """
        pauses = note_pauses(monkeypatch)
        append = FakeWriter.append

        def refused(*_: Any) -> Any:
            raise UnreachableError("the record is too large")

        monkeypatch.setattr(FakeWriter, "append", refused)
        world = run_world(1, lambda world: world.publish_up_to(99))
        eventually(lambda: is_ready(world))
        for attempt in range(8):
            world.clock.move_to(world.parameters.grid.as_of(100) + (attempt + 1) * world.parameters.release_delay)
            eventually(lambda seen=attempt: len(world.takeover_attempts) > seen + 1)
        assert pauses[:6] == [0.5, 1, 2, 4, 8, 8]
        monkeypatch.setattr(FakeWriter, "append", append)
        world.clock.move_to(world.clock.now() + world.parameters.release_delay)
        eventually(lambda: list_ticks(world) == [100])


class TestOwnership:
    def test_returned_partition_waits_for_old_thread(
        self, run_world: RunWorld, eventually: Eventually, waiting: list[str]
    ) -> None:
        """A partition that returns starts after its old thread has ended.

        Two threads of one instance would fence each other.
        """
        world = run_world(1)
        eventually(lambda: is_ready(world))
        world.clock.move_to(release_instant(world.parameters, 100) - 2 * SECOND)
        eventually(lambda: waiting)
        world.owned = frozenset()
        world.wake.set()
        eventually(lambda: not world.loop.owners)
        world.owned = frozenset({0})
        turns = len(world.troubles)
        world.wake.set()
        eventually(lambda: len(world.troubles) > turns)
        assert world.takeover_attempts == [0]
        world.clock.move_to(release_instant(world.parameters, 100))
        eventually(lambda: list_ticks(world) == [100])
        eventually(lambda: len(world.observer.takeovers) == 2)
        assert world.takeover_attempts == [0, 0]
        world.clock.move_to(release_instant(world.parameters, 101))
        eventually(lambda: list_ticks(world) == [100, 101])

    def test_idle_instance_counts_nothing(self, run_world: RunWorld, eventually: Eventually) -> None:
        """An instance without partitions counts neither ticks nor lost ticks."""
        world = run_world(1, lambda world: setattr(world, "owned", frozenset()))
        for tick in (100, 103):
            world.clock.move_to(release_instant(world.parameters, tick))
            turns = len(world.troubles)
            world.wake.set()
            eventually(lambda seen=turns: len(world.troubles) > seen)
        assert (world.observer.ticks, world.observer.lost_ticks, world.loop.last_tick) == ([], [], None)

    def test_wake_within_tolerance_skips_no_tick(self, run_world: RunWorld, eventually: Eventually) -> None:
        """
        A change of ownership within the tolerance after as_of does not skip that tick.

            slot    100        │ 101
                               as_of  wake  as_of + tolerance: tick 100
        """
        world = run_world(1)
        eventually(lambda: is_ready(world))
        world.clock.move_to(world.parameters.grid.as_of(100) + world.parameters.tolerance // 2)
        turns = len(world.troubles)
        world.wake.set()
        eventually(lambda: len(world.troubles) > turns)
        world.clock.move_to(release_instant(world.parameters, 100))
        eventually(lambda: list_ticks(world) == [100])

    def test_close_waits_for_all_partitions_together(self, make_world: MakeWorld, eventually: Eventually) -> None:
        """`close` waits for hanging partitions together: four take as long as one."""
        world, answering = make_world(ledger_partitions=4), threading.Event()
        world.owned = frozenset(range(4))
        hanging: list[int] = []

        def hangs(partition: int) -> Any:
            hanging.append(partition)
            answering.wait(30)
            raise UnreachableError("no broker answers")

        loop = TickLoop(world.context, hangs, cast("Any", world), 4)
        loop.reconcile()
        eventually(lambda: sorted(hanging) == [0, 1, 2, 3])
        began = time.monotonic()
        loop.close(1.0)
        took = time.monotonic() - began
        answering.set()
        assert 1.0 <= took < 2.5

    def test_failed_partition_ends_the_loop(self, run_world: RunWorld, eventually: Eventually) -> None:
        """The failure of one partition is raised by the loop, so that the service runs its checks again."""
        world = run_world(2)
        eventually(lambda: is_ready(world))
        world.writers[0].refused = LedgerError("it belongs to another service")
        raised: list[BaseException] = []
        true_sync = world.loop.reconcile

        def reconcile() -> None:
            try:
                true_sync()
            except LedgerError as error:
                raised.append(error)
                world.stop.set()

        world.loop.reconcile = reconcile  # type: ignore[method-assign]  # to see what is raised
        world.clock.move_to(release_instant(world.parameters, 100))
        eventually(lambda: raised)
        assert str(raised[0]) == "it belongs to another service"
