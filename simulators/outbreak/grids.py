"""The grids of the bench: every setting that it computes, and which of them go through the running service."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from monitor.operate.plan.find_plans import OverTimeOptions
from monitor.operate.plan.targets import Targets
from monitor.time.instants import DAY, HOUR, parse_instant
from monitor.time.slot_grid import SlotGrid
from simulators.outbreak.designated import AtTimesSetting
from simulators.outbreak.on_service import OverTimeSetting

DAYS: Final = SlotGrid(parse_instant("2021-08-01T00:00:00+12:00"), DAY)
"""Slots from midnight to midnight, New Zealand Standard Time. Days of summer time begin an hour later."""

QUARTERS: Final = SlotGrid(DAYS.origin, 6 * HOUR)
WINDOW: Final = 14
"""The window in days: how long a person was asked to watch for symptoms."""

WINDOWS: Final = (7, 14, 28)
FALSE_ALARMS: Final = 1.0
"""The most false alarms per 1,000 place-days at which ways are compared."""

THRESHOLDS: Final = (1, 2, 3, 4, 5, 7, 10)
EPSILONS: Final = tuple(Fraction(text) for text in ("1", "2", "7/2", "7"))
LEVELS: Final = (*range(1, 21), *range(22, 61, 2), *range(65, 201, 5))
"""The levels at which the two-sided ways warn, in their curves."""

EARLIER: Final = tuple(range(5))
EXTRA_PEOPLE: Final = 2.0
ANSWERS: Final = (1, 2, 3)
AGAIN: Final = 2
"""The k of the settings that are compared with k = 1: after a number, they count what was reported since."""

LIKELY: Final = OverTimeSetting(1, Fraction(7))
RARE: Final = OverTimeSetting(3, Fraction(7, 3))
"""e^(-εT) is e^(-7), 0.9 per 1,000: the smallest ε, in multiples of 1/T, with at most one false alarm per 1,000."""

TARGETS: Final = Targets(false_alarms=1_000 * DAY, alarm=2, certain=Fraction(95, 100), counts=Fraction(95, 100))
"""What `plan` is asked for: an empty place has at most one false alarm in 1,000 days, two people raise an alarm, and
95 % of the visits are reported while they are in the window."""

CHOICES: Final = OverTimeOptions(slot=DAY, answers=1, accept_ahead=DAY)
"""What is fixed. `accept_ahead` stands for F = 1."""

DELAYS: Final = tuple(range(1, 43))
"""The delays in days at which `plan` knows the share of reports."""

NOON: Final = ("12:30",)
HOURLY: Final = tuple(f"{hour:02}:00" for hour in range(24))
AT_NOON: Final = AtTimesSetting(NOON, 1, Fraction(10))
AT_HOURS: Final = AtTimesSetting(HOURLY, 1, Fraction(13))
"""ln(14 · n · 1,000), rounded up: at this ε · T the evaluations about a day have about one false alarm per 1,000."""
