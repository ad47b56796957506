"""The points of the library's figures."""

from __future__ import annotations

from dataclasses import dataclass


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
