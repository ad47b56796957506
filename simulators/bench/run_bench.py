"""The command `python -m simulators bench`: run lines one after the other, judge each, and write the results."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from monitor.errors import FailedError, MonitorError, UsageError
from simulators.bench import fortnight, ingest, replays, ticks
from simulators.bench.bench import Bench, Line, Result, find_jemalloc
from simulators.write_results import replace_part

LINES: Final[tuple[Line, ...]] = (*ingest.LINES, *ticks.LINES, replays.LINE, fortnight.LINE)
"""All lines of the benchmark, in the order of the table."""

COMMAND: Final = "python -m simulators bench"
_THOUSAND: Final = 1_000


def describe_machine() -> str:
    """Return the properties of this machine on which the figures depend."""
    gibibytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    allocator = "the C library's allocator" if find_jemalloc() is None else "jemalloc"
    return f"{os.cpu_count()} processors with {gibibytes:.0f} GiB ({system}). Valkey uses {allocator}."


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a run by the name of their line, and the machine."""

    machine: str
    quick: bool
    results: Mapping[str, Result]

    def to_json(self) -> str:
        """Return the report as JSON, from which `from_json` makes the same report."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report in a JSON document."""
        document = json.loads(text)
        results = {name: Result(**result) for name, result in document["results"].items()}
        return cls(document["machine"], document["quick"], results)

    def make_table(self) -> str:
        """Return the Markdown table of all lines that have a result."""
        scale = " at the small scale of `--quick`, which tests the commands only," if self.quick else ""
        text = f"Measured{scale} on {self.machine} Servers and clients share the processors."
        head = "| line | work | goal | measured | verdict |\n|---|---|---|---|---|"
        rows = (_make_row(line, self.results[line.name]) for line in LINES if line.name in self.results)
        return "\n".join((text, "", head, *rows))


def _make_row(line: Line, result: Result) -> str:
    figures = "; ".join(f"{name}: {format_value(value)}" for name, value in result.figures.items())
    verdict = result.judge(line)
    if verdict == "missed":
        verdict = f"**missed**: {'; '.join(result.list_missed(line))}"
    cells = (f"`{line.name}`", line.work, line.goal, figures or result.error, verdict)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def format_value(value: float) -> str:
    """Return a figure with three significant digits: 312,000, 14.6, 0.00123."""
    if abs(value) >= _THOUSAND:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}"
    return f"{value:.3g}"


def summarize(line: Line, result: Result) -> Iterator[str]:
    """Yield the lines of text that describe a result: goal, figures, verdict."""
    yield f"{line.name}: {result.judge(line)} ({result.seconds:.0f} s)"
    yield f"  goal: {line.goal}"
    for name, value in result.figures.items():
        yield f"  {name}: {format_value(value)}"
    for text in result.list_missed(line):
        yield f"  missed: {text}"
    if result.error:
        yield f"  error: {result.error}"


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
