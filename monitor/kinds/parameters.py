"""The parameters of the service, which are numbers computed from the configuration.

All parameters are public. Nothing else determines when a location is evaluated, or whether a visit is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.base.charged_times import ChargedTimes
from monitor.kinds.base.keys_and_parameters import Monitor
from monitor.kinds.facts_and_questions import NeededFacts, find_designated
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import SNAPSHOT_OVERHEAD, measure_locations
from monitor.privacy.over_time import OverTimeRule
from monitor.time.slot_grid import SlotGrid


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
    monitors: tuple[Monitor, ...]
    period: int = 0

    @cached_property
    def needed(self) -> tuple[NeededFacts, ...]:
        """The facts that each monitor needs."""
        return tuple(monitor.needed for monitor in self.monitors)

    @cached_property
    def charged_times(self) -> tuple[ChargedTimes, ...]:
        """Everything that charges ε per designated time, in the order of owner records: additional charges are last."""
        charged = [monitor.charged_times for monitor in self.monitors]
        return (*(each for own in charged for each in own[:1]), *(each for own in charged for each in own[1:]))

    @cached_property
    def place_rules(self) -> Mapping[tuple[str, str], OverTimeRule]:
        """The rule of each place whose noisy answers leave marks, by monitor and location."""
        return {
            (monitor.name, location): rule
            for monitor in self.monitors
            for location, rule in monitor.list_rules(self.registry).items()
        }

    def list_times_between(self, low: int, high: int) -> list[int]:
        """Return the designated times of all monitors in [low, high), sorted."""
        schedules = (needed.times for needed in self.needed if needed.times is not None)
        return sorted({int(at) for times in schedules for at in times.find_between(low, high)})

    @cached_property
    def watched_rows(self) -> NDArray[np.int64]:
        """The rows whose people are counted in windows, sorted."""
        rows = [row for needed in self.needed if not needed.bucket for row in needed.rows]
        return np.unique(np.array(rows, np.int64))

    @cached_property
    def rows_since_ticks(self) -> NDArray[np.int64]:
        """The rows whose people are also counted by what was reported since an earlier tick, sorted."""
        rows = [row for needed in self.needed if needed.since_ticks for row in needed.rows]
        return np.unique(np.array(rows, np.int64))

    def find_stamped(self, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return at which of these designated times people are also counted by what was reported since a tick."""
        return find_designated((needed for needed in self.needed if needed.since_ticks), times)

    @cached_property
    def widest_window(self) -> int:
        """The number of slots, up to that of a tick, that any window or late number counts; 0 if there is none."""
        return max((self._find_reach(needed) for needed in self.needed), default=0)

    def _find_reach(self, needed: NeededFacts) -> int:
        """Return the slots of a window. Buckets that still count may be drawn late, and also have their window each."""
        return needed.window + (needed.window + self.max_lead - 1 if needed.bucket else 0)

    @cached_property
    def bucket_lengths(self) -> Mapping[tuple[int, int], int]:
        """By the slots of a bucket and of its window, the number of the set of people by bucket at the first row."""
        lengths = {(needed.bucket, needed.window) for needed in self.needed if needed.bucket}
        return {both: len(self.registry.ids) * index for index, both in enumerate(sorted(lengths))}

    @cached_property
    def bucket_sets(self) -> NDArray[np.int64]:
        """The numbers of all sets of people by bucket, sorted. A set has the people of one row."""
        sets = {
            self.bucket_lengths[needed.bucket, needed.window] + row
            for needed in self.needed
            if needed.bucket
            for row in needed.rows
        }
        return np.array(sorted(sets), np.int64)

    @cached_property
    def row_window(self) -> NDArray[np.int64]:
        """The longest window of each row, in slots; 0 if no monitor watches the row. Shape (locations,)."""
        windows = np.zeros(len(self.registry.ids), np.int64)
        for needed in self.needed:
            rows = list(needed.rows)
            windows[rows] = np.maximum(windows[rows], needed.window)
        return windows

    @cached_property
    def longest_horizon(self) -> int:
        """The longest reporting horizon of any monitor, in slots, rounded up; 0 if there is none."""
        longest = max((needed.horizon for needed in self.needed), default=0)
        return -(-longest // self.grid.length)

    @cached_property
    def counts_consent(self) -> bool:
        """Whether people who consented are also counted."""
        return any(needed.consenting for needed in self.needed)

    @cached_property
    def longest_length(self) -> int:
        """The longest length of a visit that is read, in seconds; 0 if no lengths are read."""
        return max((needed.longest for needed in self.needed), default=0)

    @cached_property
    def largest_record(self) -> int:
        """The maximum bytes of any record of this configuration."""
        return max((SNAPSHOT_OVERHEAD, *(monitor.measure_largest(self.registry) for monitor in self.monitors)))

    def estimate_shards(self, limit: int) -> int:
        """Return the approximate number of shards with which each record about a shard fits in `limit` bytes."""
        overhead = SNAPSHOT_OVERHEAD * self.registry.shards
        by_shard = [monitor.measure_by_shard(self.registry) for monitor in self.monitors]
        totals = [int(sizes.sum()) - overhead for sizes in by_shard if sizes.size]
        total = max(totals, default=int(measure_locations(self.registry).sum()))
        return max(1, -(-total // (limit - SNAPSHOT_OVERHEAD)))

    @property
    def mark_lifetime(self) -> int:
        """W + F for the longest window, in slots: the longest time for which the mark of a noisy answer runs."""
        return self.widest_window + self.max_lead

    @property
    def history_slots(self) -> int:
        """The number of past slots that any answer may depend on, including the slot of the tick itself."""
        return max(self.widest_window, self.longest_horizon) + 2

    def reads_all_shards(self, tick: int) -> bool:
        """Return whether an answer of a tick is computed from the facts of all shards."""
        return any(monitor.reads_all_shards(tick, self.grid) for monitor in self.monitors)

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
