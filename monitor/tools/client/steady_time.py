"""A clock for subscribers, which does not go back when the computer's clock is set back."""

from __future__ import annotations

import threading

from monitor.contracts.clock import Clock
from monitor.contracts.instants import SECOND


class SteadyTime:
    """The time of a clock or, if that is later, the last time returned plus the time elapsed since then.

    Without this, an answer would be valid for longer after the clock is set back. Thread-safe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._last, self._elapsed = clock.now(), clock.elapsed()

    def now(self) -> int:
        """Return the present instant, in microseconds since the epoch."""
        with self._lock:
            elapsed = self._clock.elapsed()
            onward = self._last + int((elapsed - self._elapsed) * SECOND)
            self._last, self._elapsed = max(self._clock.now(), onward), elapsed
            return self._last
