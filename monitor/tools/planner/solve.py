"""From targets to T and ε: the smallest T, and the least ε where something bounds T, else the most that is allowed.

With a = -ln(chance of a false alarm allowed per update) and b = -ln(chance of the alarm asked for), an answer's ε q
and T meet both if a/q ≤ T ≤ f + b/q ([ADP], Theorem 9: no one-sided mechanism can do with less). So q·f ≥ a - b is
needed and q·f ≥ a is enough; between the two the grid of ε is searched. Floats find; `unmet` judges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.privacy.epsilon import LARGEST, SMALLEST
from monitor.tools.check.report import threshold_for
from monitor.tools.planner.designs import Design
from monitor.tools.planner.outcomes import Plan, unmet
from monitor.tools.planner.targets import Targets

GRID: Final = Fraction(1, 20)
"""ε is a multiple of this, or of a tenth, a hundredth, … of it, so that five steps at least lie below the bound."""

_STEPS: Final = 5


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a design's ε may lie. `low` and `enough` are 0 and None where nothing bounds T from above."""

    low: float
    enough: float | None
    high: Fraction | None


def solve(design: Design, targets: Targets) -> Plan | None:
    """The plan that meets all targets on a design, None if none does.

    T is the smallest that false alarms allow; without such a target, the largest at which the alarm is met. ε is the
    least on its grid where false alarms are to be met at a bounded T; else the most that payments allow.
    """
    for epsilon in _candidates(design, targets):
        if epsilon * design.smallest < SMALLEST:
            continue
        plan = Plan(design, epsilon, threshold(design, targets, epsilon))
        pays = plan.payment(targets.pays.period) if targets.pays else Fraction(0)
        if not unmet(plan, targets, pays):
            return plan
    return None


def plans(designs: Iterable[Design], targets: Targets) -> tuple[Plan, ...]:
    """The plans of all designs that can meet the targets."""
    return tuple(plan for design in designs if (plan := solve(design, targets)) is not None)


def threshold(design: Design, targets: Targets, epsilon: Fraction) -> int:
    """The T that goes with an ε: what is fixed, else the smallest for false alarms, else the largest for the alarm."""
    if targets.threshold is not None:
        return targets.threshold.threshold
    if targets.false_alarms is not None:
        chance = allowed(design, targets)
        return threshold_for(epsilon * design.smallest, design.updates, chance) if chance < 1 else 1
    return highest_threshold(design, targets, epsilon) or 1


def allowed(design: Design, targets: Targets) -> float:
    """The chance of a false alarm that one occasion may have; 1.0 where any is allowed."""
    if targets.false_alarms is None:
        return 1.0
    occasions = design.occasions(targets.false_alarms.every)
    return 1 / float(occasions) if occasions > 1 else 1.0


def highest_threshold(design: Design, targets: Targets, epsilon: Fraction) -> int | None:
    """The largest T at which the people asked for raise an alarm as often as asked; None where none is asked."""
    if targets.alarm is None:
        return None
    asked, largest = targets.alarm, epsilon * design.largest
    beyond = math.floor(_log(float(asked.chance)) / float(largest))
    return asked.people + next(
        j
        for j in range(beyond + 1, -1, -1)
        if Plan(design, epsilon, asked.people + j).alarm(asked.people) >= asked.chance
    )


def bounds(design: Design, targets: Targets) -> Bounds:
    """Where ε must and may lie: below `low` or above `high` no T meets the targets."""
    low, enough = 0.0, None
    alarm, fixed = targets.alarm, targets.threshold
    if targets.false_alarms is not None and (alarm is not None or fixed is not None):
        chance = allowed(design, targets)
        a = _log(-math.expm1(math.log1p(-chance) / design.updates)) if chance < 1 else 0.0
        b = _log(float(alarm.chance)) if alarm and not fixed else 0.0
        certain = fixed.threshold if fixed else alarm.people if alarm else 1
        low, enough = (max(bound, 0.0) / (certain * float(design.smallest)) for bound in (a - b, a))
    return Bounds(low, enough, _high(design, targets))


def _high(design: Design, targets: Targets) -> Fraction | None:
    limits = []
    if targets.pays is not None:
        limits.append(targets.pays.epsilon / design.payment(Fraction(1), targets.pays.period))
    if targets.alarm is not None and targets.threshold is not None:
        beyond = targets.threshold.threshold - targets.alarm.people
        if beyond > 0:
            limits.append(Fraction(_log(float(targets.alarm.chance)) / beyond) / design.largest)
    return min(limits, default=None)


def _candidates(design: Design, targets: Targets) -> Iterator[Fraction]:
    if targets.epsilon is not None:
        yield targets.epsilon.epsilon
        return
    found = bounds(design, targets)
    if found.high is not None and found.high <= 0:
        return
    if not found.enough:
        yield _most(found.high) if found.high is not None else min(1 / design.smallest, LARGEST)
        return
    end = found.enough if found.high is None else min(found.enough, float(found.high))
    step = grid(Fraction(end))
    last = math.ceil(end / step) + 1
    if found.high is not None:
        last = min(last, found.high // step)
    yield from (number * step for number in range(max(math.floor(found.low / step), 1), last + 1))


def _most(high: Fraction) -> Fraction:
    """The largest of the grid that is at most `high`; `high` itself where it is simple enough to be written."""
    step = grid(high)
    return high // step * step


def grid(high: Fraction) -> Fraction:
    """The step of the grid for an ε of at most `high`: 1/20, or so many tens finer that five steps lie below it."""
    step = GRID
    while step * _STEPS > high and step > SMALLEST:
        step /= 10
    return step


def _log(chance: float) -> float:
    return -math.log(chance)


def ranked(found: Sequence[Plan], period: int) -> tuple[Plan, ...]:
    """Plans that no other of the same window beats in everything: least paid first, then most frequent, then T.

    What counts is what one person pays in the period, the time between updates, the silence after alarms, and T.
    """
    return tuple(
        sorted(
            (plan for plan in found if not any(_beats(other, plan, period) for other in found)),
            key=lambda plan: (_score(plan, period), plan.design.span),
        )
    )


def _beats(other: Plan, plan: Plan, period: int) -> bool:
    theirs, mine = _score(other, period), _score(plan, period)
    return (
        other.design.span == plan.design.span
        and theirs != mine
        and all(their <= my for their, my in zip(theirs, mine, strict=True))
    )


def _score(plan: Plan, period: int) -> tuple[Fraction, ...]:
    return plan.payment(period), Fraction(plan.design.slot), Fraction(plan.silence), Fraction(plan.threshold)
