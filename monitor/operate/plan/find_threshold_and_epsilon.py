"""Find T and ε that meet targets: the smallest T, and the smallest ε if T is bounded from above, else the largest ε.

Let a = -ln(the allowed chance of a false alarm per update), b = -ln(the required chance of an alarm at f people), and q
the ε per answer. Both targets are met if a/q ≤ T ≤ f + b/q. By Takagi et al. [ADP] (docs/literature.md), Theorem 9, no
one-sided mechanism needs a smaller ε. So q·f ≥ a - b is necessary and q·f ≥ a is sufficient. Between these two bounds
the grid of ε is searched: a plan is computed in floats, and `find_missed` checks it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from monitor.kinds.designs import Design
from monitor.operate.plan.outcomes import Plan, find_missed
from monitor.operate.plan.targets import Targets
from monitor.privacy.alarm_chances import find_threshold
from monitor.privacy.epsilon import LARGEST, SMALLEST

GRID: Final = Fraction(1, 20)
"""ε is a multiple of this step, or of a tenth, a hundredth, … of it, so that its bound is at least five steps."""

_STEPS: Final = 5


def solve(design: Design, targets: Targets) -> Plan | None:
    """Return the plan of a design that meets all targets, or None if there is none.

    T is the smallest that the target for false alarms allows, or without that target the largest that meets the target
    for the alarm. If there is a target for false alarms and T is bounded from above, ε is the smallest on its grid.
    Otherwise it is the largest that payments allow.
    """
    for epsilon in _list_candidates(design, targets):
        if epsilon * design.smallest < SMALLEST:
            continue
        plan = Plan(design, epsilon, choose_threshold(design, targets, epsilon))
        pays = plan.compute_payment(targets.period)
        # The busy location is simulated, so it comes last.
        if not find_missed(plan, targets.without("busy"), pays) and not find_missed(plan, targets, pays):
            return plan
    return None


def find_plans(designs: Iterable[Design], targets: Targets) -> tuple[Plan, ...]:
    """Return one plan for each design that can meet the targets.

    With a target for a busy location, k is the smallest that meets it: designs that differ in k only come in its order.
    """
    found: dict[Design, Plan] = {}
    for design in designs:
        chosen = (
            design if targets.busy is None else replace(design, answers=0, smallest=Fraction(0), largest=Fraction(0))
        )
        if chosen not in found and (plan := solve(design, targets)) is not None:
            found[chosen] = plan
    return tuple(found.values())


def choose_threshold(design: Design, targets: Targets, epsilon: Fraction) -> int:
    """Return T for an ε: the fixed T, else the smallest for false alarms and for alarms of noise.

    Without these targets it is the largest T that meets the alarm.
    """
    if targets.threshold is not None:
        return targets.threshold
    least = 1
    if targets.false_alarms is not None:
        chance = compute_allowed_chance(design, targets)
        least = find_threshold(epsilon * design.smallest, design.updates, chance) if chance < 1 else 1
    if targets.noise is not None:
        return max(least, find_quiet_threshold(design, epsilon, targets.noise))
    if targets.false_alarms is not None:
        return least
    return find_highest_threshold(design, targets, epsilon) or 1


def find_quiet_threshold(design: Design, epsilon: Fraction, share: Fraction) -> int:
    """Return the smallest T at which at most this share of the places shows an alarm of noise at any time.

    The chance of such an alarm falls with each second T. `high` is found by doubling, and T by bisection.
    """

    def is_quiet(threshold: int) -> bool:
        return Plan(design, epsilon, threshold).compute_noise_in_sight() <= share

    high = 1
    while not is_quiet(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_quiet(middle) else (middle, high)
    return next(threshold for threshold in (high - 1, high) if threshold > 0 and is_quiet(threshold))


def compute_allowed_chance(design: Design, targets: Targets) -> float:
    """Return the largest allowed chance of a false alarm per occasion; 1.0 without a target."""
    if targets.false_alarms is None:
        return 1.0
    occasions = design.count_occasions(targets.false_alarms)
    return 1 / float(occasions) if occasions > 1 else 1.0


def find_highest_threshold(design: Design, targets: Targets, epsilon: Fraction) -> int | None:
    """Return the largest T that meets the target for the alarm; None without such a target."""
    if targets.alarm is None:
        return None
    people, largest = targets.alarm, epsilon * design.largest
    beyond = math.floor(-math.log(float(targets.certain)) / float(largest))
    return people + next(
        j
        for j in range(beyond + 1, -1, -1)
        if Plan(design, epsilon, people + j).compute_alarm(people) >= targets.certain
    )


def _find_lower_bounds(design: Design, targets: Targets) -> tuple[float, float]:
    """Return the ε below which no T meets the targets, and the ε from which on some T meets them.

    Both are 0 unless targets bound T on both sides.
    """
    alarm, fixed = targets.alarm, targets.threshold
    if targets.false_alarms is None or (alarm is None and fixed is None):
        return 0.0, 0.0
    chance = compute_allowed_chance(design, targets)
    a = -math.log(-math.expm1(math.log1p(-chance) / design.updates)) if chance < 1 else 0.0
    b = -math.log(float(targets.certain)) if fixed is None else 0.0
    always = (fixed or alarm or 1) * float(design.smallest)
    return max(a - b, 0.0) / always, max(a, 0.0) / always


def _find_upper_bound(design: Design, targets: Targets) -> Fraction | None:
    """Return the ε above which no T meets the targets; None if nothing bounds ε from above."""
    limits = []
    if targets.pays is not None:
        limits.append(targets.pays / design.compute_payment(Fraction(1), targets.period))
    if targets.person_epsilon is not None:
        limits.append(targets.person_epsilon / design.compute_payment(Fraction(1), targets.period))
    if targets.visit_epsilon is not None:
        limits.append(targets.visit_epsilon / design.compute_visit(Fraction(1)))
    if targets.alarm is not None and targets.threshold is not None:
        beyond = targets.threshold - targets.alarm
        if beyond > 0:
            limits.append(Fraction(-math.log(float(targets.certain)) / beyond) / design.largest)
    return min(limits, default=None)


def _list_candidates(design: Design, targets: Targets) -> Iterator[Fraction]:
    if targets.epsilon is not None:
        yield targets.epsilon
        return
    (low, enough), high = _find_lower_bounds(design, targets), _find_upper_bound(design, targets)
    if high is not None and high <= 0:
        return
    if not enough:
        yield _round_down(high) if high is not None else min(1 / design.smallest, LARGEST)
        return
    end = enough if high is None else min(enough, float(high))
    step = choose_grid_step(Fraction(end))
    last = math.ceil(end / step) + 1
    if high is not None:
        last = min(last, high // step)
    yield from (number * step for number in range(max(math.floor(low / step), 1), last + 1))


def _round_down(high: Fraction) -> Fraction:
    """Return the largest ε of the grid that is at most `high`."""
    step = choose_grid_step(high)
    return high // step * step


def choose_grid_step(high: Fraction) -> Fraction:
    """Return the step of the grid for an ε of at most `high`: 1/20, 1/200, 1/2000, …."""
    step = GRID
    while step * _STEPS > high and step > SMALLEST:
        step /= 10
    return step


def rank(plans: Sequence[Plan], period: int) -> tuple[Plan, ...]:
    """Drop the plans that another plan with the same window beats, and sort the others.

    A plan beats another if at least one of these values is smaller and none is larger: the most that one person pays in
    the period, the time between updates, the silence after alarms, and T. The plans are sorted by these values, in this
    order.
    """
    return tuple(
        sorted(
            (plan for plan in plans if not any(_beats(other, plan, period) for other in plans)),
            key=lambda plan: (_score(plan, period), plan.design.window_length),
        )
    )


def _beats(other: Plan, plan: Plan, period: int) -> bool:
    theirs, mine = _score(other, period), _score(plan, period)
    return (
        other.design.window_length == plan.design.window_length
        and theirs != mine
        and all(their <= my for their, my in zip(theirs, mine, strict=True))
    )


def _score(plan: Plan, period: int) -> tuple[Fraction, ...]:
    return plan.compute_payment(period), Fraction(plan.design.slot), Fraction(plan.silence), Fraction(plan.threshold)
