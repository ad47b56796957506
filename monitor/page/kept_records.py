"""The records that the page keeps: the latest of each key, and those of the last days. It does no I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from monitor.kinds.all_answers import TOTALS
from monitor.kinds.at_times.record import AT_TIMES
from monitor.kinds.over_time.record import OVER_TIME
from monitor.page.public_records import BY_PLACE, Entry
from monitor.time.instants import DAY

_OVERHEAD: Final = 400  # bytes of an entry without its value, measured
_OVERHEAD_LISTED: Final = 160  # bytes of a location that a snapshot lists, with its id, measured
_TIMES: Final = 3
"""The number of designated times of each monitor and shard that a state contains: the latest ones."""


class Tick(NamedTuple):
    """A tick: its as_of, how many noisy counts it drew, and how many places had an alarm that still counted."""

    as_of: int
    alarms: int
    places: int


@dataclass
class Board:
    """The kept records. `history` and `valid` are in microseconds, `most_bytes` is the limit of their size.

    A record is dropped when it is older than `history`, measured from the latest as_of, or to stay below the limit. The
    latest record of a key stays for at least `valid`, even above the limit: without a monitor's alarm, the "safe" of
    another monitor would be all that is known about a place.

    `complete_since`: the state at an earlier instant may lack records that were valid then, so it is not returned.
    """

    history: int
    most_bytes: int
    valid: int = DAY
    complete_since: int = 0
    version: int = 0
    as_of: int | None = None
    _queue: deque[Entry] = field(default_factory=deque)  # in the order in which they came
    _by_key: dict[str, list[Entry]] = field(default_factory=dict)
    _alarms: dict[str, list[Entry]] = field(default_factory=dict)  # by key: the records that drew a noisy count
    _keys: dict[str, set[str]] = field(default_factory=dict)  # by monitor
    _old: dict[str, Entry] = field(default_factory=dict)  # by key: it left the queue, but it may be valid
    _bytes: int = 0

    def add(self, entries: Iterable[Entry]) -> list[Entry]:
        """Add records. Return them without repetitions."""
        fresh = [entry for entry in entries if self._keep(entry)]
        if fresh:
            self._queue += fresh
            self.version += 1
            self._forget()
        return fresh

    def _keep(self, entry: Entry) -> bool:
        """Add a record to its key, in the order of as_of. Return False for a repetition or an older record."""
        known = self._by_key.setdefault(entry.key, [])
        if known and known[-1].as_of >= entry.as_of:
            return False
        known.append(entry)
        if entry.alarms:
            self._alarms.setdefault(entry.key, []).append(entry)
        self._keys.setdefault(_find_monitor(entry.key), set()).add(entry.key)
        self._bytes += _measure(entry)
        self.as_of = entry.as_of if self.as_of is None else max(self.as_of, entry.as_of)
        if entry.key in self._old:
            self._drop(self._old.pop(entry.key))
        return True

    def _forget(self) -> None:
        oldest, valid_from = (self.as_of or 0) - self.history, (self.as_of or 0) - self.valid
        while self._queue and (self._bytes > self.most_bytes or self._queue[0].as_of < oldest):
            entry = self._queue.popleft()
            if entry.as_of >= valid_from and self._by_key[entry.key][-1] is entry:
                self._old[entry.key] = entry
            else:
                self._drop(entry)
        for entry in [entry for entry in self._old.values() if entry.as_of < valid_from]:
            self._drop(self._old.pop(entry.key))

    def _drop(self, entry: Entry) -> None:
        """Drop the first record of a key: the queue has the order in which the records were added to their keys."""
        known = self._by_key[entry.key]
        known.pop(0)
        if entry.alarms:
            self._alarms[entry.key].pop(0)
        self._bytes -= _measure(entry)
        until = entry.as_of + self.valid
        self.complete_since = max(self.complete_since, min(until, known[0].as_of) if known else until)
        if not known:
            del self._by_key[entry.key]
            self._alarms.pop(entry.key, None)
            self._keys[_find_monitor(entry.key)].discard(entry.key)

    @property
    def oldest(self) -> int:
        """The as_of of the oldest record in the order in which they came; 0 without one."""
        return self._queue[0].as_of if self._queue else 0

    @property
    def ticks(self) -> list[Tick]:
        """The kept ticks in order, from `complete_since` on."""
        drawn: dict[int, int] = {}
        places: dict[int, set[str]] = {}
        timed: list[Entry] = []
        for entry in self._queue:
            drawn[entry.as_of] = drawn.get(entry.as_of, 0) + entry.alarms
            places.setdefault(entry.as_of, set()).update(entry.places)
            timed += [entry] if entry.type == AT_TIMES and entry.places else []
        order = sorted(drawn)
        for entry in timed:  # an alarm about a designated time counts for as long as its last answer
            for as_of in order[bisect_right(order, entry.as_of) : bisect_right(order, entry.as_of + self.valid)]:
                places[as_of].update(entry.places)
        return [Tick(one, drawn[one], len(places[one])) for one in order if one >= self.complete_since]

    def find_state(self, at: int | None = None) -> list[Entry]:
        """Return the latest record of each key up to an instant, and the one that drew the latest alarm of a place.

        If that alarm counts since an earlier one, the record of the earlier one is included, and so on.
        Of the designated times, it has the latest ones and those with an alarm that still counts. Before
        `complete_since` the list is empty: a place whose alarm was dropped must not look safe.
        """
        if at is not None and at < self.complete_since:
            return []
        latest = [entry for known in self._by_key.values() if (entry := _find_latest(known, at)) is not None]
        counted = max((entry.as_of for entry in latest), default=0) - self.valid
        kept = {(entry.as_of, entry.key): entry for entry in _drop_old_times(latest, counted)}
        for known in self._alarms.values():
            drawn = _find_latest(known, at) if known else None
            while drawn is not None and drawn.type == OVER_TIME:
                kept[drawn.as_of, drawn.key] = drawn
                since = drawn.counted_since
                drawn = next((one for one in known if one.as_of == since), None)
        return [kept[key] for key in sorted(kept)]

    def list_by_key(self, key: str) -> Sequence[Entry]:
        """Return the kept records of a key, in the order of as_of."""
        return self._by_key.get(key, ())

    def list_keys(self, monitor: str) -> list[str]:
        """Return the keys of a monitor, sorted."""
        return sorted(self._keys.get(monitor, ()))


def _find_monitor(key: str) -> str:
    return key.partition("/")[0]


def _measure(entry: Entry) -> int:
    listed = 0 if entry.snapshot is None else len(entry.snapshot.noisy_counts) + len(entry.snapshot.counts_at_least)
    return len(entry.value) + _OVERHEAD + listed * _OVERHEAD_LISTED


def _find_latest(known: Sequence[Entry], at: int | None) -> Entry | None:
    """Return the last record with as_of ≤ `at`; the last one if `at` is None."""
    if at is None:
        return known[-1]
    end = bisect_right(known, at, key=lambda entry: entry.as_of)
    return known[end - 1] if end else None


def _drop_old_times(entries: Iterable[Entry], counted: int) -> Iterator[Entry]:
    """Yield the entries, without those of the earlier designated times of each monitor and shard.

    One with alarms that was published at or after `counted` (an instant) is kept.
    """
    timed: dict[tuple[str, str, str], dict[str, Entry]] = {}
    for entry in entries:
        if entry.type in BY_PLACE:
            yield entry
            continue
        monitor, time, *shard = entry.key.split("/")
        timed.setdefault((entry.type, monitor, "".join(shard)), {})[time] = entry
    for (kind, _monitor, _shard), times in timed.items():
        kept = set(sorted(times)[-1 if kind in TOTALS else -_TIMES :])
        for time, entry in times.items():
            has_alarm = entry.snapshot is not None and bool(entry.snapshot.noisy_counts)
            if time in kept or (has_alarm and entry.as_of >= counted):
                yield entry
