"""Verdicts follow from figures alone, and each line of the benchmark measures its figures at its small scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from monitor.errors import FailedError, UsageError
from simulators.bench.bench import Bench, Line, Result, Target
from simulators.bench.run_bench import LINES, Report, run_bench, run_line

MEASURED = Path(__file__).parents[2] / "simulators" / "bench" / "measured.json"


def make_line(*targets: Target) -> Line:
    """Return a line with these targets, whose server does not start."""

    def fail(bench: Bench) -> dict[str, float]:
        raise FailedError(f"no server at {'quick' if bench.quick else 'full'} scale")

    return Line("reading", "reading visits", "≥ 100 visits/s", targets, fail)


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (Target("rate", least=100), 100, "met"),
        (Target("rate", least=100), 99.9, "missed"),
        (Target("rate", most=100), 100, "met"),
        (Target("rate", most=100), 100.1, "missed"),
        (Target("rate", least=1, most=2), 3, "missed"),
        (Target("rate", least=100), math.nan, "missed"),
    ],
)
def test_verdict_follows_figures(target: Target, value: float, verdict: str) -> None:
    """A line is met if each figure is within its limits, and missed otherwise."""
    assert Result({"rate": value}, 1.0).judge(make_line(target)) == verdict


def test_missing_figure_is_incomplete() -> None:
    """A target without a figure is never met: the verdict is "incomplete", or "missed" if another target is."""
    line = make_line(Target("rate", least=100), Target("ratio", least=2))
    assert Result({"rate": 200}, 1.0).judge(line) == "incomplete"
    assert Result({"rate": 20}, 1.0).judge(line) == "missed"


def test_error_is_a_verdict() -> None:
    """A line that raises an error has the verdict "failed" with the message, even without targets."""
    with Bench(quick=True, report=print) as bench:
        result = run_line(make_line(), bench)
    assert (result.judge(make_line()), result.error) == ("failed", "FailedError: no server at quick scale")


def test_unknown_line_is_refused() -> None:
    """A name that no line has is refused with the known names."""
    with pytest.raises(UsageError, match="ingest-even, ingest-zipf"):
        run_bench(["fast"], None, None, Console(), quick=True)


def test_file_is_complete() -> None:
    """The JSON file in the repository contains results of known lines, and reading it gives the same report."""
    text = MEASURED.read_text(encoding="utf-8")
    report = Report.from_json(text)
    assert report.to_json() == text
    assert report.results.keys() <= {line.name for line in LINES}


def test_table_names_missed_targets() -> None:
    """The table has a row for each line with a result, and names each target that was missed."""
    line = LINES[0]
    report = Report("2 processors.", False, {line.name: Result({line.targets[0].figure: 20.0}, 2.0)})
    assert f"**missed**: {line.targets[0]}" in report.make_table().splitlines()[-1]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """The environment of all lines, with one Kafka."""
    with Bench(quick=True, report=print) as bench:
        yield bench


@pytest.mark.servers
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_line_measures_figures(line: Line, bench: Bench) -> None:
    """A line measures finite figures. Some targets are about sizes that only the full scale has."""
    result = run_line(line, bench)
    assert result.error == ""
    assert result.figures
    assert all(math.isfinite(value) for value in result.figures.values())
