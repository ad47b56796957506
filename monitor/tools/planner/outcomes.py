"""What a choice of T and ε gives on a design, and which targets it misses. ε is exact; chances are for display."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from monitor.privacy.odds import false_alarm, over_updates
from monitor.public.instants import YEAR
from monitor.tools.planner.designs import Design
from monitor.tools.planner.silence import silent_share
from monitor.tools.planner.targets import Targets


@dataclass(frozen=True, slots=True)
class Plan:
    """A design with its ε and T. Its locations may have several shares of ε: what is told is of the worst."""

    design: Design
    epsilon: Fraction
    threshold: int

    @property
    def smallest_answer(self) -> Fraction:
        """The smallest ε of an answer: where false alarms are most frequent."""
        return self.epsilon * self.design.smallest

    @property
    def largest_answer(self) -> Fraction:
        """The largest ε of an answer: where misses are most frequent."""
        return self.epsilon * self.design.largest

    def false_alarm(self, people: int) -> float:
        """The chance per update that `people` < T raise an alarm: e^(-ε(T - f)), Theorem 9's floor; 1.0 from T on."""
        return false_alarm(self.smallest_answer, self.threshold, people)

    def alarm(self, people: int) -> float:
        """The chance per update that `people` are found at least: e^(-ε(T - f)) at the largest ε; 1.0 from T on."""
        return false_alarm(self.largest_answer, self.threshold, people)

    def false_alarms(self, duration: int) -> float:
        """How many false alarms an empty location raises in a duration (microseconds) on average, while it answers."""
        return float(self.design.occasions(duration)) * over_updates(self.false_alarm(0), self.design.updates)

    def silent(self, people: int) -> float:
        """The share of the time that a location is paused while `people` are there all along."""
        return silent_share(self.false_alarm(people), self.design.answers, self.design.mark_lifetime)

    @property
    def silence(self) -> int:
        """How long after the last of k alarms in a row the next answer comes, in microseconds; 0: at the next tick."""
        ticks = self.design.mark_lifetime - self.design.answers + 1
        return ticks * self.design.slot if ticks > 1 else 0

    def payment(self, period: int) -> Fraction:
        """What one person pays at most within any period (microseconds)."""
        return self.design.payment(self.epsilon, period)


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A plan in numbers. `alarm` is at the people that were asked for; `unmet` names the targets that it misses."""

    plan: Plan
    per_update: float
    false_alarms_a_year: float
    alarm: float | None
    pays: Fraction
    silence: int
    silent_when_empty: float
    unmet: tuple[str, ...]


def outcome(plan: Plan, targets: Targets, pays: Fraction) -> PlanOutcome:
    """What a plan gives. `pays` is what one person pays by all that is published, in the period that is asked for."""
    return PlanOutcome(
        plan,
        plan.false_alarm(0),
        plan.false_alarms(YEAR),
        plan.alarm(targets.alarm.people) if targets.alarm else None,
        pays,
        plan.silence,
        plan.silent(0),
        unmet(plan, targets, pays),
    )


def unmet(plan: Plan, targets: Targets, pays: Fraction) -> tuple[str, ...]:
    """The targets that a plan misses, as written on the command line."""
    missed = (
        (targets.false_alarms, lambda asked: plan.false_alarms(asked.every) > 1),
        (targets.alarm, lambda asked: plan.alarm(asked.people) < float(asked.chance)),
        (targets.threshold, lambda asked: plan.threshold != asked.threshold),
        (targets.epsilon, lambda asked: plan.epsilon != asked.epsilon),
        (targets.pays, lambda asked: pays > asked.epsilon),
    )
    return tuple(str(asked) for asked, misses in missed if asked is not None and misses(asked))
