"""The points of figures: of the papers' experiments, with the paper's value and ours, and of the library.

The paper's values were read off its figures into `paper.csv` in this folder. The column `error` is the uncertainty of
a value. For accuracy it is 0.003, or 0.01 where the line is steep (a neighbouring value differs by more than 0.1). For
the mean squared error it is 4 % (20 % at k = 10 and 50), or half of the last digit if that is more. For locations by
visitors it is 10. For false-negative ratios it is the reading error (0.0001 in Figure 6, 0.003 in Figure 7) plus the
paper's sampling error, which is binomial over 5,835 locations and 20 runs in Figure 6, one run in Figure 7.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeVar, get_args

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


TOP_K_EPSILONS: Final = (0.1, 0.3, 0.5, 0.7, 1.0)
TOP_K: Final = 100
"""The k of the panels in which ε varies."""

TOP_K_EPSILON: Final = 0.5
"""The ε of the panels in which k varies."""

NOISY_MAX_KS: Final = (10, 50, 200, 500)
SPARSE_VECTOR_KS: Final = (10, 50, 100, 200, 500)

EPSILONS: Final = (0.5, 1.0, 2.0)
THRESHOLDS: Final = (2, 5, 10, 20)
THRESHOLD: Final = 10
UPDATES: Final = 5
BATCH: Final = 500
LOCATIONS: Final = 5_835
VISITORS: Final = range(11)
"""The readable bars of Figure 1."""


def find_paper_value(setting: Setting, dataset: str) -> Paper | None:
    """Return the paper's value at a setting for one of the paper's datasets, or None if there is none."""
    return _read_values().get(replace(setting, dataset=dataset))


@cache
def _read_values() -> Mapping[Setting, Paper]:
    text = files(__package__).joinpath("paper.csv").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            _parse_setting(row): Paper(float(row["paper"]), float(row["error"]))
            for row in csv.DictReader(text.splitlines())
        }
    )


def _parse_setting(row: Mapping[str, str]) -> Setting:
    figures: dict[str, Figure] = {name: name for name in get_args(Figure)}
    return Setting(
        figures[row["figure"]],
        row["dataset"],
        row["measure"],
        row["algorithm"],
        float(row["epsilon"]) if row["epsilon"] else None,
        _parse_whole(row["k"]),
        _parse_whole(row["threshold"]),
        _parse_whole(row["update"]),
        row["panel"],
    )


def _parse_whole(text: str) -> int | None:
    return int(text) if text else None
