"""Print the result of `check` as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor.kinds.all_kinds import KINDS
from monitor.operate.check.report import ASSUMPTION, CheckReport, MonitorReport
from monitor.privacy.alarm_chances import compute_belief
from monitor.privacy.epsilon import format_epsilon
from monitor.values.belief_about_one_person import PRIORS, format_belief
from monitor.values.wording import explain_factor, format_percent, spell_duration

_BAR: Final = 12
"""The width of the bar of a chance of 100 %."""

CHANGE: Final = (
    "If the two differ in locations, windows, times or the registry, the new one has a separate set of facts in Redis. "
    "Redis needs twice the memory until the old facts have expired. Start a new instance, wait until it is ready, and "
    "then stop an old one."
)


def render(report: CheckReport, console: Console, *, formulas: bool = True) -> None:
    """Print a report. `formulas`: also print how the figures are computed, and the chances of each alarm."""
    count = len(report.monitors)
    say = Printer(console)
    say(f"{report.service}: the configuration is valid; {report.locations} locations, {count} monitors.")
    say.print_heading("Verdicts")
    for verdict in report.verdicts:
        say(f"  {verdict.level:7}  {verdict}")
    _render_payments(report, say, formulas=formulas)
    _render_beliefs(report, say)
    _print_notes(report, say, silence=True)
    alarming = [monitor for monitor in report.monitors if monitor.odds] if formulas else []
    if alarming:
        say.print_heading("How often noise alone raises an alarm")
    for monitor in alarming:
        _render_odds(monitor, say)
    _print_notes(report, say, silence=False)
    counted = (f"{one.monitor}: {one.text}" for one in report.counted)
    say.print_section("What an answer counts, with these report delays", counted)
    say.print_heading("If it replaces another configuration")
    say(CHANGE)


def _print_notes(report: CheckReport, say: Printer, *, silence: bool) -> None:
    """Print the notes of each kind below their heading: those about silence, or the others."""
    sections: dict[tuple[str, str], list[str]] = {}
    for kind in KINDS:
        for monitor in report.monitors:
            if monitor.kind == kind and (note := monitor.note) is not None and note.is_silence == silence:
                sections.setdefault((note.heading, note.introduction), []).append(f"{monitor.name}: {note.text}")
    for (heading, introduction), texts in sections.items():
        say.print_section(heading, texts, introduction)


def _render_payments(report: CheckReport, say: Printer, *, formulas: bool) -> None:
    total, stated = format_epsilon(report.total), format_epsilon(report.stated)
    say.print_heading("What one person pays")
    terms = " + ".join(f"{format_epsilon(each.charge.amount)} ({each.name})" for each in report.monitors)
    say(f"  ε stated for any {spell_duration(report.period)}: {stated}")
    say(f"  ε in the worst case of this configuration: {total} = {terms}")
    say("  ε charged so far: 0 before the first answer; `location-monitor audit` computes it from the answers")
    say(
        f"In the worst case everything published is at most {explain_factor(report.total)} times as likely as without "
        "some of the person's visits."
    )
    say(ASSUMPTION)
    if report.overlap is not None:
        say(report.overlap.describe())
    for monitor in report.monitors:
        one = f"One visit costs {format_epsilon(monitor.one_visit)} at most for each {monitor.per}."
        text = f"  {monitor.name} ({monitor.kind}): {monitor.charge.amount}. {one}"
        say(f"{text} {monitor.explanation}" if formulas else text)


def _render_beliefs(report: CheckReport, say: Printer) -> None:
    """Print the chances that a reader can at most give one visit of a person, and all visits of a person."""
    say.print_heading("What a reader can learn about one person")
    say("The chance that a reader gives a visit, or all visits of a person, before any answer, and at most after them:")
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    table.add_column("before", justify="right")
    for answers, epsilon in (("one visit", report.one_visit), ("all visits", report.total)):
        table.add_column(f"{answers}\nε = {format_epsilon(epsilon)}", justify="right")
        table.add_column("", min_width=_BAR)
    for before in PRIORS:
        row = (draw for epsilon in (report.one_visit, report.total) for draw in _draw_belief(epsilon, before))
        table.add_row(format_percent(before), *row)
    say.console.print(Padding(table, (0, 0, 0, 2)))


def _draw_belief(epsilon: Fraction, before: float) -> tuple[str, str]:
    """Return the chance after answers of this ε as a number and as a bar, with a lighter part for the gain."""
    length, start = (round(_BAR * chance) for chance in (compute_belief(epsilon, before), before))
    return format_belief(epsilon, before), "█" * start + "▒" * (length - start)


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints texts verbatim, so that an id in brackets is not interpreted as markup. All lines keep the indentation."""

    console: Console

    def __call__(self, text: str) -> None:
        """Print a text, wrapped at the width of the console."""
        indent = len(text) - len(text.lstrip())
        for line in Text(text.lstrip()).wrap(self.console, self.console.width - indent):
            self.console.print(" " * indent + line.plain, markup=False, highlight=False)

    def print_heading(self, text: str) -> None:
        """Print a heading below an empty line."""
        self.console.print(f"\n{text}", markup=False, highlight=False, style="bold")

    def print_section(self, heading: str, lines: Iterable[str], introduction: str = "", indent: str = "  ") -> None:
        """Print a heading and the lines below it; nothing without a line."""
        if not (texts := list(lines)):
            return
        self.print_heading(heading)
        if introduction:
            self(introduction)
        for text in texts:
            self(f"{indent}{text}")


def _render_odds(monitor: MonitorReport, say: Printer) -> None:
    """Print the odds of one monitor. A table for each monitor fits into 80 columns, even with long names."""
    say(f"  {monitor.name} (threshold {monitor.threshold}):")
    heads = ("ε of an answer", "locations", "people there", "per update", f"over {monitor.updates} updates")
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for head in heads:
        table.add_column(head, justify="right", min_width=max(map(len, head.split())))
    for odds in monitor.odds:
        table.add_row(
            format_epsilon(odds.epsilon),
            str(odds.locations),
            str(odds.people),
            format_percent(odds.per_update),
            format_percent(odds.over_updates),
        )
    say.console.print(Padding(table, (0, 0, 1, 4)))
