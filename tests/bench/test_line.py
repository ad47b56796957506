"""Verdicts follow from figures alone, and the files of the benchmark contain what was measured."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from monitor.errors import FailedError
from simulators.bench.bench import Bench, MissingPeerError
from simulators.bench.line import Measured, Result, Target, Verdict
from simulators.bench.registry import LINES, find_lines
from simulators.bench.report import Report, from_json, make_table, merge_reports, to_json
from simulators.bench.runner import Machine, run_line

MACHINE = Machine(2, 8.0, "3.11.0", "Linux x86_64")


def result(targets: tuple[Target, ...], figures: dict[str, float], name: str = "reading", error: str = "") -> Result:
    """Return a result with these targets and figures."""
    return Result(name, "reading visits", "≥ 100 visits/s", targets, Measured(figures, ("peer",)), 2.0, error)


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (Target("rate", least=100), 100, Verdict.MET),
        (Target("rate", least=100), 99.9, Verdict.MISSED),
        (Target("rate", most=100), 100, Verdict.MET),
        (Target("rate", most=100), 100.1, Verdict.MISSED),
        (Target("rate", least=1, most=2), 3, Verdict.MISSED),
        (Target("rate", least=100), math.nan, Verdict.MISSED),
    ],
)
def test_verdict_follows_figures(target: Target, value: float, verdict: Verdict) -> None:
    """A line is met if each figure is within its limits, and missed otherwise."""
    assert result((target,), {"rate": value}).verdict is verdict


def test_missing_figure_is_incomplete() -> None:
    """A target without a figure is never met: the verdict is "incomplete", or "missed" if another target is."""
    targets = (Target("rate", least=100), Target("ratio", least=2))
    assert result(targets, {"rate": 200}).verdict is Verdict.INCOMPLETE
    assert result(targets, {"rate": 20}).verdict is Verdict.MISSED


@dataclass(frozen=True)
class BrokenLine:
    """A line whose server does not start."""

    name: str = "broken"
    work: str = "nothing"
    goal: str = "none"
    targets: tuple[Target, ...] = field(default=())

    def measure(self, bench: Bench) -> Measured:
        raise FailedError(f"no server at {'quick' if bench.quick else 'full'} scale")


def test_error_is_a_verdict(tmp_path: Path) -> None:
    """A line that raises an error has the verdict "failed" with the message, even without targets."""
    with Bench(quick=True, peers=tmp_path, report=print) as bench:
        failed = run_line(BrokenLine(), bench)
    assert (failed.verdict, failed.error) == (Verdict.FAILED, "FailedError: no server at quick scale")


def test_missing_peer_is_named(tmp_path: Path) -> None:
    """A peer that is not installed raises an error that names the missing package and the remedy."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'opendp'\" >&2\nexit 1\n")
    python.chmod(0o700)
    with (
        Bench(quick=True, peers=python, report=print) as bench,
        pytest.raises(MissingPeerError, match=r"No module named 'opendp'.*--peers-python"),
    ):
        bench.run_peer("opendp_noise", samples=1)


def test_json_is_complete() -> None:
    """The JSON file contains the whole report: reading it gives the same report."""
    report = Report(MACHINE, False, (result((Target("rate", least=100),), {"rate": 200.0}),))
    assert from_json(to_json(report)) == report


def test_json_verdict_is_recomputed() -> None:
    """A verdict in the file is ignored, and computed again from the figures."""
    report = Report(MACHINE, False, (result((Target("rate", least=100),), {"rate": 20.0}),))
    document = json.loads(to_json(report))
    document["lines"][0]["verdict"] = "met"
    assert from_json(json.dumps(document)).results[0].verdict is Verdict.MISSED


def test_single_line_keeps_the_others() -> None:
    """After a run of one line, the file has its new result and the earlier results of the other lines."""
    first, second = result((), {"rate": 1.0}), result((), {"rate": 2.0}, "writing")
    again = replace(first, measured=Measured({"rate": 3.0}))
    merged = merge_reports(Report(MACHINE, False, (first, second)), Report(MACHINE, False, (again,)))
    assert merged.results == (again, second)


def test_table_names_missed_targets() -> None:
    """The table has a row for each line, with its figures, and names each target that was missed."""
    table = make_table(Report(MACHINE, False, (result((Target("rate", least=100),), {"rate": 20.0}),)))
    assert table.splitlines()[-1] == (
        "| `reading` | reading visits | ≥ 100 visits/s | rate: 20<br>peer | **missed**: rate ≥ 100 |"
    )


def test_lines_have_distinct_names() -> None:
    """Each line can be run alone by its name."""
    names = [line.name for line in LINES]
    assert len(set(names)) == len(names)
    assert [line.name for name in names for line in find_lines([name])] == names


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_every_line_can_fail(line: object) -> None:
    """Every line has a target, and figures on the wrong side of its limits give the verdict "missed"."""
    targets = next(known.targets for known in LINES if known is line)
    assert targets
    for target in targets:
        wrong = target.least - 1e-9 - abs(target.least) / 10 if target.least is not None else None
        value = wrong if wrong is not None else 2 * (target.most or 0) + 1
        assert result(tuple(targets), {target.figure: value}).verdict is Verdict.MISSED
