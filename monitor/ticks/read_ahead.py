"""Read the evidence of the next ticks of a replay while a tick is decided.

Otherwise the store waits for the service, and the service for the store, which takes a third of the time of a replay.
The counts of a tick do not depend on when they are read: they contain the facts stamped up to the tick.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from monitor.contracts.clock import SteppedClock
from monitor.store.facts import Question
from monitor.ticks.context import ReleaseContext
from monitor.ticks.evidence import EvidenceReader
from monitor.ticks.readings import Evidence
from monitor.ticks.store_clock import StoreClock

MOST_AHEAD: Final = 8  # ticks whose evidence is in memory


class ReadAhead:
    """The ticks of one ledger partition that are read ahead, if `ReleaseContext.windows_at` is set. For one thread."""

    def __init__(self, context: ReleaseContext) -> None:
        self._context = context
        self._thread = ThreadPoolExecutor(1, "read-ahead")  # it starts with the first tick that is read ahead
        self._ahead: deque[tuple[int, Future[Evidence | None]]] = deque()
        self._incomplete = threading.Event()

    def take(self, tick: int) -> Evidence | None:
        """Return the evidence of a tick; None if it was not read ahead, or was not complete then."""
        while self._ahead:
            read, evidence = self._ahead.popleft()
            if read == tick:
                return evidence.result()
        return None

    def start(
        self,
        tick: int,
        find_questions: Callable[[int], Mapping[int, Question]],
        stop: threading.Event,
        heartbeat: Callable[[], None],
        reached: Mapping[int, Mapping[int, int]],
    ) -> None:
        """Begin to read a tick and the following ones, as far as their input is complete and their slots may be opened.

        An answer about all shards needs the shards of other partitions at that tick. So the slot after it may not be
        opened before it is decided, as in `Upkeep.finish_tick`.
        """
        context, parameters = self._context, self._context.parameters
        if context.windows_at is None or parameters.draws_totals_at(tick - 1):
            return
        following = self._ahead[-1][0] + 1 if self._ahead else tick
        for at in range(following, tick + MOST_AHEAD):
            if not context.input_topic.is_expected(at) or parameters.draws_totals_at(at):
                return
            due = parameters.grid.as_of(at) + parameters.release_delay
            then = replace(context, windows=context.windows_at(due), clock=SteppedClock(due), store_clock=StoreClock())
            reader = EvidenceReader(then, at, find_questions(at), due, stop, heartbeat, reached)
            self._ahead.append((at, self._thread.submit(self._read, reader)))

    def has_begun(self, tick: int) -> bool:
        """Return whether a tick is or was read ahead, and not taken yet."""
        return any(read == tick for read, _ in self._ahead)

    def _read(self, reader: EvidenceReader) -> Evidence | None:
        """Read a tick, unless an earlier one is incomplete: the slot of that one must remain the last open slot."""
        if self._incomplete.is_set():
            return None
        self._incomplete.set()
        evidence = reader.read()
        if evidence is None or evidence.causes:
            return None
        self._incomplete.clear()
        return evidence

    def close(self) -> None:
        """End the thread when it is done."""
        self._thread.shutdown(wait=False, cancel_futures=True)
