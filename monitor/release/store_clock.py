"""The store's clock, as far as it is known: what it last told, and what has passed since by a monotonic one."""

from __future__ import annotations

import time
from collections.abc import Callable


class StoreClock:
    """Tells whether an instant has come by the store's clock, also while the store is away.

    This machine's own clock can't tell: it may have been stepped since, which a monotonic one never is. What is
    reckoned is at most what the store would say, for what it told was told before it was heard.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._heard: tuple[int, float] | None = None

    def hear(self, told: int) -> None:
        """Note an instant that the store's clock has just told."""
        self._heard = told, self._monotonic()

    def reached(self, instant: int) -> bool:
        """Whether the instant has come for certain; no if the store was never heard."""
        reckoned = self._reckoned()
        return reckoned is not None and reckoned >= instant

    def at_most(self, instant: int) -> int:
        """What this machine's clock says, or what is reckoned, whichever is earlier."""
        reckoned = self._reckoned()
        return instant if reckoned is None else min(instant, reckoned)

    def _reckoned(self) -> int | None:
        if self._heard is None:
            return None
        told, heard_at = self._heard
        return told + int((self._monotonic() - heard_at) * 1_000_000)
