"""The parts of a benchmark: a line with its targets, and its result with the verdict.

To add a line, list a `Line` in `simulators.bench.report`. A line names its figures with their unit, such as
"even (visits/s)", and its targets refer to these names. So the verdict is computed only from the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simulators.bench.bench import Bench


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on one figure: `figure` is at least `least` and at most `most`, if given."""

    figure: str
    least: float | None = None
    most: float | None = None

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
class Line:
    """One line: its name on the command line, what it measures, its goal in words and in numbers.

    `measure` returns the figures by name. With `bench.quick` it takes less than 20 seconds.
    """

    name: str
    work: str
    goal: str
    targets: tuple[Target, ...]
    measure: Callable[[Bench], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of a line after its run. `error` is the message if it could not be measured."""

    figures: Mapping[str, float]
    seconds: float
    error: str = ""

    def list_missed(self, line: Line) -> list[str]:
        """Return the targets that are not met. A target without a figure is not one of them."""
        figures = self.figures
        known = (target for target in line.targets if target.figure in figures)
        return [str(target) for target in known if not target.is_met(figures[target.figure])]

    def judge(self, line: Line) -> str:
        """Return the verdict: "met", "missed", "incomplete" if a figure is missing, or "failed"."""
        if self.error:
            return "failed"
        if self.list_missed(line):
            return "missed"
        return "met" if all(target.figure in self.figures for target in line.targets) else "incomplete"
