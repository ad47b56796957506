"""A signal between threads that a waiting thread cannot miss.

Usage: read `number`, check the condition, then wait until `number` changes. An event between the check and the wait is
not lost, because it has already changed `number`.
"""

from __future__ import annotations

import threading


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
