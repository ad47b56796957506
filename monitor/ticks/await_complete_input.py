"""Read the evidence of a tick: the counts of each shard whose facts contain everything reported before as_of."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from monitor.errors import StoreError, UnreachableError
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import Question, Reading
from monitor.observe.failpoints import failpoint
from monitor.records.unknown_causes import INPUT_BEHIND, KAFKA_UNREACHABLE, LATE, STORE_UNREACHABLE
from monitor.ticks.shared_by_partitions import TickContext

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.02


class EvidenceReader:
    """A reader of the evidence of one tick for one ledger partition.

    `readings` has the complete readings so far, and `end_offsets` the ends of the input, None until they are read.
    `until` is the end of reading (`find_reading_end`). A shard that is not complete by then is unknown. `heartbeat` is
    called at each poll.
    `reached` is the progress that an earlier tick has read, by shard. If it has already reached the end offsets, the
    shard is counted at once; the progress that is read with the counts decides whether the reading is complete.
    """

    def __init__(
        self,
        context: TickContext,
        tick: int,
        questions: Mapping[int, Question],
        until: int,
        stop: threading.Event,
        heartbeat: Callable[[], None],
        reached: Mapping[int, Mapping[int, int]] | None = None,
    ) -> None:
        self._context = context
        self._tick = tick
        self._questions = dict(questions)
        self._until = until
        self._stop = stop
        self._heartbeat = heartbeat
        self._reached = dict(reached or {})
        self._closed = not questions
        self.end_offsets: Mapping[int, int] | None = None
        self.readings: dict[int, Reading] = {}
        self._progress: Mapping[int, Reading] = {}
        self._warned: set[str] = set()

    def read(self) -> Evidence | None:
        """Read the input's end offsets, then poll until the facts reach them or the time for reading is over.

        The store's clock is read first: end offsets read before as_of would miss visits that are reported between
        that read and as_of.

        Return None if a stop was requested, or if the tick has not closed by the store's clock. In the second case, an
        "unknown" would be published too early, and instances with correct clocks could no longer decide the tick.

        Raises:
            InputChangedError, LedgerChangedError: a topic was replaced; the service must start again.
            UnreachableError: the end offsets were not read, and the topics' ids could not be checked.
        """
        context = self._context
        while self._questions:
            seen = context.progressed.number
            self.read_once()
            if not self._questions or self._is_over():
                break
            self._heartbeat()
            context.progressed.wait(seen, POLL_SECONDS)
        if self._stop.is_set():
            return None
        if not (self._closed or context.store_clock.has_reached(self._find_closing_time())):
            return None
        if self.end_offsets is None:
            context.input_topic.require_same()
        causes = {shard: self._find_cause(shard) for shard in self._questions}
        return Evidence(self.readings, causes, self._find_behind())

    def _find_cause(self, shard: int) -> str:
        """Return why a shard has no reading."""
        if self.end_offsets is None:
            return KAFKA_UNREACHABLE if self._closed else STORE_UNREACHABLE
        if shard not in self._progress:
            return STORE_UNREACHABLE
        return LATE if _includes(self._progress[shard].progress, self.end_offsets) else INPUT_BEHIND

    def _find_behind(self) -> dict[int, tuple[int, int]]:
        """Return, by input partition, the least offset that the shards without a reading have reached, and the end.

        Nothing is returned if the ends, or all these offsets, are not known.
        """
        seen = [self._progress[shard] for shard in self._questions if shard in self._progress]
        if self._questions and not seen:
            return {}
        return {
            partition: (min([end, *(reading.progress.get(partition, 0) for reading in seen)]), end)
            for partition, end in (self.end_offsets or {}).items()
        }

    def _find_closing_time(self) -> int:
        """Return the instant from which the tick may be counted. By then, every broker's clock has passed as_of."""
        parameters = self._context.parameters
        return parameters.grid.as_of(self._tick) + parameters.tolerance

    def read_once(self) -> None:
        """Read the shards that are complete now. `read` calls this at each poll.

        If the store or a broker is unreachable, the next poll tries again.
        """
        try:
            self._closed = self._closed or self._has_closed()
            if self._closed:
                if self.end_offsets is None:
                    self.end_offsets = self._context.input_topic.read_end_offsets_at(self._tick)
                    as_of = self._context.parameters.grid.as_of(self._tick)
                    self._context.tick_ends.set(as_of, self.end_offsets)
                    failpoint("tick.end_offsets")
                self._read_complete(self.end_offsets)
        except (UnreachableError, StoreError) as error:
            if type(error).__name__ not in self._warned:
                log.warning("tick %d: %s", self._tick, error)
            self._warned.add(type(error).__name__)

    def _has_closed(self) -> bool:
        """Return whether the store's clock has passed as_of plus the tolerance."""
        shard = next(iter(self._questions))
        now = self._context.store.time([shard])
        self._context.store_clock.update(now)
        return now >= self._find_closing_time()

    def _read_complete(self, end_offsets: Mapping[int, int]) -> None:
        """Count the shards whose progress has reached the end offsets. A complete shard is not read again."""
        store = self._context.store
        doubtful = [shard for shard in self._questions if not _includes(self._reached.pop(shard, {}), end_offsets)]
        self._progress = {}
        progress = store.read(dict.fromkeys(doubtful, Question())) if doubtful else {}
        self._progress = progress
        reached = [
            shard
            for shard in self._questions
            if shard not in progress or _includes(progress[shard].progress, end_offsets)
        ]
        if not reached:
            return
        readings = store.read({shard: self._questions[shard] for shard in reached})
        self._progress = {**progress, **readings}
        for shard, reading in readings.items():
            if reading.settled and _includes(reading.progress, end_offsets) and self._is_in_time(reading):
                self.readings[shard] = reading
                del self._questions[shard]

    def _is_in_time(self, reading: Reading) -> bool:
        return reading.time <= self._until

    def _is_over(self) -> bool:
        """Return whether to stop reading: on a stop, at the end of reading, or if a fast clock was set back."""
        clock, grid = self._context.clock, self._context.parameters.grid
        if self._stop.is_set():
            return True
        now = clock.now()
        return now > self._until or (not self._closed and now < grid.start(self._tick))


def _includes(progress: Mapping[int, int], end_offsets: Mapping[int, int]) -> bool:
    """Return whether facts with this progress, by input partition, have reached the end offsets."""
    return all(progress.get(partition, -1) >= end for partition, end in end_offsets.items())
