"""Kafka → windows: read, decode, accept or refuse, write; by one thread, with one write on its way.

Where to go on is decided by the windows' own progress (`monitor.ingest.beginnings`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from monitor.errors import UnreachableError, WindowsError
from monitor.failpoints import failpoint
from monitor.ingest.accept import DEAD_LETTER, Accepted, Persons, accept
from monitor.ingest.beginnings import Beginnings
from monitor.ingest.columns import by_reason
from monitor.ingest.decode import Columns, decode_records
from monitor.ingest.ports import DeadLetter, DeadLetters, IngestObserver
from monitor.ingest.several_places import SeveralPlaces
from monitor.ingest.source import Fetched, InputLog
from monitor.public.clock import Clock
from monitor.public.parameters import Parameters
from monitor.signals import Signal
from monitor.windows.facts import Span, Windows

log = logging.getLogger(__name__)

COMMIT_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5
FIRST_BACKOFF_SECONDS: Final = 0.1
LONGEST_BACKOFF_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Batch:
    spans: tuple[Span, ...]
    accepted: Accepted
    letters: tuple[DeadLetter, ...]
    records: int
    began: float


class Reader:
    """One member of the input group. `step` is called over and over by one thread; `close` by the same."""

    def __init__(
        self,
        parameters: Parameters,
        source: InputLog,
        windows: Windows,
        persons: Persons,
        dead_letters: DeadLetters,
        observer: IngestObserver,
        clock: Clock,
    ) -> None:
        self._parameters = parameters
        self._source = source
        self._windows = windows
        self._persons = persons
        self._dead_letters = dead_letters
        self._observer = observer
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="windows-writer")
        self._writing: tuple[_Batch, Future[dict[int, int]]] | None = None
        self._committed = self._looked = time.monotonic()
        self._beginnings = Beginnings(parameters, source, windows, dead_letters, observer, clock)
        self._several_places = SeveralPlaces()
        self.progressed = Signal()

    def step(self, timeout_ms: int) -> bool:
        """Read and write once; True if anything was read.

        Raises:
            UnreachableError: a server cannot be used now; call again after a while.
            WindowsError: the windows' store holds what is not ours.
        """
        try:
            self._look_now_and_then()
            self._commit_now_and_then()
            self._begin_waiting()
            fetched = self._source.poll(0 if self._writing else timeout_ms)
            if not fetched:
                self._finish()
                return False
            failpoint("reader.polled")
            batch = self._prepare(fetched)
            failpoint("reader.accepted")
            if self._finish():
                self._writing = (batch, self._writer.submit(self._write, batch))
            else:
                self._source.park(span.partition for span in batch.spans)
        except (UnreachableError, WindowsError):
            self._abandon()
            raise
        return True

    def _begin_waiting(self) -> None:
        """Find where each newly assigned partition begins: at the lowest progress of all shards."""
        if not self._source.waiting:
            return
        if self._source.unread:
            self._finish()  # what lies before them counts as read only once it is written
        progress = self._windows.progress()
        self._beginnings.ask_again()
        for partition in sorted(self._source.waiting):
            self._source.resume(partition, self._beginnings.of(partition, progress))
            failpoint("reader.assigned")

    def _prepare(self, fetched: Sequence[Fetched]) -> _Batch:
        began = time.perf_counter()
        values = [value for some in fetched for value in some.values]
        places = [(some.partition, offset) for some in fetched for offset in some.offsets]
        stamps = np.array([stamp for some in fetched for stamp in some.timestamps_ms], np.int64)
        grid = self._parameters.grid
        columns: Columns = decode_records(values, self._parameters.default_stay)
        accepted = accept(self._parameters, self._persons, columns, (stamps * 1_000 - grid.origin) // grid.length)
        accepted.fates[DEAD_LETTER] = sum(refusal.count for refusal in accepted.refused)
        letters = tuple(DeadLetter(refusal, *places[refusal.record]) for refusal in accepted.refused)
        spans = tuple(Span(some.partition, some.start, some.end) for some in fetched)
        return _Batch(spans, accepted, letters, len(values), began)

    def _write(self, batch: _Batch) -> dict[int, int]:
        """Dead letters first: once progress has passed a record, nobody reads it again."""
        letters = [
            letter
            for letter in batch.letters
            if letter.offset >= self._beginnings.letters_from.get(letter.partition, 0)
        ]
        if letters:
            self._dead_letters.put(letters)
            failpoint("reader.dead_letters_written")
        lowest = self._windows.write(batch.spans, batch.accepted.facts)
        failpoint("reader.written")
        self.progressed.notify()
        return lowest

    def _finish(self) -> bool:
        """Wait for the write that is on its way; False if what was read since then must be read again."""
        if self._writing is None:
            return True
        batch, future = self._writing
        self._writing = None
        lowest = future.result()
        reasons = by_reason(batch.accepted.refused)
        self._observer.batch(batch.records, batch.accepted.fates, reasons, time.perf_counter() - batch.began)
        self._observer.several_places(self._several_places.count_in(batch.accepted.facts))
        behind = [span.partition for span in batch.spans if lowest[span.partition] < span.start]
        if behind:
            self._observer.recovery("windows_behind")
            self._source.park(behind)
        return not behind

    def _abandon(self) -> None:
        """Begin anew everywhere; a write that is on its way may still succeed, and then counts."""
        try:
            self._finish()
        except (UnreachableError, WindowsError) as error:
            log.warning("a batch will be read again: %s", error)
        self._source.park()

    def _look_now_and_then(self) -> None:
        """See whether the windows still have all that was written: a write would tell, and none may come for long."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        written, reading = self._written(), dict(self._source.reading)
        progress = self._windows.progress()
        self._looked = time.monotonic()
        for partition in self._beginnings.lost:
            # From before the log lost records: a store that failed over may have forgotten that it was told of them.
            # (Where nothing was lost, another member's last batch may lie ahead of a reader that has just taken over.)
            if partition in reading and _highest(progress, partition) > reading[partition]:
                self._beginnings.tell_again(partition, min(written[partition], _lowest(progress, partition)))
        behind = [partition for partition in written if _lowest(progress, partition) < written[partition]]
        if behind:
            self._observer.recovery("windows_behind")
            self._source.park(behind)

    def _commit_now_and_then(self) -> None:
        if time.monotonic() - self._committed < COMMIT_SECONDS:
            return
        self._committed = time.monotonic()
        self._source.commit(self._written())
        failpoint("reader.committed")
        self._observer.lag(self._source.lag())

    def _written(self) -> dict[int, int]:
        """Offsets up to which everything is in the windows: what is on its way does not count."""
        offsets = dict(self._source.reading)
        if self._writing is not None:
            offsets |= {span.partition: span.start for span in self._writing[0].spans if span.partition in offsets}
        return offsets

    def close(self) -> None:
        """Finish the write that is on its way, tell Kafka how far we are, and leave the group."""
        try:
            self._finish()
        except (UnreachableError, WindowsError) as error:
            log.warning("the last batch will be read again: %s", error)
            self._source.park()
        self._writer.shutdown()
        self._source.close(self._written())


def _lowest(progress: Sequence[Mapping[int, int]], partition: int) -> int:
    """The lowest progress of all shards, -1 where one has none."""
    return min(shard.get(partition, -1) for shard in progress)


def _highest(progress: Sequence[Mapping[int, int]], partition: int) -> int:
    return max(shard.get(partition, -1) for shard in progress)


def run_reader(reader: Reader, stop: threading.Event, alive: Callable[[str], None]) -> None:
    """Turn the reader until told to stop, with growing pauses while a server is away.

    Reading may go well between two failures of writing, and take long: trouble that comes back within twice the longest
    pause is taken for the same trouble, or a batch that nobody takes would be tried, and told of, again and again.
    """
    pause = FIRST_BACKOFF_SECONDS
    calm_at = time.monotonic()
    try:
        while not stop.is_set():
            try:
                reader.step(200)
            except (UnreachableError, WindowsError) as error:
                log.warning("reading pauses for %.1f s: %s", pause, error)
                alive(f"reading: {error}")
                stop.wait(pause)
                pause = min(2 * pause, LONGEST_BACKOFF_SECONDS)
                calm_at = time.monotonic() + 2 * LONGEST_BACKOFF_SECONDS
                continue
            if time.monotonic() >= calm_at:
                pause = FIRST_BACKOFF_SECONDS
            alive("")
    finally:
        reader.close()
