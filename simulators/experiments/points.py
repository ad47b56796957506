"""Points of figures: what the paper shows, what was found here, and how far apart they are."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final, Literal, TypeVar

import numpy as np

from simulators.continuous_noise import Floats

_T = TypeVar("_T")

Figure = Literal["figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "figure7"]

ACCURACY: Final = "accuracy"
SQUARED_ERROR: Final = "mean squared error"
FALSE_NEGATIVES: Final = "false-negative ratio"


@dataclass(frozen=True, slots=True)
class Paper:
    """A value of the paper and the error with which it is known (read-off, and the paper's own few runs)."""

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a point lies. `panel` names the axis; it tells apart what one figure shows at one setting twice."""

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
    """One point: the paper's value where it has one, ours, and our standard error where ours was sampled."""

    setting: Setting
    variant: str
    paper: Paper | None
    ours: float
    standard_error: float | None = None

    @property
    def deviation(self) -> float | None:
        """Ours minus the paper's, in units of both errors together (root of the sum of squares)."""
        if self.paper is None:
            return None
        return (self.ours - self.paper.value) / math.hypot(self.paper.error, self.standard_error or 0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the CSV file; its fields are the columns."""

    figure: str
    dataset: str
    measure: str
    algorithm: str
    epsilon: str
    k: str
    threshold: str
    update: str
    variant: str
    paper: str
    ours: str
    standard_error: str


COLUMNS: Final = tuple(field.name for field in fields(Row))


def mean_and_error(values: Floats) -> tuple[float, float | None]:
    """The mean of independent runs and its standard error, leaving out runs that gave nothing (NaN).

    NaN without any run that gave something; no error with fewer than two.
    """
    found = values[~np.isnan(values)]
    if found.size == 0:
        return math.nan, None
    error = float(found.std(ddof=1) / math.sqrt(found.size)) if found.size > 1 else None
    return float(found.mean()), error


def write_points(path: Path, points: Iterable[Point]) -> None:
    """Write points as CSV with the columns of `Row`, empty where one does not apply."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(astuple(_row(point)) for point in points)


def _row(point: Point) -> Row:
    setting = point.setting
    return Row(
        setting.figure,
        setting.dataset,
        setting.measure,
        setting.algorithm,
        _shown(setting.epsilon),
        _shown(setting.k),
        _shown(setting.threshold),
        _shown(setting.update),
        point.variant,
        _shown(None if point.paper is None else point.paper.value),
        _shown(point.ours),
        _shown(point.standard_error),
    )


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def ordered(values: Sequence[_T]) -> list[_T]:
    """Each value once, in the order in which they came."""
    return list(dict.fromkeys(values))
