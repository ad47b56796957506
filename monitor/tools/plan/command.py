"""`location-monitor plan`: find plans for targets, or compare a configuration with its neighbours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from monitor.config import Config
from monitor.contracts.instants import format_duration
from monitor.errors import FailedError, UsageError
from monitor.privacy.epsilon import format_epsilon
from monitor.tools.plan.conflict import explain_contradiction
from monitor.tools.plan.curves import Curves, compute_curves
from monitor.tools.plan.nearby import list_choices
from monitor.tools.plan.outcomes import Plan, PlanOutcome, evaluate
from monitor.tools.plan.render import make_choices_tree, make_plans_tree, render_choices, render_plans
from monitor.tools.plan.request import (
    PERIOD,
    Options,
    read_designs,
    read_targets,
    require_decided,
    require_only_targets,
)
from monitor.tools.plan.solve import find_plans, rank
from monitor.tools.plan.svg import draw_svg
from monitor.tools.plan.targets import Targets
from monitor.tools.plan.terminal import draw_text


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """Where the result goes: to the console, as text or JSON, and to the file of the picture, if any."""

    console: Console
    as_json: bool
    picture: Path | None


def plan_command(given: Mapping[str, str | tuple[str, ...]], config: Config | None, output: PlanOutput) -> None:
    """Find the plans that meet the targets, or show the outcomes of a configuration and of its neighbours.

    Raises:
        UsageError: an option is invalid, the targets leave T or ε unbounded, or the configuration has no threshold.
        ContradictionError: the targets cannot be met together.
        FailedError: the picture cannot be written.
    """
    options = Options(given)
    if output.picture is not None and output.picture.suffix.lower() != ".svg":
        raise UsageError(f"--picture is {output.picture.name}: expected a name that ends in .svg; rename the file.")
    if config is None:
        _show_plans(options, output)
    else:
        require_only_targets(options)
        _show_choices(config, read_targets(options), output)


def find(options: Options) -> tuple[Targets, tuple[PlanOutcome, ...], int]:
    """Return the targets, the outcomes of the plans that meet them (best first), and the period of the payments.

    Raises:
        UsageError: an option is invalid, or the targets leave T or ε unbounded.
        ContradictionError: the targets cannot be met together.
    """
    targets = read_targets(options)
    require_decided(targets)
    designs = read_designs(options)
    period = targets.pays.period if targets.pays else PERIOD
    found = rank(find_plans(designs, targets), period)
    if not found:
        raise explain_contradiction(designs, targets)
    return targets, tuple(evaluate(plan, targets, plan.compute_payment(period)) for plan in found), period


def _show_plans(options: Options, output: PlanOutput) -> None:
    targets, found, period = find(options)
    plan = found[0].plan
    curves = compute_curves(plan, targets, format_title(plan))
    if output.as_json:
        _print(output, make_plans_tree(found, targets, period, curves))
    else:
        render_plans(found, period, output.console)
    _draw((curves,), output)


def _show_choices(config: Config, targets: Targets, output: PlanOutput) -> None:
    choices = list_choices(config, targets)
    if not choices:
        raise UsageError("The configuration has no monitor with a threshold, so there is nothing to plan: add one.")
    present = {name: listed[0].outcome.plan for name, listed in choices.items()}
    curves = tuple(compute_curves(plan, targets, f"{name}: {format_title(plan)}") for name, plan in present.items())
    if output.as_json:
        _print(output, make_choices_tree(choices, curves))
    else:
        render_choices(choices, output.console)
    _draw(curves, output)


def format_title(plan: Plan) -> str:
    """Format a plan in one line."""
    design = plan.design
    window = f", window {format_duration(design.span)}, k = {design.answers}" if design.mark_lifetime else ""
    epsilon = format_epsilon(plan.smallest_answer)
    return f"T = {plan.threshold}, ε of an answer {epsilon}{window}, one update per {format_duration(design.slot)}"


def _draw(curves: tuple[Curves, ...], output: PlanOutput) -> None:
    if output.picture is not None:
        try:
            output.picture.write_text(draw_svg(curves), encoding="utf-8")
        except OSError as error:
            raise FailedError(f"--picture: {output.picture} cannot be written ({error.strerror}).") from error
    if not output.as_json:
        for plan_curves in curves:
            output.console.print(f"\n{draw_text(plan_curves)}", markup=False, highlight=False, soft_wrap=True)


def _print(output: PlanOutput, tree: object) -> None:
    output.console.print(json.dumps(tree, ensure_ascii=False, indent=2), markup=False, highlight=False, soft_wrap=True)
