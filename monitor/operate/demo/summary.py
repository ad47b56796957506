"""The demo's summary: visits by fate, answers by status, the recount, ε, and next steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.audit import AuditReport, render
from monitor.audit.findings import SAFE
from monitor.client.describe_records import length
from monitor.operate.replay.driver import Summary
from monitor.privacy.epsilon import format_epsilon
from monitor.values.belief_about_one_person import describe_belief

_NEXT: Final = (
    ("docs/tutorial/own-data.md", "answers about your own places, in fifteen minutes"),
    ("location-monitor check --config FILE", "the ε that a configuration costs one person, and its false alarm rate"),
    ("location-monitor replay VISITS --config FILE --alerts OUT --embedded", "the same for your own visits"),
)
_FATES: Final[Mapping[str, str]] = {
    "applied": "counted in answers",
    "too_late": "counted over the week, but too late for their midday",
    "not_watched": "at places and times that no monitor asks about",
    "expired": "older than every window and horizon",
    "dead_letter": "invalid, sent on purpose",
}


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The outcome of a demo."""

    summary: Summary
    report: AuditReport
    worst: Fraction
    """The most ε that one person may pay in a period, under the demo's configuration."""
    slot: int
    """In microseconds."""
    period: int
    """In microseconds."""
    seconds: float
    """The time without the servers' start."""


def show(outcome: DemoOutcome, console: Console) -> None:
    """Print the summary, and the recount's findings if there are any."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for head, line in (*_list_visits(outcome.summary), *_list_answers(outcome), *_list_epsilons(outcome)):
        table.add_row(head, line)
    length_of_all = length(outcome.summary.ticks * outcome.slot)
    table.add_row("Time", f"{length_of_all} of the town in {outcome.seconds:.0f} s, once the servers were up")
    console.print()
    console.print(table, highlight=False)
    if not outcome.report.ok:
        render(outcome.report, console)
    console.print("\nWhere to go next", style="bold")
    for command, purpose in _NEXT:
        console.print(Text(f"  {command}\n      {purpose}"), highlight=False, soft_wrap=True)


def _list_visits(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield the numbers of visits by fate. They add up to the first one."""
    visits = summary.visits
    yield "Visits", f"{sum(visits.values()):,} reported, of which"
    for fate, meaning in _FATES.items():
        yield "", f"{visits.get(fate, 0):6,} {meaning}"


def _list_answers(outcome: DemoOutcome) -> Iterator[tuple[str, str | Text]]:
    """Yield the numbers of answers by kind of monitor, and of those that the recount found false."""
    report, by_status = outcome.report, Counter[str]()
    for (_monitor, status), count in outcome.summary.answers.items():
        by_status[status] += count
    safe, alarms = by_status["safe"], by_status["noisy_count"]
    yield "Answers", f"{safe:6,} safe, {alarms} alarms and {by_status['paused']:,} paused, about the last 7 days"
    yield "", f"{report.safe - safe:6,} safe and {report.noisy - alarms} alarms, about middays"
    wrong = report.totals.get(SAFE, 0)
    yield "Recount", Text(f"{wrong:6,} of {report.safe:,} safe are false", "red" if wrong else "green")
    true = report.noisy - report.early - report.noise
    yield "", f"{true:6,} of {report.noisy:,} alarms are true: the threshold was reached"
    yield "", f"{report.early:6,} are early: at least half of it, and noise added the rest"
    yield "", Text(f"{report.noise:6,} are noise: fewer people than half of it", "yellow" if report.noise else "green")
    yield "", "by an auditor that shares no code with the service"


def _list_epsilons(outcome: DemoOutcome) -> Iterator[tuple[str, str]]:
    """Yield the three figures of ε, with the names that `check`, the page and `register` use, and what they mean."""
    spent = outcome.report.spent
    yield "ε", f"{format_epsilon(outcome.report.may_pay):>6} stated for any {length(outcome.period)}"
    yield "", f"{format_epsilon(outcome.worst):>6} in the worst case of this configuration"
    yield "", f"{format_epsilon(spent):>6} charged so far, to one person at most: {describe_belief(spent)}"
