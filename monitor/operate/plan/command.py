"""`location-monitor plan`: settings that meet given targets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console

from monitor.command_options import EXISTING, add_delays_option, read_duration
from monitor.config.load import load_config
from monitor.errors import EpsilonError, UsageError
from monitor.operate.plan.find_plans import AtTimesOptions, OverTimeOptions, find
from monitor.operate.plan.nearby import list_choices
from monitor.operate.plan.render import make_choices_tree, make_plans_tree, render_choices, render_plans
from monitor.operate.plan.targets import ANSWERED, PERIOD, Targets
from monitor.operate.plan.upper_bounds import UpperBoundOptions, find_upper_bounds
from monitor.operate.plan.upper_bounds import make_tree as make_bounds_tree
from monitor.operate.plan.upper_bounds import render as render_bounds
from monitor.operate.read_report_delays import read_report_delays
from monitor.privacy.epsilon import parse_epsilon
from monitor.time.instants import SECOND
from monitor.values.belief_about_one_person import BELIEVED

_COUNT: Final = click.IntRange(1, 10**9)
_OF_KIND: Final[dict[str, tuple[str, ...]]] = {
    "over_time": ("window", "answers", "accept_ahead", "locations", "people_a_day"),
    "at_times": ("at", "timezone", "horizon", "answers"),
    "upper_bound": ("window", "accept_ahead", "locations", "bucket", "too_high_at_most"),
}
"""The options of the designs of each kind. All kinds have a slot."""

_FIXED: Final = (
    *("kind", "epsilon", "threshold", "slot", "window", "accept_ahead", "locations", "bucket"),
    *("too_high_at_most", *_OF_KIND["at_times"]),
)

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _read_length(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return a duration of at least a second, in microseconds."""
    duration = read_duration(context, parameter, value)
    if duration is not None and duration < SECOND:
        raise click.BadParameter("expected at least 1s")
    return duration


def _read_epsilon(_: click.Context, __: click.Parameter, value: str | None) -> Fraction | None:
    try:
        return None if value is None else parse_epsilon(value)
    except EpsilonError as error:
        raise click.BadParameter(str(error)) from error


def _read_chance(_: click.Context, __: click.Parameter, value: str | None) -> Fraction | None:
    """Return a chance above 0 and at most 1, written as 0.95 or 95%."""
    if value is None:
        return None
    number = value.removesuffix("%").strip()
    number = f"0{number}" if number.startswith(".") else number
    try:
        chance = parse_epsilon(number) / (100 if value.endswith("%") else 1)  # exact digits, in the form of an ε
    except EpsilonError:
        chance = Fraction(0)
    if not 0 < chance <= 1:
        raise click.BadParameter("expected a chance above 0, such as 0.95, 95% or 1")
    return chance


def _read_belief(context: click.Context, parameter: click.Parameter, value: str | None) -> Fraction | None:
    """Return what the chance of 1 % before any answer may become."""
    chance = _read_chance(context, parameter, value)
    if chance is not None and chance <= Fraction(BELIEVED):
        raise click.BadParameter("expected more than 1 %, the chance before any answer, such as 5%")
    return chance


def _add(flag: str, text: str, read: Any = None) -> Callable[[_Command], _Command]:
    """Add an option with a callback, or without one a number from 1 on."""
    return click.option(flag, callback=read, type=None if read else _COUNT, help=text)


@click.command()
@click.option(
    "--config", "config_file", type=EXISTING, help="Show the values of this file's monitors, and neighbouring values."
)
@_add("--false-alarm-every", "The least mean time between false alarms at an empty location, such as 1y.", _read_length)
@_add("--alarm-at", "The number of people that must raise an alarm at an update (see --with).")
@_add("--with", "The probability for --alarm-at, as 0.95 or 95%.", _read_chance)
@_add("--pays-at-most", "The largest ε that one person may pay within the period of --in.", _read_epsilon)
@_add("--visit-belief", "The most that a chance of 1 % may become by one visit, such as 5%.", _read_belief)
@_add("--person-belief", "The same by all visits of a person within the period of --in.", _read_belief)
@_add("--noise-in-sight", "The largest share of places that show an alarm of noise, such as 2%.", _read_chance)
@_add("--people-a-day", "over_time: how many new people are reported in a day at a busy location.")
@_add("--answers-at-least", "The least share of time in which it answers; 90% by default.", _read_chance)
@_add("--in", "The period; 14d by default.", _read_length)
@click.option("--kind", type=click.Choice(list(_OF_KIND)), help="The kind; over_time by default.")
@_add("--epsilon", "Fix the monitor's ε.", _read_epsilon)
@_add("--threshold", "Fix the threshold T.")
@_add("--slot", "Fix the time between updates.", _read_length)
@_add("--window", "over_time, upper_bound: fix the window.", _read_length)
@_add("--bucket", "upper_bound: fix the bucket.", _read_length)
@_add("--too-high-at-most", "upper_bound: the largest number of people by which noise may raise a bound on average.")
@_add("--answers", "Fix the number of noisy answers (k): over_time, per window; at_times, per time, otherwise 1.")
@_add("--accept-ahead", "over_time: accept_ahead plus default_stay in whole slots; 0s by default.", read_duration)
@_add("--locations", "over_time: the number of locations that share ε; 1 by default.")
@click.option("--at", multiple=True, help='at_times: a designated time ("18:00", "Tue 18:00") or an instant.')
@click.option("--timezone", help="at_times: the time zone of times of day; UTC by default.")
@_add("--horizon", "at_times: how long after a designated time reports count; 1d by default.", _read_length)
@add_delays_option
@_add("--counts-at-least", "The least share of visits that must be reported in time (see --delays).", _read_chance)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(config_file: Path | None, as_json: bool, **options: Any) -> None:  # noqa: FBT001  # by name
    """Find monitor settings that meet given targets.

    The settings are T, ε, window, update rate and answers per window. If none meet the targets, the command explains
    why.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    targets = read_targets(given)
    tree: Callable[[], dict[str, Any]]
    render: Callable[[Console], None]
    if config_file is None and given.get("kind") == "upper_bound":
        bounds = UpperBoundOptions(**_read_own_options(given))
        plans = find_upper_bounds(bounds, targets)
        tree = partial(make_bounds_tree, plans, bounds, targets)
        render = partial(render_bounds, plans, targets.period)
    elif config_file is None:
        found = find(targets, read_design_options(given))
        tree, render = partial(make_plans_tree, found, targets), partial(render_plans, found, targets.period)
    elif fixed := _list_options(given, _FIXED):
        raise UsageError(f"{fixed}: already set by the configuration; leave it out, or leave out --config.")
    else:
        choices = list_choices(load_config(config_file, os.environ), targets)
        tree, render = partial(make_choices_tree, choices, targets), partial(render_choices, choices)
    if as_json:
        click.echo(json.dumps(tree(), ensure_ascii=False, indent=2))
    else:
        render(Console())


def read_targets(given: dict[str, Any]) -> Targets:
    """Return the targets. Raise UsageError if one option of a pair is missing."""
    if ("alarm_at" in given) != ("with" in given):
        raise UsageError("--alarm-at and --with are one target: give both, or neither.")
    if "in" in given and given.keys().isdisjoint({"pays_at_most", "person_belief"}):
        raise UsageError(
            "--in is the period of --pays-at-most and --person-belief: add one of them, or leave out --in."
        )
    if "answers_at_least" in given and "people_a_day" not in given:
        raise UsageError("--answers-at-least is about a busy location: add --people-a-day.")
    if "counts_at_least" in given and "delays_file" not in given:
        raise UsageError("--counts-at-least needs to know how late visits are reported: add --delays.")
    return Targets(
        given.get("false_alarm_every"),
        given.get("alarm_at"),
        given.get("with", Fraction(1)),
        given.get("threshold"),
        given.get("epsilon"),
        given.get("pays_at_most"),
        given.get("in", PERIOD),
        given.get("counts_at_least"),
        read_report_delays(given["delays_file"]) if "delays_file" in given else None,
        given.get("visit_belief"),
        given.get("person_belief"),
        given.get("noise_in_sight"),
        given.get("people_a_day"),
        given.get("answers_at_least", ANSWERED),
    )


def read_design_options(given: dict[str, Any]) -> OverTimeOptions | AtTimesOptions:
    """Return the options of the designs of one kind. Raise UsageError for an option of another kind."""
    values = _read_own_options(given)
    return AtTimesOptions(**values) if given.get("kind") == "at_times" else OverTimeOptions(**values)


def _read_own_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the designs of the given kind. Raise UsageError for one that it does not have."""
    mine = ("slot", *_OF_KIND[given.get("kind", "over_time")])
    for kind, names in _OF_KIND.items():
        if foreign := _list_options(given, tuple(name for name in names if name not in mine)):
            raise UsageError(f"{foreign}: only for monitors of kind {kind}; leave it out, or set --kind {kind}.")
    return {name: given[name] for name in mine if name in given}


def _list_options(given: dict[str, Any], names: tuple[str, ...]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names if name in given)
