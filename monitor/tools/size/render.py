"""The calculation as text: the rows of `sheet.txt`, each with its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from typing import Final

from monitor.tools.size.calculate import CONSTANTS
from monitor.tools.size.load import Load

_UNITS: Final = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_LEAST_SHOWN: Final = 100
_DAY_SECONDS: Final = 86_400


class _Figure(float):
    """A number that `sheet.txt` formats by its unit: bytes, bytes per second, microseconds, days, or any other."""

    def __format__(self, unit: str) -> str:
        if unit.startswith("B"):
            return format_bytes(self) + unit.removeprefix("B")
        scale = {"µs": 1e6, "days": 1 / _DAY_SECONDS}.get(unit, 1)
        return f"{format_number(float(f'{self * scale:.12g}'))} {unit}".strip()


def render(load: Load, found: Mapping[str, float]) -> list[str]:
    """Return the lines of the text: for each row its label, value and arithmetic."""
    known = {**CONSTANTS, **asdict(load.options), **asdict(load), **found}
    figures = {key: _Figure(value) for key, value in known.items() if isinstance(value, int | float)}
    sheet = resources.files(__package__).joinpath("sheet.txt").read_text(encoding="utf-8")
    rows = [line.format_map(figures).split(" | ") for line in sheet.splitlines()]
    labels, values = (max(len(row[column]) for row in rows if len(row) > 1) for column in (0, 1))
    return [f"{row[0]:<{labels}}  {row[1]:>{values}}  = {row[2]}" if len(row) > 1 else row[0] for row in rows]


def format_number(value: float) -> str:
    """Return a number with three significant digits, or all digits of a whole number."""
    if value == int(value):
        return f"{int(value):,}"
    if value >= _LEAST_SHOWN:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def format_bytes(value: float) -> str:
    """Return a number of bytes in the largest unit that fits."""
    for name, size in _UNITS:
        if value >= size:
            return f"{format_number(float(f'{value / size:.3g}'))} {name}"
    return f"{format_number(value)} B"
