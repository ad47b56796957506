"""Estimate the store's clock: its last reading plus the time that has passed on a monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class StoreClock:
    """An estimate of the store's clock, even while the store is unreachable.

    This machine's system clock may have been stepped since the last reading. A monotonic clock is never stepped. The
    estimate is never ahead of the store's clock, because each reading is older than the moment at which it arrives.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._reading: tuple[int, float] | None = None

    def update(self, instant: int) -> None:
        """Record an instant that the store's clock has just returned."""
        self._reading = instant, self._monotonic()

    def has_reached(self, instant: int) -> bool:
        """Return whether the store's clock has certainly reached the instant; False before the first reading."""
        estimate = self._estimate()
        return estimate is not None and estimate >= instant

    def cap(self, instant: int) -> int:
        """Return the earlier of an instant of this machine's clock and the estimate."""
        estimate = self._estimate()
        return instant if estimate is None else min(instant, estimate)

    def _estimate(self) -> int | None:
        if self._reading is None:
            return None
        instant, read_at = self._reading
        return instant + int((self._monotonic() - read_at) * 1_000_000)
