"""Print an audit report."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from monitor.audit.findings import LISTED, AuditReport, format_ticks
from monitor.audit.kinds.all_kinds import ORACLES

_EXPIRED: Final = (
    'Expired visits are not counted: a false "safe" may not be found, and lower bounds and totals are not '
    "compared. What the first remaining answers repeat of expired ones is assumed to be correct."
)


def render(report: AuditReport, console: Console) -> None:
    """Print the numbers of records checked, the violations, and the most that the answers cost one person."""
    ticks = f"{report.ticks:,} ticks" + (f" ({report.first_tick} to {report.last_tick})" if report.ticks else "")
    console.print(
        f"{report.records:,} records of {ticks}; "
        f'checked: {report.safe:,} "safe" answers, {report.noisy:,} noisy counts'
        + (f", {report.bounds:,} lower bounds" if report.bounds else ""),
        highlight=False,
    )
    for topic in report.expired:
        console.print(f"Earlier records of the topic {topic} have expired. {_EXPIRED}", highlight=False)
    if report.last_tick is not None and report.last_tick < report.whole_until:
        text = f"The run ends before tick {report.whole_until}, when every visit has left every window and horizon."
        console.print(text, highlight=False)
    statuses = ", ".join(f"{name} {status}: {count:,}" for (name, status), count in sorted(report.answers.items()))
    console.print(f"Answers: {statuses or 'none'}", highlight=False, markup=False)
    fates = ", ".join(f"{fate}: {count:,}" for fate, count in report.fates.items())
    console.print(f"Visits by fate, recounted: {fates or 'none'}", highlight=False)
    console.print(_make_table(report))
    _print_missing(report, console)
    for oracle, violations in report.violations.items():
        _print_violations(oracle, violations, report.totals.get(oracle, 0), console)
    console.print(
        f"The most that the answers cost any person within a period: ε = {report.spent} of {report.may_pay}",
        highlight=False,
    )
    console.print(_make_verdict(report), highlight=False)


def _make_verdict(report: AuditReport) -> str:
    if not report.ok:
        return "[red]Violations were found.[/]"
    if report.unjudged:
        judged = f"{report.records - report.unjudged:,} of {report.records:,}"
        return f"[yellow]Nothing wrong was found in {judged} records. The others were not judged.[/]"
    return "[green]Nothing wrong was found.[/]"


def _print_missing(report: AuditReport, console: Console) -> None:
    """Print the missing ticks by output partition, and the number of records that were not judged."""
    for partition, ranges in sorted(report.missing.items()):
        listed = ", ".join(format_ticks(first, last) for first, last in ranges[:LISTED])
        more = f", and {len(ranges) - LISTED:,} more ranges" if len(ranges) > LISTED else ""
        text = f"Missing in output partition {partition}: {listed}{more}. Nobody decided them."
        console.print(text, style="yellow", highlight=False)
    for partition, ticks in sorted(report.incomplete.items()):
        listed = ", ".join(format_ticks(tick, tick) for tick in ticks[:LISTED])
        more = f", and {len(ticks) - LISTED:,} more" if len(ticks) > LISTED else ""
        text = f"Incomplete in output partition {partition}: {listed}{more}. The service recorded the rest as lost."
        console.print(text, style="yellow", highlight=False)
    if report.unjudged:
        console.print(
            f"Not judged: {report.unjudged:,} records, because none of the given configurations was in force. "
            "Give the configuration that was, newer or earlier, with another --config.",
            style="yellow",
            highlight=False,
        )


def _make_table(report: AuditReport) -> Table:
    table = Table()
    table.add_column("check")
    table.add_column("violations", justify="right")
    for oracle in report.violations:
        table.add_row(ORACLES[oracle], f"{report.totals.get(oracle, 0):,}")
    return table


def _print_violations(oracle: str, violations: list[str], total: int, console: Console) -> None:
    for text in violations:
        console.print(f"{oracle}: {text}", style="red", highlight=False, markup=False, soft_wrap=True)
    if total > LISTED:
        console.print(f"{oracle}: and {total - LISTED:,} more", style="red", highlight=False)
