"""The objects that all ledger partitions of an instance share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from monitor.kinds.parameters import Parameters
from monitor.observe.update_service_metrics import Metrics
from monitor.store.redis_store import RedisStore
from monitor.thread_signals import Signal, TickEnds
from monitor.ticks.input_topic import InputTopic
from monitor.time.clock import Clock


class StoreClock:
    """An estimate of the store's clock: its last reading plus the time that has passed on a monotonic clock.

    It continues while the store is unreachable. This machine's system clock may have been stepped since the last
    reading; a monotonic clock is never stepped. The estimate is never ahead of the store's clock, because each reading
    is older than the moment at which it arrives.
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


@dataclass(frozen=True)
class TickContext:
    """The objects that the partition threads of an instance share. All of them are thread-safe."""

    parameters: Parameters
    store: RedisStore
    input_topic: InputTopic
    metrics: Metrics
    clock: Clock
    progressed: Signal
    """Signalled when this instance's reader has written to the store; polling detects the writes of other instances."""
    tick_ends: TickEnds = field(default_factory=TickEnds)
    """Hands the end offsets of the latest tick to this reader."""
    decided: Signal = field(default_factory=Signal)
    """Signalled after each decided tick."""
    store_clock: StoreClock = field(default_factory=StoreClock)

    @property
    def monitors(self) -> list[str]:
        """The names of all monitors."""
        return [monitor.name for monitor in self.parameters.monitors]
