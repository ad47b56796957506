"""Count people reported at more than one place at a designated time. The total names neither people nor places.

Such a person counts, and pays, at each of the places (docs/rules.md, rule 7). The visits are not refused. The count
shows operators whether people are at one place at a time, as the privacy model assumes.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.facts_and_questions import CONSENT, FactArray

LIMIT: Final = 200_000
"""The most (person, designated time) pairs that are remembered. They take about 25 MB."""

_COUNTED: Final = -1
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)  # spreads an instant over all bits


class PeopleAtSeveralPlaces:
    """A counter of the (person, designated time) pairs with more than one place, each counted once over all batches.

    It remembers the first place of the latest `limit` pairs. It misses a person whose second report comes later, or is
    read by another instance, so the count is a lower bound. A record that is read again does not count again.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._first: dict[int, int] = {}

    def count(self, present: FactArray) -> int:
        """Return the number of pairs that facts of kind `PRESENT` show at more than one place for the first time."""
        row = present["row"].astype(np.int64) % CONSENT
        keys: list[int] = _combine(present).tolist()
        first = np.fromiter(map(self._first.setdefault, keys, row.tolist()), np.int64, row.size)
        several = {keys[at] for at in np.flatnonzero((first != row) & (first != _COUNTED)).tolist()}
        self._first.update(dict.fromkeys(several, _COUNTED))
        for key in list(islice(self._first, max(0, len(self._first) - self._limit))):
            del self._first[key]
        return len(several)


def _combine(present: FactArray) -> NDArray[np.uint64]:
    """Return 64 bits that identify (person, designated time); in a collision, two people may be counted as one."""
    person = np.ascontiguousarray(present["person"]).view(np.uint64).reshape(-1, 2)[:, 0]
    return person ^ (present["instant"].astype(np.uint64) * _ODD)
