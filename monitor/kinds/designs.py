"""Designs: monitors without T and ε. A design has a slot, and either window and answers, or designated times.

A design has the share of ε that one answer costs, the most that one person pays, and the number of occasions for a
false alarm, computed in the same way as in `check`. These values are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from monitor.kinds.base.monitor_of_designated_times import TimedMonitor
from monitor.kinds.base.record_of_designated_times import FINAL_FOR
from monitor.privacy.alarm_chances import compute_silent_share
from monitor.privacy.payment_of_one_person import compute_at_times_payment, compute_over_time_payment


@dataclass(frozen=True, slots=True)
class Design:
    """A plan without T and ε.

    Args:
        kind: the kind of monitor.
        slot: the time between updates, in microseconds.
        smallest: the smallest share of the monitor's ε for one answer of a location. It has the most false alarms.
        largest: the largest share of the monitor's ε for one answer. It has the most misses.
        updates: the number of updates that together are one occasion for a false alarm.
        window: W, in slots; 0 for designated times.
        max_lead: F, in slots.
        answers: k, the number of noisy answers before a pause.
        times: the monitor with the designated times and their horizon, whose ε and T are ignored; None for a window.
    """

    kind: str
    slot: int
    smallest: Fraction = Fraction(1)
    largest: Fraction = Fraction(1)
    updates: int = 1
    window: int = 0
    max_lead: int = 0
    answers: int = 1
    times: TimedMonitor | None = None

    @property
    def mark_lifetime(self) -> int:
        """The number of ticks for which a noisy answer runs: W + F; 0 if it silences no later answer."""
        return self.window + self.max_lead

    @property
    def window_length(self) -> int:
        """The length of the window in microseconds; 0 for an instant."""
        return self.window * self.slot

    @property
    def longest_delay(self) -> int:
        """How late a visit may be reported so that an answer still counts it: the window, or the horizon."""
        return self.window_length if self.times is None else self.times.reporting_horizon

    def count_occasions(self, duration: int) -> Fraction:
        """Return the largest number of occasions for a false alarm in a duration (microseconds).

        Updates during pauses count too, so that silence does not improve a design.
        """
        if self.times is None:
            return Fraction(duration, self.slot)
        return Fraction(self.times.count_most_times(duration))

    def compute_visit(self, epsilon: Fraction) -> Fraction:
        """Return the most that a visit pays which is reported once: one answer about its location or its time."""
        return epsilon * self.largest

    def compute_share_in_sight(self, alarm: float) -> float:
        """Return the share of time in which a location shows an alarm, if each update raises one with this chance.

        An alarm over time stays in sight while its mark runs and, as any answer, for two slots after its last tick. An
        alarm about a designated time stays for `FINAL_FOR` after the last tick about it.
        """
        if self.times is None:
            shown = alarm * (1 - compute_silent_share(alarm, self.answers, self.mark_lifetime))
            return min(1.0, shown * (self.mark_lifetime + 1))
        ticks = np.arange(self.updates)
        first = alarm * (1 - alarm) ** ticks  # the chance that the first alarm comes at this tick
        duration = float(first @ ((self.updates - 1 - ticks) * self.slot + FINAL_FOR))
        span = self.updates * self.slot + FINAL_FOR
        return min(1.0, self.times.count_most_times(span) * duration / span)

    def compute_payment(self, epsilon: Fraction, period: int) -> Fraction:
        """Return the most that one person pays within any period (microseconds) to a monitor of this ε."""
        if self.times is not None:
            return compute_at_times_payment(epsilon, self.times.count_most_times(period))
        slots = -(-period // self.slot) + 1
        return compute_over_time_payment(epsilon, self.answers, self.window, self.max_lead, slots)
