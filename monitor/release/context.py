"""What all ledger partitions of an instance share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.privacy.noise import Noise
from monitor.public.clock import Clock
from monitor.public.parameters import Parameters
from monitor.release.input_topic import InputTopic
from monitor.release.owner import Owner
from monitor.release.store_clock import StoreClock
from monitor.signals import Signal
from monitor.windows.facts import Windows


class ReleaseObserver(Protocol):
    """What is counted of the ticks. Called by the threads of several partitions."""

    def tick(
        self,
        partition: int,
        as_of_seconds: float,
        outcomes: Mapping[str, str],
        answers: Mapping[tuple[str, str], int],
    ) -> None:
        """A tick of an output partition was decided: its outcome by monitor, its answers by (monitor, status)."""

    def lost(self, partition: int, monitors: Sequence[str], ticks: int) -> None:
        """So many ticks of an output partition were decided by nobody."""

    def refused(self, partition: int, monitors: Sequence[str]) -> None:
        """A tick closed that an output partition's ledger lies ahead of."""

    def forget_partition(self, partition: int) -> None:
        """An output partition is not decided by this instance any longer."""

    def tick_took(self, seconds: float) -> None:
        """How long a tick took, from barrier to ledger."""

    def recovery(self, cause: str) -> None:
        """A partition was taken over, because of `cause`."""


@dataclass(frozen=True)
class ReleaseContext:
    """What the threads of an instance's partitions share. All of it may be used by several threads.

    `take_over` makes the owner of a partition (and fences earlier ones). `progressed` happens when this instance's
    reader has written; others' writes are noticed by looking again. `decided` happens when a tick was.
    """

    parameters: Parameters
    windows: Windows
    input_topic: InputTopic
    take_over: Callable[[int], Owner]
    observer: ReleaseObserver
    clock: Clock
    progressed: Signal
    decided: Signal = field(default_factory=Signal)
    store_clock: StoreClock = field(default_factory=StoreClock)

    @property
    def monitors(self) -> list[str]:
        """The names of all monitors."""
        return [monitor.name for monitor in (*self.parameters.over_time, *self.parameters.timed)]


class SharedNoise:
    """Noise that several threads draw from, one after the other."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._lock = threading.Lock()

    @property
    def secure(self) -> bool:
        """Whether nobody can predict it."""
        return self._noise.secure

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """As the noise does."""
        with self._lock:
            return self._noise.geometric(epsilon, size)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """As the noise does."""
        with self._lock:
            return self._noise.reaches(epsilon, gaps)
