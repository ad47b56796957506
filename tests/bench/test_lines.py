"""Every line of the benchmark runs at its small scale, on real servers, and measures its figures."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from simulators.bench.bench import Bench
from simulators.bench.line import Line
from simulators.bench.report import LINES
from simulators.bench.run_bench import run_line

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """The environment of all lines, with one Kafka."""
    with Bench(quick=True, report=print) as bench:
        yield bench


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_line_measures_figures(line: Line, bench: Bench) -> None:
    """A line measures finite figures. Some targets are about sizes that only the full scale has."""
    result = run_line(line, bench)
    assert result.error == ""
    assert result.figures
    assert all(math.isfinite(value) for value in result.figures.values())
