"""The command `python -m simulators bench`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from monitor.errors import FailedError, UsageError
from simulators.bench.bench import Bench
from simulators.bench.line import Result, Verdict
from simulators.bench.registry import LINES, find_lines
from simulators.bench.report import COMMAND, Report, from_json, make_table, merge_reports, summarize, to_json
from simulators.bench.runner import describe_machine, run_lines
from simulators.pages import replace_part


@dataclass(frozen=True, slots=True)
class Options:
    """The lines to run (empty: all), and the outputs: the JSON file, and a page."""

    names: tuple[str, ...]
    quick: bool
    long: bool
    peers_python: Path
    out: Path | None
    document: Path | None


def list_lines(console: Console) -> None:
    """Print the name, the work and the goal of each line."""
    for line in LINES:
        console.print(f"{line.name}: {line.work}. Goal: {line.goal}", highlight=False, soft_wrap=True)


def run_bench(options: Options, console: Console) -> None:
    """Run the lines, print goal, figures and verdict of each, and write the requested files.

    With `out`, a line that did not run keeps the result that the file contains.

    Raises:
        UsageError: a name is unknown.
        FailedError: a line failed, or missed its goal. Everything has been written.
    """
    _check_names(options.names)
    results: list[Result] = []
    report = Report(describe_machine(), options.quick, ())
    with Bench(quick=options.quick, long=options.long, peers=options.peers_python, report=console.print) as bench:
        for result in run_lines(find_lines(options.names), bench):
            results.append(result)
            for text in summarize(result):
                console.print(text, highlight=False, markup=False, soft_wrap=True)
            report = _save(options.out, Report(report.machine, options.quick, tuple(results)))
    _write(options, report, console)
    unmet = [result.name for result in results if result.verdict in {Verdict.MISSED, Verdict.FAILED}]
    if unmet:
        raise FailedError(f"{len(unmet)} of {len(results)} lines missed their goal or failed: {', '.join(unmet)}")


def _save(out: Path | None, report: Report) -> Report:
    """Write the report to the file, which keeps the other lines, and return what the file contains."""
    if out is None:
        return report
    if out.exists():
        report = merge_reports(from_json(out.read_text(encoding="utf-8")), report)
    out.write_text(to_json(report), encoding="utf-8")
    return report


def _check_names(names: tuple[str, ...]) -> None:
    known = [line.name for line in LINES]
    for name in names:
        if name not in known:
            raise UsageError(f"bench {name}: expected one of {', '.join(known)}; bench --list describes them")


def _write(options: Options, report: Report, console: Console) -> None:
    if options.out is not None:
        console.print(f"figures in {options.out}", highlight=False)
    if options.document is not None:
        replace_part(options.document, COMMAND, make_table(report))
        console.print(f"table in {options.document}", highlight=False)
