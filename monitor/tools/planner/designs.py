"""Designs, to which T and ε apply: the grid of updates with the window and its answers, or designated times.

A design has the ε of one answer, what one person pays, and how often an empty location may be called unsafe. It
computes them as `check` does. Shares, payments and frequencies are exact; lengths are in slots unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from monitor.config import AtTimesMonitor
from monitor.config.charges import most_designated_times
from monitor.privacy.payments import at_times_payment, over_time_payment


class Design(Protocol):
    """A plan without T and ε."""

    @property
    def slot(self) -> int:
        """The time between updates, in microseconds."""

    @property
    def smallest(self) -> Fraction:
        """The smallest part of the monitor's ε at which an answer is drawn. False alarms are most frequent there."""

    @property
    def largest(self) -> Fraction:
        """The largest part of the monitor's ε at which an answer is drawn. Misses are most frequent there."""

    @property
    def updates(self) -> int:
        """The number of updates in one occasion for a false alarm."""

    @property
    def answers(self) -> int:
        """k: the number of noisy answers before a pause."""

    @property
    def mark_lifetime(self) -> int:
        """The number of ticks for which a noisy answer runs: W + F; 0 if it silences no later answer."""

    @property
    def span(self) -> int:
        """The length of the window in microseconds; 0 for an instant."""

    def occasions(self, duration: int) -> Fraction:
        """Return the most occasions for a false alarm in a duration (microseconds)."""

    def payment(self, epsilon: Fraction, period: int) -> Fraction:
        """Return the most that one person pays within any period (microseconds) to a monitor of this ε."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """Algorithm 3: one update per slot (docs/rules.md, section 3).

    `window` is W and `max_lead` is F, in slots; `answers` is k. `least_share` and `most_share` are the smallest and the
    largest location's part of ε: 1/m for m equal ones.
    """

    slot: int
    window: int
    max_lead: int
    answers: int
    least_share: Fraction = Fraction(1)
    most_share: Fraction = Fraction(1)

    @property
    def smallest(self) -> Fraction:
        """The smallest location's part of ε, of which an answer costs one k-th."""
        return self.least_share / self.answers

    @property
    def largest(self) -> Fraction:
        """The largest location's part of ε, of which an answer costs one k-th."""
        return self.most_share / self.answers

    @property
    def updates(self) -> int:
        """1: each update may be a false alarm."""
        return 1

    @property
    def mark_lifetime(self) -> int:
        """W + F (docs/rules.md, rule 2)."""
        return self.window + self.max_lead

    @property
    def span(self) -> int:
        """The length of the window."""
        return self.window * self.slot

    def occasions(self, duration: int) -> Fraction:
        """Return the number of updates, pauses included: silence does not make a design better."""
        return Fraction(duration, self.slot)

    def payment(self, epsilon: Fraction, period: int) -> Fraction:
        """Return the payment for visits in all slots that a period touches (docs/rules.md, section 6)."""
        slots = -(-period // self.slot) + 1
        return over_time_payment(epsilon, self.answers, self.window, self.max_lead, slots)


@dataclass(frozen=True, slots=True)
class AtTimes:
    """Algorithm 4: `horizon` updates for each designated time of `times`, whose ε and T are ignored."""

    slot: int
    horizon: int
    times: AtTimesMonitor

    @property
    def smallest(self) -> Fraction:
        """1: the whole ε at every location, because a person is at one place at a time."""
        return Fraction(1)

    @property
    def largest(self) -> Fraction:
        """1, as the smallest."""
        return Fraction(1)

    @property
    def updates(self) -> int:
        """All updates about a designated time: a location is marked at its first alarm, so they are one occasion."""
        return self.horizon

    @property
    def answers(self) -> int:
        """1 for each designated time."""
        return 1

    @property
    def mark_lifetime(self) -> int:
        """0: an answer does not silence the next designated time."""
        return 0

    @property
    def span(self) -> int:
        """0: an instant."""
        return 0

    def occasions(self, duration: int) -> Fraction:
        """Return the most designated times in a duration, also when clocks change."""
        return Fraction(_most_times(self.times, duration))

    def payment(self, epsilon: Fraction, period: int) -> Fraction:
        """Return ε for each designated time that a period may contain."""
        return at_times_payment(epsilon, _most_times(self.times, period))


@lru_cache(maxsize=256)
def _most_times(times: AtTimesMonitor, duration: int) -> int:
    return most_designated_times(times, duration)
