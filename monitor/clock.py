"""The public clock, injected: the real one, a fast one (demo) and one that is stepped by hand (replay, tests)."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from monitor.times import SECOND


class Clock(Protocol):
    """Public time. `simulated` says that servers' own clocks tell nothing about it."""

    simulated: bool

    def now(self) -> int:
        """The present instant, in microseconds since the epoch."""

    def wait_until(self, instant: int, stop: threading.Event) -> bool:
        """Wait until an instant or until told to stop; True if the instant has come."""


class SystemClock:
    """The operating system's clock in UTC."""

    simulated = False

    def now(self) -> int:
        """The present instant."""
        return time.time_ns() // 1_000

    def wait_until(self, instant: int, stop: threading.Event) -> bool:
        """Wait in short turns, so that a clock that is stepped meanwhile is noticed."""
        while (left := instant - self.now()) > 0:
            if stop.wait(min(left / SECOND, 1.0)):
                return False
        return not stop.is_set()


class FastClock:
    """A clock that starts at an instant and runs `speed` times as fast as real time."""

    simulated = True

    def __init__(self, start: int, speed: float) -> None:
        self._start = start
        self._speed = speed
        self._began = time.monotonic()

    def now(self) -> int:
        """The present instant of the simulation."""
        return self._start + int((time.monotonic() - self._began) * self._speed * SECOND)

    def wait_until(self, instant: int, stop: threading.Event) -> bool:
        """Wait for as long as the simulation needs to reach the instant."""
        while (left := instant - self.now()) > 0:
            if stop.wait(min(left / SECOND / self._speed, 1.0)):
                return False
        return not stop.is_set()


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

    def wait_until(self, instant: int, stop: threading.Event) -> bool:
        """Wait until it is moved to the instant or beyond."""
        with self._moved:
            while self._now < instant and not stop.is_set():
                self._moved.wait(0.05)
        return not stop.is_set()
