"""The results as text, as JSON, and as the table of docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from simulators.bench.line import Measured, Result, Target, Verdict
from simulators.bench.runner import Machine

COMMAND: Final = "python -m simulators bench"
_THOUSAND: Final = 1_000


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    machine: Machine
    quick: bool
    results: tuple[Result, ...]

    @property
    def seconds(self) -> float:
        """The duration of all lines."""
        return sum(result.seconds for result in self.results)


def format_value(value: float) -> str:
    """Return a figure with three significant digits: 312,000, 14.6, 0.00123."""
    if abs(value) >= _THOUSAND:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}"
    return f"{value:.3g}"


def summarize(result: Result) -> Iterator[str]:
    """Yield the lines of text that describe a result: goal, figures, verdict."""
    yield f"{result.name}: {result.verdict.value} ({result.seconds:.0f} s)"
    yield f"  goal: {result.goal}"
    for name, value in result.measured.figures.items():
        yield f"  {name}: {format_value(value)}"
    for text in result.missed:
        yield f"  missed: {text}"
    for text in result.measured.skipped:
        yield f"  skipped: {text}"
    if result.error:
        yield f"  error: {result.error}"


def to_json(report: Report) -> str:
    """Return the report as JSON, from which `from_json` makes the same report."""
    results = [
        {
            **{name: getattr(result, name) for name in ("name", "work", "goal", "seconds", "error")},
            "verdict": result.verdict.value,
            "targets": [asdict(target) for target in result.targets],
            "figures": dict(result.measured.figures),
            "skipped": list(result.measured.skipped),
        }
        for result in report.results
    ]
    document = {"machine": asdict(report.machine), "quick": report.quick, "lines": results}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Report:
    """Return the report in a JSON document. The verdicts are computed again."""
    document = json.loads(text)
    results = tuple(
        Result(
            line["name"],
            line["work"],
            line["goal"],
            tuple(Target(**target) for target in line["targets"]),
            Measured(line["figures"], tuple(line["skipped"])),
            line["seconds"],
            line["error"],
        )
        for line in document["lines"]
    )
    return Report(Machine(**document["machine"]), document["quick"], results)


def merge_reports(old: Report, new: Report) -> Report:
    """Return the new report, and add the lines of the old report that did not run again."""
    fresh = {result.name: result for result in new.results}
    kept = tuple(fresh.pop(result.name, result) for result in old.results)
    return Report(new.machine, new.quick, kept + tuple(fresh.values()))


def make_table(report: Report) -> str:
    """Return the Markdown table of a run."""
    machine = report.machine
    rows = [_make_row(result) for result in report.results]
    scale = " at the small scale of `--quick`, which tests the commands only," if report.quick else ""
    text = (
        f"Measured{scale} in one run of {report.seconds / 60:.0f} minutes on {machine.processors} processors with "
        f"{machine.memory_gib:.0f} GiB ({machine.system}, Python {machine.python}). Servers, clients and peers share "
        f"them. Valkey uses {machine.allocator or 'an unknown allocator'}."
    )
    head = "| line | work | goal | measured | verdict |\n|---|---|---|---|---|"
    return "\n".join((text, "", head, *rows))


def _make_row(result: Result) -> str:
    figures = "; ".join(f"{name}: {format_value(value)}" for name, value in result.measured.figures.items())
    notes = "".join(f"<br>{text}" for text in (*result.measured.skipped, *([result.error] if result.error else ())))
    verdict = result.verdict.value
    if result.verdict is Verdict.MISSED:
        verdict = f"**missed**: {'; '.join(result.missed)}"
    cells = (f"`{result.name}`", result.work, result.goal, f"{figures}{notes}", verdict)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
