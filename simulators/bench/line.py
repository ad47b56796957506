"""The parts of a benchmark line: what it measures, its targets, and the verdict.

To add a line, write a class with the members of `Line` and list an instance in `simulators.bench.registry`. A line
names its figures with their unit, such as "even (visits/s)", and its targets refer to these names. So the verdict is
computed only from the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from simulators.bench.bench import Bench


class Verdict(Enum):
    """The result of a line. `INCOMPLETE`: no target is missed, but a figure is missing, because a peer was skipped."""

    MET = "met"
    MISSED = "missed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on one figure: `figure` is at least `least` and at most `most`, if given.

    `absolute` marks a figure that depends on the machine. Such a target is for two cores. The other targets are ratios
    within one run, and apply to any machine.
    """

    figure: str
    least: float | None = None
    most: float | None = None
    absolute: bool = False

    def is_met(self, value: float) -> bool:
        """Return whether a value is within the limits. NaN is not."""
        above = self.least is None or value >= self.least
        below = self.most is None or value <= self.most
        return value == value and above and below  # noqa: PLR0124  # NaN differs from itself

    def __str__(self) -> str:
        """Return the figure with its limits."""
        least = "" if self.least is None else f" ≥ {self.least:,g}"
        most = "" if self.most is None else f" ≤ {self.most:,g}"
        return f"{self.figure}{least}{most}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a line: its figures by name, and the skipped parts with their reasons."""

    figures: Mapping[str, float]
    skipped: Sequence[str] = ()


class Line(Protocol):
    """One line of the benchmark.

    `name` is the word for the command line. `work` describes what is measured, and `goal` the goal, in words.
    """

    @property
    def name(self) -> str:
        """The word for the command line."""

    @property
    def work(self) -> str:
        """The work that is measured."""

    @property
    def goal(self) -> str:
        """The goal in words."""

    @property
    def targets(self) -> Sequence[Target]:
        """The goal in numbers."""

    def measure(self, bench: Bench) -> Measured:
        """Measure the work, and its peer or floor. With `bench.quick` this takes less than 20 seconds."""


@dataclass(frozen=True, slots=True)
class Result:
    """A line after its run. `error` is the message if it could not be measured."""

    name: str
    work: str
    goal: str
    targets: Sequence[Target]
    measured: Measured
    seconds: float
    error: str = ""
    missed: tuple[str, ...] = field(init=False)
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        """Compute the verdict from the figures."""
        figures = self.measured.figures
        known = [target for target in self.targets if target.figure in figures]
        missed = tuple(str(target) for target in known if not target.is_met(figures[target.figure]))
        object.__setattr__(self, "missed", missed)
        object.__setattr__(self, "verdict", self._verdict(len(known)))

    def _verdict(self, known: int) -> Verdict:
        if self.error:
            return Verdict.FAILED
        if self.missed:
            return Verdict.MISSED
        return Verdict.MET if known == len(self.targets) else Verdict.INCOMPLETE
