"""Maintain the store between ticks: check its eviction policy, open the next slot, evict old facts."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Final

from monitor.errors import StoreError, UnreachableError
from monitor.kinds.parameters import Parameters
from monitor.store.redis_store import RedisStore

log = logging.getLogger(__name__)

EVICTIONS_PER_HISTORY: Final = 24
CHECK_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 1.0  # after a failed check; without this pause, each partition's thread would fail in turn


class Upkeep:
    """The maintenance of the store for all partitions of an instance. Thread-safe."""

    def __init__(self, parameters: Parameters, store: RedisStore) -> None:
        self._parameters = parameters
        self._store = store
        self._lock = threading.Lock()
        self._next_check = -math.inf
        self._evicted_at: dict[int, int] = {}
        self._warned: dict[str, float] = {}

    def check_eviction_policy(self) -> None:
        """Check once a minute that the store evicts nothing. After a failover, another server may have other settings.

        Raises:
            EvictionError: the store may evict facts.
        """
        with self._lock:
            if time.monotonic() < self._next_check:
                return
            pause = CHECK_SECONDS
            try:
                self._store.check()
            except (UnreachableError, StoreError) as error:
                self._warn(f"could not check the eviction policy of Redis: {error}")
                pause = RETRY_SECONDS
            self._next_check = time.monotonic() + pause

    def finish_tick(self, tick: int, shards: Sequence[int]) -> None:
        """Open the slot after a decided tick in these shards, and evict old facts.

        After a tick with an answer about all shards, the next slot is not opened here: the owner of that answer may
        still have to read these shards for the tick.
        """
        try:
            if not self._parameters.reads_all_shards(tick):
                self._store.open(shards, tick + 1)
            self._evict(tick, shards)
        except (UnreachableError, StoreError) as error:
            self._warn(f"could not open the next slot or evict old facts; retrying at the next tick: {error}")

    def evict_while_waiting(self) -> None:
        """Evict old facts of all shards, for an instance that has not joined the release group yet.

        Its configuration may be new. Then no owner of a partition evicts its facts. The store's clock decides which
        facts are old. The last closed tick may still be undecided, so its facts are kept.
        """
        try:
            tick = self._parameters.grid.find_slot(self._store.time()) - 2
            self._evict(tick, range(self._parameters.registry.shards))
        except (UnreachableError, StoreError) as error:
            self._warn(f"could not evict old facts; retrying in the next slot: {error}")

    def _warn(self, text: str) -> None:
        """Log a warning, but the same text at most once a minute, because there may be a tick each second."""
        now = time.monotonic()
        self._warned = {warning: at for warning, at in self._warned.items() if now - at < CHECK_SECONDS}
        if text not in self._warned:
            self._warned[text] = now
            log.warning("%s", text)

    def _evict(self, tick: int, shards: Sequence[int]) -> None:
        """Evict the facts that no later tick reads, every few ticks. After a failure the next tick tries again."""
        every = max(1, self._parameters.history_slots // EVICTIONS_PER_HISTORY)
        due = [shard for shard in shards if shard not in self._evicted_at or tick - self._evicted_at[shard] >= every]
        if not due:
            return
        grid, widest = self._parameters.grid, self._parameters.widest_window
        # All monitors share one cut, because a time is evicted for all of them at once.
        cut = grid.as_of(tick) - self._parameters.longest_horizon * grid.length
        past = self._parameters.list_times_between(cut - 2 * every * grid.length, cut)
        live = self._parameters.list_times_between(cut, grid.as_of(tick + self._parameters.max_lead + 1))
        self._store.evict(due, tick - widest, past, live)
        self._evicted_at |= dict.fromkeys(due, tick)
