"""What tests of the release work on: clocks that are moved by hand, and a world of lists in which all may go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from monitor.errors import UnreachableError
from monitor.public.clock import SteppedClock
from monitor.public.instants import MILLISECOND, SECOND, parse_instant
from monitor.public.parameters import Parameters
from monitor.public.slot_grid import SlotGrid
from monitor.release.decide import Decider, Decision, Evidence
from monitor.release.loop import ReleaseLoop
from monitor.release.partition import PartitionRelease
from monitor.release.parts import Parts
from monitor.release.state import LedgerState
from monitor.release.upkeep import Upkeep
from monitor.signals import Signal
from monitor.windows.facts import COMPLETE_FROM_START, Question, Reading, Windows
from tests.windows.memory import MemoryWindows


@dataclass
class FrozenClock:
    """A real clock that stands still, so that a test says which side of an instant it is on."""

    instant: int
    simulated: bool = False

    def now(self) -> int:
        return self.instant

    def wait_until(self, instant: int, wake: threading.Event) -> bool:  # noqa: ARG002  # it has always come
        return True


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


class HandClock(SteppedClock):
    """A clock of the real world that is moved by the test, for several threads."""

    simulated = False


@dataclass
class Counted:
    """What is said of ticks, in the order in which it is said. `lost`: (partition, ticks)."""

    ticks: list[tuple[int, Mapping[str, str], Mapping[tuple[str, str], int]]] = field(default_factory=list)
    lost_ticks: list[tuple[int, int]] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    takeovers: list[str] = field(default_factory=list)

    def tick(
        self,
        partition: int,
        as_of_seconds: float,
        outcomes: Mapping[str, str],
        answers: Mapping[tuple[str, str], int],
    ) -> None:
        assert as_of_seconds > 0
        self.ticks.append((partition, outcomes, answers))

    def lost(self, partition: int, monitors: Sequence[str], ticks: int) -> None:
        assert monitors
        if ticks:  # 0 only shows that it is counted
            self.lost_ticks.append((partition, ticks))

    def refused(self, partition: int, monitors: Sequence[str]) -> None:
        assert monitors
        self.refusals.append(partition)

    def let_go(self, partition: int) -> None:
        self.gone.append(partition)

    def tick_took(self, seconds: float) -> None:
        assert seconds >= 0

    def recovery(self, cause: str) -> None:
        self.takeovers.append(cause)


@dataclass
class Owned:
    """Which partitions this instance owns, as the test says."""

    owned: frozenset[int] = frozenset({0})
    joined: bool = True


class Spied:
    """Windows whose readings are kept."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self.asked: list[Mapping[int, Question]] = []

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        self.asked.append(questions)
        return self._windows.read(questions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._windows, name)


class Store(MemoryWindows):
    """Windows with a clock of their own that may be away, and may come back as a server that evicts."""

    def __init__(self, parameters: Parameters, clock: Any) -> None:
        super().__init__(parameters, clock)
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
    """An input topic of one partition, and what the brokers say of the topics. `newest_in`: by output partition."""

    trouble: Exception | None = None
    asked: int = 0
    end: int = 0
    most: int = 1
    newest_in: dict[int, int] = field(default_factory=dict)

    def end_offsets_at(self, tick: int) -> Mapping[int, int]:  # noqa: ARG002  # it is the same at all ticks
        self.require_same()
        return {0: self.end}

    def require_same(self) -> None:
        self.asked += 1
        if self.trouble is not None:
            raise self.trouble

    def expect(self, partitions: int) -> None:
        """Nobody lists fewer here."""

    def newest(self, partitions: int) -> Mapping[int, int]:
        return {partition: at for partition, at in self.newest_in.items() if partition < partitions}

    def close(self) -> None:
        """Nothing to let go of."""


class Taken:
    """An owner of a ledger that is a list. What was published stays in `state`, whoever takes it over."""

    def __init__(
        self, partition: int, parameters: Parameters, slot: int, noise: Any, ledger_partitions: int, state: LedgerState
    ) -> None:
        self.partition, self.state, self.input_partitions = partition, state, 0
        state.owned_since = parameters.grid.start(slot) if state.owned_since is None else state.owned_since
        self.first_tick = min(slot, parameters.grid.slot_of(state.owned_since))
        self.shards = [shard for shard in range(parameters.registry.shards) if shard % ledger_partitions == partition]
        self.told: list[tuple[int, dict[tuple[str, str], int]]] = []
        self.refused: Exception | None = None
        self.unacknowledged: Exception | None = None
        self._decider = Decider(parameters, self.shards, noise)

    def turn_back(self, slot: int) -> None:
        self.first_tick = min(self.first_tick, slot)

    def questions(self, tick: int) -> dict[int, Question]:
        return self._decider.questions(tick)

    def saw_input_partitions(self, partitions: int) -> None:
        self.input_partitions = partitions

    @property
    def undecided_from(self) -> int:
        return self.first_tick if self.state.last_tick is None else self.state.last_tick + 1

    def may_decide(self, tick: int) -> bool:
        return tick >= self.undecided_from

    def decide(self, tick: int, evidence: Evidence) -> Decision:
        if self.refused is not None:
            raise self.refused
        decision = self._decider.decide(tick, evidence, self.state)
        self.told.append((tick, dict(decision.answers)))
        if self.unacknowledged is not None:
            raise self.unacknowledged
        return decision

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class World:
    """Ledger partitions over lists, and everything that a test may make go wrong.

    `clock` is this machine's, `right` the store's. `last`: by partition, the last tick that its ledger holds.
    """

    parameters: Parameters
    clock: Any
    right: Any
    store: Store
    noise: Any
    ledger_partitions: int = 1
    input: Input = field(default_factory=Input)
    owned: frozenset[int] = frozenset({0})
    joined: bool = True
    failing: set[int] = field(default_factory=set)
    tried: list[int] = field(default_factory=list)
    ledgers: dict[int, LedgerState] = field(default_factory=dict)
    owners: list[Taken] = field(default_factory=list)
    counted: Counted = field(default_factory=Counted)
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store.begin(0, 0, COMPLETE_FROM_START)
        topic, taking = cast("Any", self.input), cast("Any", self._take_over)
        self.parts = Parts(self.parameters, self.store, topic, taking, self.counted, self.clock, Signal())
        self.loop = ReleaseLoop(self.parts, self, self.ledger_partitions)

    def partition(self, partition: int = 0) -> PartitionRelease:
        """One that was not taken over yet."""
        return PartitionRelease(partition, self.parts, Upkeep(self.parameters, self.store))

    def _take_over(self, partition: int) -> Taken:
        self.tried.append(partition)
        if partition in self.failing:
            raise UnreachableError(f"partition {partition} has no leader")
        slot = self.parameters.grid.slot_of(self.clock.now())
        state = self.ledgers.setdefault(partition, LedgerState())
        self.owners.append(Taken(partition, self.parameters, slot, self.noise, self.ledger_partitions, state))
        return self.owners[-1]

    def published(self, last: int, partition: int = 0) -> None:
        """Let a partition's ledger hold the answers of a tick."""
        self.ledgers.setdefault(partition, LedgerState()).last_tick = last

    def set_clocks(self, instant: int) -> None:
        """Set the clocks of this machine and of the store."""
        self.right.instant = self.clock.instant = instant

    def told(self, partition: int = 0) -> list[tuple[int, list[str]]]:
        """By tick, the statuses that a partition's owners published."""
        return [
            (tick, sorted({status for _, status in said}))
            for owner in self.owners
            if owner.partition == partition
            for tick, said in owner.told
        ]

    def run(self) -> None:
        """Run the loop until told to stop."""
        try:
            self.loop.run(self.stop, self.wake, self.said.append)
        finally:
            self.loop.close()


def released(parameters: Parameters, tick: int) -> int:
    """When a tick's answers leave."""
    return parameters.grid.as_of(tick) + parameters.release_delay


def short_slots(make_parameters: Callable[..., Parameters], **kept: Any) -> Parameters:
    """Slots of two seconds, as the system's clock goes; released half a second after their end."""
    parameters = make_parameters(grid=SlotGrid(parse_instant("2026-01-01T00:00:00Z"), 2 * SECOND), **kept)
    return replace(parameters, release_delay=500 * MILLISECOND, tolerance=10 * MILLISECOND)
