"""Streams of records, driven through the service's decoding and windows, tick by tick.

A tick depends on the store before it and on the records that are read in it. So ticks with the same store and the same
records are run once, and streams share them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from monitor.ingest.poll_input import Fetched
from monitor.ingest.prepare_batch import prepare_batch
from monitor.ingest.write_queue import Batch
from monitor.kafka.kafka_python_3_0.batches import FetchedRecord
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, Portions, Question, Reading
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.store.hash_persons import PersonHasher
from monitor.ticks.collect_answers import Decider
from monitor.time.clock import SteppedClock
from tests.privacy_service.cells import BASE, Cell, Visit, encode_record, find_digit, stamp_ms
from tests.privacy_service.states import ShardState, shard_of_state, shard_state
from tests.store.memory import MemoryWindows

HASHER: Final = PersonHasher(b"0123456789abcdef")

Records = Sequence[Sequence[Visit]]
AtTick = dict[Cell, int]
"""The counts of one tick by cell."""


class _Driven(NamedTuple):
    """The outcome of one tick: its counts, the number of dead letters, and the store after it."""

    counts: AtTick
    letters: int
    store: int


class Driver:
    """Drives streams through a service with one shard.

    `questions`: by tick, the question of its owner, and the designated times of the question in minutes.
    """

    def __init__(self, parameters: Parameters, questions: Mapping[int, tuple[Question, Sequence[int]]]) -> None:
        self._parameters = parameters
        self._questions = questions
        self._prepared: dict[Hashable, tuple[Batch, Portions]] = {}
        self._driven: dict[Hashable, _Driven] = {}
        self._stores: list[ShardState] = []
        self._numbers: dict[ShardState, int] = {}
        self._first = self._number_of(self._first_windows())

    def read(self, records: Records, *, twice: bool = False, known: bool = True) -> tuple[list[AtTick], int]:
        """Return the counts of each tick, and the number of dead letters; `twice`: write every batch twice.

        The records of one moment are read together, in the order of the moments. The clock of the store is in the first
        seconds of the slot after the tick. Unless the stream is `known`, all of it is run, from the bytes of its
        records, on a store that only this stream has used.
        """
        waiting = sorted(records, key=lambda visits: visits[0].moment)
        windows = None if known else self._first_windows()
        store, offset, letters, counts = self._first, 0, 0, []
        by_tick = {tick: tuple(map(tuple, group)) for tick, group in groupby(waiting, lambda one: one[0].first_read)}
        for tick in self._questions:
            due = by_tick.get(tick, ())
            if windows is not None:
                driven = self._drive(windows, tick, offset, due, twice=twice, known=False)
            else:
                driven = self._known(tick, store, offset, due, twice=twice)
            store, letters, offset = driven.store, letters + driven.letters, offset + len(due)
            counts.append(driven.counts)
        return counts, letters

    def _known(self, tick: int, store: int, offset: int, due: Records, *, twice: bool) -> _Driven:
        """Return the outcome of a tick on a store, which is run unless an earlier stream had it."""
        key = (tick, store, offset, due, twice)
        if key not in self._driven:
            windows = MemoryWindows(self._parameters, self._clock_at(tick))
            windows.shards = [shard_of_state(self._stores[store])]
            self._driven[key] = self._drive(windows, tick, offset, due, twice=twice, known=True)
        return self._driven[key]

    def _first_windows(self) -> MemoryWindows:
        windows = MemoryWindows(self._parameters, self._clock_at(next(iter(self._questions))))
        windows.begin(0, 0, COMPLETE_FROM_START)
        return windows

    def _clock_at(self, tick: int) -> SteppedClock:
        return SteppedClock(self._parameters.grid.as_of(tick) + self._parameters.tolerance)

    def _number_of(self, windows: MemoryWindows) -> int:
        """Return the number of a store's state."""
        state = shard_state(windows.shards[0])
        number = self._numbers.setdefault(state, len(self._stores))
        if number == len(self._stores):
            self._stores.append(state)
        return number

    def _drive(
        self, windows: MemoryWindows, tick: int, offset: int, due: Records, *, twice: bool, known: bool
    ) -> _Driven:
        """Write the due records, count, and open the next slot."""
        windows.store_clock = self._clock_at(tick)
        letters = self._ingest(windows, due, offset, twice=twice, known=known) if due else 0
        question, times = self._questions[tick]
        reading = windows.read({0: question})[0]
        assert reading.settled
        assert (reading.progress, reading.complete_from, reading.evicted_before) == (
            {0: offset + len(due)},
            COMPLETE_FROM_START,
            COMPLETE_FROM_START,
        )
        windows.open([0], tick + 1)
        return _Driven(_count(question, times, reading), letters, self._number_of(windows))

    def _ingest(self, windows: MemoryWindows, records: Records, offset: int, *, twice: bool, known: bool) -> int:
        """Write records and return the number of dead letters.

        `known`: a batch that was prepared before is used again, because preparing takes most of the time.
        """
        key = (offset, records)
        if not known or key not in self._prepared:
            prepared = prepare_batch(self._parameters, HASHER, [_fetch(records, offset)])
            self._prepared[key] = prepared, prepared.pack(self._parameters.registry)
        batch, portions = self._prepared[key]
        for _ in range(2 if twice else 1):
            windows.write(batch.ranges, portions)
        return len(batch.letters)


def read_ticks(
    parameters: Parameters, decider: Decider, records: Mapping[int, Sequence[tuple[int, bytes]]]
) -> list[Reading]:
    """Return what the owner of one shard reads at each tick, from records (stamp in ms, value) that are read before."""
    clock = SteppedClock(parameters.grid.as_of(next(iter(records)) - 1) + parameters.tolerance)
    windows = MemoryWindows(parameters, clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    offset, readings = 0, []
    for tick, due in records.items():
        clock.move_to(parameters.grid.as_of(tick) + parameters.tolerance)
        for stamp, value in due:
            fetched = Fetched(0, offset, offset + 1, [FetchedRecord(offset, stamp, value)])
            batch = prepare_batch(parameters, HASHER, [fetched])
            windows.write(batch.ranges, batch.pack(parameters.registry))
            offset += 1
        readings += [windows.read({0: decider.build_questions(tick, LedgerState())[0]})[0]]
        assert readings[-1].settled
        windows.open([0], tick + 1)
    return readings


def _fetch(records: Records, offset: int) -> Fetched:
    fetched = [
        FetchedRecord(at, stamp_ms(visits[0].moment), encode_record(visits))
        for at, visits in enumerate(records, offset)
    ]
    return Fetched(0, offset, offset + len(records), fetched)


def _count(question: Question, times: Sequence[int], reading: Reading) -> AtTick:
    counts = {
        Cell(int(row)): int(count)
        for (_, rows), of_window in zip(question.windows, reading.counts, strict=True)
        for row, count in zip(rows, of_window, strict=True)
    }
    for asked, count in reading.since.items():
        counts[Cell(asked.row)] += count * BASE ** find_digit(asked.tick)
    for time, instant in zip(times, question.times, strict=True):
        counts |= {Cell(row, time): count for row, count in enumerate(reading.present[instant].tolist())}
        if question.tick is not None and instant in reading.stamps:
            for since in range(-1, question.tick):
                starts = np.full(len(reading.present[instant]), since)
                for row, count in enumerate(reading.stamps[instant].count_since(starts).tolist()):
                    counts[Cell(row, time)] += count * BASE ** find_digit(since)
    return counts
