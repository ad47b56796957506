"""A model check of one shard: in every reachable state, a tick counts only facts stamped before its as_of.

The model has a shard in memory (`test_twins.py` compares it with Redis), and a log of a few records. Readers and
zombies write any part of the log at any time, in any order and repeatedly. The store may be emptied, lose its numbers
before its facts (they expire separately), or fall back to an earlier copy. Its clock may be a slot ahead, a slot
behind, or far ahead. An owner reads the last closed tick at any moment of the next slot, writes it to the ledger, and
opens the next slot, or dies before that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, OffsetRange, Portion
from tests.store.memory import Shard as MemoryShard
from tests.store.packed import pack_shard_facts

pytestmark = pytest.mark.long

WINDOW = 2
ANN, BOB, EVE = b"a" * 16, b"b" * 16, b"e" * 16
ROW, INSTANT = 0, 7


class Record(NamedTuple):
    """A person last seen in a slot, from a record stamped in a slot."""

    person: bytes
    last: int
    stamp: int

    @property
    def facts(self) -> list[Portion]:
        """Return the facts as the reader packs them: at a watched row, and at a designated time."""
        return pack_shard_facts(self.stamp, {ROW: [(self.person, self.last)]}, {INSTANT: [(ROW, self.person)]})


LOGS = {
    "in order": (Record(ANN, 0, 0), Record(BOB, 0, 1), Record(EVE, 1, 2)),
    "reported ahead, and again": (Record(ANN, 1, 0), Record(ANN, 1, 1), Record(BOB, 1, 1)),
    "leaders' clocks differ": (Record(ANN, 1, 1), Record(BOB, 0, 0), Record(EVE, 2, 2)),
}
LAST = 3
"""The last slot."""


class Shard(NamedTuple):
    """The complete content of a shard."""

    progress: int
    numbers: tuple[Any, ...]
    waiting: frozenset[Portion]
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
    """The shard and its copy, the public slot, the offset of the store's clock, and the last tick in the ledger.

    `opens`: the tick is in the ledger, and its owner has not opened the next slot yet.
    """

    shard: Shard
    copy: Shard
    slot: int
    differs: int
    decided: int
    opens: bool


def freeze(shard: MemoryShard) -> Shard:
    numbers = (shard.complete_from, shard.evicted_before, shard.times_evicted_until, shard.opened, shard.shown)
    seen = frozenset(shard.seen.get(ROW, {}).items())
    present = frozenset(shard.present.get(INSTANT, set()))
    return Shard(shard.progress.get(0, -1), numbers, frozenset(shard.waiting), seen, present)


def thaw(shard: Shard) -> MemoryShard:
    progress = {0: shard.progress} if shard.progress >= 0 else {}
    seen, present = {ROW: dict(shard.seen)}, {INSTANT: set(shard.present)}
    complete_from, evicted_before, times_evicted_until, opened, shown = shard.numbers
    return MemoryShard(
        progress,
        complete_from,
        evicted_before,
        times_evicted_until,
        opened,
        shown,
        set(shard.waiting),
        seen,
        present=present,
    )


# What happens to a shard depends on the shard alone, and thousands of states have the same one.


@cache
def begin(shard: Shard, slot: int) -> Shard:
    begun = thaw(shard)
    begun.begin(slot)
    begun.progress.setdefault(0, 0)
    return freeze(begun)


@cache
def write(shard: Shard, log: tuple[Record, ...], start: int, end: int, slot: int) -> Shard:
    written = thaw(shard)
    facts = [portion for record in log[start:end] for portion in record.facts]
    written.write([OffsetRange(0, start, end)], facts, slot)
    return freeze(written)


@cache
def settle(shard: Shard, tick: int, slot: int) -> tuple[bool, Shard]:
    """Return whether a tick can be read, and the shard after that."""
    read = thaw(shard)
    return read.settle(tick, slot), freeze(read)


@cache
def open_slot(shard: Shard, to: int, slot: int) -> Shard:
    opened = thaw(shard)
    opened.open(to, slot)
    return freeze(opened)


@cache
def recovers(shard: Shard, slot: int) -> bool:
    """Return whether a tick is counted within two slots after clocks are right and everything is read."""
    begun = thaw(shard)
    begun.begin(slot)
    return any(begun.settle(tick, tick + 1) for tick in (slot, slot + 1))


@dataclass
class Model:
    """A breadth-first search through all states, which stops at the first wrong one.

    `readings`: the number of readings compared with the log.
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
            assert recovers(state.shard, state.slot + 1), f"nothing can be counted any more: {state}"
            for then in self._next(state):
                if then not in known:
                    known.add(then)
                    waiting.append(then)
        self.states = len(known)
        return self

    def _end(self, slot: int) -> int:
        """Return the number of records in the log: a leader may be a little fast, and the next one a little slow."""
        there = [index for index, record in enumerate(self.log) if record.stamp <= slot]
        return max(there, default=-1) + 1

    def _next(self, state: State) -> Iterator[State]:
        yield from self._writes(state)
        yield from self._ticks(state)
        yield from self._troubles(state)
        if state.slot < LAST:
            yield state._replace(slot=state.slot + 1, opens=False)
            yield state._replace(slot=state.slot + 1)  # the owner is late, and opens a past slot

    def _writes(self, state: State) -> Iterator[State]:
        """Yield the states after `begin`, or after a write of any part of the log."""
        slot = state.slot + state.differs
        yield state._replace(shard=begin(state.shard, slot))
        for start, end in combinations(range(self._end(state.slot) + 1), 2):
            yield state._replace(shard=write(state.shard, self.log, start, end, slot))

    def _ticks(self, state: State) -> Iterator[State]:
        """Yield the states after the owner has read, appended or opened a slot."""
        slot, tick = state.slot + state.differs, state.slot - 1
        if state.decided < tick >= 0:
            settled, shard = settle(state.shard, tick, slot)
            if settled and shard.progress >= self._end(tick):
                self._compare(shard, tick)
            yield state._replace(shard=shard)
            yield state._replace(decided=tick, opens=True)
        if state.opens:
            yield state._replace(shard=open_slot(state.shard, state.decided + 1, slot), opens=False)

    def _compare(self, shard: Shard, tick: int) -> None:
        reported = [record for record in self.log if record.stamp <= tick]
        people = {record.person for record in reported if record.last > tick - WINDOW}
        counted = thaw(shard).count(ROW, tick - WINDOW + 1)
        present = {member[4:] for member in shard.present}
        self.readings += 1
        assert counted == len(people), f"tick {tick} counts {counted} of {len(people)}"
        assert present == {record.person for record in reported}, f"tick {tick} counts others at the designated time"

    def _troubles(self, state: State) -> Iterator[State]:
        yield state._replace(shard=NOTHING)
        yield state._replace(shard=state.shard._replace(progress=-1, numbers=NOTHING.numbers))
        yield state._replace(copy=state.shard)
        yield state._replace(shard=state.copy)
        for differs in self.jumps:
            yield state._replace(differs=differs)


@pytest.mark.promise(27)
@pytest.mark.parametrize(
    "log", [*list(LOGS)[:2], *(pytest.param(log, marks=pytest.mark.soak) for log in list(LOGS)[2:])]
)
def test_every_state_of_a_shard(log: str, stated_streams: Any) -> None:
    """No state of a shard counts facts stamped after the tick, with clocks that differ by a slot.

    Later ticks can be counted.
    """
    model = Model(LOGS[log]).explore()
    print(f"{log}: {model.states:,} states, {model.readings:,} readings")
    assert model.readings > 100
    assert model.states == stated_streams(f"One shard, {log}")


def test_recovery_from_a_fast_clock() -> None:
    """After the store's clock ran five slots ahead and was corrected, ticks are counted again."""
    model = Model(LOGS["in order"][:2], jumps=(0, 5)).explore()
    assert model.readings > 10
