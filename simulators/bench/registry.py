"""All lines of the benchmark, in the order of the table."""

from __future__ import annotations

from typing import Final

from simulators.bench import fortnight, ingest, replays, ticks
from simulators.bench.line import Line

LINES: Final[tuple[Line, ...]] = (*ingest.LINES, *ticks.LINES, replays.LINE, fortnight.LINE)
