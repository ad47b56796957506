"""Plans and choices in words, tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from monitor.privacy.epsilon import format_epsilon
from monitor.public.instants import format_duration
from monitor.tools.check.report import ASSUMPTION, format_percent
from monitor.tools.planner.curves import Curves
from monitor.tools.planner.designs import OverTime
from monitor.tools.planner.nearby import Choice
from monitor.tools.planner.outcomes import PlanOutcome
from monitor.tools.planner.targets import Targets

FLOOR = (
    "No one-sided mechanism of the same ε does better: a false alarm at count f comes with at least e^(-ε(T - f)) per "
    "update ([ADP], Theorem 9). From T people on, every update that answers is an alarm."
)
MOST_SHOWN = 12

_PROSE = 14


def render_plans(outcomes: Sequence[PlanOutcome], period: int, console: Console) -> None:
    """Print plans that meet all targets, the first in full."""
    _say(console, f"These meet all targets; pays: what one person pays at most within {format_duration(period)}.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in ("", "pays", "ε", "T", "window", "update", "k", *_MEASURES):
        table.add_column(column, no_wrap=True)
    for number, found in enumerate(outcomes[:MOST_SHOWN]):
        design = found.plan.design
        table.add_row(
            ">" if number == 0 else "",
            format_epsilon(found.pays),
            format_epsilon(found.plan.epsilon),
            str(found.plan.threshold),
            format_duration(design.span) if design.span else "",
            format_duration(design.slot),
            str(design.answers) if design.mark_lifetime else "",
            *_measures(found),
        )
    console.print(table)
    if len(outcomes) > MOST_SHOWN:
        _say(console, f"{len(outcomes) - MOST_SHOWN} more with --json; fix --slot, --window or --answers for fewer.")
    _say(console, LEGEND)
    _say(console, "Least paid first; left out is what another of its window beats in everything.")
    _say(console, FLOOR)
    _say(console, ASSUMPTION)


def render_choices(found: Mapping[str, Sequence[Choice]], console: Console) -> None:
    """Print each monitor's present choice and its neighbours, and which targets they miss."""
    for name, choices in found.items():
        _say(console, f"{name}; pays: what one person pays at most to all monitors within the period.")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for column in ("choice", "pays", *_MEASURES, "misses"):
            prose = column in {"choice", "misses"}
            table.add_column(column, overflow="fold", no_wrap=not prose, min_width=_PROSE if prose else None)
        for choice in choices:
            row = choice.outcome
            table.add_row(
                choice.change,
                format_epsilon(row.pays),
                *_measures(row),
                ", ".join(missed.split()[0] for missed in row.unmet) or "-",
            )
        console.print(table)
    _say(console, LEGEND)
    _say(console, "Of a monitor's locations the worst is told: false alarms at the smallest ε, misses at the largest.")
    _say(console, FLOOR)
    _say(console, ASSUMPTION)


def plans_tree(outcomes: Sequence[PlanOutcome], targets: Targets, period: int, drawn: Curves) -> dict[str, Any]:
    """Plans for programs: ε as exact strings, durations as in the configuration, the first plan's curves."""
    return {
        "targets": [str(getattr(targets, name)) for name in targets.given],
        "period": format_duration(period),
        "assumption": ASSUMPTION,
        "plans": [outcome_tree(found) for found in outcomes],
        "curves": curves_tree(drawn),
    }


def choices_tree(found: Mapping[str, Sequence[Choice]], drawn: Sequence[Curves]) -> dict[str, Any]:
    """Choices for programs, as `plans_tree`."""
    return {
        "assumption": ASSUMPTION,
        "monitors": [
            {
                "name": name,
                "choices": [{"change": choice.change} | outcome_tree(choice.outcome) for choice in choices],
                "curves": curves_tree(curves),
            }
            for (name, choices), curves in zip(found.items(), drawn, strict=True)
        ],
    }


def outcome_tree(found: PlanOutcome) -> dict[str, Any]:
    """One outcome for programs."""
    plan, design = found.plan, found.plan.design
    tree: dict[str, Any] = {
        "kind": "over_time" if design.mark_lifetime else "at_times",
        "threshold": plan.threshold,
        "epsilon": format_epsilon(plan.epsilon),
        "epsilon_of_an_answer": format_epsilon(plan.smallest_answer),
        "slot": format_duration(design.slot),
        "pays": format_epsilon(found.pays),
        "false_alarm_per_update": found.per_update,
        "false_alarms_a_year": found.false_alarms_a_year,
        "alarm": found.alarm,
        "misses": list(found.unmet),
    }
    if isinstance(design, OverTime):
        tree |= {
            "window": format_duration(design.span),
            "accept_ahead": format_duration(design.max_lead * design.slot),
            "answers_per_window": design.answers,
            "silence": format_duration(found.silence),
            "silent_when_empty": found.silent_when_empty,
        }
    return tree


def curves_tree(drawn: Curves) -> list[dict[str, float]]:
    """Curves for programs: an object for each count."""
    rows = zip(drawn.alarm, drawn.miss, drawn.silent, strict=True)
    return [{"people": people, "alarm": a, "miss": m, "silent": s} for people, (a, m, s) in enumerate(rows)]


_MEASURES = ("a year", "alarm", "silence", "silent")
LEGEND = (
    "a year: how many false alarms an empty location raises while it answers; "
    "alarm: chance per update that the people of --alarm-at raise one; silence: how long after the last of k alarms "
    "in a row; silent: share of the time that an empty location is, by its false alarms."
)


def _measures(found: PlanOutcome) -> tuple[str, ...]:
    return (
        f"{found.false_alarms_a_year:.2g}",
        "" if found.alarm is None else _certain(found.alarm),
        format_duration(found.silence) if found.silence else "none",
        _tight(found.silent_when_empty) if found.silence else "",
    )


def _certain(chance: float) -> str:
    return "100%" if chance >= 1 else _tight(chance)


def _tight(chance: float) -> str:
    return format_percent(chance).replace(" ", "")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)
