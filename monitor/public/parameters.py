"""What is watched, compiled from the configuration into numbers: what every part of the service works with.

Everything here is public: when a location is asked about, and whether a visit is accepted, follows from it alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from monitor.public.schedule import Schedule
from monitor.public.slot_grid import SlotGrid

if TYPE_CHECKING:
    from monitor.privacy.over_time import OverTimeRule


def shard_of(location_id: str, shards: int) -> int:
    """The shard of a location: the first 8 bytes of SHA-256 of its id, big-endian, mod shards."""
    return int.from_bytes(hashlib.sha256(location_id.encode()).digest()[:8], "big") % shards


@dataclass(frozen=True)
class Registry:
    """The public list of locations, in file order; a row is a location's place in that order."""

    ids: tuple[str, ...]
    shards: int

    @cached_property
    def rows(self) -> dict[str, int]:
        """Row by location id."""
        return {location: row for row, location in enumerate(self.ids)}

    @cached_property
    def shard(self) -> NDArray[np.int64]:
        """Shard by row; shape (locations,)."""
        return np.array([shard_of(location, self.shards) for location in self.ids], np.int64)

    @cached_property
    def by_shard(self) -> tuple[NDArray[np.int64], ...]:
        """The rows of each shard, in registry order."""
        return tuple(np.flatnonzero(self.shard == shard) for shard in range(self.shards))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all ids in file order, each followed by a newline, in hexadecimal."""
        return hashlib.sha256("".join(f"{location}\n" for location in self.ids).encode()).hexdigest()


@dataclass(frozen=True)
class OverTime:
    """A monitor of kind `over_time`: the watched rows in registry order, and the rule of each."""

    name: str
    rows: tuple[int, ...]
    rules: tuple[OverTimeRule, ...]

    @property
    def window(self) -> int:
        """W, in slots: the same at all locations of a monitor."""
        return self.rules[0].window


class _AsksAboutTimes:
    """What monitors of designated times have in common."""

    times: Schedule
    horizon: int

    def live(self, as_of: int) -> list[int]:
        """The designated times that are evaluated at the tick with this as_of: τ < as_of ≤ τ + horizon."""
        return [int(instant) for instant in self.times.between(as_of - self.horizon, as_of)]

    def is_final(self, instant: int, as_of: int, grid: SlotGrid) -> bool:
        """Whether this is the last tick that evaluates τ."""
        return as_of + grid.length > instant + self.horizon


@dataclass(frozen=True)
class AtTimes(_AsksAboutTimes):
    """A monitor of kind `at_times`: every location at every tick of the horizon (in microseconds)."""

    name: str
    times: Schedule
    epsilon: Fraction
    threshold: int
    horizon: int


@dataclass(frozen=True)
class HotSpots(_AsksAboutTimes):
    """A monitor of kind `hot_spots`: the `top` locations with the most people, at the final tick of the horizon."""

    name: str
    times: Schedule
    epsilon: Fraction
    top: int
    horizon: int


Timed = AtTimes | HotSpots


@dataclass(frozen=True)
class Parameters:
    """The whole of what is watched. Durations in microseconds, windows and F in slots.

    `period`: in which what one person may pay is stated.
    """

    name: str
    grid: SlotGrid
    max_lead: int
    default_stay: int
    release_delay: int
    tolerance: int
    registry: Registry
    over_time: tuple[OverTime, ...]
    at_times: tuple[AtTimes, ...]
    hot_spots: tuple[HotSpots, ...] = ()
    period: int = 0

    @property
    def timed(self) -> tuple[Timed, ...]:
        """All monitors that ask about designated times."""
        return (*self.at_times, *self.hot_spots)

    @cached_property
    def watched_rows(self) -> NDArray[np.int64]:
        """The rows that some `over_time` monitor watches, sorted."""
        return np.unique(np.array([row for monitor in self.over_time for row in monitor.rows], np.int64))

    @cached_property
    def widest_window(self) -> int:
        """The longest window of any `over_time` monitor, in slots; 0 without one."""
        return max((monitor.window for monitor in self.over_time), default=0)

    @cached_property
    def row_window(self) -> NDArray[np.int64]:
        """The longest window that a row is watched with, 0 if none; shape (locations,), in slots."""
        windows = np.zeros(len(self.registry.ids), np.int64)
        for monitor in self.over_time:
            rows = list(monitor.rows)
            windows[rows] = np.maximum(windows[rows], monitor.window)
        return windows

    @cached_property
    def longest_horizon(self) -> int:
        """The longest reporting horizon of any monitor, in slots, rounded up; 0 without one."""
        longest = max((monitor.horizon for monitor in self.timed), default=0)
        return -(-longest // self.grid.length)

    @property
    def mark_lifetime(self) -> int:
        """W + F of the longest window, in slots: how long a noisy answer holds its location."""
        return self.widest_window + self.max_lead

    @property
    def history_slots(self) -> int:
        """How many slots back any question may reach, the tick that is being decided included."""
        return max(self.widest_window, self.longest_horizon) + 2

    def draws_hot_spots_at(self, tick: int) -> bool:
        """Whether hot spots are due at a tick: it is the final one of a designated time of theirs."""
        as_of = self.grid.as_of(tick)
        return any(
            monitor.is_final(time, as_of, self.grid) for monitor in self.hot_spots for time in monitor.live(as_of)
        )

    @property
    def period_slots(self) -> int:
        """How many slots a period touches at most: one more than fit in it, as it need not be aligned with them."""
        return -(-self.period // self.grid.length) + 1 if self.period else 0

    @property
    def memory_slots(self) -> int:
        """For how many slots an answer that has run out may still count in a period."""
        return self.period_slots + self.history_slots

    def window_start(self, window: int, tick: int) -> int:
        """The first slot of the window of W slots that ends with tick t."""
        return tick - window + 1
