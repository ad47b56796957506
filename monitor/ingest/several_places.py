"""How many people are reported at more than one place at a designated time: a total, of nobody and nowhere.

Such a person counts, and pays, at each of the places (docs/rules.md, rule 7). Nothing is refused because of it; it is
counted, so that operators see whether the assumption holds that a person is at one place at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.windows.facts import ShardFacts
from monitor.windows.hashing import HASH_BYTES
from monitor.windows.packing import PRESENT

Ints = NDArray[np.int64]

MOST: Final = 200_000
"""How many (person, designated time) are remembered: about 25 MB."""

_TOLD: Final = -1
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)  # spreads an instant over all bits


class SeveralPlaces:
    """Counts, over batches, each (person, designated time) once that is reported at more than one place.

    It remembers at which place a person was first reported, for the latest `most` of them; who is reported again after
    that, or to another instance, is not seen. So it counts at least; a record that is read again counts nothing.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._first: dict[int, int] = {}

    def count(self, instant: Ints, row: Ints, hashes: NDArray[np.uint8]) -> int:
        """How many are new that these facts show at more than one place.

        Args:
            instant: the designated time of each fact; shape (n,).
            row: the place's row in the registry; shape (n,).
            hashes: the person's keyed hash; shape (n, 16).
        """
        keys: list[int] = _keys(instant, hashes).tolist()
        first = np.fromiter(map(self._first.setdefault, keys, row.tolist()), np.int64, row.size)
        several = {keys[at] for at in np.flatnonzero((first != row) & (first != _TOLD)).tolist()}
        self._first.update(dict.fromkeys(several, _TOLD))
        for key in list(islice(self._first, max(0, len(self._first) - self._most))):
            del self._first[key]
        return len(several)

    def count_in(self, facts: Mapping[int, Sequence[ShardFacts]]) -> int:
        """As `count`, of a batch's packed facts by shard."""
        packed = b"".join(some.present for shard in facts.values() for some in shard)
        present = np.frombuffer(packed, PRESENT)
        hashes = np.ascontiguousarray(present["person"]).view(np.uint8).reshape(-1, HASH_BYTES)
        return self.count(present["instant"].astype(np.int64), present["row"].astype(np.int64), hashes)


def _keys(instant: Ints, hashes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """64 bits that tell (person, designated time) apart; two that share them by chance may be counted as one person."""
    person = np.ascontiguousarray(hashes[:, :8]).view(np.uint64).ravel()
    return person ^ (instant.astype(np.uint64) * _ODD)
