"""Explain targets that cannot be met together (Takagi et al. [ADP], docs/references.md), and find the nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from monitor.contracts.instants import DAY, HOUR, MINUTE, SECOND, format_duration
from monitor.errors import ContradictionError
from monitor.privacy.epsilon import format_epsilon
from monitor.tools.check.wording import format_percent
from monitor.tools.plan.designs import Design
from monitor.tools.plan.outcomes import Plan
from monitor.tools.plan.solve import bound_epsilon, compute_allowed_chance, find_highest_threshold, find_plans, solve
from monitor.tools.plan.targets import Alarm, FalseAlarms, FixedEpsilon, FixedThreshold, Pays, Targets

_MOST_PEOPLE = 10**6


def explain_contradiction(designs: Sequence[Design], targets: Targets) -> ContradictionError:
    """Return the error for targets that no design meets: which collide, why, and the nearest that can be met."""
    names = find_colliding(designs, targets)
    colliding = targets.only(names)
    first, *rest = (str(getattr(colliding, name)) for name in names)
    others = f", given {' and '.join(rest[1:])}" if rest[1:] else ""
    head = f"{first} and {rest[0]} collide{others}" if rest else f"{first} cannot be met"
    lines = [
        f"{head}, at every window, rate and number of answers that may be chosen.",
        f"  Why: {explain(designs, colliding)}",
    ]
    conditions = "with all other targets unchanged", "without the other targets, which collide too"
    for kept, condition in zip((targets, colliding), conditions, strict=True):
        near = [str(target) for target in find_nearest(designs, kept, names)]
        if near:
            lines.append(f"  The nearest that can be met: {'; or '.join(near)} ({condition}).")
            break
    return ContradictionError("\n".join(lines), names)


def find_colliding(designs: Sequence[Design], targets: Targets) -> tuple[str, ...]:
    """Return the names of a smallest set of targets that no design meets together."""
    given = targets.given
    sets = (names for size in range(1, len(given) + 1) for names in combinations(given, size))
    return next((names for names in sets if not _is_feasible(designs, targets.only(names))), given)


def find_nearest(
    designs: Sequence[Design], targets: Targets, names: Sequence[str]
) -> Iterator[FalseAlarms | Alarm | Pays | FixedThreshold | FixedEpsilon]:
    """Yield, for each colliding target, the nearest value that can be met while all others stay the same, if any."""
    searches = {
        "false_alarms": _find_nearest_false_alarms,
        "alarm": _find_nearest_alarm,
        "threshold": _find_nearest_threshold,
        "epsilon": _find_nearest_epsilon,
        "pays": _find_nearest_pays,
    }
    for name in names:
        target = searches[name](designs, targets)
        if target is not None:
            yield target


def explain(designs: Sequence[Design], targets: Targets) -> str:
    """Explain why targets collide, for the design that comes nearest to meeting them."""
    if targets.false_alarms is not None and (targets.alarm or targets.threshold):
        return _explain_bound(max(designs, key=lambda design: -_count_least_false_alarms(design, targets)), targets)
    if targets.pays is not None and targets.epsilon is not None:
        epsilon, period = targets.epsilon.epsilon, targets.pays.period
        least = min(design.compute_payment(epsilon, period) for design in designs)
        return f"at ε = {format_epsilon(epsilon)} a person pays up to {least} within {format_duration(period)}."
    if targets.alarm is not None and targets.threshold is not None:
        people, threshold = targets.alarm.people, targets.threshold.threshold
        best = max(_compute_alarm_chance(design, targets) for design in designs)
        return (
            f"{people} people are {threshold - people} below T = {threshold}: with f = {people} people, the chance of "
            f"an alarm per update is e^(-ε(T - f)), at most {format_percent(best)}."
        )
    return "ε of an answer is so small that its noise cannot be drawn."


def _find_most_epsilon(design: Design, targets: Targets) -> Fraction | None:
    """Return the largest ε per answer that the targets allow; None if nothing bounds it."""
    epsilon = targets.epsilon.epsilon if targets.epsilon else bound_epsilon(design, targets).high
    return None if epsilon is None else epsilon * design.smallest


def _compute_alarm_chance(design: Design, targets: Targets) -> float:
    if targets.epsilon is None or targets.threshold is None or targets.alarm is None:
        return 0.0
    return Plan(design, targets.epsilon.epsilon, targets.threshold.threshold).compute_alarm(targets.alarm.people)


def _find_best_plan(design: Design, targets: Targets) -> Plan | None:
    """Return the plan with the fewest false alarms among those that meet all other targets; None if there is none."""
    high = _find_most_epsilon(design, targets)
    if not high:
        return None
    epsilon = high / design.smallest
    highest = find_highest_threshold(design, targets, epsilon)
    threshold = targets.threshold.threshold if targets.threshold else highest
    return None if threshold is None else Plan(design, epsilon, threshold)


def _count_least_false_alarms(design: Design, targets: Targets) -> float:
    plan = _find_best_plan(design, targets)
    return plan.compute_false_alarms(targets.false_alarms.every) if plan and targets.false_alarms else float("inf")


def _explain_bound(design: Design, targets: Targets) -> str:
    plan = _find_best_plan(design, targets)
    if plan is None or targets.false_alarms is None:
        return "the required alarm is certain only from T people on, and T is above the required number of people."
    every, epsilon = targets.false_alarms.every, plan.smallest_answer
    top = (
        f"{targets.alarm.people} people raise an alarm with the required chance only if T ≤ {plan.threshold}"
        if targets.alarm and not targets.threshold
        else f"T is {plan.threshold}"
    )
    return (
        f"ε of an answer is at most {_format_short(epsilon)}, and {top}. By Takagi et al. [ADP], Theorem 9, "
        f"the chance that any one-sided mechanism calls an empty location unsafe is then at least "
        f"e^(-ε·T) = {format_percent(plan.compute_false_alarm(0))} per update "
        f"(one update per {format_duration(design.slot)}): "
        f"{plan.compute_false_alarms(every):.3g} times in {format_duration(every)}, not once."
    )


def _format_short(epsilon: Fraction) -> str:
    exact = format_epsilon(epsilon)
    return exact if len(exact) <= len("1000/1001") else f"{float(epsilon):.4g}"


def _is_feasible(designs: Sequence[Design], targets: Targets) -> bool:
    return any(solve(design, targets) is not None for design in designs)


def _find_nearest_false_alarms(designs: Sequence[Design], targets: Targets) -> FalseAlarms | None:
    if targets.false_alarms is None:
        return None
    every = targets.false_alarms.every
    shortest = _find_longest_vacuous(designs, every)
    unit = next((unit for unit in (DAY, HOUR, MINUTE, SECOND) if every >= 100 * unit), SECOND)

    def is_met(count: int) -> bool:
        changed = replace(targets, false_alarms=FalseAlarms(count * unit))
        return _is_feasible([design for design in designs if compute_allowed_chance(design, changed) < 1], changed)

    count = _find_last(lambda count: count * unit <= shortest or is_met(count), every // unit)
    return FalseAlarms(count * unit) if count * unit > shortest else None


def _find_longest_vacuous(designs: Sequence[Design], every: int) -> int:
    """Return the longest duration up to `every` in which no design has more than one occasion for a false alarm.

    For such a duration the target "at most one false alarm" is always met.
    """

    def is_vacuous(seconds: int) -> bool:
        return all(design.count_occasions(seconds * SECOND) <= 1 for design in designs)

    return _find_last(is_vacuous, every // SECOND) * SECOND


def _find_nearest_alarm(designs: Sequence[Design], targets: Targets) -> Alarm | None:
    if targets.alarm is None:
        return None
    people, chance = targets.alarm.people, targets.alarm.chance

    def is_missed(count: int) -> bool:
        return not _is_feasible(designs, replace(targets, alarm=Alarm(people + count, chance)))

    beyond = 1
    while is_missed(beyond):
        beyond *= 2
        if beyond > _MOST_PEOPLE:
            return None
    return Alarm(people + _find_last(is_missed, beyond) + 1, chance)


def _find_nearest_pays(designs: Sequence[Design], targets: Targets) -> Pays | None:
    if targets.pays is None:
        return None
    period = targets.pays.period
    amounts = [plan.compute_payment(period) for plan in find_plans(designs, targets.without("pays"))]
    return Pays(min(amounts), period) if amounts else None


def _find_nearest_threshold(designs: Sequence[Design], targets: Targets) -> FixedThreshold | None:
    if targets.threshold is None:
        return None
    wanted = targets.threshold.threshold
    thresholds = [plan.threshold for plan in find_plans(designs, targets.without("threshold"))]
    return FixedThreshold(min(thresholds, key=lambda threshold: abs(threshold - wanted))) if thresholds else None


def _find_nearest_epsilon(designs: Sequence[Design], targets: Targets) -> FixedEpsilon | None:
    if targets.epsilon is None:
        return None
    wanted = targets.epsilon.epsilon
    epsilons = [plan.epsilon for plan in find_plans(designs, targets.without("epsilon"))]
    return FixedEpsilon(min(epsilons, key=lambda epsilon: abs(epsilon - wanted))) if epsilons else None


def _find_last(is_met: Callable[[int], bool], end: int) -> int:
    """Return the largest count in [0, end] that meets a condition, by bisection. 0 must meet the condition."""
    low, high = 0, end + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_met(middle) else (low, middle)
    return low
