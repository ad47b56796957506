"""Render plans and choices as text, tables and JSON. The text cites Takagi et al. [ADP] (docs/literature.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from monitor.operate.check.report import ASSUMPTION
from monitor.operate.plan.nearby import Choice
from monitor.operate.plan.outcomes import Plan, PlanOutcome
from monitor.operate.plan.targets import Targets
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import format_duration
from monitor.values.wording import format_amount, format_percent, format_share

FLOOR = (
    "No one-sided mechanism of the same ε does better: the chance of a false alarm at count f is at least "
    "e^(-ε(T - f)) per update (Takagi et al. [ADP], Theorem 9). From T people on, every update that answers "
    "is an alarm."
)
MOST_SHOWN = 12

_PROSE = 14


def render_plans(outcomes: Sequence[PlanOutcome], period: int, console: Console) -> None:
    """Print the plans that meet all targets."""
    say(console, f"These plans meet all targets; pays: the most that a person pays in {format_duration(period)}.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    span = "window" if outcomes[0].plan.design.times is None else "horizon"
    for column in ("", "pays", "ε", "T", span, "update", "k", *_list_measures(outcomes[0])):
        table.add_column(column, no_wrap=True)
    for number, outcome in enumerate(outcomes[:MOST_SHOWN]):
        design = outcome.plan.design
        table.add_row(
            ">" if number == 0 else "",
            format_epsilon(outcome.pays),
            format_epsilon(outcome.plan.epsilon),
            str(outcome.plan.threshold),
            format_duration(design.longest_delay),
            format_duration(design.slot),
            str(design.answers),
            *_list_measures(outcome).values(),
        )
    console.print(table)
    if len(outcomes) > MOST_SHOWN:
        say(console, f"{len(outcomes) - MOST_SHOWN} more with --json; fix --slot, --window or --answers for fewer.")
    say(console, LEGEND if outcomes[0].counts is None else f"{LEGEND} {COUNTS}")
    say(
        console,
        "The plan with the lowest payment comes first. A plan is left out if another plan with the same window is at "
        "least as good in pays, T, update and silence.",
    )
    say(console, FLOOR)
    say(console, ASSUMPTION)


def render_choices(by_monitor: Mapping[str, Sequence[Choice]], console: Console) -> None:
    """Print each monitor's present choice, its neighbours, and the targets that they miss."""
    for name, choices in by_monitor.items():
        say(console, f"{name}; pays: the most that a person pays to all monitors in the period.")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for column in ("choice", "pays", *_list_measures(choices[0].outcome), "misses"):
            prose = column in {"choice", "misses"}
            table.add_column(column, overflow="fold", no_wrap=not prose, min_width=_PROSE if prose else None)
        for choice in choices:
            row = choice.outcome
            table.add_row(
                choice.change,
                format_epsilon(row.pays),
                *_list_measures(row).values(),
                ", ".join(missed.split()[0] for missed in row.unmet) or "-",
            )
        console.print(table)
        counts = choices[0].outcome.counts
    say(console, LEGEND if counts is None else f"{LEGEND} {COUNTS}")
    say(
        console,
        "The values are those of a monitor's worst location: false alarms at the smallest ε, misses at the largest.",
    )
    say(console, FLOOR)
    say(console, ASSUMPTION)


def compute_curves(plan: Plan, targets: Targets) -> list[dict[str, float]]:
    """Return the chances per update for each count of people, to about 20 % above both T and the target's people.

    `alarm` is e^(-ε(T - f)) at the smallest ε of an answer, and false below T. `miss` is 1 - e^(-ε(T - f)) at the
    largest ε. Each is the worst case if locations have different shares of ε. `silent` is the share of time in which
    the location is paused.
    """
    most = max(plan.threshold, targets.alarm or 0)
    return [
        {
            "people": people,
            "alarm": plan.compute_false_alarm(people),
            "miss": 1 - plan.compute_alarm(people),
            "silent": plan.compute_silence(people),
        }
        for people in range(most + most // 5 + 2)
    ]


def make_plans_tree(outcomes: Sequence[PlanOutcome], targets: Targets) -> dict[str, Any]:
    """Return plans as JSON: ε as exact strings, durations as in the configuration, and the curves of the first plan."""
    return {
        "targets": [targets.describe(name) for name in targets.given],
        "period": format_duration(targets.period),
        "assumption": ASSUMPTION,
        "plans": [make_outcome_tree(outcome) for outcome in outcomes],
        "curves": compute_curves(outcomes[0].plan, targets),
    }


def make_choices_tree(by_monitor: Mapping[str, Sequence[Choice]], targets: Targets) -> dict[str, Any]:
    """Return choices as JSON, in the form of `make_plans_tree`."""
    return {
        "assumption": ASSUMPTION,
        "monitors": [
            {
                "name": name,
                "choices": [{"change": choice.change} | make_outcome_tree(choice.outcome) for choice in choices],
                "curves": compute_curves(choices[0].outcome.plan, targets),
            }
            for name, choices in by_monitor.items()
        ],
    }


def make_outcome_tree(outcome: PlanOutcome) -> dict[str, Any]:
    """Return one outcome as JSON."""
    plan, design = outcome.plan, outcome.plan.design
    tree: dict[str, Any] = {
        "kind": design.kind,
        "threshold": plan.threshold,
        "epsilon": format_epsilon(plan.epsilon),
        "epsilon_of_an_answer": format_epsilon(plan.smallest_answer),
        "slot": format_duration(design.slot),
        "pays": format_epsilon(outcome.pays),
        "false_alarm_per_update": outcome.per_update,
        "false_alarms_a_year": outcome.false_alarms_a_year,
        "alarm": outcome.alarm,
        "misses": list(outcome.unmet),
        "counts": None if outcome.counts is None else float(outcome.counts),
        "noise_in_sight": outcome.noise,
    }
    if design.times is not None:
        tree |= {"reporting_horizon": format_duration(design.longest_delay), "answers_per_time": design.answers}
    if design.mark_lifetime:
        tree |= {
            "window": format_duration(design.window_length),
            "accept_ahead": format_duration(design.max_lead * design.slot),
            "answers_per_window": design.answers,
            "silence": format_duration(outcome.silence),
            "silent_when_empty": outcome.silent_when_empty,
            "busy_share": outcome.busy_share,
        }
    return tree


LEGEND = (
    "a year: number of false alarms at an empty location per year while it answers; "
    "alarm: chance per update that the people of --alarm-at raise one; noise: share of the places that show, at any "
    "time, an alarm with fewer people than half of T, if all have almost half of it; silence: time from the last of k "
    "alarms in a row to the next answer; busy: share of the time in which a location answers, if the people of "
    "--people-a-day are reported there, or without them, if each answer is an alarm."
)
COUNTS = "counts: share of the visits ever reported that are reported within the window or the horizon."


def _list_measures(outcome: PlanOutcome) -> dict[str, str]:
    """Return the measures that are known for an outcome, by the heading of their column."""
    measures = {"a year": format_amount(outcome.false_alarms_a_year)}
    if outcome.alarm is not None:
        measures["alarm"] = _format_alarm(outcome.alarm)
    measures["noise"] = _format_chance(outcome.noise)
    if outcome.busy_share is not None:
        measures["silence"] = format_duration(outcome.silence) if outcome.silence else "none"
        measures["busy"] = _format_alarm(outcome.busy_share)
    if outcome.counts is not None:
        measures["counts"] = format_share(outcome.counts).replace(" ", "")
    return measures


def _format_alarm(chance: float) -> str:
    return "100%" if chance >= 1 else _format_chance(chance)


def _format_chance(chance: float) -> str:
    return format_percent(chance).replace(" ", "")


def say(console: Console, text: str) -> None:
    """Print a text verbatim."""
    console.print(text, markup=False, highlight=False)
