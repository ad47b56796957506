"""`location-monitor plan`: the plans that the options allow, those that meet the targets, and why there are none.

Targets that cannot be met together are explained (Takagi et al. [ADP], docs/literature.md), with some that can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar, Final

from pydantic import ValidationError

from monitor.config.describe_problems import list_problems
from monitor.errors import ContradictionError, UsageError
from monitor.kinds.at_times.keys_and_parameters import AtTimesMonitor
from monitor.kinds.at_times.words import design_at_times
from monitor.kinds.designs import Design
from monitor.kinds.over_time.words import design_over_time
from monitor.operate.plan.find_threshold_and_epsilon import find_plans, rank, solve
from monitor.operate.plan.outcomes import Plan, PlanOutcome, evaluate
from monitor.operate.plan.targets import Targets
from monitor.privacy.alarm_chances import compute_belief
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import DAY, HOUR, MINUTE, SECOND, YEAR, format_duration
from monitor.values.belief_about_one_person import BELIEVED
from monitor.values.wording import format_percent

SLOTS: Final = (15 * MINUTE, HOUR, 6 * HOUR, DAY)
WINDOWS: Final = (DAY, 7 * DAY, 14 * DAY, 28 * DAY)
ANSWERS: Final = (1, 2, 3)
BUSY_ANSWERS: Final = (*range(1, 9), 10, 12, 16)
"""The k that are tried if the number of people at a busy location is known."""


@dataclass(frozen=True, slots=True)
class OverTimeOptions:
    """The options of `over_time` designs: durations in microseconds. None: not fixed."""

    slot: int | None = None
    window: int | None = None
    answers: int | None = None
    accept_ahead: int = 0
    locations: int = 1
    people_a_day: int | None = None
    fits: ClassVar = "--window must be at least one slot, and --window and --accept-ahead a whole number of slots"

    def list_designs(self, span: int | None = None) -> Iterator[Design]:
        """Yield every design that the options allow. The windows do not depend on `span`."""
        del span
        share = Fraction(1, self.locations)
        for window in choose(self.window, WINDOWS):
            for slot in choose(self.slot, SLOTS):
                if window >= slot and window % slot == 0 and self.accept_ahead % slot == 0:
                    for answers in choose(self.answers, ANSWERS if self.people_a_day is None else BUSY_ANSWERS):
                        yield design_over_time(slot, window // slot, self.accept_ahead // slot, answers, (share, share))


@dataclass(frozen=True, slots=True)
class AtTimesOptions:
    """The options of `at_times` designs: durations in microseconds; None if not fixed."""

    slot: int | None = None
    at: tuple[str, ...] = ("18:00",)
    timezone: str = "UTC"
    horizon: int | None = None
    answers: int = 1
    fits: ClassVar = "--horizon must be at least one slot"

    def list_designs(self, span: int | None = None) -> Iterator[Design]:
        """Yield every design that the options allow. `span`: the horizon if no option states it.

        Raises:
            UsageError: a time or the time zone is invalid.
        """
        horizon = self.horizon or span or DAY
        monitor = {
            "name": "plan",
            "kind": "at_times",
            "at": self.at,
            "timezone": self.timezone,
            "reporting_horizon": format_duration(horizon),
            "epsilon": 1,
            "threshold": 1,
            "answers_per_time": self.answers,
        }
        try:
            times = AtTimesMonitor.model_validate(monitor)
        except ValidationError as error:
            raise UsageError("; ".join(str(problem) for problem in list_problems(error, "-", AtTimesMonitor))) from None
        for slot in choose(self.slot, SLOTS):
            if horizon >= slot:
                yield design_at_times(slot, times)


def choose(fixed: int | None, tried: tuple[int, ...]) -> tuple[int, ...]:
    """Return the value that the user fixes, or else all that are tried."""
    return tried if fixed is None else (fixed,)


def find(targets: Targets, options: OverTimeOptions | AtTimesOptions) -> tuple[PlanOutcome, ...]:
    """Return the outcomes of the plans that meet the targets, best first.

    Raises:
        UsageError: an option is invalid, or the targets leave T or ε unbounded.
        ContradictionError: the targets cannot be met together.
    """
    if not targets.decides_threshold:
        raise UsageError(
            "Nothing bounds T: add --noise-in-sight or --false-alarm-every (a lower bound), --alarm-at with --with "
            "(an upper bound), or --threshold."
        )
    if not targets.decides_epsilon:
        raise UsageError(
            "Nothing bounds ε: add --visit-belief, --person-belief, --pays-at-most or --epsilon, or both "
            "--false-alarm-every and one of --alarm-at and --threshold."
        )
    designs = tuple(options.list_designs(targets.find_shortest_span(SECOND)))
    if not designs:
        tried = ", ".join(format_duration(slot) for slot in choose(options.slot, SLOTS))
        raise UsageError(f"No slot fits: {options.fits}. Slots tried: {tried}; set --slot.")
    found = rank(find_plans(designs, targets), targets.period)
    if not found:
        raise explain_contradiction(designs, targets)
    return tuple(evaluate(plan, targets, plan.compute_payment(targets.period)) for plan in found)


_REASONS: Final = {
    "busy": (
        "if many people are reported, all k alarms come early in a window, and the location is silent for the rest of "
        "it. A larger k, T or slot, or a shorter window, changes this."
    ),
    "noise": (
        "an alarm of noise has a chance of up to e^(-ε·T/2) per update, so few of them need a large T or a large ε."
    ),
}
"""Why the targets with these names may collide with any other."""

_TOO_SMALL: Final = "ε of an answer is so small that its noise cannot be drawn."


def explain_contradiction(designs: Sequence[Design], targets: Targets) -> ContradictionError:
    """Return the error for targets that no design meets: which collide, why, and values that can be met."""
    names = find_colliding(designs, targets)
    colliding = targets.only(names)
    first, *rest = (colliding.describe(name) for name in names)
    others = f", given {' and '.join(rest[1:])}" if rest[1:] else ""
    head = f"{first} and {rest[0]} collide{others}" if rest else f"{first} cannot be met"
    lines = [
        f"{head}, at every window, rate and number of answers that may be chosen.",
        f"  Why: {_explain(designs, colliding)}",
    ]
    conditions = "with all other targets unchanged", "without the other targets, which collide too"
    for kept, condition in zip((targets, colliding), conditions, strict=True):
        near = [changed.describe(name) for name, changed in find_nearest(designs, kept, names)]
        if near:
            lines.append(f"  The nearest that can be met: {'; or '.join(near)} ({condition}).")
            break
    return ContradictionError("\n".join(lines), names)


def find_colliding(designs: Sequence[Design], targets: Targets) -> tuple[str, ...]:
    """Return the names of a smallest set of targets that no design meets together."""
    given = targets.given
    sets = (names for size in range(1, len(given) + 1) for names in combinations(given, size))
    return next((names for names in sets if not _is_feasible(designs, targets.only(names))), given)


def _is_feasible(designs: Sequence[Design], targets: Targets) -> bool:
    return any(solve(design, targets) is not None for design in designs)


def find_nearest(designs: Sequence[Design], targets: Targets, names: Sequence[str]) -> Iterator[tuple[str, Targets]]:
    """Yield, for each of these targets, its name and the targets with the nearest value of it that can be met, if any.

    It is the value that the best plan reaches if this target is left out.
    """
    for name in names:
        plans = find_plans(designs, targets.without(name))
        values = [value for plan in plans if (value := _reach(plan, targets, name)) is not None]
        if values:
            wanted = getattr(targets, name)
            nearest: dict[str, Any] = {name: min(values, key=lambda value: abs(value - wanted))}
            yield name, replace(targets, **nearest)


def _reach(plan: Plan, targets: Targets, name: str) -> int | Fraction | None:
    """Return the value of a target that a plan reaches."""
    pays = plan.compute_payment(targets.period)
    reached: dict[str, Callable[[], int | Fraction | None]] = {
        "pays": lambda: pays,
        "person": lambda: _round_up(compute_belief(pays, BELIEVED)),
        "visit": lambda: _round_up(compute_belief(plan.design.compute_visit(plan.epsilon), BELIEVED)),
        "noise": lambda: _round_up(plan.compute_noise_in_sight()),
        "threshold": lambda: plan.threshold,
        "epsilon": lambda: plan.epsilon,
        "counts": lambda: targets.find_counted(plan.design.longest_delay),
        "busy": lambda: None,
        "alarm": lambda: plan.threshold - math.floor(-math.log(targets.certain) / float(plan.largest_answer)),
        "false_alarms": lambda: _find_longest(plan, targets.false_alarms or 0),
    }
    return reached[name]()


def _round_up(chance: float) -> Fraction:
    """Return a chance rounded up to tenths of a percent."""
    return Fraction(math.ceil(1000 * chance), 1000)


def _find_longest(plan: Plan, wanted: int) -> int | None:
    """Return the longest duration up to `wanted` with at most one false alarm, in whole days, hours or less."""
    unit = next((unit for unit in (DAY, HOUR, MINUTE, SECOND) if wanted >= 100 * unit), SECOND)
    a_year = plan.compute_false_alarms(YEAR)
    most = min(wanted, int(YEAR / a_year)) if a_year else wanted
    lengths = range(most // unit * unit, 0, -unit)
    return next((length for length in lengths if plan.compute_false_alarms(length) <= 1), None)


def _explain(designs: Sequence[Design], targets: Targets) -> str:
    """Explain why targets collide, for the design that comes nearest to meeting them."""
    if targets.counts is not None:
        longest = max(design.longest_delay for design in designs)
        share = format_percent(float(targets.find_counted(longest) or 0))
        return f"with these delays, {share} of the visits are reported within {format_duration(longest)}."
    if targets.false_alarms is not None and (targets.alarm or targets.threshold):
        return _explain_bound(designs, targets)
    if targets.epsilon is not None and not {"pays", "visit", "person"}.isdisjoint(targets.given):
        least = min(design.compute_payment(targets.epsilon, targets.period) for design in designs)
        period = format_duration(targets.period)
        return f"at ε = {format_epsilon(targets.epsilon)} a person pays up to {least} within {period}."
    if targets.alarm is not None and targets.threshold is not None:
        people, threshold, epsilon = targets.alarm, targets.threshold, targets.epsilon or Fraction(0)
        best = max(Plan(design, epsilon, threshold).compute_alarm(people) for design in designs)
        return (
            f"{people} people are {threshold - people} below T = {threshold}: with f = {people} people, the chance of "
            f"an alarm per update is e^(-ε(T - f)), at most {format_percent(best)}."
        )
    return next((reason for name, reason in _REASONS.items() if name in targets.given), _TOO_SMALL)


def _explain_bound(designs: Sequence[Design], targets: Targets) -> str:
    """Explain the collision by the bound of Theorem 9, for the plan with the fewest false alarms."""
    every, plans = targets.false_alarms or 0, find_plans(designs, targets.without("false_alarms"))
    if not plans:
        return "the required alarm is certain only from T people on, and T is above the required number of people."
    plan = min(plans, key=lambda plan: plan.compute_false_alarms(every))
    exact = format_epsilon(plan.smallest_answer)
    epsilon = exact if len(exact) <= len("1000/1001") else f"{float(plan.smallest_answer):.4g}"
    top = (
        f"{targets.alarm} people raise an alarm with the required chance only if T ≤ {plan.threshold}"
        if targets.alarm and not targets.threshold
        else f"T is {plan.threshold}"
    )
    return (
        f"ε of an answer is at most {epsilon}, and {top}. By Takagi et al. [ADP], Theorem 9, "
        f"the chance that any one-sided mechanism calls an empty location unsafe is then at least "
        f"e^(-ε·T) = {format_percent(plan.compute_false_alarm(0))} per update "
        f"(one update per {format_duration(plan.design.slot)}): "
        f"{plan.compute_false_alarms(every):.3g} times in {format_duration(every)}, not once."
    )
