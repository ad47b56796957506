"""The loop's turns on a clock that is moved by hand: wrong clocks, long waits, and partitions that can't be had."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

import pytest

from monitor.clock import SteppedClock
from monitor.errors import EvictionError, FailedError, LedgerChangedError, UnreachableError, WindowsError
from monitor.release.decide import Decider, Decision, Evidence
from monitor.release.loop import CHECK_SECONDS, TAKEOVER, TURN, ReleaseLoop
from monitor.release.membership import Membership
from monitor.release.state import LedgerState
from monitor.release.store_clock import StoreClock
from monitor.release.turning import run_release
from monitor.scheme import Scheme
from monitor.signals import Signal
from monitor.times import DAY, HOUR, MINUTE, SECOND
from monitor.windows.facts import SINCE_EVER, Question, Reading
from monitor.windows.memory import MemoryWindows

Make = Callable[..., Scheme]
Eventually = Callable[..., Any]


class RunningClock:
    """A clock of the real world that goes on by `step` each time it is looked at, and by as much as is waited for."""

    simulated = False

    def __init__(self, instant: int, step: int = 0) -> None:
        self.instant, self.step = instant, step

    def now(self) -> int:
        self.instant += self.step
        return self.instant

    def wait_until(self, instant: int, wake: threading.Event) -> bool:  # noqa: ARG002  # nothing wakes it
        self.instant = max(self.instant, instant)
        return True


class Store(MemoryWindows):
    """Windows with a clock of their own that may be away, and may come back as a server that evicts."""

    def __init__(self, scheme: Scheme, clock: Any) -> None:
        super().__init__(scheme, clock)
        self.trouble: Exception | None = None
        self.found: Exception | None = None
        self.checks = 0

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        if self.trouble is not None:
            raise self.trouble
        return super().read(questions)

    def check(self) -> None:
        self.checks += 1
        if self.found is not None:
            raise self.found


@dataclass
class Input:
    """An input topic of one partition without records, and what the brokers say of the topics."""

    trouble: Exception | None = None
    asked: int = 0

    def barrier(self) -> Mapping[int, int]:
        self.require_same()
        return {0: 0}

    def require_same(self) -> None:
        self.asked += 1
        if self.trouble is not None:
            raise self.trouble

    def close(self) -> None:
        """Nothing to let go of."""


class Taken:
    """An owner whose ledger is a list."""

    def __init__(self, partition: int, scheme: Scheme, first_tick: int, noise: Any, queues: int) -> None:
        self.partition, self.first_tick = partition, first_tick
        self.state, self.told = LedgerState(), list[tuple[int, dict[tuple[str, str], int]]]()
        self.shards = [shard for shard in range(scheme.registry.shards) if shard % queues == partition]
        self._decider = Decider(scheme, self.shards, noise)

    def turn_back(self, slot: int) -> None:
        self.first_tick = min(self.first_tick, slot)

    def questions(self, tick: int) -> dict[int, Question]:
        return self._decider.questions(tick)

    def may_decide(self, tick: int) -> bool:
        return tick >= self.first_tick and (self.state.last_tick is None or tick > self.state.last_tick)

    def decide(self, tick: int, evidence: Evidence) -> Decision:
        decision = self._decider.decide(tick, evidence, self.state)
        self.told.append((tick, dict(decision.answers)))
        return decision

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class Counted:
    """What the loop says of its ticks."""

    skips: int = 0

    def tick(self, *_: Any) -> None: ...

    def skipped(self, monitors: Sequence[str]) -> None:
        self.skips += len(monitors)

    def tick_took(self, seconds: float) -> None: ...

    def recovery(self, cause: str) -> None: ...


@dataclass
class World:
    """A loop over lists, and everything that a test may make go wrong."""

    scheme: Scheme
    clock: Any
    right: RunningClock
    store: Store
    noise: Any
    queues: int = 1
    input: Input = field(default_factory=Input)
    owned: frozenset[int] = frozenset({0})
    failing: set[int] = field(default_factory=set)
    tried: list[int] = field(default_factory=list)
    taken: dict[int, Taken] = field(default_factory=dict)
    counted: Counted = field(default_factory=Counted)
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store.begin(0, 0, SINCE_EVER)
        everything = (self.scheme, self.store, self.input, self, self._take_over, self.counted, self.clock, Signal())
        self.loop = cast("Any", ReleaseLoop)(*everything)

    def _take_over(self, partition: int) -> Taken:
        self.tried.append(partition)
        if partition in self.failing:
            raise UnreachableError(f"partition {partition} has no leader")
        slot = self.scheme.slots.slot_of(self.clock.now())
        self.taken[partition] = Taken(partition, self.scheme, slot, self.noise, self.queues)
        return self.taken[partition]

    def set_clocks(self, instant: int) -> None:
        """Set the clocks of this machine and of the store."""
        self.right.instant = self.clock.instant = instant

    def told(self, partition: int = 0) -> list[tuple[int, list[str]]]:
        """By tick, the statuses that a partition's owner published."""
        return [(tick, sorted({status for _, status in said})) for tick, said in self.taken[partition].told]

    def run(self) -> None:
        run_release(self.loop, self.queues, self.clock, self.scheme, self.stop, self.wake, self.said.append)


@pytest.fixture
def make_world(make_scheme: Make, noise: Any) -> Callable[..., World]:
    """Makes worlds whose store's clock stands at the beginning of slot 100, as `clock` does unless it is given."""

    def make(*, clock: Any = None, changes: Mapping[str, Any] | None = None, queues: int = 1) -> World:
        scheme = replace(make_scheme(places=8, shards=queues), **(changes or {}))
        right = RunningClock(scheme.slots.start(100))
        return World(scheme, clock or RunningClock(right.instant, SECOND), right, Store(scheme, right), noise, queues)

    return make


@pytest.fixture
def running() -> Iterator[Callable[[World], None]]:
    """Turns a world's loop on a thread, which is ended with the test."""
    started: list[tuple[World, threading.Thread]] = []

    def run(world: World) -> None:
        thread = threading.Thread(target=world.run)
        thread.start()
        started.append((world, thread))

    yield run
    for world, thread in started:
        world.stop.set()
        world.wake.set()
        thread.join(20)
        assert not thread.is_alive()


AWAY = UnreachableError("Redis does not answer")


class TestWrongClocks:
    @pytest.mark.parametrize("heard", [True, False])
    def test_a_clock_that_runs_ahead_while_the_store_is_away_says_nothing(
        self, heard: bool, make_world: Callable[..., World]
    ) -> None:
        """
        "unknown" for a tick of next year would keep everybody from deciding until then.

            slot           100            8860
            this clock     takes over     jumps here, and finds the store away
            the ledger     .              nothing, and tick 100 may be decided
        """
        world = make_world()
        world.loop.sync(1)
        if heard:
            world.loop.store_clock.hear(world.scheme.slots.start(100))
        world.store.trouble = AWAY
        world.clock.instant += 365 * DAY
        ahead = world.scheme.slots.slot_of(world.clock.instant) - 1
        world.loop.tick(ahead, world.stop)
        assert (world.told(), world.counted.skips) == ([], 1)
        assert world.taken[0].may_decide(100)

    def test_while_the_store_is_away_what_it_told_before_and_the_time_since_tell_that_a_tick_has_closed(
        self, make_world: Callable[..., World]
    ) -> None:
        """It was heard a second after the tick closed: "unknown" is said, as of then."""
        world = make_world()
        world.loop.sync(1)
        world.clock.instant = world.scheme.slots.as_of(100) + SECOND
        world.loop.store_clock.hear(world.clock.instant)
        world.store.trouble = AWAY
        world.loop.tick(100, world.stop)
        assert (world.told(), world.counted.skips) == ([(100, ["unknown"])], 0)

    def test_each_tick_hears_the_store(self, make_world: Callable[..., World]) -> None:
        """So an outage is reckoned from the last tick before it."""
        world = make_world()
        world.loop.sync(1)
        world.set_clocks(world.scheme.slots.as_of(100) + SECOND)
        world.loop.tick(100, world.stop)
        assert world.told() == [(100, ["safe"])]
        assert world.loop.store_clock.reached(world.scheme.slots.as_of(100))
        assert not world.loop.store_clock.reached(world.scheme.slots.as_of(101))

    def test_taken_over_while_the_clock_ran_ahead_it_decides_once_the_clock_is_right(
        self, make_world: Callable[..., World]
    ) -> None:
        """A year ahead at the takeover: no tick below that is lost when the clock has been set right."""
        world = make_world()
        world.clock.instant += 365 * DAY
        world.loop.sync(1)
        assert not world.taken[0].may_decide(100)
        world.set_clocks(world.scheme.slots.start(100))
        world.loop.sync(1)
        world.set_clocks(world.scheme.slots.as_of(100) + SECOND)
        world.loop.tick(100, world.stop)
        assert world.told() == [(100, ["safe"])]

    def test_the_stores_clock_is_reckoned_by_a_monotonic_one(self) -> None:
        """Told 1000 s at 5 s: at 65 s it is 1060 s there, and not a microsecond more."""
        now = [5.0]
        store = StoreClock(lambda: now[0])
        assert not store.reached(-(2**60))
        assert store.at_most(7) == 7
        store.hear(1000 * SECOND)
        now[0] = 65.0
        assert store.reached(1060 * SECOND)
        assert not store.reached(1060 * SECOND + 1)
        assert [store.at_most(instant * SECOND) for instant in (1059, 1061)] == [1059 * SECOND, 1060 * SECOND]


class TestLongWaits:
    def test_a_long_release_delay_is_waited_for_in_turns(self, make_world: Callable[..., World]) -> None:
        """The facts are complete at once, the release comes half an hour later: health hears of it all the while."""
        world = make_world(changes={"release_delay": 30 * MINUTE})
        world.loop.sync(1)
        slots = world.scheme.slots
        world.set_clocks(slots.as_of(100) + SECOND)
        world.clock.step = 0
        heard = [world.clock.instant]
        world.loop.tick(100, world.stop, lambda _: heard.append(world.clock.instant))
        heard.append(world.clock.instant)
        assert heard[-1] == slots.as_of(100) + 30 * MINUTE
        assert max(later - sooner for sooner, later in pairwise(heard)) <= TURN
        assert world.told() == [(100, ["safe"])]

    def test_facts_that_lag_are_waited_for_in_turns(self, make_world: Callable[..., World]) -> None:
        """Until the release, five minutes later; each look at the clock takes five seconds."""
        world = make_world(changes={"release_delay": 5 * MINUTE})
        world.loop.sync(1)
        world.right.instant = world.scheme.slots.as_of(100) + SECOND
        world.clock.instant, world.clock.step = world.scheme.slots.as_of(100) + SECOND, 5 * SECOND
        world.loop._input = type("Unread", (), {"barrier": lambda _: {0: 7}, "close": lambda _: None})()
        heard = [world.clock.instant]
        world.loop.tick(100, world.stop, lambda _: heard.append(world.clock.instant))
        assert len(heard) > 5 * MINUTE // TURN
        assert max(later - sooner for sooner, later in pairwise(heard)) <= TURN
        assert world.told() == [(100, ["unknown"])]

    def test_a_clock_that_is_set_back_ends_the_wait_for_the_release(self, make_world: Callable[..., World]) -> None:
        """By two seconds, between two turns: nothing leaves before its time by the clock as it is now."""
        world = make_world(changes={"release_delay": 30 * MINUTE})
        world.loop.sync(1)
        world.set_clocks(world.scheme.slots.as_of(100) + SECOND)

        def set_back(instant: int, _wake: threading.Event) -> bool:
            world.clock.instant = instant - TURN - 2 * SECOND
            return True

        world.clock.wait_until = set_back
        world.loop.tick(100, world.stop)
        assert world.told() == []


class TestTopics:
    def test_an_instance_that_owns_nothing_asks_for_the_topics_at_each_tick(
        self, make_world: Callable[..., World]
    ) -> None:
        """It would stay in the input's group under an old fingerprint, and its partitions be missing for the owner."""
        world = make_world()
        world.owned = frozenset()
        world.loop.sync(1)
        world.clock.instant = world.scheme.slots.as_of(100) + SECOND
        world.loop.tick(100, world.stop)
        assert world.input.asked == 1
        world.input.trouble = UnreachableError("no broker answers")
        world.loop.tick(101, world.stop)
        assert (world.input.asked, world.counted.skips) == (2, 0)
        world.input.trouble = LedgerChangedError("made anew")
        with pytest.raises(LedgerChangedError):
            world.loop.tick(102, world.stop)

    @pytest.mark.parametrize("trouble", [LedgerChangedError("made anew"), UnreachableError("no broker answers")])
    def test_nothing_is_written_to_a_ledger_that_may_be_another_one_while_the_store_is_away(
        self, trouble: Exception, make_world: Callable[..., World]
    ) -> None:
        """Not even "unknown", whose bytes may differ from what the other ledger's owner says."""
        world = make_world()
        world.loop.sync(1)
        world.clock.instant = world.scheme.slots.as_of(100) + SECOND
        world.loop.store_clock.hear(world.clock.instant)
        world.store.trouble, world.input.trouble = AWAY, trouble
        if isinstance(trouble, LedgerChangedError):
            with pytest.raises(LedgerChangedError):
                world.loop.tick(100, world.stop)
        else:
            world.loop.tick(100, world.stop)
            assert (world.loop.owners, world.counted.skips) == ({}, 1)
        assert world.told() == []


class TestEviction:
    def test_a_store_that_may_evict_since_a_failover_ends_all_answering(self, make_world: Callable[..., World]) -> None:
        """Facts may be gone, and what is read says "safe": it is not published, and the reason is raised."""
        world = make_world()
        world.loop.sync(1)
        world.set_clocks(world.scheme.slots.as_of(100) + SECOND)
        world.store.found = EvictionError("maxmemory-policy is allkeys-lru")
        with pytest.raises(EvictionError):
            world.loop.tick(100, world.stop)
        assert world.told() == []

    def test_the_store_is_looked_at_again_after_a_minute(
        self, make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And at the next tick where it could not be looked at; a failure to look stops nothing."""
        world = make_world()
        now = [0.0]
        monkeypatch.setattr("monitor.release.loop.time.monotonic", lambda: now[0])
        world.loop.sync(1)
        checks = []
        for tick, (later, found) in enumerate(
            [(0, WindowsError("no")), (1, None), (1, None), (CHECK_SECONDS, None)], 100
        ):
            now[0] += later
            world.store.found = found
            world.set_clocks(world.scheme.slots.as_of(tick) + SECOND)
            world.loop.tick(tick, world.stop)
            checks.append(world.store.checks)
        assert checks == [1, 2, 2, 3]
        assert [tick for tick, _ in world.told()] == [100, 101, 102, 103]


class TestHeldUp:
    def test_a_partition_that_is_held_up_until_the_next_slot_has_closed_makes_the_others_skip_the_tick(
        self, make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        The ledger took an hour for partition 0's answers to tick 100: those of partition 1 would come after as_of(101).

            slot           100   101   102
            partition 0         |─────── decided
            partition 1                  x
        """
        world = make_world(queues=2)
        world.owned = frozenset({0, 1})
        world.loop.sync(2)
        world.set_clocks(world.scheme.slots.as_of(100) + 30 * SECOND)
        slow = Taken.decide

        def decide(owner: Taken, tick: int, evidence: Evidence) -> Decision:
            decision = slow(owner, tick, evidence)
            world.set_clocks(world.scheme.slots.as_of(101))
            return decision

        monkeypatch.setattr(Taken, "decide", decide)
        world.loop.tick(100, world.stop)
        assert [tick for tick, _ in world.told(0)] == [100]
        assert world.told(1) == []
        assert world.counted.skips == 1


class TestTakingOver:
    def test_a_partition_that_cannot_be_had_does_not_keep_the_others_from_deciding(
        self, make_world: Callable[..., World], running: Callable[[World], None], eventually: Eventually
    ) -> None:
        """
        Partition 0 has no leader; health tells of it, partition 1 goes on, and 0 follows once it can be had.

            tick           100   101
            partition 0    x     decided
            partition 1    decided
        """
        clock = SteppedClock(0)
        world = make_world(clock=clock, queues=2)
        clock.move_to(world.scheme.slots.start(100))
        world.owned, world.failing = frozenset({0, 1}), {0}
        running(world)
        eventually(lambda: "taking over: partition 0 has no leader" in world.said and 1 in world.taken)
        clock.move_to(world.scheme.slots.as_of(100) + 30 * SECOND)
        eventually(lambda: [tick for tick, _ in world.told(1)] == [100])
        world.failing = set()
        eventually(lambda: 0 in world.taken, 20)
        eventually(lambda: world.said[-1] == "")
        clock.move_to(world.scheme.slots.as_of(101) + 30 * SECOND)
        eventually(lambda: [tick for tick, _ in world.told(1)] == [100, 101])
        assert [tick for tick, _ in world.told(0)] == [101]

    def test_an_attempt_that_may_take_long_is_not_begun_shortly_before_a_tick_of_the_others(
        self, make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Partition 0 is tried again when its pause is over, but not in the last minute of a slot.

            slot 100    t    t  ………  59:00 -    as_of    t
        """
        now = [0.0]
        monkeypatch.setattr("monitor.release.loop.time.monotonic", lambda: now[0])
        world = make_world(queues=2)
        world.owned, world.failing, world.clock.step = frozenset({0, 1}), {0}, 0
        as_of = world.scheme.slots.as_of(100)
        tried = []
        for instant in (as_of - HOUR, as_of - TAKEOVER, as_of - TAKEOVER + 1, as_of):
            now[0] += 100
            world.clock.instant = instant
            world.loop.sync(2)
            tried.append(world.tried.count(0))
        assert tried == [1, 2, 2, 3]

    def test_pauses_between_attempts_grow(
        self, make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """0.5 s, then 1, 2, 4 and 8; what is given up with its partition begins anew."""
        now = [0.0]
        monkeypatch.setattr("monitor.release.loop.time.monotonic", lambda: now[0])
        world = make_world()
        world.failing = {0}
        world.loop.sync(1)
        for pause in (0.5, 1, 2, 4, 8, 8):
            now[0] += pause - 0.01
            assert not world.loop.retry_due
            now[0] += 0.01
            assert world.loop.retry_due
            world.loop.sync(1)
        assert len(world.tried) == 7
        world.owned = frozenset()
        world.loop.sync(1)
        assert (world.loop.trouble, world.loop.retry_due) == ("", False)

    def test_a_wake_just_after_a_slot_has_closed_does_not_pass_its_tick_over(
        self, make_world: Callable[..., World], running: Callable[[World], None], eventually: Eventually
    ) -> None:
        """
        Ownership changes within the tolerance, when tick 100 has closed and is not asked for yet.

            slot    100        │ 101
                               as_of  wake  as_of + tolerance: tick 100
        """
        clock = SteppedClock(0)
        world = make_world(clock=clock)
        clock.move_to(world.scheme.slots.start(100))
        running(world)
        eventually(lambda: "" in world.said)
        clock.move_to(world.scheme.slots.as_of(100) + world.scheme.tolerance // 2)
        turns = len(world.said)
        world.wake.set()
        eventually(lambda: len(world.said) > turns and not world.wake.is_set())
        clock.move_to(world.scheme.slots.as_of(100) + 30 * SECOND)
        eventually(lambda: [tick for tick, _ in world.told()] == [100])


class Member:
    """A member of a group, or what stands for one, that has a fault."""

    def subscribe(self, topics: list[str], listener: Any) -> None: ...

    def poll(self, timeout_ms: int) -> None:
        raise TypeError(f"a fault, after {timeout_ms} ms")

    def close(self, **_: Any) -> None: ...


def test_a_member_of_the_release_group_that_dies_is_told_of() -> None:
    """Nobody would be told of changes any more: whoever asks what is owned is woken, and ends the service."""
    connections = type("Connections", (), {"member": lambda *_: Member(), "reached": lambda _: nullcontext()})()
    wake = threading.Event()
    member = Membership(cast("Any", connections), "alerts", "town-release", wake)
    try:
        assert wake.wait(20)
        with pytest.raises(FailedError, match=r"release group's member ended.*a fault"):
            _ = member.owned
    finally:
        member.close()
