"""The parameters of the service, which are numbers computed from the configuration.

All parameters are public. Nothing else determines when a location is evaluated, or whether a visit is accepted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from monitor.privacy.dwell import DwellRule
from monitor.privacy.over_time import OverTimeRule
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid


def find_shard(location_id: str, shards: int) -> int:
    """Return the shard of a location: the first 8 bytes of SHA-256 of its id, big-endian, mod `shards`."""
    return int.from_bytes(hashlib.sha256(location_id.encode()).digest()[:8], "big") % shards


@dataclass(frozen=True)
class Registry:
    """The public list of locations, in file order. The row of a location is its index in this order."""

    ids: Sequence[str]
    shards: int

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each location id."""
        return {location: row for row, location in enumerate(self.ids)}

    @cached_property
    def shard(self) -> NDArray[np.int64]:
        """The shard of each row; shape (locations,)."""
        return np.array([find_shard(location, self.shards) for location in self.ids], np.int64)

    @cached_property
    def by_shard(self) -> tuple[NDArray[np.int64], ...]:
        """The rows of each shard, in registry order."""
        # numpy sorts integers of at most 16 bits in linear time.
        order = np.argsort(self.shard.astype(np.min_scalar_type(self.shards)), kind="stable")
        ends = np.cumsum(np.bincount(self.shard, minlength=self.shards))
        return tuple(np.split(order, ends[:-1]))

    @cached_property
    def json_lengths(self) -> NDArray[np.int64]:
        """The bytes of each id as a JSON string; shape (locations,)."""
        return np.array([len(json.dumps(location, ensure_ascii=False).encode()) for location in self.ids], np.int64)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all ids in file order, each followed by a newline, in hexadecimal."""
        return hashlib.sha256("".join(f"{location}\n" for location in self.ids).encode()).hexdigest()


@dataclass(frozen=True)
class OverTime:
    """A monitor of kind `over_time`: the watched rows in registry order, and the rule of each row."""

    name: str
    rows: tuple[int, ...]
    rules: tuple[OverTimeRule, ...]

    @property
    def window(self) -> int:
        """The window W, in slots. It is the same for all locations of a monitor."""
        return self.rules[0].window


class _TimedMonitor:
    """A monitor that has designated times, and its kind in records."""

    kind: ClassVar[Literal["at_times", "hot_spots", "at_least", "dwell"]]
    times: Schedule
    horizon: int

    def list_live_times(self, as_of: int) -> list[int]:
        """Return the designated times τ that the tick with this as_of evaluates: τ < as_of ≤ τ + horizon."""
        return [int(instant) for instant in self.times.find_between(as_of - self.horizon, as_of)]

    def is_final(self, instant: int, as_of: int, grid: SlotGrid) -> bool:
        """Return whether the tick with this as_of is the last one that evaluates the designated time `instant`."""
        return as_of + grid.length > instant + self.horizon


@dataclass(frozen=True)
class AtTimes(_TimedMonitor):
    """A monitor of kind `at_times`: evaluates every location at every tick of the horizon.

    `horizon`: in microseconds. `at_least`: the ε of the lower bounds that the final tick publishes, or None.
    """

    kind = "at_times"
    name: str
    times: Schedule
    epsilon: Fraction
    threshold: int
    horizon: int
    at_least: Fraction | None = None


@dataclass(frozen=True)
class HotSpots(_TimedMonitor):
    """A monitor of kind `hot_spots`: names the `top` locations with the most people, at the horizon's final tick."""

    kind = "hot_spots"
    name: str
    times: Schedule
    epsilon: Fraction
    top: int
    horizon: int


@dataclass(frozen=True)
class AtLeast(_TimedMonitor):
    """The lower bounds of a monitor of kind `at_times`: drawn once at the final tick, and charged separately."""

    kind = "at_least"
    name: str
    times: Schedule
    epsilon: Fraction
    horizon: int


@dataclass(frozen=True)
class Dwell(_TimedMonitor):
    """A monitor of kind `dwell`: the number and mean length of all visits at a time, at the horizon's final tick."""

    kind = "dwell"
    name: str
    times: Schedule
    rule: DwellRule
    horizon: int

    @property
    def epsilon(self) -> Fraction:
        """The ε of each designated time."""
        return self.rule.epsilon


Timed = AtTimes | HotSpots | Dwell
Total = HotSpots | Dwell
"""The monitors with one answer per designated time, about the locations of all shards."""

Charged = Timed | AtLeast


@dataclass(frozen=True)
class Parameters:
    """All parameters. Durations are in microseconds, windows, `accept_ahead` and F (`max_lead`) in slots.

    A visit begins at most `accept_ahead` and ends at most F slots after its stamp. F includes the default stay. Within
    any interval of length `period`, a person pays at most the configured ε.
    """

    name: str
    grid: SlotGrid
    accept_ahead: int
    max_lead: int
    default_stay: int
    release_delay: int
    tolerance: int
    registry: Registry
    over_time: tuple[OverTime, ...]
    at_times: tuple[AtTimes, ...]
    hot_spots: tuple[HotSpots, ...] = ()
    period: int = 0
    dwell: tuple[Dwell, ...] = ()

    @property
    def timed(self) -> tuple[Timed, ...]:
        """All monitors of designated times."""
        return (*self.at_times, *self.totals)

    @property
    def totals(self) -> tuple[Total, ...]:
        """All monitors with one answer per designated time, about the locations of all shards."""
        return (*self.hot_spots, *self.dwell)

    @cached_property
    def at_least(self) -> tuple[AtLeast, ...]:
        """The lower bounds of the monitors of kind `at_times` that publish them."""
        return tuple(
            AtLeast(monitor.name, monitor.times, monitor.at_least, monitor.horizon)
            for monitor in self.at_times
            if monitor.at_least is not None
        )

    @property
    def charged(self) -> tuple[Charged, ...]:
        """Everything that charges ε per designated time."""
        return (*self.timed, *self.at_least)

    @cached_property
    def watched_rows(self) -> NDArray[np.int64]:
        """The rows watched by any `over_time` monitor, sorted."""
        return np.unique(np.array([row for monitor in self.over_time for row in monitor.rows], np.int64))

    @cached_property
    def widest_window(self) -> int:
        """The longest window of any `over_time` monitor, in slots; 0 if there is none."""
        return max((monitor.window for monitor in self.over_time), default=0)

    @cached_property
    def row_window(self) -> NDArray[np.int64]:
        """The longest window of each row, in slots; 0 if no monitor watches the row. Shape (locations,)."""
        windows = np.zeros(len(self.registry.ids), np.int64)
        for monitor in self.over_time:
            rows = list(monitor.rows)
            windows[rows] = np.maximum(windows[rows], monitor.window)
        return windows

    @cached_property
    def longest_horizon(self) -> int:
        """The longest reporting horizon of any monitor, in slots, rounded up; 0 if there is none."""
        longest = max((monitor.horizon for monitor in self.timed), default=0)
        return -(-longest // self.grid.length)

    @property
    def mark_lifetime(self) -> int:
        """W + F for the longest window, in slots: the longest time for which the mark of a noisy answer runs."""
        return self.widest_window + self.max_lead

    @property
    def history_slots(self) -> int:
        """The number of past slots that any answer may depend on, including the slot of the tick itself."""
        return max(self.widest_window, self.longest_horizon) + 2

    def draws_totals_at(self, tick: int) -> bool:
        """Return whether hot spots or dwell times are drawn at a tick, because it is the final tick of one of them."""
        as_of = self.grid.as_of(tick)
        return any(
            monitor.is_final(time, as_of, self.grid)
            for monitor in self.totals
            for time in monitor.list_live_times(as_of)
        )

    @property
    def period_slots(self) -> int:
        """The most slots that a period can overlap: one more than fit in it, because it may begin within a slot."""
        return -(-self.period // self.grid.length) + 1 if self.period else 0

    @property
    def memory_slots(self) -> int:
        """The number of slots for which an answer may count in the period check, even after its mark has ended."""
        return self.period_slots + self.history_slots

    def find_window_start(self, window: int, tick: int) -> int:
        """Return the first slot of the window of `window` slots that ends with the slot of the tick."""
        return tick - window + 1
