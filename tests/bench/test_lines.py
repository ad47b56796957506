"""Every line of the benchmark runs at its small scale, on real servers, and measures what its targets name."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulators.bench.bench import Bench
from simulators.bench.instances import WRONG
from simulators.bench.line import Line
from simulators.bench.registry import LINES
from simulators.bench.runner import run_line


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """The surroundings of all lines, with one Kafka. The peers are missing, unless they are installed here."""
    with Bench(quick=True, peers=Path(sys.executable), report=print) as bench:
        yield bench


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_line_measures_its_targets(line: Line, bench: Bench) -> None:
    """A line measures a figure that its targets name, or names the peer that it skipped.

    Some targets are about sizes that only the full scale has.
    """
    result = run_line(line, bench)
    assert result.error == ""
    figures = result.measured.figures
    assert result.measured.skipped or {target.figure for target in line.targets} & figures.keys()
    assert figures
    assert all(math.isfinite(value) for value in figures.values())
    assert figures.get(WRONG, 0) == 0
