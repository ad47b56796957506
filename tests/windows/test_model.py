"""One shard, every state that it can come to: no tick counts anything but what was stamped before its as_of.

The service's own shard in memory (`test_twins.py` holds the one in Redis to it), and a log of a few records. Anybody
may write any part of the log at any time, once or again, in any order: readers, those who re-read, and zombies. The
store may be emptied, lose its numbers before its facts (they expire apart), or fall back to any earlier copy of itself;
its clock may run a slot ahead, a slot behind, or far ahead. An owner reads the last closed tick at any moment of the
next slot, puts it into the ledger, and opens the next slot, or dies before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from monitor.windows.facts import COMPLETE_FROM_START, NEVER, ShardFacts, Span
from monitor.windows.packing import shard_facts
from tests.windows.memory import _Shard

WINDOW = 2
ANN, BOB, EVE = b"a" * 16, b"b" * 16, b"e" * 16
ROW, INSTANT = 0, 7


class Record(NamedTuple):
    """Who was last seen when, as a record says that was stamped in a slot."""

    person: bytes
    last: int
    stamp: int

    @property
    def facts(self) -> ShardFacts:
        """As the reader packs them: at a watched row, and at a designated time."""
        return shard_facts(self.stamp, {ROW: [(self.person, self.last)]}, {INSTANT: [(ROW, self.person)]})


LOGS = {
    "in order": (Record(ANN, 0, 0), Record(BOB, 0, 1), Record(EVE, 1, 2)),
    "told ahead, and again": (Record(ANN, 1, 0), Record(ANN, 1, 1), Record(BOB, 1, 1)),
    "leaders' clocks differ": (Record(ANN, 1, 1), Record(BOB, 0, 0), Record(EVE, 2, 2)),
}
LAST = 3
"""The last slot."""


class Shard(NamedTuple):
    """All that a shard holds."""

    progress: int
    numbers: tuple[Any, ...]
    waiting: frozenset[ShardFacts]
    seen: frozenset[tuple[bytes, int]]
    present: frozenset[bytes]


NOTHING = Shard(
    -1,
    (COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, None, COMPLETE_FROM_START),
    frozenset(),
    frozenset(),
    frozenset(),
)


class State(NamedTuple):
    """The shard and its copy; the slot by the public clock, how far the store's is off; the ledger's last tick.

    `opens`: the ledger holds it, and its owner has not opened the next slot yet.
    """

    shard: Shard
    copy: Shard
    slot: int
    differs: int
    decided: int
    opens: bool


def frozen(shard: _Shard) -> Shard:
    numbers = (shard.complete_from, shard.evicted_before, shard.times_evicted_until, shard.opened, shard.shown)
    seen = frozenset(shard.seen.get(ROW, {}).items())
    present = frozenset(shard.present.get(INSTANT, set()))
    return Shard(shard.progress.get(0, -1), numbers, frozenset(shard.waiting), seen, present)


def thawed(shard: Shard) -> _Shard:
    progress = {0: shard.progress} if shard.progress >= 0 else {}
    seen, present = {ROW: dict(shard.seen)}, {INSTANT: set(shard.present)}
    complete_from, evicted_before, times_evicted_until, opened, shown = shard.numbers
    return _Shard(
        progress, complete_from, evicted_before, times_evicted_until, opened, shown, set(shard.waiting), seen, present
    )


@dataclass
class Model:
    """Walks through all states, the nearest first, and ends at the first that is wrong.

    `readings`: how many were compared with the log.
    """

    log: tuple[Record, ...]
    jumps: tuple[int, ...] = (-1, 0, 1)
    states: int = 0
    readings: int = 0

    def explore(self) -> Model:
        """Visit every state that can be reached."""
        first = State(NOTHING, NOTHING, 0, 0, -1, opens=False)
        known, waiting = {first}, deque([first])
        while waiting:
            state = waiting.popleft()
            assert self._goes_on(state), f"nothing can be counted any more: {state}"
            for then in self._next(state):
                if then not in known:
                    known.add(then)
                    waiting.append(then)
        self.states = len(known)
        return self

    def _end(self, slot: int) -> int:
        """How many records are in the log: a leader may be a little fast, and one behind it a little slow."""
        there = [index for index, record in enumerate(self.log) if record.stamp <= slot]
        return max(there, default=-1) + 1

    def _next(self, state: State) -> Iterator[State]:
        yield from self._writes(state)
        yield from self._ticks(state)
        yield from self._troubles(state)
        if state.slot < LAST:
            yield state._replace(slot=state.slot + 1, opens=False)
            yield state._replace(slot=state.slot + 1)  # its owner is late, and opens a slot that has passed

    def _writes(self, state: State) -> Iterator[State]:
        """Anybody begins, or writes any part of the log that is there."""
        slot = state.slot + state.differs
        shard = thawed(state.shard)
        shard.begin(slot)
        shard.progress.setdefault(0, 0)
        yield state._replace(shard=frozen(shard))
        for start, end in combinations(range(self._end(state.slot) + 1), 2):
            shard = thawed(state.shard)
            shard.write([Span(0, start, end)], [record.facts for record in self.log[start:end]], slot)
            yield state._replace(shard=frozen(shard))

    def _ticks(self, state: State) -> Iterator[State]:
        """Its owner reads the last closed tick, and may put it into the ledger as unknown or not, and open the next."""
        slot, tick = state.slot + state.differs, state.slot - 1
        if state.decided < tick >= 0:
            shard = thawed(state.shard)
            if shard.settle(tick, slot) and shard.progress.get(0, -1) >= self._end(tick):
                self._compare(shard, tick)
            yield state._replace(shard=frozen(shard))
            yield state._replace(decided=tick, opens=True)
        if state.opens:
            shard = thawed(state.shard)
            shard.open(state.decided + 1, slot)
            yield state._replace(shard=frozen(shard), opens=False)

    def _compare(self, shard: _Shard, tick: int) -> None:
        told = [record for record in self.log if record.stamp <= tick]
        people = {record.person for record in told if record.last > tick - WINDOW}
        counted = shard.count(ROW, tick - WINDOW + 1)
        present = {member[4:] for member in shard.present.get(INSTANT, set())}
        self.readings += 1
        assert counted == len(people), f"tick {tick} counts {counted} of {len(people)}"
        assert present == {record.person for record in told}, f"tick {tick} counts others at the designated time"

    def _troubles(self, state: State) -> Iterator[State]:
        yield state._replace(shard=NOTHING)
        yield state._replace(shard=state.shard._replace(progress=-1, numbers=NOTHING.numbers))
        yield state._replace(copy=state.shard)
        yield state._replace(shard=state.copy)
        for differs in self.jumps:
            yield state._replace(differs=differs)

    def _goes_on(self, state: State) -> bool:
        """Clocks are right from now on, and all is read: the tick after the next is counted, or the one after it."""
        shard = thawed(state.shard)
        shard.begin(state.slot + 1)
        return any(shard.settle(tick, tick + 1) for tick in (state.slot + 1, state.slot + 2))


@pytest.mark.parametrize(
    "log", [*list(LOGS)[:2], *(pytest.param(log, marks=pytest.mark.soak) for log in list(LOGS)[2:])]
)
def test_no_state_of_a_shard_counts_what_was_not_stamped_before_as_of(log: str, stated_streams: Any) -> None:
    """Every state, with clocks that differ by a slot; and from each on, ticks can be counted again."""
    model = Model(LOGS[log]).explore()
    print(f"{log}: {model.states:,} states, {model.readings:,} readings")
    assert model.readings > 100
    assert model.states == stated_streams(f"One shard, {log}")


def test_a_clock_that_ran_far_ahead_silences_nothing_once_it_is_right() -> None:
    """The store's host is five slots ahead while it is begun, written to and read, and then is not."""
    model = Model(LOGS["in order"][:2], jumps=(0, 5)).explore()
    assert model.readings > 10
