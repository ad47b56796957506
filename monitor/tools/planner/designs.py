"""What T and ε apply to: the grid of updates, the window and its answers, or the designated times.

A design knows what one answer's ε is, what one person pays, and how often an empty location may be called unsafe; it
uses what `check` uses. Shares, payments and frequencies are exact; lengths are in slots where not said otherwise.
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
    """Everything of a plan but T and ε."""

    @property
    def slot(self) -> int:
        """The time between updates, in microseconds."""

    @property
    def smallest(self) -> Fraction:
        """The smallest part of the monitor's ε that an answer is drawn at; false alarms are most frequent there."""

    @property
    def largest(self) -> Fraction:
        """The largest part of the monitor's ε that an answer is drawn at; misses are most frequent there."""

    @property
    def updates(self) -> int:
        """How many updates make one occasion for a false alarm."""

    @property
    def answers(self) -> int:
        """k: how many noisy answers may come before silence."""

    @property
    def mark_lifetime(self) -> int:
        """For how many ticks a noisy answer runs: W + F; 0 where it silences nothing that comes later."""

    @property
    def span(self) -> int:
        """What an answer is about: the window's length in microseconds, 0 for an instant."""

    def occasions(self, duration: int) -> Fraction:
        """How many occasions for a false alarm a duration (microseconds) holds at most."""

    def payment(self, epsilon: Fraction, period: int) -> Fraction:
        """What one person pays at most within any period (microseconds) at a monitor of this ε."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """Algorithm 3: an update each slot; `window` is W and `ahead` F in slots, `answers` k (docs/rules.md, section 3).

    `least_share` and `most_share` are the smallest and the largest location's part of ε: 1/m for m alike.
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
        """Each update may be a false alarm by itself."""
        return 1

    @property
    def mark_lifetime(self) -> int:
        """W + F (docs/rules.md, rule 2)."""
        return self.window + self.max_lead

    @property
    def span(self) -> int:
        """The window."""
        return self.window * self.slot

    def occasions(self, duration: int) -> Fraction:
        """Updates: pauses are not taken off, as silence is no merit."""
        return Fraction(duration, self.slot)

    def payment(self, epsilon: Fraction, period: int) -> Fraction:
        """By visits in all the slots that a period touches, one more than fit in it (docs/rules.md, section 6)."""
        slots = -(-period // self.slot) + 1
        return over_time_payment(epsilon, self.answers, self.window, self.max_lead, slots)


@dataclass(frozen=True, slots=True)
class AtTimes:
    """Algorithm 4: `horizon` updates for each designated time of `times`, whose ε and T don't matter here."""

    slot: int
    horizon: int
    times: AtTimesMonitor

    @property
    def smallest(self) -> Fraction:
        """The whole ε at every location: a person is at one place at a time."""
        return Fraction(1)

    @property
    def largest(self) -> Fraction:
        """As the smallest."""
        return Fraction(1)

    @property
    def updates(self) -> int:
        """A location is marked at its first alarm about a designated time, so all its updates are one occasion."""
        return self.horizon

    @property
    def answers(self) -> int:
        """One for each designated time."""
        return 1

    @property
    def mark_lifetime(self) -> int:
        """The next designated time is asked about afresh."""
        return 0

    @property
    def span(self) -> int:
        """An instant."""
        return 0

    def occasions(self, duration: int) -> Fraction:
        """The most designated times that it holds, where clocks change too."""
        return Fraction(_most_times(self.times, duration))

    def payment(self, epsilon: Fraction, period: int) -> Fraction:
        """ε for each designated time that a period may hold."""
        return at_times_payment(epsilon, _most_times(self.times, period))


@lru_cache(maxsize=256)
def _most_times(times: AtTimesMonitor, duration: int) -> int:
    return most_designated_times(times, duration)
