"""Compute the curves of a plan: false alarms, misses and silence by number of people."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.contracts.instants import format_duration
from monitor.tools.plan.outcomes import Plan
from monitor.tools.plan.targets import Targets


@dataclass(frozen=True, slots=True)
class Curves:
    """The chances per update while a location answers, and its share of silent time, by count f = 0, 1, ….

    `alarm` is e^(-ε(T - f)) at the smallest ε per answer; an alarm below T is false. `miss` is 1 - e^(-ε(T - f)) at the
    largest ε per answer. Each is the worst case if locations have different shares of ε. `limit` is the target's chance
    of a false alarm per update, if there is such a target. `slot` and `silence` are in microseconds, `mark_lifetime` in
    ticks.
    """

    title: str
    threshold: int
    alarm: tuple[float, ...]
    miss: tuple[float, ...]
    silent: tuple[float, ...]
    limit: float | None
    answers: int
    mark_lifetime: int
    slot: int
    silence: int

    @property
    def timeline(self) -> str:
        """A description of the silence after alarms."""
        if not self.mark_lifetime:
            return "After an alarm, the location is marked for that designated time only."
        if not self.silence:
            return "Every tick may have a noisy answer, so there is no silence."
        alarms = "an alarm" if self.answers == 1 else f"{self.answers} alarms in a row"
        length = format_duration(self.silence)
        return (
            f"After {alarms} the location is paused; the next answer comes {length} after the last alarm. "
            f"W + F = {self.mark_lifetime} ticks of {format_duration(self.slot)}."
        )


def compute_curves(plan: Plan, targets: Targets, title: str) -> Curves:
    """Compute the curves of a plan, for counts from 0 to about 20 % above both T and the target's people."""
    most = max(plan.threshold, targets.alarm.people if targets.alarm else 0)
    counts = range(most + most // 5 + 2)
    design = plan.design
    limit = None
    if targets.false_alarms is not None:
        limit = min(1.0, 1 / float(design.count_occasions(targets.false_alarms.every) or 1) / design.updates)
    return Curves(
        title=title,
        threshold=plan.threshold,
        alarm=tuple(plan.compute_false_alarm(people) for people in counts),
        miss=tuple(1 - plan.compute_alarm(people) for people in counts),
        silent=tuple(plan.compute_silence(people) for people in counts),
        limit=limit,
        answers=design.answers,
        mark_lifetime=design.mark_lifetime,
        slot=design.slot,
        silence=plan.silence,
    )
