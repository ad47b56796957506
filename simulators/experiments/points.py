"""The points of figures: of the papers' experiments, with the paper's value and ours, and of the library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal, TypeVar

import numpy as np

from simulators.continuous_noise import Floats
from simulators.write_results import write_csv

_T = TypeVar("_T")

Figure = Literal["figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "figure7"]

ACCURACY: Final = "accuracy"
SQUARED_ERROR: Final = "mean squared error"
FALSE_NEGATIVES: Final = "false-negative ratio"


@dataclass(frozen=True, slots=True)
class Paper:
    """A value of the paper and its error: the reading error, and the sampling error of the paper's few runs."""

    value: float
    error: float

    @property
    def is_readable(self) -> bool:
        """Whether the value is above its error. A smaller one only says that the truth is small."""
        return self.value > self.error


@dataclass(frozen=True, slots=True)
class Setting:
    """The coordinates of a point. `panel` names the panel, because two panels of a figure may show the same setting."""

    figure: Figure
    dataset: str
    measure: str
    algorithm: str = ""
    epsilon: float | None = None
    k: int | None = None
    threshold: int | None = None
    update: int | None = None
    panel: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A point: the paper's value (None if not in the paper), ours, and our standard error (None if not sampled)."""

    setting: Setting
    variant: str
    paper: Paper | None
    ours: float
    standard_error: float | None = None

    @property
    def deviation(self) -> float | None:
        """Our value minus the paper's, in units of the combined error (the root of the sum of squares).

        It is None if the paper has no value there, or none that is above its error.
        """
        if self.paper is None or not self.paper.is_readable:
            return None
        return (self.ours - self.paper.value) / math.hypot(self.paper.error, self.standard_error or 0.0)


@dataclass(frozen=True, slots=True)
class LibraryPoint:
    """A point: the figure, its panel, the line in it, the coordinate (a number or a name), and the value.

    `standard_error` is None if the value is exact.
    """

    figure: str
    panel: str
    series: str
    x: float | str
    value: float
    standard_error: float | None = None


def compute_mean_and_error(values: Floats) -> tuple[float, float | None]:
    """Return the mean of independent runs and its standard error. Runs without a value (NaN) are ignored.

    Without values the mean is NaN. With fewer than two values the error is None.
    """
    found = values[~np.isnan(values)]
    if found.size == 0:
        return math.nan, None
    error = float(found.std(ddof=1) / math.sqrt(found.size)) if found.size > 1 else None
    return float(found.mean()), error


def write_points(path: Path, points: Iterable[Point]) -> None:
    """Write points as CSV. A field that does not apply is empty."""
    coordinates = [field.name for field in fields(Setting) if field.name != "panel"]
    rows = (
        (
            *(getattr(point.setting, name) for name in coordinates),
            point.variant,
            None if point.paper is None else point.paper.value,
            point.ours,
            point.standard_error,
            point.deviation,
        )
        for point in points
    )
    write_csv(path, (*coordinates, "variant", "paper", "ours", "standard_error", "deviation"), rows)


def distinct_values(values: Sequence[_T]) -> list[_T]:
    """Return each value once, in the order of first occurrence."""
    return list(dict.fromkeys(values))
