"""Designs: monitors without T and ε. A design has a slot, and either window and answers, or designated times.

A design computes the share of ε that one answer costs, the most that one person pays, and the number of occasions for a
false alarm, in the same way as `check`. These values are exact. Lengths are in slots unless stated otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from monitor.config import AtTimesMonitor
from monitor.config.charges import count_most_designated_times
from monitor.privacy.payments import compute_at_times_payment, compute_over_time_payment


class Design(Protocol):
    """A plan without T and ε."""

    @property
    def slot(self) -> int:
        """The time between updates, in microseconds."""

    @property
    def smallest(self) -> Fraction:
        """The smallest share of the monitor's ε for one answer. It has the most false alarms."""

    @property
    def largest(self) -> Fraction:
        """The largest share of the monitor's ε for one answer. It has the most misses."""

    @property
    def updates(self) -> int:
        """The number of updates that together are one occasion for a false alarm."""

    @property
    def answers(self) -> int:
        """k: the number of noisy answers before a pause."""

    @property
    def mark_lifetime(self) -> int:
        """The number of ticks for which a noisy answer runs: W + F; 0 if it silences no later answer."""

    @property
    def span(self) -> int:
        """The length of the window in microseconds; 0 for an instant."""

    def count_occasions(self, duration: int) -> Fraction:
        """Return the largest number of occasions for a false alarm in a duration (microseconds)."""

    def compute_payment(self, epsilon: Fraction, period: int) -> Fraction:
        """Return the most that one person pays within any period (microseconds) to a monitor of this ε."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """Algorithm 3: one update per slot (docs/rules.md, section 3).

    `window` is W and `max_lead` is F, in slots; `answers` is k. `least_share` and `most_share` are the smallest and the
    largest share of ε of any location: 1/m for m locations with equal shares.
    """

    slot: int
    window: int
    max_lead: int
    answers: int
    least_share: Fraction = Fraction(1)
    most_share: Fraction = Fraction(1)

    @property
    def smallest(self) -> Fraction:
        """The smallest share of a location, divided by k."""
        return self.least_share / self.answers

    @property
    def largest(self) -> Fraction:
        """The largest share of a location, divided by k."""
        return self.most_share / self.answers

    @property
    def updates(self) -> int:
        """1: each update is an occasion for a false alarm."""
        return 1

    @property
    def mark_lifetime(self) -> int:
        """W + F (docs/rules.md, rule 2)."""
        return self.window + self.max_lead

    @property
    def span(self) -> int:
        """The length of the window in microseconds."""
        return self.window * self.slot

    def count_occasions(self, duration: int) -> Fraction:
        """Return the number of updates. Updates during pauses count too, so that silence does not improve a design."""
        return Fraction(duration, self.slot)

    def compute_payment(self, epsilon: Fraction, period: int) -> Fraction:
        """Return the payment for visits in all slots that a period touches (docs/rules.md, section 6)."""
        slots = -(-period // self.slot) + 1
        return compute_over_time_payment(epsilon, self.answers, self.window, self.max_lead, slots)


@dataclass(frozen=True, slots=True)
class AtTimes:
    """Algorithm 4: `horizon` updates about each designated time of the monitor `times`, whose ε and T are ignored."""

    slot: int
    horizon: int
    times: AtTimesMonitor

    @property
    def smallest(self) -> Fraction:
        """1: every location has the whole ε, because a person is at one place at a time."""
        return Fraction(1)

    @property
    def largest(self) -> Fraction:
        """1, like `smallest`."""
        return Fraction(1)

    @property
    def updates(self) -> int:
        """All updates about a designated time. A location is marked at its first alarm, so they are one occasion."""
        return self.horizon

    @property
    def answers(self) -> int:
        """1: a designated time has one noisy answer per location."""
        return 1

    @property
    def mark_lifetime(self) -> int:
        """0: an answer does not silence a later designated time."""
        return 0

    @property
    def span(self) -> int:
        """0: a designated time is an instant."""
        return 0

    def count_occasions(self, duration: int) -> Fraction:
        """Return the largest number of designated times in a duration, with clock changes taken into account."""
        return Fraction(_count_most_times(self.times, duration))

    def compute_payment(self, epsilon: Fraction, period: int) -> Fraction:
        """Return ε times the largest number of designated times in a period."""
        return compute_at_times_payment(epsilon, _count_most_times(self.times, period))


@lru_cache(maxsize=256)
def _count_most_times(times: AtTimesMonitor, duration: int) -> int:
    return count_most_designated_times(times, duration)
