"""The public clock: the system clock, and a clock that replay, demo and tests move step by step."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from monitor.time.instants import SECOND


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
        self._awaited: list[int] = []
        self._next: tuple[int, int] | None = None

    def now(self) -> int:
        """Return the instant that the clock was last moved to."""
        return self._now

    def elapsed(self) -> float:
        """Return the seconds since the epoch: this clock is never set back."""
        return self._now / SECOND

    def move_to(self, instant: int) -> None:
        """Set the clock and wake every waiting thread."""
        with self._moved:
            self._now, self._next = instant, None
            self._moved.notify_all()

    def move_when_awaited(self, instant: int, threads: int) -> None:
        """Set the clock as soon as this many threads wait, so that each of them has finished its work before."""
        with self._moved:
            self._next = instant, threads
            self._move_if_awaited()

    def wait_until(self, instant: int, wake: threading.Event) -> bool:
        """Wait until the clock is at or after the instant. Return False if `wake` is set earlier."""
        with self._moved:
            self._awaited.append(instant)
            self._move_if_awaited()
            try:
                while self._now < instant:
                    if wake.is_set():
                        return False
                    self._moved.wait(0.02)
            finally:
                self._awaited.remove(instant)
        return True

    def _move_if_awaited(self) -> None:
        if self._next is not None and sum(instant > self._now for instant in self._awaited) >= self._next[1]:
            self.move_to(self._next[0])
