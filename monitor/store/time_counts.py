"""The counts of designated times by place, kept in a form whose size depends on the visited places only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.privacy.at_times import Visited
from monitor.store.packing import count_members


@dataclass(frozen=True, slots=True)
class SparseCounts:
    """Distinct people by place: `people[i]` at the place `places[i]` of a shard, 0 elsewhere.

    `consenting`: how many of them consented. Most places of a large registry have nobody, so the counts of all live
    times fit in memory.
    """

    size: int
    places: NDArray[np.int64]
    people: NDArray[np.int64]
    consenting: NDArray[np.int64]

    @classmethod
    def of(cls, members: bytes, rows: NDArray[np.int64]) -> SparseCounts:
        """Return the counts of a designated time's set, whose members are in sequence, in a shard with these rows.

        Raises:
            WindowsError: as `count_members`.
        """
        return cls(rows.size, *count_members(members, rows))

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
