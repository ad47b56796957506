"""The paper's values, which were read off its figures into `paper.csv` in this folder.

The column `error` is the uncertainty of a value. For accuracy it is 0.003, or 0.01 where the line is steep (a
neighbouring value differs by more than 0.1). For the mean squared error it is 4 % (20 % at k = 10 and 50), or half of
the last digit if that is more. For locations by visitors it is 10. For false-negative ratios it is the reading error
(0.0001 in Figure 6, 0.003 in Figure 7) plus the paper's sampling error, which is binomial over 5,835 locations and 20
runs in Figure 6, one run in Figure 7.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, get_args

from simulators.experiments.points import Figure, Paper, Setting

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
