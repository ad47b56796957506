"""The targets of a plan, and the values that the user fixes. All are integers or fractions, so they are exact."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from monitor.kinds.report_delays import ReportDelays
from monitor.privacy.alarm_chances import find_largest_epsilon
from monitor.privacy.epsilon import LARGEST, format_epsilon
from monitor.time.instants import DAY, format_duration
from monitor.values.belief_about_one_person import BELIEVED

PERIOD: Final = 14 * DAY

ANSWERED: Final = Fraction(9, 10)

NAMES: Final = ("false_alarms", "noise", "alarm", "threshold", "epsilon", "pays", "visit", "person", "counts", "busy")
"""The names of all targets, in the order in which messages list them."""


@dataclass(frozen=True, slots=True)
class Targets:
    """All targets; None for those not given."""

    false_alarms: int | None = None
    """On average, an empty location that answers has at most one false alarm in this duration (microseconds)."""
    alarm: int | None = None
    """With this number of people at a location that answers, an update is an alarm with the chance `certain`."""
    certain: Fraction = Fraction(1)
    """At least this chance; above 0, at most 1."""
    threshold: int | None = None
    """T."""
    epsilon: Fraction | None = None
    """The monitor's ε."""
    pays: Fraction | None = None
    """One person pays at most this ε within any `period`."""
    period: int = PERIOD
    """In microseconds."""
    counts: Fraction | None = None
    """At least this share of the visits that are ever reported is reported before the last answer that can count it."""
    delays: ReportDelays | None = None
    """The report delays, for `counts`."""
    visit: Fraction | None = None
    """A reader who gave a chance of 1 % to one visit gives it at most this chance."""
    person: Fraction | None = None
    """As `visit`, for all visits of a person within `period`."""
    noise: Fraction | None = None
    """At any time at most this share of the places shows an alarm of noise, even if each has almost T/2 people."""
    busy: int | None = None
    """A location at which this number of new people a day is reported answers the share `answered` of the time."""
    answered: Fraction = ANSWERED
    """At least this share."""

    @property
    def visit_epsilon(self) -> Fraction | None:
        """The largest ε of one visit that the target `visit` allows; None without the target."""
        return None if self.visit is None else _find_epsilon(self.visit)

    @property
    def person_epsilon(self) -> Fraction | None:
        """The largest ε of one person within the period that the target `person` allows; None without the target."""
        return None if self.person is None else _find_epsilon(self.person)

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the given targets."""
        return tuple(name for name in NAMES if getattr(self, name) is not None)

    def only(self, names: Iterable[str]) -> Targets:
        """Return only the targets with these names."""
        left_out: dict[str, Any] = dict.fromkeys(set(self.given) - set(names))
        return replace(self, **left_out)

    def without(self, name: str) -> Targets:
        """Return all targets except this one."""
        return self.only(other for other in self.given if other != name)

    def describe(self, name: str) -> str:
        """Return a given target as on the command line."""
        within = f"--in {format_duration(self.period)}"
        return {
            "counts": f"--counts-at-least {math.floor(1000 * (self.counts or 0)) / 10:g}%",
            "noise": f"--noise-in-sight {format_exact_percent(self.noise or Fraction(0))}",
            "visit": f"--visit-belief {format_exact_percent(self.visit or Fraction(0))}",
            "person": f"--person-belief {format_exact_percent(self.person or Fraction(0))} {within}",
            "false_alarms": f"--false-alarm-every {format_duration(self.false_alarms or 0)}",
            "alarm": f"--alarm-at {self.alarm} --with {self.certain}",
            "threshold": f"--threshold {self.threshold}",
            "epsilon": f"--epsilon {format_epsilon(self.epsilon or Fraction(0))}",
            "busy": f"--people-a-day {self.busy} --answers-at-least {format_exact_percent(self.answered)}",
            "pays": f"--pays-at-most {format_epsilon(self.pays or Fraction(0))} {within}",
        }[name]

    def find_counted(self, longest_delay: int) -> Fraction | None:
        """Return the share of visits that are reported within this delay; None if the delays are not known."""
        return None if self.delays is None else self.delays.find_share(longest_delay)

    def find_shortest_span(self, slot: int) -> int | None:
        """Return the shortest window or horizon in whole slots that meets the target `counts`; None without the target.

        If no known delay meets it, the longest one decides.
        """
        if self.delays is None or self.counts is None:
            return None
        return -(-(self.delays.find_delay(self.counts) or self.delays.delays[-1]) // slot) * slot

    @property
    def decides_threshold(self) -> bool:
        """Whether the targets bound T: it is fixed, or false alarms bound it from below, or an alarm from above."""
        return not {"threshold", "false_alarms", "noise", "alarm"}.isdisjoint(self.given)

    @property
    def decides_epsilon(self) -> bool:
        """Whether the targets bound ε: it is fixed, or payments bound it from above, or false alarms from below.

        False alarms bound ε only if T is fixed or bounded from above.
        """
        given = set(self.given)
        by_false_alarms = "false_alarms" in given and not given.isdisjoint({"alarm", "threshold"})
        return by_false_alarms or not given.isdisjoint({"epsilon", "pays", "visit", "person"})


def format_exact_percent(share: Fraction) -> str:
    """Return a share in percent as on the command line, with at most three digits after the point."""
    return f"{math.floor(100_000 * share) / 1000:g}%"


def _find_epsilon(belief: Fraction) -> Fraction:
    """Return the largest ε, in thousandths, whose answers raise a chance of 1 % to at most this one; 0 if none does."""
    if belief >= 1:
        return LARGEST
    exact = find_largest_epsilon(BELIEVED, float(belief))
    return max(Fraction(0), Fraction(math.floor(1000 * exact), 1000))
