"""Keep the counts of designated times between ticks, and read a set again only after it has grown.

Without this, a tick would read all people of all designated times within their horizons: 28 times with 100,000 people
each are 56 MB.

The set of a designated time only grows: tick t counts exactly the facts stamped up to t, and facts are never removed
within the horizon. If a set is lost, it is read again from the input, so a complete set contains at least all members
that were counted before. If a complete set of the same tick or a later one has as many members as before, it is
therefore the same set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.privacy.at_times import Visited
from monitor.windows.packing import count_members


@dataclass(frozen=True, slots=True)
class SparseCounts:
    """Distinct people by place: `people[i]` at the place `places[i]` of a shard, 0 elsewhere.

    `consenting`: how many of them consented. `members`: the number of members of the set. Most places of a large
    registry have nobody, so the counts of all live times fit in memory.
    """

    members: int
    size: int
    places: NDArray[np.int64]
    people: NDArray[np.int64]
    consenting: NDArray[np.int64]

    @classmethod
    def of(cls, members: Collection[bytes], rows: NDArray[np.int64]) -> SparseCounts:
        """Return the counts of a designated time's set in a shard with these rows.

        Raises:
            WindowsError: as `count_members`.
        """
        return cls(len(members), rows.size, *count_members(members, rows))

    def fill(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of all places of the shard; `counts` is `people` or `consenting`."""
        filled = np.zeros(self.size, np.int64)
        filled[self.places] = counts
        return filled


class TimeCounts(Mapping[int, NDArray[np.int64]]):
    """Distinct people by place, by designated time. Each access to a time creates its array.

    With `consenting`, only the people who consented count.
    """

    def __init__(self, counts: Mapping[int, SparseCounts], *, consenting: bool = False) -> None:
        self._counts = counts
        self._consenting = consenting

    def __getitem__(self, instant: int) -> NDArray[np.int64]:
        """Return the counts of all places of the shard at a designated time."""
        counts = self._counts[instant]
        return counts.fill(counts.consenting if self._consenting else counts.people)

    def find_visited(self, instant: int) -> Visited:
        """Return the places of the shard with people at a designated time, without an array of all places."""
        counts = self._counts[instant]
        people = counts.consenting if self._consenting else counts.people
        some = people > 0
        return Visited(counts.places[some], people[some])

    def __iter__(self) -> Iterator[int]:
        """Yield the designated times."""
        return iter(self._counts)

    def __len__(self) -> int:
        """Return the number of designated times."""
        return len(self._counts)


def find_visited(present: Mapping[int, NDArray[np.int64]], instant: int) -> Visited:
    """Return the places with people at a designated time, from the counts of a reading of any store."""
    if isinstance(present, TimeCounts):
        return present.find_visited(instant)
    counts = present[instant]
    places = np.flatnonzero(counts)
    return Visited(places, counts[places])


class TimeCountsCache:
    """The counts of the last tick by shard. A reading of an earlier tick does not use them.

    Each shard belongs to one ledger partition, whose thread reads it. For hot spots, a thread reads all shards, so two
    threads may replace the counts of a shard. Each replaces them completely.
    """

    def __init__(self) -> None:
        self._by_shard: dict[int, tuple[int, Mapping[int, SparseCounts]]] = {}

    def find(self, shard: int, tick: int | None, instants: Collection[int]) -> dict[int, SparseCounts]:
        """Return the known counts of these designated times that a reading for a tick may use."""
        known_tick, known = self._by_shard.get(shard, (0, {}))
        if tick is None or tick < known_tick:
            return {}
        return {instant: known[instant] for instant in instants if instant in known}

    def keep(self, shard: int, tick: int | None, counts: Mapping[int, SparseCounts]) -> None:
        """Keep the counts of a settled reading for a tick, and forget those of other designated times."""
        if tick is not None:
            self._by_shard[shard] = tick, dict(counts)
