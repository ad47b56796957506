"""The demo's summary: visits by fate, answers by status, the recount, the ε that one person paid, and next steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.tools.audit import AuditReport, render
from monitor.tools.audit.findings import SAFE
from monitor.tools.client.words import span
from monitor.tools.replay.driver import Summary

_NEXT: Final = (
    ("README.md", "how the service works, and its guarantees"),
    ("location-monitor check --config FILE", "the ε that a configuration costs one person, and its false alarm rate"),
    ("location-monitor replay VISITS --config FILE --alerts OUT --embedded", "the same for your own visits"),
)


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The outcome of a demo. `period` is in microseconds; `seconds` is the duration without starting the servers."""

    summary: Summary
    report: AuditReport
    period: int
    seconds: float


def show(outcome: DemoOutcome, console: Console) -> None:
    """Print the summary, and the recount's findings if there are any."""
    summary, report = outcome.summary, outcome.report
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row("Visits by fate", _format_counts(summary.visits))
    table.add_row("", "the dead letters are invalid visits, sent on purpose")
    for monitor, answers in sorted(_count_by_monitor(summary).items()):
        table.add_row(f"Answers of {monitor}", _format_counts(answers))
    table.add_row("Noisy counts", f"{report.noisy:,}, each a certain upper bound")
    wrong = report.totals.get(SAFE, 0)
    table.add_row('False "safe"', Text(f"{wrong} of {report.safe:,}", "red" if wrong else "green"))
    table.add_row("", "by an independent recount that shares no code with the service")
    stated = f"the {report.may_pay} stated for any {span(outcome.period)}"
    table.add_row("One person paid", f"ε = {report.spent} at most, of {stated}")
    table.add_row("Time", f"{summary.ticks:,} hours of the town in {outcome.seconds:.0f} s, once the servers were up")
    console.print()
    console.print(table, highlight=False)
    if not report.ok:
        render(report, console)
    console.print("\nWhere to go next", style="bold")
    for command, purpose in _NEXT:
        console.print(Text(f"  {command}\n      {purpose}"), highlight=False, soft_wrap=True)


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())


def _count_by_monitor(summary: Summary) -> dict[str, dict[str, int]]:
    by_monitor: dict[str, Counter[str]] = {}
    for (monitor, status), count in sorted(summary.answers.items()):
        by_monitor.setdefault(monitor, Counter())[status] += count
    return {monitor: dict(counts) for monitor, counts in by_monitor.items()}
