"""The public clock, injected: the real one, and one that is stepped by hand (replay, demo, tests)."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from monitor.public.instants import SECOND


class Clock(Protocol):
    """Public time. `simulated` says that servers' own clocks tell nothing about it."""

    simulated: bool

    def now(self) -> int:
        """The present instant, in microseconds since the epoch."""

    def wait_until(self, instant: int, wake: threading.Event) -> bool:
        """Wait until an instant, or until woken; True if the instant has come, False also if the clock was set back."""


class SystemClock:
    """The operating system's clock in UTC."""

    simulated = False

    def now(self) -> int:
        """The present instant."""
        return time.time_ns() // 1_000

    def wait_until(self, instant: int, wake: threading.Event) -> bool:
        """Wait in short turns, so that a clock that is stepped meanwhile is noticed; one that is set back ends it."""
        began = now = self.now()
        while now < instant:
            if now < began or wake.wait(min((instant - now) / SECOND, 1.0)):
                return False
            now = self.now()
        return True


class SteppedClock:
    """A clock that stands still until it is moved."""

    simulated = True

    def __init__(self, start: int) -> None:
        self._now = start
        self._moved = threading.Condition()

    def now(self) -> int:
        """The instant that it was last moved to."""
        return self._now

    def move_to(self, instant: int) -> None:
        """Move it, and wake all who wait."""
        with self._moved:
            self._now = instant
            self._moved.notify_all()

    def wait_until(self, instant: int, wake: threading.Event) -> bool:
        """Wait until it is moved to the instant or beyond."""
        with self._moved:
            while self._now < instant:
                if wake.is_set():
                    return False
                self._moved.wait(0.02)
        return True
