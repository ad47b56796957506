"""The real reader, windows and tick, run step by step in every order, on a log of a few records.

The steps are: a reader polls any number of the next records. A write is applied, immediately or late. The write of a
zombie is applied, once or again. The clock advances, over the end of a slot or within it. An owner looks at the last
closed tick, appends it to the ledger, and opens the next slot. A reader or an owner dies and another takes over. The
store is flushed, or fails over to an earlier state. In any state, each of these may come next.

The state of all parts is saved to one value (`State`) and restored from it, so that `exploring.py` can visit each
state once. The counts of each reading that could decide a tick are compared with the
definitions.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from typing import Any, cast

import numpy as np

from monitor.ingest.write_queue import Batch
from monitor.kinds.facts_and_questions import Question, Reading, Since
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.ledger.ledger_state import LedgerState
from monitor.observe.update_service_metrics import Metrics
from monitor.store.redis_store import RedisStore
from monitor.thread_signals import Signal
from monitor.ticks.await_complete_input import EvidenceReader
from monitor.ticks.collect_answers import Decider
from monitor.ticks.run_partition import find_reading_end, find_release_time
from monitor.ticks.shared_by_partitions import TickContext
from monitor.ticks.store_upkeep import Upkeep
from monitor.time.clock import SteppedClock
from monitor.time.instants import MINUTE
from tests.builders import ORIGIN, select
from tests.privacy_service.plans import PLACES, Plan
from tests.privacy_service.states import (
    BatchName,
    OwnerState,
    ReaderState,
    ShardState,
    State,
    batch_name,
    shard_of_state,
    shard_state,
)
from tests.privacy_service.stepped import HandLog, HandTopic, SteppedReader, Write
from tests.store.memory import MemoryWindows, Shard

Action = tuple[Any, ...]


@dataclass
class Observations:
    """Observations: complete readings, readings when the store already had later facts, and unknown ticks.

    `since`: the people about designated times by what was reported since earlier ticks, over all readings.
    """

    readings: int = 0
    ahead_of_the_tick: int = 0
    unknown: int = 0
    since: int = 0
    actions: Counter[str] = field(default_factory=Counter)


class World:
    """The parts over one log, run step by step. `stores` creates the store (default: in memory)."""

    def __init__(self, plan: Plan, stores: Any = None) -> None:
        self.plan = plan
        self.observed = Observations()
        self.clock = SteppedClock(plan.instant(0))
        self.windows: RedisStore = (
            MemoryWindows(plan.parameters, self.clock) if stores is None else stores(plan, self.clock)
        )
        self._batches: dict[BatchName, Batch] = {}
        self._logs = [HandLog(plan, partitions, self.clock) for partitions in plan.readers]
        self._readers = [SteppedReader(plan, log, self.windows) for log in self._logs]
        self._parts = TickContext(
            plan.parameters,
            self.windows,
            cast("Any", HandTopic(plan, self.clock)),
            metrics=Metrics(),
            clock=self.clock,
            progressed=Signal(),
        )
        shards = [
            [s for s in range(plan.shards) if s % plan.ledger_partitions == q] for q in range(plan.ledger_partitions)
        ]
        ranked = [select(plan.parameters, HotSpots), *[()] * (plan.ledger_partitions - 1)]
        deciders = [
            Decider(plan.parameters, *given) for given in zip(shards, [cast("Any", None)] * 9, ranked, strict=False)
        ]
        self._questions = [cache(partial(self._ask, decider)) for decider in deciders]
        self.shards = shards
        self._evidence: list[EvidenceReader | None] = [None] * plan.ledger_partitions
        self._owners = [OwnerState(-1, 0, None, frozenset())] * plan.ledger_partitions
        self.moment = 0
        self._zombies: frozenset[BatchName] = frozenset()
        self._opens: frozenset[tuple[int, int]] = frozenset()
        self._replica: Any = None
        self._left = dict(plan.faults)
        self.expected = {tick: plan.counts(tick) for tick in range(-1, plan.moments[-1][0])}

    def _ask(self, decider: Decider, tick: int) -> dict[int, Question]:
        """Return the questions of a tick, with the counts since every earlier tick if a mark may be anywhere."""
        starts, begins = range(-1, tick) if self.plan.answers > 1 else (), tick - self.plan.window + 1
        return {
            shard: replace(
                question,
                since=tuple(
                    Since(begins, since, int(row)) for since in starts for _, rows in question.windows for row in rows
                ),
            )
            for shard, question in decider.build_questions(tick, LedgerState()).items()
        }

    @property
    def tick(self) -> int:
        """The last closed tick."""
        return self.plan.moments[self.moment][0] - 1

    # The possible next steps

    def actions(self) -> list[Action]:
        """Return all possible next steps; some of them may change nothing."""
        actions: list[Action] = []
        if self.moment + 1 < len(self.plan.moments):
            actions.append(("clock",))
        for number in range(len(self._readers)):
            actions += self._of_reader(number)
        for partition in range(self.plan.ledger_partitions):
            actions += self._of_owner(partition)
        actions += [("open", *due) for due in sorted(self._opens)]
        if self._left.get("zombie"):
            actions += [("zombie", name) for name in sorted(self._zombies, key=repr)]
        return [*actions, *self._of_store()]

    def _of_reader(self, number: int) -> Iterator[Action]:
        log = self._logs[number]
        yield ("idle", number)
        if not log.waiting:
            rests = [range(log.end(p) - log.positions[p] + 1) for p in log.positions]
            for numbers in product(*rests):
                if any(numbers):
                    yield ("poll", number, dict(zip(log.positions, numbers, strict=True)))
        if any(not write.done() for write in self._readers[number].queue.list_writes()):
            yield ("land", number)
        if self._left.get("crash"):
            yield ("crash", number)

    def _of_owner(self, partition: int) -> Iterator[Action]:
        owner = self._owners[partition]
        if self.tick < 0 or owner.decided >= self.tick:
            return
        whole = owner.read == self._questions[partition](self.tick).keys()
        if not whole:
            yield ("look", partition)
        if whole or self._is_due(partition):
            yield ("decide", partition)
        if self._left.get("takeover"):
            yield ("takeover", partition)

    def _of_store(self) -> Iterator[Action]:
        if self._left.get("flush"):
            yield ("flush",)
        if self._left.get("failover"):
            yield ("replicate",) if self._replica is None else ("failover",)

    def _due(self, partition: int) -> int:
        taken_at = self.plan.instant(self._owners[partition].taken_at)
        return find_release_time(self.plan.parameters, self.tick, taken_at)

    def _is_due(self, partition: int) -> bool:
        return self.clock.now() >= self._due(partition)

    # The steps

    def do(self, action: Action) -> None:
        """Take one step."""
        self.observed.actions[action[0]] += 1
        getattr(self, f"_{action[0]}")(*action[1:])

    def _clock(self) -> None:
        before = self.tick
        self.moment += 1
        self.clock.move_to(self.plan.instant(self.moment))
        if self.tick > before:
            self._owners = [owner._replace(end_offsets=None, read=frozenset()) for owner in self._owners]
            self._evidence = [None] * self.plan.ledger_partitions

    def _idle(self, number: int) -> None:
        self._step(number, {}, looks=True)

    def _poll(self, number: int, numbers: Mapping[int, int]) -> None:
        self._step(number, numbers, looks=False)

    def _step(self, number: int, numbers: Mapping[int, int], *, looks: bool) -> None:
        self._logs[number].next = numbers
        self._readers[number].step_once(looks=looks)

    def _land(self, number: int) -> None:
        """Write the oldest batch that is not written yet."""
        next(write for write in self._readers[number].queue.list_writes() if not write.done()).result()

    def _crash(self, number: int) -> None:
        """End the process and assign its partitions to another. A write in flight may be applied later, or never."""
        self._left["crash"] -= 1
        self._zombies |= {self._name(write.batch) for write in self._readers[number].queue.list_writes()}
        self._logs[number] = HandLog(self.plan, self.plan.readers[number], self.clock)
        self._readers[number] = SteppedReader(self.plan, self._logs[number], self.windows)

    def _zombie(self, name: BatchName) -> None:
        self._left["zombie"] -= 1
        self._readers[0].write(self._batches[name])

    def _look(self, partition: int) -> None:
        """Let the owner look once, and check that the counts it could decide from are those of the log."""
        evidence = self._evidence_of(partition)
        before = set(evidence.readings)
        evidence.read_once()
        for shard in evidence.readings.keys() - before:
            self._compare(self._questions[partition](self.tick)[shard], shard, evidence.readings[shard])
        owner = self._owners[partition]
        end_offsets = None if evidence.end_offsets is None else frozenset(evidence.end_offsets.items())
        self._owners[partition] = owner._replace(end_offsets=end_offsets, read=owner.read.union(evidence.readings))

    def _evidence_of(self, partition: int) -> EvidenceReader:
        known = self._evidence[partition]
        if known is not None:
            return known
        owner = self._owners[partition]
        questions = self._questions[partition](self.tick)
        unread = {shard: question for shard, question in questions.items() if shard not in owner.read}
        until = find_reading_end(self.plan.parameters, self.tick, self.plan.instant(owner.taken_at))
        reader = EvidenceReader(self._parts, self.tick, unread, until, threading.Event(), lambda: None)
        reader.end_offsets = None if owner.end_offsets is None else dict(owner.end_offsets)
        self._evidence[partition] = reader
        return reader

    def _compare(self, question: Question, shard: int, reading: Reading) -> None:
        assert {*reading.present} == {*question.times}
        registry = self.plan.parameters.registry
        counted: dict[tuple[str, int | None], int] = {}
        for (_, of_window), counts in zip(question.windows, reading.counts, strict=True):
            counted |= {(PLACES[int(row)], None): int(count) for row, count in zip(of_window, counts, strict=True)}
        for instant, counts in reading.present.items():
            rows = registry.by_shard[shard].tolist()
            time = (instant - ORIGIN) // MINUTE
            counted |= {(PLACES[row], time): count for row, count in zip(rows, counts.tolist(), strict=True)}
        expected = self.expected[self.tick]
        assert all(count == expected.get(cell, 0) for cell, count in counted.items()), (self.tick, counted, expected)
        assert {*reading.since} == {*question.since}
        for asked, count in reading.since.items():
            assert count == self.plan.counts(self.tick, asked.tick).get((PLACES[asked.row], None), 0), asked
        self._compare_stamps(shard, reading)
        whole = max(reading.complete_from, reading.evicted_before)
        assert whole <= self.tick - self.plan.window + 1, "these facts must be complete"
        self.observed.readings += 1
        later = [part[:offset] for part, offset in ((self.plan.log[p], reading.progress[p]) for p in reading.progress)]
        self.observed.ahead_of_the_tick += any(entry.stamp > self.tick for part in later for entry in part)

    def _compare_stamps(self, shard: int, reading: Reading) -> None:
        """Check the counts about designated times by what was reported since every earlier tick."""
        rows = self.plan.parameters.registry.by_shard[shard]
        for since, (instant, stamps) in product(range(-1, self.tick), reading.stamps.items()):
            expected, time = self.plan.counts(self.tick, since), (instant - ORIGIN) // MINUTE
            counted = dict(zip(rows.tolist(), stamps.count_since(np.full(rows.size, since)).tolist(), strict=True))
            assert counted == {row: expected.get((PLACES[row], time), 0) for row in counted}, (self.tick, since, time)
            self.observed.since += sum(counted.values())

    def _decide(self, partition: int) -> None:
        """Append the answers of the tick to the ledger. Shards that were not read stay unknown."""
        self.observed.unknown += self._owners[partition].read != self._questions[partition](self.tick).keys()
        self._opens |= {(partition, self.tick)}
        self._owners[partition] = OwnerState(self.tick, self._owners[partition].taken_at, None, frozenset())
        self._evidence[partition] = None

    def _open(self, partition: int, tick: int) -> None:
        """Let the owner open the next slot after the tick: immediately, late, or (if it died before) never."""
        self._opens -= {(partition, tick)}
        Upkeep(self.plan.parameters, self.windows).finish_tick(tick, self.shards[partition])

    def _takeover(self, partition: int) -> None:
        self._left["takeover"] -= 1
        self._owners[partition] = OwnerState(self._owners[partition].decided, self.moment, None, frozenset())
        self._evidence[partition] = None

    def _flush(self) -> None:
        self._left["flush"] -= 1
        self._fill([shard_state(Shard())] * self.plan.shards)

    def _replicate(self) -> None:
        self._replica = self._stored()

    def _failover(self) -> None:
        """Restore the store to its last copy."""
        self._left["failover"] -= 1
        self._fill(self._replica)
        self._replica = None

    # The state as one value

    def state(self) -> State:
        """Return the state of all parts."""
        return State(
            self.moment,
            self._stored(),
            self._replica,
            tuple(self._reader_state(number) for number in range(len(self._readers))),
            self._zombies,
            tuple(self._owners),
            self._opens,
            tuple(self._left.values()),
        )

    def put(self, state: State) -> None:
        """Set the state of all parts."""
        self.moment = state.moment
        self.clock.move_to(self.plan.instant(state.moment))
        self._fill(state.store)
        self._replica, self._zombies, self._opens = state.replica, state.zombies, state.opens
        self._owners, self._evidence = list(state.owners), [None] * self.plan.ledger_partitions
        self._left = dict(zip(self._left, state.faults, strict=True))
        for number, reader in enumerate(state.readers):
            self._put_reader(number, reader)

    def _reader_state(self, number: int) -> ReaderState:
        log, queue = self._logs[number], self._readers[number].queue
        writes = tuple((self._name(write.batch), _name_landed(write)) for write in queue.list_writes())
        pending = queue.read_pending()
        name = None if pending is None else self._name(pending)
        return ReaderState(frozenset(log.positions.items()), frozenset(log.waiting), writes, name)

    def _name(self, batch: Batch) -> BatchName:
        name = batch_name(batch, self.plan.parameters.registry)
        self._batches[name] = batch
        return name

    def _put_reader(self, number: int, state: ReaderState) -> None:
        log = self._logs[number]
        log.positions, log.waiting = dict(sorted(state.positions)), set(state.waiting)
        writes = [(self._batches[name], None if landed is None else dict(landed)) for name, landed in state.writes]
        self._readers[number].queue.put_back(writes, None if state.pending is None else self._batches[state.pending])

    def _stored(self) -> tuple[ShardState, ...]:
        return tuple(shard_state(shard) for shard in cast("MemoryWindows", self.windows).shards)

    def _fill(self, store: Sequence[ShardState]) -> None:
        cast("MemoryWindows", self.windows).shards = [shard_of_state(state) for state in store]


def _name_landed(write: Write) -> frozenset[tuple[int, int]] | None:
    return None if write.reached is None else frozenset(write.reached.items())
