"""What a tick is decided from: the counts of each shard that holds all that was reported before as_of."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from monitor.errors import UnreachableError, WindowsError
from monitor.failpoints import failpoint
from monitor.release.context import ReleaseContext
from monitor.release.decide import Evidence
from monitor.windows.facts import Question, Reading

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.02


class EvidenceReader:
    """Reads the evidence of one tick, for one ledger partition.

    `due` is the instant of the release: what is not complete by then is unknown. `alive` is called in each turn.
    """

    def __init__(
        self,
        parts: ReleaseContext,
        tick: int,
        questions: Mapping[int, Question],
        due: int,
        stop: threading.Event,
        alive: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._tick = tick
        self._questions = dict(questions)
        self._due = due
        self._stop = stop
        self._alive = alive
        self._closed = parts.clock.simulated or not questions
        self._end_offsets: Mapping[int, int] | None = None
        self._readings: dict[int, Reading] = {}
        self._warned: set[str] = set()

    def read(self) -> Evidence | None:
        """Ask for the barrier, and read until the facts hold all of it or the release has come.

        The store's clock is asked first: a barrier from before as_of would miss what was reported after it. None if by
        that clock the tick has not closed for all that is known: then "unknown" would be said too early as well, and
        stand in the way of those whose clocks are right. None also if it was told to stop.

        Raises:
            InputChangedError, LedgerChangedError: a topic is another one: everything must be made again.
            UnreachableError: no barrier was asked for, and whether the topics are the same is not known.
        """
        parts = self._parts
        while self._questions:
            seen = parts.progressed.number
            self._look()
            if not self._questions or self._over():
                break
            self._alive()
            parts.progressed.wait(seen, POLL_SECONDS)
        if self._stop.is_set():
            return None
        if not (self._closed or parts.store_clock.reached(self._closes())):
            return None
        if self._end_offsets is None:
            parts.input_topic.require_same()
        return Evidence(self._readings)

    def _closes(self) -> int:
        """When the tick may be counted: what a fast broker stamped before as_of has been stamped by all clocks then."""
        parameters = self._parts.parameters
        return parameters.grid.as_of(self._tick) + parameters.tolerance

    def _look(self) -> None:
        """Read what is complete by now. A store or a broker that is away is asked again until the release."""
        try:
            self._closed = self._closed or self._has_closed()
            if self._closed:
                if self._end_offsets is None:
                    self._end_offsets = self._parts.input_topic.end_offsets_at(self._tick)
                    failpoint("tick.end_offsets")
                self._read_complete(self._end_offsets)
        except (UnreachableError, WindowsError) as error:
            if type(error).__name__ not in self._warned:
                log.warning("tick %d: %s", self._tick, error)
            self._warned.add(type(error).__name__)

    def _has_closed(self) -> bool:
        """Whether the tick has closed by the store's clock, by as much as clocks may differ."""
        shard = next(iter(self._questions))
        now = self._parts.windows.time([shard])
        self._parts.store_clock.hear(now)
        return now >= self._closes()

    def _read_complete(self, end_offsets: Mapping[int, int]) -> None:
        """Count where progress has reached the barrier. What is complete stays so, and is not read again."""
        windows = self._parts.windows
        looked = windows.read(dict.fromkeys(self._questions, Question()))
        reached = [shard for shard, reading in looked.items() if _has_reached(reading, end_offsets)]
        if not reached:
            return
        for shard, reading in windows.read({shard: self._questions[shard] for shard in reached}).items():
            if reading.settled and _has_reached(reading, end_offsets) and self._in_time(reading):
                self._readings[shard] = reading
                del self._questions[shard]

    def _in_time(self, reading: Reading) -> bool:
        return self._parts.clock.simulated or reading.time <= self._due

    def _over(self) -> bool:
        """Whether to read no longer: told to stop, the release has come, or a clock that ran ahead was set right."""
        clock, grid = self._parts.clock, self._parts.parameters.grid
        if self._stop.is_set() or clock.simulated:
            return self._stop.is_set()
        now = clock.now()
        return now >= self._due or (not self._closed and now < grid.start(self._tick))


def _has_reached(reading: Reading, end_offsets: Mapping[int, int]) -> bool:
    return all(reading.progress.get(partition, -1) >= end for partition, end in end_offsets.items())
