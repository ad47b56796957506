"""A signal between threads that can't be missed: its number is read before a look, and waited for to change after."""

from __future__ import annotations

import threading


class Signal:
    """Counts how often something happened."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0

    @property
    def number(self) -> int:
        """How often it happened so far."""
        return self._number

    def notify(self) -> None:
        """Count, and wake all who wait."""
        with self._changed:
            self._number += 1
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> bool:
        """Wait until the number is no longer `seen`; False if that took longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._number != seen, seconds)
