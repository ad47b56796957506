"""What is done between ticks: the store is looked at, facts are let in, and old ones are cut off."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Final

from monitor.errors import UnreachableError, WindowsError
from monitor.public.parameters import Parameters
from monitor.windows.facts import Windows

log = logging.getLogger(__name__)

TIDY_PER_LOOKBACK: Final = 24
CHECK_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 1.0  # after a look that failed: not each partition's thread waits for the same failure


class Upkeep:
    """The store's upkeep, for all partitions of an instance. Used by several threads.

    Raises:
        EvictionError: (`look`) the store may evict facts.
    """

    def __init__(self, parameters: Parameters, windows: Windows) -> None:
        self._parameters = parameters
        self._windows = windows
        self._lock = threading.Lock()
        self._next_look = -math.inf
        self._tidied: dict[int, int] = {}
        self._warned: dict[str, float] = {}

    def look(self) -> None:
        """See now and then that the store still evicts nothing: it may be another server since a failover."""
        with self._lock:
            if time.monotonic() < self._next_look:
                return
            pause = CHECK_SECONDS
            try:
                self._windows.check()
            except (UnreachableError, WindowsError) as error:
                self._warn(f"whether the store may evict facts is not known now: {error}")
                pause = AGAIN_SECONDS
            self._next_look = time.monotonic() + pause

    def after(self, tick: int, shards: Sequence[int]) -> None:
        """A tick of these shards is in the ledger: nobody counts for it again, so the next slot's facts may come in.

        Not where hot spots are due: they are one answer about all shards, whose owner reads those of others.
        """
        try:
            if not self._parameters.draws_hot_spots_at(tick):
                self._windows.open(shards, tick + 1)
            self._tidy(tick, shards)
        except (UnreachableError, WindowsError) as error:
            self._warn(f"facts wait, and old ones are kept, for now: {error}")

    def _warn(self, text: str) -> None:
        """Log what is amiss, the same again after a minute only: there may be a tick each second."""
        now = time.monotonic()
        self._warned = {said: at for said, at in self._warned.items() if now - at < CHECK_SECONDS}
        if text not in self._warned:
            self._warned[text] = now
            log.warning("%s", text)

    def _tidy(self, tick: int, shards: Sequence[int]) -> None:
        """Now and then cut off what no later tick asks for; a failure only leaves it for the next time."""
        every = max(1, self._parameters.history_slots // TIDY_PER_LOOKBACK)
        due = [shard for shard in shards if shard not in self._tidied or tick - self._tidied[shard] >= every]
        if not due:
            return
        grid, widest = self._parameters.grid, self._parameters.widest_window
        # One bound for all monitors: what is dropped counts as gone for every one of them.
        cut = grid.as_of(tick) - self._parameters.longest_horizon * grid.length
        past = self._times(cut - 2 * every * grid.length, cut)
        live = self._times(cut, grid.as_of(tick + self._parameters.max_lead + 1))
        self._windows.evict(due, tick - widest, past, live)
        self._tidied |= dict.fromkeys(due, tick)

    def _times(self, low: int, high: int) -> list[int]:
        return sorted({int(at) for timed in self._parameters.timed for at in timed.times.between(low, high)})
