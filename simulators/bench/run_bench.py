"""The command `python -m simulators bench`: run lines one after the other, and judge each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from monitor.errors import FailedError, MonitorError, UsageError
from simulators.bench.bench import Bench
from simulators.bench.line import Line, Result
from simulators.bench.report import COMMAND, LINES, Report, describe_machine, summarize
from simulators.write_results import replace_part


def list_lines(console: Console) -> None:
    """Print the name, the work and the goal of each line."""
    for line in LINES:
        console.print(f"{line.name}: {line.work}. Goal: {line.goal}", highlight=False, soft_wrap=True)


def run_bench(names: Sequence[str], out: Path | None, document: Path | None, console: Console, *, quick: bool) -> None:
    """Run the lines with these names (none: all), and print goal, figures and verdict of each.

    `out` is written after each line, and keeps the results of the lines that do not run. `document` is a page with the
    table.

    Raises:
        UsageError: a name is unknown.
        FailedError: a line failed, or missed its goal. Everything has been written.
    """
    known = [line.name for line in LINES]
    for name in names:
        if name not in known:
            raise UsageError(f"bench {name}: expected one of {', '.join(known)}; bench --list describes them")
    lines = [line for line in LINES if not names or line.name in names]
    results: dict[str, Result] = {}
    if out is not None and out.exists():
        results.update(Report.from_json(out.read_text(encoding="utf-8")).results)
    report = Report(describe_machine(), quick, results)
    with Bench(quick=quick, report=console.print) as bench:
        for line in lines:
            console.print(f"{line.name}: {line.work}")
            results[line.name] = run_line(line, bench)
            for text in summarize(line, results[line.name]):
                console.print(text, highlight=False, markup=False, soft_wrap=True)
            if out is not None:
                out.write_text(report.to_json(), encoding="utf-8")
    if document is not None:
        replace_part(document, COMMAND, report.make_table())
    unmet = [line.name for line in lines if results[line.name].judge(line) in {"missed", "failed"}]
    if unmet:
        raise FailedError(f"{len(unmet)} of {len(lines)} lines missed their goal or failed: {', '.join(unmet)}")


def run_line(line: Line, bench: Bench) -> Result:
    """Run one line. An error becomes the verdict "failed" with its message, and does not stop the other lines."""
    began = time.monotonic()
    try:
        figures = line.measure(bench)
    except (MonitorError, OSError, TimeoutError) as problem:
        return Result({}, time.monotonic() - began, f"{type(problem).__name__}: {problem}")
    return Result(figures, time.monotonic() - began)
