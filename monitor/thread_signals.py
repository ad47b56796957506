"""What the threads of an instance tell each other: a signal that a waiting thread cannot miss, and end offsets.

Usage of a signal: read `number`, check the condition, then wait until `number` changes. An event between the check and
the wait is not lost, because it has already changed `number`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


class Signal:
    """A counter of events that threads can wait on."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0

    @property
    def number(self) -> int:
        """The number of events so far."""
        return self._number

    def notify(self) -> None:
        """Count one event, and wake all waiting threads."""
        with self._changed:
            self._number += 1
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> bool:
        """Wait until `number` differs from `seen`; return False if that takes longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._number != seen, seconds)


class TickEnds:
    """The end offsets of the input that the latest closed tick was decided by. Threads of the release set them."""

    def __init__(self) -> None:
        self._latest: tuple[int, Mapping[int, int]] = (0, {})

    def set(self, as_of: int, ends: Mapping[int, int]) -> None:
        """Set the end offset of each partition for the tick that closed at an instant."""
        self._latest = as_of, ends

    def count_late(self, partition: int, offsets: NDArray[np.int64], stamps: NDArray[np.int64]) -> int:
        """Return how many records should have been below the tick's end offset, but are not.

        They were stamped before the tick closed. Their visits are missing in its counts.

        Args:
            partition: the partition of the records.
            offsets: the n offsets of the records, shape (n,).
            stamps: the instants at which they were stamped, shape (n,).
        """
        as_of, ends = self._latest
        end = ends.get(partition)
        return 0 if end is None else int(np.count_nonzero((offsets >= end) & (stamps < as_of)))
