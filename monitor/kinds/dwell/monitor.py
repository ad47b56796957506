"""The parameters of a monitor of kind `dwell`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from monitor.kinds.base.designated_times.monitor import Total
from monitor.kinds.facts import NeededFacts
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import SNAPSHOT_OVERHEAD
from monitor.privacy.dwell import DwellRule
from monitor.time.schedule import Schedule


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
