"""The queue of writes: order, joined batches, and its bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from monitor.errors import UnreachableError
from monitor.ingest import write_queue
from monitor.ingest.accept_visits import APPLIED, EXPIRED
from monitor.ingest.dead_letters import DeadLetter, Refusal
from monitor.ingest.write_queue import MOST_SENT, Batch, WriteQueue, count_delays
from monitor.kinds.facts_and_questions import SEEN, Facts, OffsetRange, Portions
from monitor.kinds.locations import Registry
from monitor.records.visit_contract import Fault, Reason
from monitor.time.instants import HOUR
from tests.store.packed import unpack_block

LIMIT_SECONDS = 10.0
DELAYS = count_delays(np.array([7, 5]) * HOUR, np.array([3, 6]) * HOUR)


def make_batch(start: int, end: int, partition: int = 0, applied: int = 1) -> Batch:
    """Return a batch of the records [start, end) of a partition."""
    facts = Facts(seen=np.zeros(applied, SEEN))
    return Batch((OffsetRange(partition, start, end),), (facts,), {APPLIED: applied, EXPIRED: 2}, (), 1, 0.0, DELAYS)


class Store:
    """A store that writes only while it is released, and remembers the batches."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.written: list[Batch] = []
        self.facts: list[int] = []
        self.fails = False

    def write(self, written: Batch, portions: Portions) -> dict[int, int]:
        assert self.released.wait(LIMIT_SECONDS)
        if self.fails:
            raise UnreachableError("the store is down")
        self.written.append(written)
        self.facts.append(
            len([fact for portion in portions.get(0, ()) for fact in unpack_block(portion.stamp, portion.facts)])
        )
        return {offsets.partition: offsets.end for offsets in written.ranges}


@contextmanager
def open_queue(store: Store) -> Iterator[WriteQueue]:
    queue = WriteQueue(Registry(("inn",), 1), store.write)
    try:
        yield queue
    finally:
        store.released.set()
        queue.close()


def take_all(queue: WriteQueue) -> list[tuple[OffsetRange, ...]]:
    taken = []
    while queue:
        queue.flush()
        found = queue.take(wait=True)
        assert found is not None
        taken.append(found[0].ranges)
    return taken


def test_idle_queue_writes_at_once() -> None:
    """The first batch is not delayed for others."""
    store = Store()
    with open_queue(store) as queue:
        store.released.set()
        queue.put(make_batch(0, 5))
        assert queue.take(wait=True) is not None
        assert [written.ranges for written in store.written] == [(OffsetRange(0, 0, 5),)]
        assert not queue


def test_batches_are_joined_while_writing() -> None:
    """Batches that arrive during a write are written as one, with all facts, fates, records and report delays."""
    store = Store()
    with open_queue(store) as queue:
        queue.put(make_batch(0, 5))
        queue.put(make_batch(5, 6, applied=2))
        queue.put(make_batch(0, 9, partition=1))
        queue.put(make_batch(6, 8))
        assert queue.find_starts() == {0: 0, 1: 0}
        store.released.set()
        assert take_all(queue) == [(OffsetRange(0, 0, 5),), (OffsetRange(0, 5, 8), OffsetRange(1, 0, 9))]
    joined = store.written[1]
    assert (joined.fates, joined.records) == ({APPLIED: 4, EXPIRED: 6}, 3)
    assert (joined.delays.visits.tolist(), joined.delays.seconds) == ([3, 3, *[6] * 12], 3 * 4 * 3600)
    assert store.facts == [1, 4]


def test_backlog_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large batch waits for the next polls, until it is full, although the writer is idle."""
    monkeypatch.setattr(write_queue, "MOST_FACTS", 5 * write_queue.FEW_FACTS)
    store = Store()
    with open_queue(store) as queue:
        store.released.set()
        for poll in range(5):
            assert queue.take(wait=True) is None
            queue.put(make_batch(poll, poll + 1, applied=write_queue.FEW_FACTS))
        assert queue.take(wait=True) is not None
    assert [written.ranges for written in store.written] == [(OffsetRange(0, 0, 5),)]


@pytest.mark.promise(6)
def test_gap_is_not_joined() -> None:
    """A batch that repeats or skips records is written separately, so that each write is one range of the log."""
    store = Store()
    with open_queue(store) as queue:
        queue.put(make_batch(0, 5))
        queue.put(make_batch(5, 8))
        queue.put(make_batch(6, 9))
        queue.put(make_batch(20, 21))
        store.released.set()
        ranges = [(OffsetRange(0, 0, 5),), (OffsetRange(0, 5, 8),), (OffsetRange(0, 6, 9),), (OffsetRange(0, 20, 21),)]
        assert take_all(queue) == ranges
    assert [written.ranges for written in store.written] == ranges


def test_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is full when the writer does not keep up, and does not grow any further."""
    monkeypatch.setattr(write_queue, "MOST_FACTS", 10)
    store = Store()
    with open_queue(store) as queue:
        puts = 0
        while not queue.is_full:
            queue.put(make_batch(puts, puts + 1, applied=4))
            puts += 1
        # 1 sent at once, 3 joined and sent, 3 pending
        assert puts == 1 + 3 * MOST_SENT
        assert queue.take(wait=False) is None
        store.released.set()
        assert sum(ranges[0].end - ranges[0].start for ranges in take_all(queue)) == puts


def test_dead_letters_fill_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls without facts fill the queue too, if their dead letters are large."""
    monkeypatch.setattr(write_queue, "MOST_BYTES", 10)
    refusal = Refusal(0, None, Fault(Reason.NOT_JSON, "value: invalid JSON"), bytes(4))
    store = Store()
    with open_queue(store) as queue:
        puts = 0
        while not queue.is_full:
            queue.put(replace(make_batch(puts, puts + 1, applied=0), letters=(DeadLetter(refusal, 0, puts),)))
            puts += 1
        assert puts == 1 + 3 * MOST_SENT


def test_failure_is_raised_once() -> None:
    """A failed write raises its error when it is taken, and discarded batches are returned to be read again."""
    store = Store()
    store.fails = True
    with open_queue(store) as queue:
        queue.put(make_batch(0, 5))
        queue.put(make_batch(5, 8))
        store.released.set()
        with pytest.raises(UnreachableError):
            queue.take(wait=True)
        assert queue.discard_pending() == (OffsetRange(0, 5, 8),)
        assert not queue
        assert not store.written
