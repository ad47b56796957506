"""The objects that all ledger partitions of an instance share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from monitor.contracts.clock import Clock
from monitor.contracts.parameters import Parameters
from monitor.observe.spans import NO_SPANS, Spans
from monitor.signals import Signal, TickEnds
from monitor.store.facts import Windows
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.owner import Owner
from monitor.ticks.store_clock import StoreClock


class ReleaseObserver(Protocol):
    """A receiver of the metrics of a release. Called by the threads of several partitions."""

    def count_tick(
        self,
        partition: int,
        as_of_seconds: float,
        outcomes: Mapping[str, str],
        answers: Mapping[tuple[str, str], int],
    ) -> None:
        """Count a decided tick of an output partition: its outcome by monitor, its answers by (monitor, status)."""

    def count_lost(self, partition: int, monitors: Sequence[str], ticks: int) -> None:
        """Count the ticks of an output partition that no instance decided."""

    def count_refused(self, partition: int, monitors: Sequence[str]) -> None:
        """Count a tick that closed while the output partition's ledger was ahead of it."""

    def forget_partition(self, partition: int) -> None:
        """Drop the series of an output partition that this instance no longer decides."""

    def count_unknown(self, shards: Mapping[str, int]) -> None:
        """Count the shards that were unknown at a tick, by cause."""

    def set_missing(self, records: Mapping[int, int]) -> None:
        """Set the number of records that a tick lacked, by input partition; empty if it is not known."""

    def record_tick(self, seconds: float, delay_seconds: float) -> None:
        """Observe how long a tick took, without the wait for its release time, and how late its answers were."""

    def count_recovery(self, cause: str) -> None:
        """Count a takeover of a partition, by its `cause`."""


@dataclass(frozen=True)
class ReleaseContext:
    """The objects that the partition threads of an instance share. All of them are thread-safe.

    `take_over` creates the owner of a partition, which fences earlier owners. `progressed` is signalled when this
    instance's reader has written to the windows; polling detects the writes of other instances. `tick_ends` tells this
    reader the end offsets of the latest tick. `decided` is signalled after each decided tick.
    """

    parameters: Parameters
    windows: Windows
    input_topic: InputTopic
    take_over: Callable[[int], Owner]
    observer: ReleaseObserver
    clock: Clock
    progressed: Signal
    tick_ends: TickEnds = field(default_factory=TickEnds)
    decided: Signal = field(default_factory=Signal)
    store_clock: StoreClock = field(default_factory=StoreClock)
    spans: Spans = NO_SPANS

    @property
    def monitors(self) -> list[str]:
        """The names of all monitors."""
        return [monitor.name for monitor in (*self.parameters.over_time, *self.parameters.timed)]
