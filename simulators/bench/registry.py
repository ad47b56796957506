"""All lines of the benchmark, in the order of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simulators.bench import noise
from simulators.bench.line import Line

LINES: Final[Sequence[Line]] = (*noise.LINES,)


def find_lines(names: Sequence[str]) -> tuple[Line, ...]:
    """Return the lines with these names, in the order of the table; all lines if no name is given."""
    return tuple(line for line in LINES if not names or line.name in names)
