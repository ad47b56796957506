"""A monitor of kind `dwell`: its keys, and its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, Literal

from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.base.keys_and_parameters import ValidKeys
from monitor.kinds.base.monitor_of_designated_times import TimedMonitor, Total
from monitor.kinds.facts_and_questions import NeededFacts
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import SNAPSHOT_OVERHEAD
from monitor.kinds.timing import Timing
from monitor.privacy.dwell import DwellRule
from monitor.privacy.epsilon import SMALLEST, format_epsilon
from monitor.time.instants import DAY, SECOND, format_duration
from monitor.time.schedule import Schedule
from monitor.values.single_values import PositiveDuration, WholeNumber

MAX_VISIT: Final = 365 * DAY
"""The maximum of `longest_visit`. A length in seconds must fit in 32 bits."""


@dataclass(frozen=True)
class Dwell(Total):
    """A monitor of kind `dwell`: the number and mean length of all visits at a time, at the horizon's final tick."""

    kind = "dwell"
    name: str
    times: Schedule
    rule: DwellRule
    horizon: int
    epsilon: Fraction = field(init=False)

    def __post_init__(self) -> None:
        """Set the ε of each designated time, which is that of the rule."""
        object.__setattr__(self, "epsilon", self.rule.epsilon)

    @property
    def needed(self) -> NeededFacts:
        """The people who are present at each location, and the lengths of their visits."""
        return replace(super().needed, longest=self.rule.longest)

    def list_deciding(self) -> list[object]:
        """Return what decides the answers, with the longest length and the visits per person."""
        return [*super().list_deciding(), self.rule.longest, self.rule.per_person]

    def measure_largest(self, registry: Registry) -> int:
        """Return the maximum bytes of a record. It names no location."""
        del registry
        return SNAPSHOT_OVERHEAD


class DwellMonitor(TimedMonitor):
    """The number of visits at each designated time and their mean length, once, at the end of the reporting horizon."""

    charged = ("dwell",)
    reads_lengths = True

    kind: Literal["dwell"] = Field(description="the kind of the monitor")
    longest_visit: PositiveDuration = Field(
        description="the longest length that counts, a duration of whole seconds such as 2h"
    )
    visits_per_person: WholeNumber = Field(
        default=1, description="the maximum number of visits of one person that count"
    )

    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition of the times, the longest length, and the ε of a second of it."""
        yield from super().find_problems(keys)
        if keys.has("epsilon", "longest_visit", "visits_per_person"):
            yield from self._check_lengths(keys.key)

    def _check_lengths(self, key: str) -> Iterator[Problem]:
        if self.longest_visit % SECOND or self.longest_visit > MAX_VISIT:
            yield Problem(
                f"{key}.longest_visit",
                format_duration(self.longest_visit),
                f"whole seconds, at most {format_duration(MAX_VISIT)}",
                "Use seconds, minutes or hours.",
            )
            return
        parts = 2 * self.visits_per_person * (self.longest_visit // SECOND)
        if self.epsilon / parts < SMALLEST:
            yield Problem(
                f"{key}.epsilon",
                format_epsilon(self.epsilon),
                f"at least {format_epsilon(SMALLEST)} for each of 2·visits_per_person·longest_visit = {parts} seconds, "
                "so that noise can be drawn",
                "Raise it, or lower longest_visit or visits_per_person.",
            )

    def derive(self, registry: Registry, timing: Timing) -> Dwell:
        """Return the parameters."""
        del registry, timing
        rule = DwellRule(self.epsilon, self.longest_visit // SECOND, self.visits_per_person)
        return Dwell(self.name, self.schedule, rule, self.reporting_horizon)
