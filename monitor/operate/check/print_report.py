"""Print the result of `check` as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor.operate.check.report import (
    ASSUMPTION,
    SELDOM,
    CheckReport,
    DwellNoise,
    LowerBounds,
    MonitorReport,
    Pause,
    Ranking,
)
from monitor.operate.check.wording import (
    PRIORS,
    format_amount,
    format_belief,
    format_factor,
    format_percent,
    format_power,
    spell_duration,
)
from monitor.privacy.alarm_chances import compute_belief
from monitor.privacy.epsilon import format_epsilon

_BAR: Final = 12
"""The width of the bar of a chance of 100 %."""

PAUSE: Final = (
    "A noisy answer counts for W + F ticks. W is the window, and F is how far after its report a visit may end "
    "(accept_ahead and default_stay), both in slots."
)
CHANGE: Final = (
    "If the two differ in locations, windows, times or the registry, the new one has a separate set of facts in Redis. "
    "Redis needs twice the memory until the old facts have expired. Start a new instance, wait until it is ready, and "
    "then stop an old one."
)


def render(report: CheckReport, console: Console) -> None:
    """Print a report."""
    count = len(report.monitors)
    say = Printer(console)
    say(f"{report.service}: the configuration is valid; {report.locations} locations, {count} monitors.")
    say.print_heading("Verdicts")
    for verdict in report.verdicts:
        say(f"  {verdict.level:7}  {verdict}")
    _render_payments(report, say)
    _render_beliefs(report, say)
    pauses = [f"{monitor.name}: {_describe_pause(monitor.pause)}" for monitor in report.monitors if monitor.pause]
    say.print_section("How long a pause lasts", pauses, PAUSE)
    if any(monitor.odds for monitor in report.monitors):
        say.print_heading("How often an alarm is false")
    for monitor in report.monitors:
        if monitor.odds:
            _render_odds(monitor, say)
    for heading, texts in _describe_counts(report).items():
        say.print_section(heading, texts)
    counted = (f"{one.monitor}: {one.describe()}" for one in report.counted)
    say.print_section("What an answer counts, with these report delays", counted)
    say.print_heading("If it replaces another configuration")
    say(CHANGE)


def _describe_counts(report: CheckReport) -> Mapping[str, Sequence[str]]:
    """Return, by heading, how far the counts of hot spots, lower bounds and dwell times are from the true values."""
    named = [(f"{monitor.name}: ", monitor) for monitor in report.monitors]
    return {
        "What hot spots mean": [
            name + _describe_ranking(each.ranking, report.locations) for name, each in named if each.ranking
        ],
        "What lower bounds mean": [
            name + _describe_lower_bounds(each.lower_bounds) for name, each in named if each.lower_bounds
        ],
        "What dwell times mean": [name + _describe_dwell(each.dwell) for name, each in named if each.dwell],
    }


def _render_payments(report: CheckReport, say: Printer) -> None:
    total, stated = format_epsilon(report.total), format_epsilon(report.stated)
    say.print_heading("What one person pays")
    terms = " + ".join(f"{format_epsilon(each.charge.amount)} ({each.name})" for each in report.monitors)
    say(f"  ε stated for any {spell_duration(report.period)}: {stated}")
    say(f"  ε in the worst case of this configuration: {total} = {terms}")
    say("  ε charged so far: 0 before the first answer; `location-monitor audit` computes it from the answers")
    say(
        f"In the worst case everything published is at most {_format_factor(report.total)} times as likely as without "
        "some of the person's visits."
    )
    say(ASSUMPTION)
    if report.overlap is not None:
        say(report.overlap.describe())
    for monitor in report.monitors:
        one = f"One visit costs {format_epsilon(monitor.one_visit)} at most for each {monitor.per}."
        say(f"  {monitor.name} ({monitor.kind}): {monitor.charge.amount}. {one} {monitor.explanation}")


def _render_beliefs(report: CheckReport, say: Printer) -> None:
    """Print the chances that a reader can at most give one visit of a person, and all visits of a person."""
    say.print_heading("What a reader can learn about one person")
    say("The chance that a reader gives a person's visit before any answer, and at most after the answers:")
    dearest = max(each.one_visit for each in report.monitors)
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    table.add_column("before", justify="right")
    for answers, epsilon in (("one answer", dearest), ("all answers", report.total)):
        table.add_column(f"{answers}\nε = {format_epsilon(epsilon)}", justify="right")
        table.add_column("", min_width=_BAR)
    for before in PRIORS:
        row = (draw for epsilon in (dearest, report.total) for draw in _draw_belief(epsilon, before))
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


def _describe_pause(pause: Pause) -> str:
    length = f"W + F = {pause.ticks} ticks ({spell_duration(pause.duration)})"
    if pause.answers == 1:
        return f"after a noisy answer the location is paused; the next answer comes {length} later at the earliest."
    last = pause.ticks - pause.answers + 1
    if last <= 1:
        return f"no pause: up to {pause.answers} noisy answers in any {length}, so there may be one at every tick."
    after = spell_duration(pause.duration // pause.ticks * last)
    return (
        f"up to {pause.answers} noisy answers in any {length}. If they come at consecutive ticks, the next answer "
        f"comes {last} ticks ({after}) after the last of them."
    )


def _describe_ranking(ranking: Ranking, locations: int) -> str:
    mean = format_amount(ranking.mean_noise)
    return (
        f"{min(ranking.top, locations)} of {locations} locations are named, each with an upper bound of its "
        f"number of people; none is called safe. Noise adds {mean} people to a count on average, "
        f"and fewer than {ranking.below} to every count with a chance of {format_percent(1 - SELDOM)}."
    )


def _describe_lower_bounds(bounds: LowerBounds) -> str:
    return (
        f"a bound is {format_amount(bounds.mean_noise)} people below the number of people with consent on average, and "
        f"fewer than {bounds.below} below with a chance of {format_percent(1 - SELDOM)}. People without consent are "
        "not counted. "
        f"That one of them did not consent changes the chance of a bound by a factor of at most "
        f"{_format_factor(bounds.epsilon)}."
    )


def _describe_dwell(noise: DwellNoise) -> str:
    return (
        f"the number of visits has a standard deviation of {format_amount(noise.deviation)}, in both directions, so "
        f"nothing about it is certain. At most {noise.visits_per_person} visits of each person count, each with a "
        f"length of at most {spell_duration(noise.longest_visit)}."
    )


def _format_factor(epsilon: Fraction) -> str:
    """Format e^ε, with its value unless that is too large to be meaningful."""
    if epsilon > 20:  # noqa: PLR2004  # more than half a billion
        return format_power(epsilon)
    return f"{format_power(epsilon)} = {format_factor(epsilon)}"
