"""The ids of a large registry as one block of bytes, and an index from id to row.

Ten million Python strings in a tuple and a dict take 2.5 GB. In this form, an id takes 24 bytes in addition to its
text. A small registry stays a tuple of strings with a dict, which is simpler and looks ids up faster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

LARGE: Final = 500_000
"""A registry with at least this number of locations is kept in this form."""

_CHUNK: Final = 100_000  # ids that are Python objects at the same time
_REMEMBERED: Final = 1_000_000


class LocationIds(Sequence[str]):
    """Ids in file order. `block` has each id in UTF-8, followed by a newline, which no id contains."""

    def __init__(self, block: bytes) -> None:
        self.block = block
        self._ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        if len(block) < 2**32:
            self._ends = self._ends.astype(np.uint32)

    def __len__(self) -> int:
        """Return the number of ids."""
        return len(self._ends)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        """Return the id of a row, or the ids of several rows."""
        if isinstance(row, slice):
            return [self[at] for at in range(*row.indices(len(self)))]
        at = range(len(self))[row]
        return self.encode(at).decode()

    def encode(self, row: int) -> bytes:
        """Return the id of a row ≥ 0 in UTF-8."""
        return self.block[int(self._ends[row - 1]) + 1 if row else 0 : int(self._ends[row])]

    def __iter__(self) -> Iterator[str]:
        """Yield the ids in file order."""
        for chunk in self.split_chunks():
            yield from (location.decode() for location in chunk)

    def split_chunks(self) -> Iterator[list[bytes]]:
        """Yield the ids in UTF-8, in lists."""
        places = [*range(0, len(self), _CHUNK), len(self)]
        starts = [int(self._ends[place - 1]) + 1 if place else 0 for place in places]
        for begin, end in pairwise(starts):
            yield self.block[begin : end - 1].split(b"\n")

    def count_bytes(self) -> NDArray[np.int64]:
        """Return the number of bytes of each id; shape (locations,)."""
        lengths = self._ends.astype(np.int64)
        lengths[1:] -= lengths[:-1].copy() + 1
        return lengths

    def count_json_bytes(self) -> NDArray[np.int64]:
        """Return the number of bytes of each id as a JSON string, which escapes quotation marks and backslashes."""
        characters = np.frombuffer(self.block, np.uint8)
        escaped = np.flatnonzero((characters == ord('"')) | (characters == ord("\\")))
        return self.count_bytes() + 2 + np.bincount(np.searchsorted(self._ends, escaped), minlength=len(self))

    def __eq__(self, other: object) -> bool:
        """Return whether these are the same ids in the same order."""
        return isinstance(other, LocationIds) and self.block == other.block

    def __hash__(self) -> int:
        """Return a hash of all ids."""
        return hash(self.block)

    @cached_property
    def rows(self) -> RowIndex:
        """The row of each id."""
        return RowIndex(self, self.hashes)

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """The first 8 bytes of SHA-256 of each id, big-endian; shape (locations,)."""
        found = np.empty(len(self), np.uint64)
        sha256, begin = hashlib.sha256, 0
        for chunk in self.split_chunks():
            digests = b"".join([sha256(location).digest() for location in chunk])
            found[begin : begin + len(chunk)] = np.frombuffer(digests, ">u8")[::4]
            begin += len(chunk)
        return found


class RowIndex(Mapping[str, int]):
    """The row of each id, by a sorted array of hashes.

    The last ids looked up are cached, at most a million, because most visits are at few places. Thread-safe.
    """

    def __init__(self, ids: LocationIds, hashes: NDArray[np.uint64]) -> None:
        self._ids = ids
        self._rows = np.argsort(hashes).astype(np.uint32)  # a stable sort takes twice as long
        self._hashes = hashes[self._rows]
        self._remembered: dict[str, int] = {}

    def __getitem__(self, location: str) -> int:
        """Return the row of an id. Raise KeyError if the id is not in the registry."""
        remembered = self._remembered.get(location)
        if remembered is not None:
            return remembered
        row = self._find(location)
        if row is None:
            raise KeyError(location)  # not cached, because producers could fill the memory with unknown ids
        if len(self._remembered) >= _REMEMBERED:
            self._remembered = {}
        self._remembered[location] = row
        return row

    def _find(self, location: str) -> int | None:
        encoded = location.encode(errors="surrogatepass")
        hashed = np.uint64(int.from_bytes(hashlib.sha256(encoded).digest()[:8], "big"))
        place = int(np.searchsorted(self._hashes, hashed))
        while place < len(self._hashes) and self._hashes[place] == hashed:  # several ids may have the same hash
            row = int(self._rows[place])
            if self._ids.encode(row) == encoded:
                return row
            place += 1
        return None

    @property
    def may_have_duplicates(self) -> bool:
        """Whether two ids have the same hash, and so may be equal."""
        return bool((self._hashes[1:] == self._hashes[:-1]).any())

    def __iter__(self) -> Iterator[str]:
        """Yield the ids in file order."""
        return iter(self._ids)

    def __len__(self) -> int:
        """Return the number of ids."""
        return len(self._ids)
