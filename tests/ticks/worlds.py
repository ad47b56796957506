"""Test doubles of the release: clocks that tests move, and a world of in-memory partitions with injected errors."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, cast

from monitor.errors import UnreachableError
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, Question, Reading
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.observe.update_service_metrics import Metrics
from monitor.records.output_records import OutputRecord
from monitor.thread_signals import Signal
from monitor.ticks.loop import TickLoop
from monitor.ticks.owner import LedgerTopic, Owner, OwnerRecords
from monitor.ticks.run_partition import PartitionTicks, find_reading_end
from monitor.ticks.shared_by_partitions import TickContext
from monitor.ticks.store_upkeep import Upkeep
from monitor.time.clock import SteppedClock
from monitor.time.instants import MILLISECOND, SECOND, parse_instant
from monitor.time.slot_grid import SlotGrid
from tests.store.memory import MemoryWindows


class RunningClock:
    """A real clock that advances by `step` at each reading, and by the length of each wait."""

    def __init__(self, instant: int, step: int = 0) -> None:
        self.instant, self.step = instant, step

    def now(self) -> int:
        self.instant += self.step
        return self.instant

    def elapsed(self) -> float:
        return self.instant / SECOND

    def wait_until(self, instant: int, wake: threading.Event) -> bool:  # noqa: ARG002  # never woken
        self.instant = max(self.instant, instant)
        return True


class JumpingClock(SteppedClock):
    """A clock that moves to the end of each wait."""

    def wait_until(self, instant: int, wake: threading.Event) -> bool:  # noqa: ARG002  # never woken
        self.move_to(max(instant, self.now()))
        return True


class RecordingObserver(Metrics):
    """Metrics that record their calls in order. `lost_ticks`: (partition, ticks). `lost_answers`: their number.

    `skipped`: how often ticks were counted as skipped by the monitors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ticks: list[tuple[int, Mapping[str, str], Mapping[tuple[str, str], int]]] = []
        self.lost_ticks: list[tuple[int, int]] = []
        self.lost_answers = 0
        self.skipped = 0
        self.refusals: list[int] = []
        self.forgotten: list[int] = []
        self.takeovers: list[str] = []
        self.causes: list[dict[str, int]] = []
        self.missing_records: dict[int, int] = {}

    def count_tick(
        self,
        partition: int,
        as_of_seconds: float,
        outcomes: Mapping[str, str],
        answers: Mapping[tuple[str, str], int],
    ) -> None:
        assert as_of_seconds > 0
        self.ticks.append((partition, outcomes, answers))

    def count_lost(self, partition: int, monitors: Sequence[str], ticks: int, answers: int = 0) -> None:
        self.skipped += bool(ticks and monitors)
        self.lost_answers += answers
        if ticks:  # 0 only creates the series
            self.lost_ticks.append((partition, ticks))

    def count_refused(self, partition: int, monitors: Sequence[str]) -> None:
        assert monitors
        self.refusals.append(partition)

    def forget_partition(self, partition: int) -> None:
        self.forgotten.append(partition)

    def count_unknown(self, shards: Mapping[str, int]) -> None:
        self.causes.append(dict(shards))

    def set_missing(self, records: Mapping[int, int]) -> None:
        self.missing_records = dict(records)

    def count_recovery(self, cause: str) -> None:
        self.takeovers.append(cause)


class FakeStore(MemoryWindows):
    """Windows with a separate clock. Reads raise `error`, and the check of the eviction policy `check_error`."""

    def __init__(self, parameters: Parameters, clock: Any) -> None:
        super().__init__(parameters, clock)
        self.error: Exception | None = None
        self.check_error: Exception | None = None
        self.checks = 0

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        if self.error is not None:
            raise self.error
        return super().read(questions)

    def time(self, shards: Collection[int] = (0,)) -> int:
        if self.error is not None:
            raise self.error
        return super().time(shards)

    def check(self) -> None:
        self.checks += 1
        if self.check_error is not None:
            raise self.check_error


@dataclass
class FakeInputTopic:
    """An input topic of one partition. `last_ticks`: the last tick by output partition; None: all are decided.

    `hidden`: as `find_hidden` returns it.
    """

    error: Exception | None = None
    asked: int = 0
    end: int = 0
    most_partitions: int = 1
    last_ticks: dict[int, int] | None = None
    hidden: dict[int, int] = field(default_factory=dict)

    def read_end_offsets_at(self, tick: int) -> Mapping[int, int]:  # noqa: ARG002  # the same at all ticks
        self.require_same()
        return {0: self.end}

    def read_stable_ends(self, partitions: Iterable[int]) -> Mapping[int, int]:  # noqa: ARG002  # no transaction
        return {}

    def find_hidden(self, partitions: Iterable[int]) -> Mapping[int, int]:  # noqa: ARG002  # all of the test's
        return self.hidden

    def require_same(self) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error

    def expect_partitions(self, partitions: int) -> None:
        """Do nothing: no listing is shorter here."""

    def find_undecided(self, partitions: Sequence[int], tick: int, as_of: int) -> list[int]:  # noqa: ARG002
        ticks = self.last_ticks
        return [] if ticks is None else [partition for partition in partitions if ticks.get(partition, -1) < tick]

    def close(self, seconds: float) -> None:
        """Do nothing."""


@dataclass
class FakeWriter:
    """A writer of an in-memory ledger, whose state is `ledger`. `published`: the answers of each appended tick.

    An append raises `refused` before, and `unacknowledged` after the records are in the ledger.
    """

    partition: int
    ledger: LedgerState
    grid: SlotGrid
    published: list[tuple[int, dict[tuple[str, str], int]]] = field(default_factory=list)
    refused: Exception | None = None
    unacknowledged: Exception | None = None
    within: float = 0.0

    def append(self, records: Sequence[OutputRecord], within: float = 0.0) -> int:
        self.within = within
        if self.refused is not None:
            raise self.refused
        answers: dict[int, Counter[tuple[str, str]]] = {}
        for record in records:
            self.ledger.fold(record, self.grid)
            value = json.loads(record.value)
            if "status" in value:
                answers.setdefault(value["tick"], Counter())[value["monitor"], value["status"]] += 1
        self.published += [(tick, dict(counts)) for tick, counts in answers.items()]
        if self.unacknowledged is not None:
            raise self.unacknowledged
        return 0

    def close(self) -> None:
        """Do nothing."""


@dataclass
class World:
    """In-memory ledger partitions, with errors that a test can inject.

    `clock` is the clock of this machine, `true_clock` that of the store. Takeovers of `failing` partitions fail.
    `cut`: a takeover finds that no transaction with the last tick was committed.
    """

    parameters: Parameters
    clock: Any
    true_clock: Any
    store: FakeStore
    noise: Any
    ledger_partitions: int = 1
    input: FakeInputTopic = field(default_factory=FakeInputTopic)
    owned: frozenset[int] = frozenset({0})
    joined: bool = True
    cut: bool = False
    failing: set[int] = field(default_factory=set)
    takeover_attempts: list[int] = field(default_factory=list)
    ledgers: dict[int, LedgerState] = field(default_factory=dict)
    owners: list[Owner] = field(default_factory=list)
    writers: list[FakeWriter] = field(default_factory=list)
    observer: RecordingObserver = field(default_factory=RecordingObserver)
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store.begin(0, 0, COMPLETE_FROM_START)
        topic = cast("Any", self.input)
        self.context = TickContext(self.parameters, self.store, topic, self.observer, self.clock, Signal())
        self.loop = TickLoop(self.context, self.take_over, cast("Any", self), self.ledger_partitions)

    def partition(self, partition: int = 0) -> PartitionTicks:
        """Return a partition that is not taken over yet."""
        return PartitionTicks(partition, self.context, self.take_over, Upkeep(self.parameters, self.store))

    def take_partition(self, partition: int = 0) -> PartitionTicks:
        """Return a partition that is taken over."""
        release = self.partition(partition)
        assert release.take_over()
        return release

    def take_over(self, partition: int) -> Owner:
        """Take an in-memory partition over."""
        self.takeover_attempts.append(partition)
        if partition in self.failing:
            raise UnreachableError(f"partition {partition} has no leader")
        grid, slot = self.parameters.grid, self.parameters.grid.find_slot(self.clock.now())
        ledger = self._find_ledger(partition)
        ledger.owned_since = grid.start(slot) if ledger.owned_since is None else ledger.owned_since
        records = OwnerRecords(LedgerTopic("ledger", "1", "", "", 0), self.parameters, self.clock.now)
        self.writers.append(FakeWriter(partition, ledger, grid))
        writer = cast("Any", self.writers[-1])
        self.owners.append(Owner(partition, writer, deepcopy(ledger), records, self.noise, slot))
        if self.cut:
            self.owners[-1].repeat_last_tick(committed=False)
        return self.owners[-1]

    def _find_ledger(self, partition: int) -> LedgerState:
        terms = OwnerTerms(self.parameters.name, self.ledger_partitions)
        return self.ledgers.setdefault(partition, LedgerState(terms))

    def publish_up_to(self, last: int, partition: int = 0) -> None:
        """Set the last decided tick of a partition's ledger."""
        self._find_ledger(partition).last_tick = last

    def set_clocks(self, instant: int) -> None:
        """Set the clocks of this machine and of the store."""
        self.true_clock.instant = self.clock.instant = instant

    def statuses_by_tick(self, partition: int = 0) -> list[tuple[int, list[str]]]:
        """Return (tick, statuses) of the answers that were appended to a partition."""
        return [
            (tick, sorted({status for _, status in answers}))
            for writer in self.writers
            if writer.partition == partition
            for tick, answers in writer.published
        ]

    def run(self) -> None:
        """Run the loop until it is stopped."""
        try:
            self.loop.run(self.stop, self.wake, self.troubles.append)
        finally:
            self.loop.close()


def release_instant(parameters: Parameters, tick: int) -> int:
    """Return when a tick's answers leave."""
    return parameters.grid.as_of(tick) + parameters.release_delay


def make_short_slots(make_parameters: Callable[..., Parameters], **kept: Any) -> Parameters:
    """Return parameters for the system clock: slots of two seconds, released half a second after their end."""
    parameters = make_parameters(grid=SlotGrid(parse_instant("2026-01-01T00:00:00Z"), 2 * SECOND), **kept)
    return replace(parameters, release_delay=500 * MILLISECOND, tolerance=10 * MILLISECOND)


def reading_instant(parameters: Parameters, tick: int) -> int:
    """Return the last instant at which a tick's facts are read."""
    return find_reading_end(parameters, tick, 0)
