"""The windows of many rows with the same first slot, and their counts, as arrays.

A tick reads the windows of all watched places. As a Python pair, a window takes 3 µs; in an array, hardly any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from monitor.windows.packing import pack_windows


class RowWindows(Sequence[tuple[int, int]]):
    """The windows (row, first slot) of rows, ascending, with the same first slot.

    It equals a sequence of the same pairs.
    """

    def __init__(self, rows: NDArray[np.int64], start: int) -> None:
        self.rows = rows
        self.start = start

    def __len__(self) -> int:
        """Return the number of windows."""
        return self.rows.size

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the windows in order of rows."""
        return ((row, self.start) for row in self.rows.tolist())

    @overload
    def __getitem__(self, place: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, place: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        """Return the window or the windows at a place."""
        if isinstance(place, slice):
            return RowWindows(self.rows[place], self.start)
        return int(self.rows[place]), self.start

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same windows."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as a list


class RowCounts(Mapping[tuple[int, int], int]):
    """The counts of `RowWindows`, as an array in the order of its rows."""

    def __init__(self, windows: RowWindows, counts: NDArray[np.int64]) -> None:
        self.windows = windows
        self.counts = counts

    def __getitem__(self, window: tuple[int, int]) -> int:
        """Return the count of a window."""
        row, start = window
        place = int(np.searchsorted(self.windows.rows, row))
        if start != self.windows.start or self.windows.rows[place : place + 1].tolist() != [row]:
            raise KeyError(window)
        return int(self.counts[place])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the windows."""
        return iter(self.windows)

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.windows)


def pack_row_windows(windows: Sequence[tuple[int, int]]) -> Iterable[int | bytes]:
    """Return the windows as arguments of the script that counts them."""
    if isinstance(windows, RowWindows):
        return (windows.start, windows.rows.astype(">u4").tobytes())
    return pack_windows(windows)


def pair_counts(windows: Sequence[tuple[int, int]], counts: Sequence[int]) -> Mapping[tuple[int, int], int]:
    """Return the counts by window, given in the order of the windows."""
    if isinstance(windows, RowWindows):
        return RowCounts(windows, np.array(counts, np.int64))
    return dict(zip(windows, counts, strict=True))
