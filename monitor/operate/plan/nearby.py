"""Compute the outcomes of a configuration's monitors, and of neighbouring choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from monitor.config.charges_of_monitors import compute_charges, compute_timing
from monitor.config.conditions_between_keys import Values, find_broken_conditions
from monitor.config.whole_config import Config
from monitor.errors import UsageError
from monitor.kinds.all_kinds import find_words
from monitor.kinds.base.keys_and_parameters import ConfiguredMonitor
from monitor.kinds.base.words import Words
from monitor.operate.plan.find_threshold_and_epsilon import choose_threshold
from monitor.operate.plan.outcomes import Plan, PlanOutcome, evaluate
from monitor.operate.plan.targets import Targets
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import SECOND, format_duration

PRESENT = "as it is"


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
    targets = targets.only(("false_alarms", "noise", "alarm", "pays", "visit", "person", "counts", "busy"))
    privacy = config.privacy.model_copy(update={"epsilon": targets.pays, "period": targets.period})
    base = config.model_copy(update={"privacy": privacy})
    known = {
        monitor.name: tuple(_list_choices(base, index, monitor, targets))
        for index, monitor in enumerate(config.monitors)
    }
    choices = {name: of_monitor for name, of_monitor in known.items() if of_monitor}
    if not choices:
        raise UsageError("The configuration has no monitor with a threshold, so there is nothing to plan: add one.")
    return choices


def _list_choices(config: Config, index: int, monitor: ConfiguredMonitor, targets: Targets) -> Iterator[Choice]:
    """Yield the choices for a monitor; none if it has no threshold."""
    present = _make_plan(config, monitor)
    if present is None:
        return
    for change, changed, neighbour in _list_neighbours(config, index, monitor, present, targets):
        if (plan := _make_plan(changed, neighbour)) is not None:
            pays = sum((charge.amount for charge in compute_charges(changed)), Fraction(0))
            yield Choice(change, evaluate(plan, targets, pays))


def _make_plan(config: Config, monitor: ConfiguredMonitor) -> Plan | None:
    words = _find_words(config, monitor)
    design, threshold = words.make_design(), words.threshold
    return None if design is None or threshold is None else Plan(design, monitor.epsilon, threshold)


def _find_words(config: Config, monitor: ConfiguredMonitor) -> Words[Any]:
    """Return what the kind of a monitor says about it. Plans are about one location."""
    return find_words(monitor, compute_timing(config), 1)


def _list_neighbours(
    config: Config, index: int, monitor: ConfiguredMonitor, present: Plan, targets: Targets
) -> Iterator[tuple[str, Config, ConfiguredMonitor]]:
    yield PRESENT, config, monitor
    for name, changes in _list_changes(_find_words(config, monitor), present, targets):
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
    words: Words[Any], present: Plan, targets: Targets
) -> Iterator[tuple[str, Mapping[str, int | Fraction]]]:
    step = max(1, present.threshold // 10)
    thresholds = {present.threshold - step, present.threshold + step}
    asked = targets.only(("false_alarms", "noise", "alarm"))
    if asked.decides_threshold:
        thresholds.add(choose_threshold(present.design, asked, present.epsilon))
    for value in sorted(thresholds - {present.threshold}):
        if value >= 1:
            yield f"T = {value}", {"threshold": value}
    for epsilon in (present.epsilon / 2, present.epsilon * 2):
        yield f"ε = {format_epsilon(epsilon)}", {"epsilon": epsilon}
    yield from words.list_changes()
    enough = targets.find_shortest_span(words.timing.slot)
    if enough is not None and enough > words.longest_delay:
        yield f"{words.limit} {format_duration(enough)}", {words.limit: enough}


def _is_valid(config: Config) -> bool:
    return next(find_broken_conditions(Values(config, dict(enumerate(config.monitors)))), None) is None
