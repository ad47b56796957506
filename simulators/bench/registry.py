"""All lines of the benchmark, in the order of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simulators.bench import cluster, fortnight, ingest, instances, noise, per_record, replays, steady, ticks
from simulators.bench.line import Line

LINES: Final[Sequence[Line]] = (
    *ingest.LINES,
    *per_record.LINES,
    *ticks.LINES,
    *replays.LINES,
    *fortnight.LINES,
    *noise.LINES,
    *steady.LINES,
    *instances.LINES,
    *cluster.LINES,
)

BY_NAME: Final = frozenset({"country"})
"""Lines that run only when they are named, because they take long."""


def find_lines(names: Sequence[str]) -> tuple[Line, ...]:
    """Return the lines with these names, in the order of the table; without names all lines but those `BY_NAME`."""
    return tuple(line for line in LINES if line.name in names or (not names and line.name not in BY_NAME))
