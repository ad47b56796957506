"""The records that the page keeps: the latest of each key, and those of the last days. It does no I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from monitor.contracts.alerts import DWELL, HOT_SPOTS, OVER_TIME
from monitor.page.entries import Entry

_EVENT_RECORDS: Final = 256
_OVERHEAD: Final = 400  # bytes of an entry without its line, measured
_TIMES: Final = 3
"""The number of designated times of each monitor that a state contains: the latest ones."""

Position = Mapping[int, int]
"""The next offset of each partition."""


class Batch(NamedTuple):
    """Some consecutive records of a log: the positions before and after them."""

    before: Position
    after: Position
    entries: tuple[Entry, ...]


@dataclass
class Board:
    """The kept records. `history` is in microseconds, `most_bytes` the limit of their size.

    A record is dropped when it is older than `history`, measured from the latest as_of, or to stay below the limit. A
    place whose last record was dropped is unknown, so dropping never makes an answer look better.
    """

    history: int
    most_bytes: int
    version: int = 0
    position: dict[int, int] = field(default_factory=dict)
    as_of: int | None = None
    _batches: deque[Batch] = field(default_factory=deque)
    _by_key: dict[str, list[Entry]] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, entries: Sequence[Entry], position: Position) -> list[Batch]:
        """Add the records of a poll, and the position after them. Return them as batches, without repetitions."""
        batches = []
        for start in range(0, len(entries), _EVENT_RECORDS):
            part = entries[start : start + _EVENT_RECORDS]
            before = dict(self.position)
            fresh = tuple(entry for entry in part if self._keep(entry))
            for entry in part:
                self.position[entry.partition] = max(self.position.get(entry.partition, 0), entry.offset + 1)
            if fresh:
                batches.append(Batch(before, dict(self.position), fresh))
        self.position |= position
        if batches:
            self._batches += batches
            self.version += 1
            self._forget()
        return batches

    def _keep(self, entry: Entry) -> bool:
        """Add a record to its key, in the order of ticks. Return False for a repetition or an older tick."""
        known = self._by_key.setdefault(entry.key, [])
        if known and known[-1].tick >= entry.tick:
            return False
        known.append(entry)
        self._bytes += len(entry.line) + _OVERHEAD
        self.as_of = entry.as_of if self.as_of is None else max(self.as_of, entry.as_of)
        return True

    def _forget(self) -> None:
        oldest = (self.as_of or 0) - self.history
        while self._batches and (
            self._bytes > self.most_bytes or max(entry.as_of for entry in self._batches[0].entries) < oldest
        ):
            for entry in self._batches.popleft().entries:
                self._bytes -= len(entry.line) + _OVERHEAD
                known = self._by_key[entry.key]
                known.pop(0)  # the batches are in the order in which the records were added to their keys
                if not known:
                    del self._by_key[entry.key]

    @property
    def alarms(self) -> dict[int, int]:
        """The number of noisy counts that each kept tick drew, by its as_of, in order."""
        alarms: dict[int, int] = {}
        for batch in self._batches:
            for entry in batch.entries:
                alarms[entry.as_of] = alarms.get(entry.as_of, 0) + entry.alarms
        return dict(sorted(alarms.items()))

    def since(self, position: Position) -> list[Batch] | None:
        """Return the batches that contain a record at or after a position; None if such records may be dropped."""
        if not position or any(self.position.get(partition, -1) < offset for partition, offset in position.items()):
            return None
        wanted: list[Batch] = []
        for batch in reversed(self._batches):
            if all(position.get(partition, 0) >= offset for partition, offset in batch.after.items()):
                return wanted[::-1]
            wanted.append(batch)
        oldest = self._batches[0].before if self._batches else self.position
        kept = all(position.get(partition, 0) >= offset for partition, offset in oldest.items())
        return wanted[::-1] if kept else None

    def state(self, at: int | None = None) -> list[Entry]:
        """Return the latest record of each key until an instant; of designated times only those of the latest ones."""
        latest = [entry for known in self._by_key.values() if (entry := _latest(known, at)) is not None]
        return sorted(_without_old_times(latest), key=lambda entry: (entry.as_of, entry.key))

    def of_key(self, key: str) -> Sequence[Entry]:
        """Return the kept records of a key, in the order of ticks."""
        return self._by_key.get(key, ())

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with a prefix, sorted."""
        return sorted(key for key in self._by_key if key.startswith(prefix))


def _latest(known: Sequence[Entry], at: int | None) -> Entry | None:
    """Return the last record with as_of ≤ `at`; the last one if `at` is None."""
    if at is None:
        return known[-1]
    end = bisect_right(known, at, key=lambda entry: entry.as_of)
    return known[end - 1] if end else None


def _without_old_times(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries, but of the designated times of each monitor only the latest ones."""
    timed: dict[tuple[str, str], dict[str, list[Entry]]] = {}
    for entry in entries:
        if entry.type == OVER_TIME:
            yield entry
            continue
        monitor, time = entry.key.split("/")[:2]
        timed.setdefault((entry.type, monitor), {}).setdefault(time, []).append(entry)
    for (kind, _monitor), times in timed.items():
        for time in sorted(times)[-1 if kind in {HOT_SPOTS, DWELL} else -_TIMES :]:
            yield from times[time]
