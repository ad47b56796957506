"""The outcome of a design with T and ε, and the targets that it misses. ε is exact; chances are floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from monitor.kinds.designs import Design
from monitor.operate.plan.targets import Targets
from monitor.privacy.alarm_chances import (
    compute_busy_share,
    compute_false_alarm,
    compute_over_updates,
    compute_silent_share,
    find_most_noise,
)
from monitor.time.instants import DAY, YEAR


@dataclass(frozen=True, slots=True)
class Plan:
    """A design with ε and T. If locations have different shares of ε, each value is that of the worst location."""

    design: Design
    epsilon: Fraction
    threshold: int

    @property
    def smallest_answer(self) -> Fraction:
        """The smallest ε per answer, at which false alarms are most frequent."""
        return self.epsilon * self.design.smallest

    @property
    def largest_answer(self) -> Fraction:
        """The largest ε per answer, at which misses are most frequent."""
        return self.epsilon * self.design.largest

    def compute_false_alarm(self, people: int) -> float:
        """Return the largest chance per update that `people` raise an alarm: e^(-ε(T - f)), or 1.0 from T people on."""
        return compute_false_alarm(self.smallest_answer, self.threshold, people)

    def compute_alarm(self, people: int) -> float:
        """Return the smallest chance per update that `people` raise an alarm: e^(-ε(T - f)) at the largest ε."""
        return compute_false_alarm(self.largest_answer, self.threshold, people)

    def compute_false_alarms(self, duration: int) -> float:
        """Return the mean number of false alarms in a duration (microseconds) at an empty location that answers."""
        return float(self.design.count_occasions(duration)) * compute_over_updates(
            self.compute_false_alarm(0), self.design.updates
        )

    def compute_silence(self, people: int) -> float:
        """Return the share of time in which a location is paused if `people` are always there."""
        return compute_silent_share(self.compute_false_alarm(people), self.design.answers, self.design.mark_lifetime)

    @property
    def silence(self) -> int:
        """The time from the last of k consecutive alarms to the next answer (microseconds); 0 if no tick is skipped."""
        ticks = self.design.mark_lifetime - self.design.answers + 1
        return ticks * self.design.slot if ticks > 1 else 0

    def compute_noise_in_sight(self) -> float:
        """Return the largest share of time in which a location shows an alarm of noise: with fewer people than T/2."""
        return self.design.compute_share_in_sight(self.compute_false_alarm(find_most_noise(self.threshold)))

    def compute_busy_share(self, people: int | None) -> float | None:
        """Return the share of time in which a location answers at which this number of people a day is reported.

        Without a number, each answer is an alarm. None if no answer silences a later one.
        """
        design = self.design
        if not design.mark_lifetime:
            return None
        if people is None:
            return compute_busy_share(design.answers, design.mark_lifetime)
        in_slot = people * design.slot / DAY
        return simulate_answered_share(
            self.smallest_answer, self.threshold, design.answers, design.window, design.max_lead, in_slot
        )

    def compute_payment(self, period: int) -> Fraction:
        """Return the most that one person pays within any period (microseconds)."""
        return self.design.compute_payment(self.epsilon, period)


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A plan in numbers."""

    plan: Plan
    per_update: float
    """The chance of a false alarm per update."""
    false_alarms_a_year: float
    alarm: float | None
    """The chance of an alarm per update with the target's people."""
    pays: Fraction
    """The most that one person pays in the period."""
    silence: int
    """As in `Plan`, in microseconds."""
    silent_when_empty: float
    unmet: tuple[str, ...]
    """The targets that the plan misses."""
    counts: Fraction | None
    """The share of visits that are reported before the last answer that can count them; None without report delays."""
    noise: float
    """The largest share of places that show an alarm of noise."""
    busy_share: float | None
    """The share of time in which a busy location answers, as in `Plan`."""


def evaluate(plan: Plan, targets: Targets, pays: Fraction) -> PlanOutcome:
    """Return the outcome of a plan. `pays` is the most that one person pays to all monitors in the period."""
    return PlanOutcome(
        plan,
        plan.compute_false_alarm(0),
        plan.compute_false_alarms(YEAR),
        None if targets.alarm is None else plan.compute_alarm(targets.alarm),
        pays,
        plan.silence,
        plan.compute_silence(0),
        tuple(targets.describe(name) for name in find_missed(plan, targets, pays)),
        targets.find_counted(plan.design.longest_delay),
        plan.compute_noise_in_sight(),
        plan.compute_busy_share(targets.busy),
    )


def find_missed(plan: Plan, targets: Targets, pays: Fraction) -> tuple[str, ...]:
    """Return the names of the targets that a plan misses."""
    checks: dict[str, Callable[[], bool]] = {
        "false_alarms": lambda: plan.compute_false_alarms(targets.false_alarms or 0) > 1,
        "alarm": lambda: plan.compute_alarm(targets.alarm or 0) < float(targets.certain),
        "threshold": lambda: plan.threshold != targets.threshold,
        "epsilon": lambda: plan.epsilon != targets.epsilon,
        "pays": lambda: targets.pays is not None and pays > targets.pays,
        "visit": lambda: plan.design.compute_visit(plan.epsilon) > (targets.visit_epsilon or 0),
        "person": lambda: pays > (targets.person_epsilon or 0),
        "noise": lambda: plan.compute_noise_in_sight() > (targets.noise or 0),
        "counts": lambda: (targets.find_counted(plan.design.longest_delay) or 0) < (targets.counts or 0),
        "busy": lambda: (plan.compute_busy_share(targets.busy) or 0) < targets.answered,
    }
    return tuple(name for name in targets.given if checks[name]())


LOCATIONS: Final = 100
"""Simulated locations. A share near 1/2 has an error of about one in a hundred."""

_LIFETIMES: Final = 2
"""How many lifetimes of a mark are simulated before the measurement, and at least for it."""

_LEAST_TICKS: Final = 500


@cache
def simulate_answered_share(
    epsilon: Fraction, threshold: int, answers: int, window: int, max_lead: int, people: float
) -> float:
    """Return the share of ticks at which a location answers, if on average `people` new people are reported in a slot.

    `epsilon` is that of an answer, `answers` is k, `window` is W and `max_lead` is F. Each person is reported once, and
    the numbers of people per slot are Poisson.
    """
    lifetime, random = window + max_lead, np.random.default_rng(7)
    before, measured = _LIFETIMES * lifetime, max(_LIFETIMES * lifetime, _LEAST_TICKS)
    ticks = before + measured
    reported = np.zeros((ticks + 1, LOCATIONS), np.int64)  # before each tick
    np.cumsum(random.poisson(people, (ticks, LOCATIONS)), axis=0, out=reported[1:])
    alarms = np.full((answers, LOCATIONS), -lifetime)  # the ticks of the last k alarms, in turns
    oldest, latest, all_locations = np.zeros(LOCATIONS, np.int64), np.full(LOCATIONS, -lifetime), np.arange(LOCATIONS)
    answered = 0
    for tick in range(ticks):
        running = latest > tick - lifetime
        first = np.where(running, np.maximum(latest, tick - window), tick - window) + 1
        counts = reported[tick + 1] - reported[np.maximum(first, 0), all_locations]
        answering = alarms[oldest, all_locations] <= tick - lifetime
        raised = np.flatnonzero(answering & (counts + _draw_noise(random, epsilon) >= threshold))
        alarms[oldest[raised], raised] = latest[raised] = tick
        oldest[raised] = (oldest[raised] + 1) % answers
        if tick >= before:
            answered += int(np.count_nonzero(answering))
    return answered / (measured * LOCATIONS)


def _draw_noise(random: np.random.Generator, epsilon: Fraction) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Draw one-sided geometric noise: at least n with the chance e^(-εn)."""
    return random.geometric(-math.expm1(-float(epsilon)), LOCATIONS) - 1
