"""The present for a subscriber, which does not go back when the computer's clock is set back."""

from __future__ import annotations

import threading

from monitor.public.clock import Clock
from monitor.public.instants import SECOND


class SteadyTime:
    """A clock's time, or the last one read and the time elapsed since then, if that is later.

    Otherwise an answer would be valid for longer if the clock is set back. May be read by any thread.
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
