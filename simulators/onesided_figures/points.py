"""The points of the library's figures, and their CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final


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


COLUMNS: Final = tuple(field.name for field in fields(LibraryPoint))


def write_points(path: Path, points: Iterable[LibraryPoint]) -> None:
    """Write points as CSV with the columns of `LibraryPoint`. A missing standard error is empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_format(cell) for cell in astuple(point)] for point in points)


def _format(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return "" if cell is None else str(cell)
