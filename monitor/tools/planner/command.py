"""`location-monitor plan`: from targets, or beside a configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from monitor.config import Config
from monitor.errors import FailedError, UsageError
from monitor.privacy.epsilon import format_epsilon
from monitor.public.instants import format_duration
from monitor.tools.planner.conflict import contradiction
from monitor.tools.planner.curves import Curves, curves
from monitor.tools.planner.nearby import choices
from monitor.tools.planner.outcomes import Plan, PlanOutcome, outcome
from monitor.tools.planner.render import choices_tree, plans_tree, render_choices, render_plans
from monitor.tools.planner.request import PERIOD, Words, designs_of, only_targets, require_decided, targets_of
from monitor.tools.planner.solve import plans, ranked
from monitor.tools.planner.svg import svg
from monitor.tools.planner.targets import Targets
from monitor.tools.planner.terminal import picture


@dataclass(frozen=True, slots=True)
class Shown:
    """How the answer is given: to people or to programs, and where the picture goes, if anywhere."""

    console: Console
    as_json: bool
    picture: Path | None


def plan_command(given: Mapping[str, str | tuple[str, ...]], config: Config | None, shown: Shown) -> None:
    """Find the plans that meet the targets, or show what a configuration gives and what its neighbours would.

    Raises:
        UsageError: for a value that cannot be read, or targets that bound nothing.
        ContradictionError: for targets that cannot be met together.
        FailedError: if the picture cannot be written.
    """
    words = Words(given)
    if shown.picture is not None and shown.picture.suffix.lower() != ".svg":
        raise UsageError(f"--picture is {shown.picture.name}: expected a name that ends in .svg; rename it.")
    if config is None:
        _from_targets(words, shown)
    else:
        only_targets(words)
        _beside(config, targets_of(words), shown)


def find(words: Words) -> tuple[Targets, tuple[PlanOutcome, ...], int]:
    """The targets, the plans that meet them in order, and the period that payments are told for."""
    targets = targets_of(words)
    require_decided(targets)
    designs = designs_of(words)
    period = targets.pays.period if targets.pays else PERIOD
    found = ranked(plans(designs, targets), period)
    if not found:
        raise contradiction(designs, targets)
    return targets, tuple(outcome(plan, targets, plan.payment(period)) for plan in found), period


def _from_targets(words: Words, shown: Shown) -> None:
    targets, found, period = find(words)
    plan = found[0].plan
    drawn = curves(plan, targets, title(plan))
    if shown.as_json:
        _print(shown, plans_tree(found, targets, period, drawn))
    else:
        render_plans(found, period, shown.console)
    _draw((drawn,), shown)


def _beside(config: Config, targets: Targets, shown: Shown) -> None:
    found = choices(config, targets)
    if not found:
        raise UsageError("The configuration has no monitor with a threshold, so there is nothing to plan; add one.")
    present = {name: listed[0].outcome.plan for name, listed in found.items()}
    drawn = tuple(curves(plan, targets, f"{name}: {title(plan)}") for name, plan in present.items())
    if shown.as_json:
        _print(shown, choices_tree(found, drawn))
    else:
        render_choices(found, shown.console)
    _draw(drawn, shown)


def title(plan: Plan) -> str:
    """A plan in a line."""
    design = plan.design
    window = f", window {format_duration(design.span)}, k = {design.answers}" if design.mark_lifetime else ""
    epsilon = format_epsilon(plan.smallest_answer)
    return f"T = {plan.threshold}, ε of an answer {epsilon}{window}, an update each {format_duration(design.slot)}"


def _draw(drawn: tuple[Curves, ...], shown: Shown) -> None:
    if shown.picture is not None:
        try:
            shown.picture.write_text(svg(drawn), encoding="utf-8")
        except OSError as error:
            raise FailedError(f"--picture: {shown.picture} cannot be written ({error.strerror}).") from error
    if not shown.as_json:
        for one in drawn:
            shown.console.print(f"\n{picture(one)}", markup=False, highlight=False, soft_wrap=True)


def _print(shown: Shown, tree: object) -> None:
    shown.console.print(json.dumps(tree, ensure_ascii=False, indent=2), markup=False, highlight=False, soft_wrap=True)
