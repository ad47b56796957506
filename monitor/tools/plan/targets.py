"""The targets of a plan, and the values that the user fixes. All are integers or fractions, so they are exact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from monitor.contracts.instants import format_duration
from monitor.privacy.epsilon import format_epsilon


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """On average, an empty location that answers has at most one false alarm per `every` (microseconds)."""

    every: int

    def __str__(self) -> str:
        """Format it as on the command line."""
        return f"--false-alarm-every {format_duration(self.every)}"


@dataclass(frozen=True, slots=True)
class Alarm:
    """With `people` at a location that answers, an update is an alarm with at least `chance` (0 < chance ≤ 1)."""

    people: int
    chance: Fraction

    def __str__(self) -> str:
        """Format it as on the command line."""
        return f"--alarm-at {self.people} --with {self.chance}"


@dataclass(frozen=True, slots=True)
class Pays:
    """One person pays at most `epsilon` within any `period` (microseconds)."""

    epsilon: Fraction
    period: int

    def __str__(self) -> str:
        """Format it as on the command line."""
        return f"--pays-at-most {format_epsilon(self.epsilon)} --in {format_duration(self.period)}"


@dataclass(frozen=True, slots=True)
class FixedThreshold:
    """The user fixes T."""

    threshold: int

    def __str__(self) -> str:
        """Format it as on the command line."""
        return f"--threshold {self.threshold}"


@dataclass(frozen=True, slots=True)
class FixedEpsilon:
    """The user fixes the monitor's ε. For `at_times`, it is the ε of each designated time."""

    epsilon: Fraction

    def __str__(self) -> str:
        """Format it as on the command line."""
        return f"--epsilon {format_epsilon(self.epsilon)}"


Target = FalseAlarms | Alarm | Pays | FixedThreshold | FixedEpsilon


@dataclass(frozen=True, slots=True)
class Targets:
    """All targets; None for those not given."""

    false_alarms: FalseAlarms | None = None
    alarm: Alarm | None = None
    threshold: FixedThreshold | None = None
    epsilon: FixedEpsilon | None = None
    pays: Pays | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the given targets, in a fixed order."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is not None)

    def only(self, names: Iterable[str]) -> Targets:
        """Return only the targets with these names."""
        kept = set(names)
        return replace(self, **{name: None for name in self.given if name not in kept})

    def without(self, name: str) -> Targets:
        """Return all targets except this one."""
        return self.only(other for other in self.given if other != name)

    @property
    def decides_threshold(self) -> bool:
        """Whether the targets bound T: it is fixed, or false alarms bound it from below, or an alarm from above."""
        return bool(self.threshold or self.false_alarms or self.alarm)

    @property
    def decides_epsilon(self) -> bool:
        """Whether the targets bound ε: it is fixed, or payments bound it from above, or false alarms from below.

        False alarms bound ε only if T is fixed or bounded from above.
        """
        return bool(self.epsilon or self.pays or (self.false_alarms and (self.alarm or self.threshold)))
