"""Which targets collide, why, and the nearest that can be met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from monitor.errors import ContradictionError
from monitor.privacy.epsilon import format_epsilon
from monitor.public.instants import DAY, HOUR, MINUTE, SECOND, format_duration
from monitor.tools.check.report import format_percent
from monitor.tools.planner.designs import Design
from monitor.tools.planner.outcomes import Plan
from monitor.tools.planner.solve import allowed, bounds, highest_threshold, plans, solve
from monitor.tools.planner.targets import Alarm, FalseAlarms, FixedEpsilon, FixedThreshold, Pays, Targets

_MOST_PEOPLE = 10**6


def contradiction(designs: Sequence[Design], targets: Targets) -> ContradictionError:
    """The error for targets that no design meets: those that collide, why, and the nearest that can be met."""
    names = colliding(designs, targets)
    asked = targets.only(names)
    first, *rest = (str(getattr(asked, name)) for name in names)
    given = f", given {' and '.join(rest[1:])}" if rest[1:] else ""
    head = f"{first} and {rest[0]} collide{given}" if rest else f"{first} cannot be met"
    lines = [
        f"{head}, at every window, rate and number of answers that may be chosen.",
        f"  Why: {reason(designs, asked)}",
    ]
    for others, condition in ((targets, "all else as asked"), (asked, "these targets alone; others collide too")):
        found = [str(near) for near in nearest(designs, others, names)]
        if found:
            lines.append(f"  The nearest that can be met: {'; or '.join(found)} ({condition}).")
            break
    return ContradictionError("\n".join(lines), names)


def colliding(designs: Sequence[Design], targets: Targets) -> tuple[str, ...]:
    """The fewest of the targets that no design meets together."""
    given = targets.given
    sets = (names for size in range(1, len(given) + 1) for names in combinations(given, size))
    return next((names for names in sets if not _feasible(designs, targets.only(names))), given)


def nearest(
    designs: Sequence[Design], targets: Targets, names: Sequence[str]
) -> Iterator[FalseAlarms | Alarm | Pays | FixedThreshold | FixedEpsilon]:
    """For each target that collides: the nearest to it that can be met with all others as they are, if there is one."""
    searches = {
        "false_alarms": _nearest_false_alarms,
        "alarm": _nearest_alarm,
        "threshold": _nearest_threshold,
        "epsilon": _nearest_epsilon,
        "pays": _nearest_pays,
    }
    for name in names:
        near = searches[name](designs, targets)
        if near is not None:
            yield near


def reason(designs: Sequence[Design], asked: Targets) -> str:
    """Why targets collide, shown at the design that comes nearest to meeting them."""
    if asked.false_alarms is not None and (asked.alarm or asked.threshold):
        return _floor(max(designs, key=lambda design: -_floor_rate(design, asked)), asked)
    if asked.pays is not None and asked.epsilon is not None:
        epsilon, period = asked.epsilon.epsilon, asked.pays.period
        least = min(design.payment(epsilon, period) for design in designs)
        return f"at ε = {format_epsilon(epsilon)} a person pays up to {least} within {format_duration(period)}."
    if asked.alarm is not None and asked.threshold is not None:
        people, threshold = asked.alarm.people, asked.threshold.threshold
        best = max(_alarm(design, asked) for design in designs)
        return (
            f"{people} people are {threshold - people} below T = {threshold}: an update of theirs is an alarm with "
            f"e^(-ε(T - f)), {format_percent(best)} at most."
        )
    return "ε of an answer is so small that its noise cannot be drawn."


def _most_epsilon(design: Design, asked: Targets) -> Fraction | None:
    """The largest ε of an answer that the targets allow; None where nothing bounds it."""
    epsilon = asked.epsilon.epsilon if asked.epsilon else bounds(design, asked).high
    return None if epsilon is None else epsilon * design.smallest


def _alarm(design: Design, asked: Targets) -> float:
    if asked.epsilon is None or asked.threshold is None or asked.alarm is None:
        return 0.0
    return Plan(design, asked.epsilon.epsilon, asked.threshold.threshold).alarm(asked.alarm.people)


def _floor_plan(design: Design, asked: Targets) -> Plan | None:
    """The plan with the fewest false alarms that all other targets allow; None where they allow none at all."""
    high = _most_epsilon(design, asked)
    if not high:
        return None
    epsilon = high / design.smallest
    highest = highest_threshold(design, asked, epsilon)
    threshold = asked.threshold.threshold if asked.threshold else highest
    return None if threshold is None else Plan(design, epsilon, threshold)


def _floor_rate(design: Design, asked: Targets) -> float:
    plan = _floor_plan(design, asked)
    return plan.false_alarms(asked.false_alarms.every) if plan and asked.false_alarms else float("inf")


def _floor(design: Design, asked: Targets) -> str:
    plan = _floor_plan(design, asked)
    if plan is None or asked.false_alarms is None:
        return "the alarm asked for is certain only from T on, and T is above the number of people."
    every, epsilon = asked.false_alarms.every, plan.smallest_answer
    top = (
        f"{asked.alarm.people} people raise an alarm so often only if T ≤ {plan.threshold}"
        if asked.alarm and not asked.threshold
        else f"T is {plan.threshold}"
    )
    return (
        f"ε of an answer is at most {_short(epsilon)}, and {top}. [ADP] Theorem 9: any one-sided mechanism then calls "
        f"an empty location unsafe with at least e^(-ε·T) = {format_percent(plan.false_alarm(0))} per update (an update each "
        f"{format_duration(design.slot)}): {plan.false_alarms(every):.3g} times in {format_duration(every)}, not once."
    )


def _short(epsilon: Fraction) -> str:
    exact = format_epsilon(epsilon)
    return exact if len(exact) <= len("1000/1001") else f"{float(epsilon):.4g}"


def _feasible(designs: Sequence[Design], targets: Targets) -> bool:
    return any(solve(design, targets) is not None for design in designs)


def _nearest_false_alarms(designs: Sequence[Design], targets: Targets) -> FalseAlarms | None:
    if targets.false_alarms is None:
        return None
    every = targets.false_alarms.every
    shortest = _vacuous(designs, every)
    unit = next((unit for unit in (DAY, HOUR, MINUTE, SECOND) if every >= 100 * unit), SECOND)

    def met(count: int) -> bool:
        changed = replace(targets, false_alarms=FalseAlarms(count * unit))
        return _feasible([design for design in designs if allowed(design, changed) < 1], changed)

    count = _last(lambda count: count * unit <= shortest or met(count), every // unit)
    return FalseAlarms(count * unit) if count * unit > shortest else None


def _vacuous(designs: Sequence[Design], every: int) -> int:
    """The longest duration, `every` at most, in which one false alarm bounds no design: one at each update."""

    def vacuous(seconds: int) -> bool:
        return all(design.occasions(seconds * SECOND) <= 1 for design in designs)

    return _last(vacuous, every // SECOND) * SECOND


def _nearest_alarm(designs: Sequence[Design], targets: Targets) -> Alarm | None:
    if targets.alarm is None:
        return None
    people, chance = targets.alarm.people, targets.alarm.chance

    def missed(count: int) -> bool:
        return not _feasible(designs, replace(targets, alarm=Alarm(people + count, chance)))

    beyond = 1
    while missed(beyond):
        beyond *= 2
        if beyond > _MOST_PEOPLE:
            return None
    return Alarm(people + _last(missed, beyond) + 1, chance)


def _nearest_pays(designs: Sequence[Design], targets: Targets) -> Pays | None:
    if targets.pays is None:
        return None
    period = targets.pays.period
    amounts = [plan.payment(period) for plan in plans(designs, targets.without("pays"))]
    return Pays(min(amounts), period) if amounts else None


def _nearest_threshold(designs: Sequence[Design], targets: Targets) -> FixedThreshold | None:
    if targets.threshold is None:
        return None
    asked = targets.threshold.threshold
    found = [plan.threshold for plan in plans(designs, targets.without("threshold"))]
    return FixedThreshold(min(found, key=lambda threshold: abs(threshold - asked))) if found else None


def _nearest_epsilon(designs: Sequence[Design], targets: Targets) -> FixedEpsilon | None:
    if targets.epsilon is None:
        return None
    asked = targets.epsilon.epsilon
    found = [plan.epsilon for plan in plans(designs, targets.without("epsilon"))]
    return FixedEpsilon(min(found, key=lambda epsilon: abs(epsilon - asked))) if found else None


def _last(holds: Callable[[int], bool], end: int) -> int:
    """The largest count in [0, end] at which what held at 0 still holds, by bisection; 0 is taken for granted."""
    low, high = 0, end + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
