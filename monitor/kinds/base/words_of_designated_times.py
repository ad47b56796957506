"""What is said about every monitor of designated times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from monitor.kinds.base.monitor_of_designated_times import TimedMonitor
from monitor.kinds.base.words import Words
from monitor.privacy.payment_of_one_person import Charge
from monitor.values.wording import spell_duration

Keys = TypeVar("Keys", bound=TimedMonitor)


@dataclass(frozen=True)
class TimedWords(Words[Keys]):
    """What is said about a monitor of designated times."""

    per = "designated time that it covers"
    limit = "reporting_horizon"
    charged_per_place = True

    @property
    def shares(self) -> Counter[Fraction]:
        """Every location has the whole ε."""
        return Counter({self.monitor.epsilon: self.locations})

    @property
    def one_visit(self) -> Fraction:
        """The ε of a designated time."""
        return self.monitor.epsilon

    def name_times(self) -> str:
        """Return the designated times as configured, with the time zone of times of day."""
        return ", ".join(self.monitor.at) + (f" ({self.monitor.timezone})" if self.monitor.has_times_of_day else "")

    def spell_horizon(self) -> str:
        """Return the reporting horizon in words."""
        return spell_duration(self.monitor.reporting_horizon)

    def explain_times(self, each: str, charge: Charge) -> str:
        """Return how the charge is computed, given the ε of each designated time in words."""
        times = self.monitor.count_most_times(self.timing.period)
        return (
            f"Any {spell_duration(self.timing.period)} contain at most {times} designated "
            f"times, even if clocks change, at {each} each: {charge.amount}."
        )

    def describe_counted(self, in_time: str, other: str) -> str:
        """Return what the one answer counts."""
        del other
        return f"the answer about a designated time counts {in_time}."
