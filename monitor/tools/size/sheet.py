"""A calculation as rows, each with its arithmetic, so that a reader can check every number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_UNITS: Final = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_LEAST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Row:
    """One number: `key` for programs, `label`, the arithmetic, and the value with its unit."""

    key: str
    label: str
    arithmetic: str
    value: float
    unit: str

    @property
    def shown(self) -> str:
        """The value as text, with its unit."""
        if self.unit.startswith("B"):
            return format_bytes(self.value) + self.unit.removeprefix("B")
        return f"{format_number(self.value)} {self.unit}".strip()


@dataclass(slots=True)
class Sheet:
    """Rows under headings."""

    sections: dict[str, list[Row]] = field(default_factory=dict)
    _rows: list[Row] = field(default_factory=list)

    def begin(self, heading: str) -> None:
        """Begin a section, or continue the one with this heading."""
        self._rows = self.sections.setdefault(heading, [])

    def add(self, key: str, label: str, arithmetic: str, value: float, unit: str = "") -> float:
        """Add a row, and return its value."""
        self._rows.append(Row(key, label, arithmetic, value, unit))
        return value

    def list_rows(self) -> Iterator[Row]:
        """Yield the rows of all sections."""
        for rows in self.sections.values():
            yield from rows

    def to_text(self) -> Iterator[str]:
        """Yield the lines of a text: for each row its label, value and arithmetic."""
        labels = max(len(row.label) for row in self.list_rows())
        values = max(len(row.shown) for row in self.list_rows())
        for heading, rows in self.sections.items():
            yield heading
            for row in rows:
                yield f"  {row.label:<{labels}}  {row.shown:>{values}}  = {row.arithmetic}".rstrip()


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
