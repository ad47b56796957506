"""A monitor of kind `at_times` with its lower bounds: its keys, its parameters, and the sizes of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.base.charged_times import ChargedTimes
from monitor.kinds.base.keys_and_parameters import ValidKeys
from monitor.kinds.base.monitor_of_designated_times import Timed, TimedMonitor
from monitor.kinds.facts_and_questions import NeededFacts
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import (
    LARGEST_SNAPSHOT,
    NOISY_COUNT_BYTES,
    SNAPSHOT_OVERHEAD,
    TICK_BYTES,
    TIME_BYTES,
    measure_locations,
)
from monitor.kinds.timing import Timing
from monitor.privacy.at_times import AtTimesRule
from monitor.privacy.epsilon import SMALLEST, format_epsilon
from monitor.privacy.payment_of_one_person import Charge, charge_at_times
from monitor.privacy.published_numbers import TimeNumber
from monitor.time.schedule import Schedule
from monitor.values.single_values import Epsilon, Section, WholeNumber

_NUMBER: Final = len('{"tick":,"noisy_count":,"epsilon":""},') + TICK_BYTES + NOISY_COUNT_BYTES
_SINCE: Final = len('"later":[],"counted_since":"",') + TIME_BYTES


@dataclass(frozen=True)
class AtLeast(ChargedTimes):
    """The lower bounds of a monitor of kind `at_times`: drawn once at the final tick, and charged separately."""

    kind = "at_least"
    name: str
    times: Schedule
    epsilon: Fraction
    horizon: int


@dataclass(frozen=True)
class AtTimes(Timed):
    """A monitor of kind `at_times`: evaluates every location at every tick of the horizon."""

    kind = "at_times"
    scope = "shard"
    name: str
    times: Schedule
    epsilon: Fraction
    threshold: int
    horizon: int
    """In microseconds."""
    at_least: Fraction | None = None
    """The ε of the lower bounds that the final tick publishes, or None."""
    answers: int = 1
    """k, the number of noisy counts that a location may have about a designated time."""

    @cached_property
    def rule(self) -> AtTimesRule:
        """The rule of each designated time."""
        return AtTimesRule(self.epsilon, self.threshold, self.answers)

    @property
    def needed(self) -> NeededFacts:
        """The people who are present at each location, and for lower bounds those who consented.

        With several answers, a count begins after the latest number of the location.
        """
        return replace(super().needed, consenting=self.at_least is not None, since_ticks=self.answers > 1)

    def list_deciding(self) -> list[object]:
        """Return what decides the answers, with the threshold, the ε of lower bounds, and k if it is not 1."""
        bounds = [] if self.at_least is None else [str(self.at_least)]
        return [*super().list_deciding(), self.threshold, *bounds, *([self.answers] if self.answers > 1 else [])]

    @property
    def charged_times(self) -> tuple[ChargedTimes, ...]:
        """The designated times, and again for lower bounds."""
        if self.at_least is None:
            return (self,)
        return self, AtLeast(self.name, self.times, self.at_least, self.horizon)

    def measure_largest(self, registry: Registry) -> int:
        """Return the maximum bytes of the largest snapshot."""
        return int(self.measure_by_shard(registry).max())

    def measure_by_shard(self, registry: Registry) -> NDArray[np.int64]:
        """Return the maximum bytes of each shard's snapshot.

        Every place has all its noisy counts, and a lower bound if there are any.
        """
        return self._measure_shards(registry, self._measure_places(registry))

    @staticmethod
    def _measure_shards(registry: Registry, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of the snapshot of each shard, given those of each location; shape (shards,)."""
        return np.array([SNAPSHOT_OVERHEAD + int(sizes[rows].sum()) for rows in registry.by_shard], np.int64)

    def find_oversized(self, key: str, registry: Registry) -> Iterator[Problem]:
        """Yield a problem if the noisy counts of one location do not fit in a snapshot."""
        largest = SNAPSHOT_OVERHEAD + int(self._measure_places(registry).max())
        if self.answers > 1 and largest > LARGEST_SNAPSHOT:
            most = self.answers - -(-(largest - LARGEST_SNAPSHOT) // self._number_bytes)
            yield Problem(
                f"{key}.answers_per_time",
                str(self.answers),
                f"snapshots of at most {LARGEST_SNAPSHOT} bytes: one repeats all noisy answers about its time, and may "
                f"take {largest} bytes for one location",
                f"Set it to {most} or less.",
            )

    def measure_with_numbers(
        self, registry: Registry, noisy: Mapping[tuple[str, int], Mapping[str, Sequence[TimeNumber]]], as_of: int
    ) -> int:
        """Return the maximum bytes of a snapshot about a live time that has numbers, which may be more than k."""
        times = (noisy.get((self.name, time)) for time in self.list_live_times(as_of))
        return max((self._measure_numbers(registry, numbers) for numbers in times if numbers), default=0)

    def _measure_numbers(self, registry: Registry, numbers: Mapping[str, Sequence[TimeNumber]]) -> int:
        """Return the maximum bytes of a snapshot with these numbers of a time, by location."""
        sizes, places = self._measure_places(registry), measure_locations(registry)
        for location, own in numbers.items():
            if max(len(own), self.answers) > 1 and (row := registry.rows.get(location)) is not None:
                rest = max(0, self.answers - len(own)) * self._number_bytes
                bounds = 0 if self.at_least is None else places[row]
                sizes[row] = places[row] + bounds + _SINCE + sum(map(self._measure_number, own)) + rest
        return int(self._measure_shards(registry, sizes).max())

    def _measure_number(self, number: TimeNumber) -> int:
        """Return the maximum bytes of a published number. One without its ε costs the whole ε of its record."""
        return _NUMBER + len(format_epsilon(number.epsilon or self.epsilon))

    @property
    def _number_bytes(self) -> int:
        """The maximum bytes of one of several noisy counts of a location, also with fewer of them."""
        return _NUMBER + len(f"{format_epsilon(self.epsilon)}/{self.answers}")  # at least as long as ε/k

    def _measure_places(self, registry: Registry) -> NDArray[np.int64]:
        """Return the maximum bytes of each location in a snapshot; shape (locations,)."""
        sizes = measure_locations(registry) * (1 if self.at_least is None else 2)
        return sizes if self.answers == 1 else sizes + _SINCE + self.answers * self._number_bytes


class AtLeastSettings(Section):
    """The lower bounds of a monitor of kind `at_times` (docs/rules.md, rule 13)."""

    epsilon: Epsilon = Field(
        description="the ε of the lower bounds of each designated time, in addition to that of the monitor"
    )


class AtTimesMonitor(TimedMonitor):
    """Algorithm 4: counts the people at each location of the registry, at each designated time."""

    charged = ("at_times", "at_least")

    kind: Literal["at_times"] = Field(description="the kind of the monitor")
    threshold: WholeNumber = Field(description="the number of people below which a location is called safe")
    answers_per_time: WholeNumber = Field(
        default=1, description="the maximum number of noisy answers of a location about each designated time"
    )
    at_least: AtLeastSettings | None = Field(
        default=None, description="a mapping with the epsilon of lower bounds, which count people who consented"
    )

    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition of the times, and if noise cannot be drawn at ε/k."""
        yield from super().find_problems(keys)
        if keys.has("epsilon", "answers_per_time") and self.epsilon / self.answers_per_time < SMALLEST:
            most = int(self.epsilon / SMALLEST)
            yield Problem(
                f"{keys.key}.answers_per_time",
                str(self.answers_per_time),
                f"an ε of at least {format_epsilon(SMALLEST)} for each answer, so that noise can be drawn",
                f"Set it to {most} or less, or raise the monitor's epsilon.",
            )

    def derive(self, registry: Registry, timing: Timing) -> AtTimes:
        """Return the parameters."""
        del registry, timing
        bounds = None if self.at_least is None else self.at_least.epsilon
        answers = self.answers_per_time
        return AtTimes(self.name, self.schedule, self.epsilon, self.threshold, self.reporting_horizon, bounds, answers)

    def charge(self, timing: Timing) -> Charge:
        """Return the most that one person may be charged within any period: ε, and that of lower bounds, per time."""
        bounds = None if self.at_least is None else self.at_least.epsilon
        return charge_at_times(self.name, self.epsilon, self.count_most_times(timing.period), bounds)
