"""The public clock: the system clock, and a clock that replay, demo and tests move step by step."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from monitor.contracts.instants import SECOND


class Clock(Protocol):
    """A source of public time."""

    def now(self) -> int:
        """Return the present instant, in microseconds since the epoch."""

    def elapsed(self) -> float:
        """Return the seconds since some fixed moment. Unlike `now`, they do not jump if the clock is set."""

    def wait_until(self, instant: int, wake: threading.Event) -> bool:
        """Wait until an instant. Return False if `wake` is set earlier, or if the clock was set back."""


class SystemClock:
    """The operating system's clock in UTC."""

    def now(self) -> int:
        """Return the present instant, in microseconds since the epoch."""
        return time.time_ns() // 1_000

    def elapsed(self) -> float:
        """Return the seconds of the monotonic clock."""
        return time.monotonic()

    def wait_until(self, instant: int, wake: threading.Event) -> bool:
        """Wait in short steps, to notice changes of the clock.

        Return False if `wake` is set earlier, or if the clock was set back to before the wait began.
        """
        began = now = self.now()
        while now < instant:
            if now < began or wake.wait(min((instant - now) / SECOND, 1.0)):
                return False
            now = self.now()
        return True


class SteppedClock:
    """A clock that changes only when it is moved."""

    def __init__(self, start: int) -> None:
        self._now = start
        self._moved = threading.Condition()

    def now(self) -> int:
        """Return the instant that the clock was last moved to."""
        return self._now

    def elapsed(self) -> float:
        """Return the seconds since the epoch: this clock is never set back."""
        return self._now / SECOND

    def move_to(self, instant: int) -> None:
        """Set the clock and wake every waiting thread."""
        with self._moved:
            self._now = instant
            self._moved.notify_all()

    def wait_until(self, instant: int, wake: threading.Event) -> bool:
        """Wait until the clock is at or after the instant. Return False if `wake` is set earlier."""
        with self._moved:
            while self._now < instant:
                if wake.is_set():
                    return False
                self._moved.wait(0.02)
        return True
