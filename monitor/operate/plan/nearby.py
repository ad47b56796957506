"""Compute the outcomes of a configuration's monitors, and of neighbouring choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from monitor.config import Config
from monitor.config.rules_between_keys import Values, find_broken_rules
from monitor.config.worst_case import compute_charges, compute_max_lead
from monitor.errors import UsageError
from monitor.kinds.at_times.keys import AtTimesMonitor
from monitor.kinds.over_time.keys import OverTimeMonitor
from monitor.operate.plan.designs import Design, design_at_times, design_over_time
from monitor.operate.plan.outcomes import Plan, PlanOutcome, evaluate
from monitor.operate.plan.solve import choose_threshold
from monitor.operate.plan.targets import Targets
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import SECOND, format_duration

PRESENT = "as it is"

Planned = OverTimeMonitor | AtTimesMonitor


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice for a monitor: the change and its outcome. The payment is that of all monitors together."""

    change: str
    outcome: PlanOutcome


def list_choices(config: Config, targets: Targets) -> dict[str, tuple[Choice, ...]]:
    """Return, by monitor name, the present choice and then the neighbouring choices that are valid configurations.

    Without a target for payments, privacy.epsilon and privacy.period of the configuration are the target.

    Raises:
        UsageError: the configuration has no threshold.
    """
    if targets.pays is None:
        targets = replace(targets, pays=config.privacy.epsilon, period=config.privacy.period)
    targets = targets.only(("false_alarms", "alarm", "pays", "counts"))
    privacy = config.privacy.model_copy(update={"epsilon": targets.pays, "period": targets.period})
    base = config.model_copy(update={"privacy": privacy})
    choices = {
        monitor.name: tuple(
            Choice(change, _evaluate(changed, neighbour, targets))
            for change, changed, neighbour in _list_neighbours(base, index, monitor, targets)
        )
        for index, monitor in enumerate(config.monitors)
        if isinstance(monitor, OverTimeMonitor | AtTimesMonitor)  # other kinds have no T
    }
    if not choices:
        raise UsageError("The configuration has no monitor with a threshold, so there is nothing to plan: add one.")
    return choices


def make_plan(config: Config, monitor: Planned) -> Plan:
    """Return the plan of a configured monitor."""
    return Plan(_make_design(config, monitor), monitor.epsilon, monitor.threshold)


def _make_design(config: Config, monitor: Planned) -> Design:
    slot = config.clock.slot
    if isinstance(monitor, AtTimesMonitor):
        return design_at_times(slot, monitor)
    shares = [share / monitor.epsilon for share in monitor.compute_shares().values()]
    max_lead = compute_max_lead(config)
    window = monitor.window // slot
    return design_over_time(slot, window, max_lead, monitor.answers_per_window, (min(shares), max(shares)))


def _evaluate(config: Config, monitor: Planned, targets: Targets) -> PlanOutcome:
    pays = sum((charge.amount for charge in compute_charges(config)), Fraction(0))
    return evaluate(make_plan(config, monitor), targets, pays)


def _list_neighbours(
    config: Config, index: int, monitor: Planned, targets: Targets
) -> Iterator[tuple[str, Config, Planned]]:
    yield PRESENT, config, monitor
    for name, changes in _list_changes(config, monitor, targets):
        neighbour = monitor.model_copy(update=changes)
        monitors = (*config.monitors[:index], neighbour, *config.monitors[index + 1 :])
        if _is_valid(changed := config.model_copy(update={"monitors": monitors})):
            yield name, changed, neighbour
    slot = config.clock.slot
    for length in (slot // 2, slot * 2):
        changed = config.model_copy(update={"clock": config.clock.model_copy(update={"slot": length})})
        if length >= SECOND and _is_valid(changed):
            yield f"slot {format_duration(length)} (of all monitors)", changed, monitor


def _list_changes(
    config: Config, monitor: Planned, targets: Targets
) -> Iterator[tuple[str, Mapping[str, int | Fraction]]]:
    step = max(1, monitor.threshold // 10)
    thresholds = {monitor.threshold - step, monitor.threshold + step}
    asked = targets.only(("false_alarms", "alarm"))
    if asked.decides_threshold:
        thresholds.add(choose_threshold(make_plan(config, monitor).design, asked, monitor.epsilon))
    for value in sorted(thresholds - {monitor.threshold}):
        if value >= 1:
            yield f"T = {value}", {"threshold": value}
    for epsilon in (monitor.epsilon / 2, monitor.epsilon * 2):
        yield f"ε = {format_epsilon(epsilon)}", {"epsilon": epsilon}
    if isinstance(monitor, OverTimeMonitor):
        for answers in (monitor.answers_per_window - 1, monitor.answers_per_window + 1):
            if answers >= 1:
                yield f"k = {answers}", {"answers_per_window": answers}
    name = "window" if isinstance(monitor, OverTimeMonitor) else "reporting_horizon"
    if (enough := targets.find_shortest_span(config.clock.slot)) is not None and enough > getattr(monitor, name):
        yield f"{name} {format_duration(enough)}", {name: enough}


def _is_valid(config: Config) -> bool:
    return next(find_broken_rules(Values(config, dict(enumerate(config.monitors)))), None) is None
