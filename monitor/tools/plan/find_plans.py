"""`location-monitor plan`: find plans for targets, or compare a configuration with its neighbours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from rich.console import Console

from monitor.config import AtTimesMonitor, Config
from monitor.config.describe_problems import list_problems
from monitor.contracts.instants import DAY, HOUR, MINUTE, SECOND, format_duration
from monitor.errors import FailedError, UsageError
from monitor.privacy.epsilon import format_epsilon
from monitor.tools.plan.conflict import explain_contradiction
from monitor.tools.plan.designs import Design, design_at_times, design_over_time
from monitor.tools.plan.nearby import list_choices
from monitor.tools.plan.outcomes import Plan, PlanOutcome, evaluate
from monitor.tools.plan.render import make_choices_tree, make_plans_tree, render_choices, render_plans
from monitor.tools.plan.solve import find_plans, rank
from monitor.tools.plan.svg import draw_svg
from monitor.tools.plan.targets import Targets

SLOTS: Final = (15 * MINUTE, HOUR, 6 * HOUR, DAY)
WINDOWS: Final = (DAY, 7 * DAY, 14 * DAY, 28 * DAY)
ANSWERS: Final = (1, 2, 3)

_OVER_TIME_FIT: Final = "--window must be at least one slot, and --window and --accept-ahead a whole number of slots"


@dataclass(frozen=True, slots=True)
class OverTimeOptions:
    """The options of `over_time` designs: durations in microseconds. None: not fixed."""

    slot: int | None = None
    window: int | None = None
    answers: int | None = None
    accept_ahead: int = 0
    locations: int = 1

    def list_designs(self) -> Iterator[Design]:
        """Yield every design that the options allow."""
        share = Fraction(1, self.locations)
        for window in _choose(self.window, WINDOWS):
            for slot in _choose(self.slot, SLOTS):
                if window >= slot and window % slot == 0 and self.accept_ahead % slot == 0:
                    for answers in _choose(self.answers, ANSWERS):
                        yield design_over_time(slot, window // slot, self.accept_ahead // slot, answers, (share, share))


@dataclass(frozen=True, slots=True)
class AtTimesOptions:
    """The options of `at_times` designs: durations in microseconds; None if not fixed. The horizon is then a day."""

    slot: int | None = None
    at: tuple[str, ...] = ("18:00",)
    timezone: str = "UTC"
    horizon: int | None = None

    def list_designs(self) -> Iterator[Design]:
        """Yield every design that the options allow. Raise UsageError if a time or the time zone is invalid."""
        horizon = DAY if self.horizon is None else self.horizon
        monitor = {
            "name": "plan",
            "kind": "at_times",
            "at": self.at,
            "timezone": self.timezone,
            "reporting_horizon": format_duration(horizon),
            "epsilon": 1,
            "threshold": 1,
        }
        try:
            times = AtTimesMonitor.model_validate(monitor)
        except ValidationError as error:
            raise UsageError("; ".join(str(problem) for problem in list_problems(error, "-", AtTimesMonitor))) from None
        for slot in _choose(self.slot, SLOTS):
            if horizon >= slot:
                yield design_at_times(slot, times)


def _choose(fixed: int | None, tried: tuple[int, ...]) -> tuple[int, ...]:
    return tried if fixed is None else (fixed,)


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """Where the result goes: to the console, as text or JSON, and to the file of the picture, if any."""

    console: Console
    as_json: bool
    picture: Path | None


def find(targets: Targets, options: OverTimeOptions | AtTimesOptions) -> tuple[PlanOutcome, ...]:
    """Return the outcomes of the plans that meet the targets, best first.

    Raises:
        UsageError: an option is invalid, or the targets leave T or ε unbounded.
        ContradictionError: the targets cannot be met together.
    """
    if not targets.decides_threshold:
        raise UsageError(
            "Nothing bounds T: add --false-alarm-every (a lower bound), --alarm-at with --with (an upper "
            "bound), or --threshold."
        )
    if not targets.decides_epsilon:
        raise UsageError(
            "Nothing bounds ε: add --pays-at-most, --epsilon, or both --false-alarm-every and one of --alarm-at and "
            "--threshold."
        )
    if isinstance(options, AtTimesOptions) and options.horizon is None:
        options = replace(options, horizon=targets.find_shortest_span(SECOND))
    designs = tuple(options.list_designs())
    if not designs:
        wanted = _OVER_TIME_FIT if isinstance(options, OverTimeOptions) else "--horizon must be at least one slot"
        tried = ", ".join(format_duration(slot) for slot in _choose(options.slot, SLOTS))
        raise UsageError(f"No slot fits: {wanted}. Slots tried: {tried}; set --slot.")
    found = rank(find_plans(designs, targets), targets.period)
    if not found:
        raise explain_contradiction(designs, targets)
    return tuple(evaluate(plan, targets, plan.compute_payment(targets.period)) for plan in found)


def show_plans(targets: Targets, options: OverTimeOptions | AtTimesOptions, output: PlanOutput) -> None:
    """Print the plans that meet the targets. Raise the errors of `find`, and FailedError if the picture fails."""
    found = find(targets, options)
    if output.as_json:
        _print(output, make_plans_tree(found, targets))
    else:
        render_plans(found, targets.period, output.console)
    _draw({_format_title(found[0].plan): found[0].plan}, targets, output)


def show_choices(config: Config, targets: Targets, output: PlanOutput) -> None:
    """Print the outcomes of a configuration and of its neighbours.

    Raises:
        UsageError: the configuration has no threshold.
        FailedError: the picture cannot be written.
    """
    choices = list_choices(config, targets)
    if not choices:
        raise UsageError("The configuration has no monitor with a threshold, so there is nothing to plan: add one.")
    if output.as_json:
        _print(output, make_choices_tree(choices, targets))
    else:
        render_choices(choices, output.console)
    present = {name: listed[0].outcome.plan for name, listed in choices.items()}
    _draw({f"{name}: {_format_title(plan)}": plan for name, plan in present.items()}, targets, output)


def _format_title(plan: Plan) -> str:
    design = plan.design
    window = f", window {format_duration(design.window_length)}, k = {design.answers}" if design.mark_lifetime else ""
    epsilon = format_epsilon(plan.smallest_answer)
    return f"T = {plan.threshold}, ε of an answer {epsilon}{window}, one update per {format_duration(design.slot)}"


def _draw(plans: Mapping[str, Plan], targets: Targets, output: PlanOutput) -> None:
    if output.picture is not None:
        try:
            output.picture.write_text(draw_svg(plans, targets), encoding="utf-8")
        except OSError as error:
            raise FailedError(f"--picture: {output.picture} cannot be written ({error.strerror}).") from error


def _print(output: PlanOutput, tree: object) -> None:
    output.console.print(json.dumps(tree, ensure_ascii=False, indent=2), markup=False, highlight=False, soft_wrap=True)
