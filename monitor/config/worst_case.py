"""The most that one person may pay under the configuration alone (docs/privacy.md)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from monitor.config.monitors import AnyMonitor, AtTimesMonitor, OverTimeMonitor, TimedMonitor
from monitor.config.whole_config import Config
from monitor.errors import Problem
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.payments import Charge, charge_at_times, charge_over_time
from monitor.time.instants import SECOND, YEAR, to_instant
from monitor.time.schedule import Schedule

_RULES_FROM: Final = to_instant(datetime(2000, 1, 1, tzinfo=UTC))
# Daily times n days apart are closest if the offset from UTC rises in between. Whether it can rise depends on the dates
# of the changes. 40 years contain all weekdays and leap years of fixed rules, which repeat every 28 years until 2099,
# and the fasting month on all dates, which passes through the year in 33 years and decides the changes in Morocco.
_RULES_YEARS: Final = 40


def find_overspending(config: Config, charges: Sequence[Charge]) -> Problem | None:
    """Return a problem, with the sum and every charge, if one person may pay more than privacy.epsilon, else None."""
    stated, total = config.privacy.epsilon, sum((charge.amount for charge in charges), Fraction(0))
    if total <= stated:
        return None
    terms = (f"{charge.source}: {format_epsilon(charge.amount)} = {charge.reason}" for charge in charges)
    amounts = " + ".join(format_epsilon(charge.amount) for charge in charges)
    listed = "\n      ".join((*terms, f"sum: {amounts} = {format_epsilon(total)}"))
    return Problem(
        "privacy.epsilon",
        format_epsilon(stated),
        f"at least what one person may pay in the period, {format_epsilon(total - stated)} more:\n      {listed}",
        f"Set it to {format_epsilon(total)} or more, or lower a monitor's epsilon or its designated times.",
    )


def compute_charges(config: Config) -> tuple[Charge, ...]:
    """Return the most that each monitor may charge one person within any period, in the order of the configuration."""
    return tuple(charge_monitor(config, monitor) for monitor in config.monitors)


def count_period_slots(config: Config) -> int:
    """Return the most slots that a period can overlap: one more than fit in it, because it may begin within a slot."""
    return count_slots(config, config.privacy.period) + 1


def count_most_designated_times(monitor: TimedMonitor, period: int) -> int:
    """Return the maximum number of designated times in a half-open interval of length `period` (microseconds).

    The maximum is over the intervals that begin at a designated time. They cover all single instants, and the daily
    times of at least 40 years from 2000 on. Later ones are no closer to each other, except over exactly 28 years that
    contain the end of February 2100.
    """
    return _count_most_times(monitor.at, monitor.timezone, period)


@lru_cache(maxsize=256)
def _count_most_times(at: tuple[str, ...], timezone: str | None, period: int) -> int:
    designated = Schedule.of(at, timezone)
    instants = designated.instants
    low = min((_RULES_FROM, *instants))
    high = max((_RULES_FROM + _RULES_YEARS * YEAR + period, *instants)) + SECOND
    times = designated.find_between(low, high)
    return int((np.searchsorted(times, times + period) - np.arange(times.size)).max(initial=0))


def charge_monitor(config: Config, monitor: AnyMonitor) -> Charge:
    """Return the most that one monitor may charge one person within any period."""
    if isinstance(monitor, OverTimeMonitor):
        window, slots = monitor.window // config.clock.slot, count_period_slots(config)
        return charge_over_time(
            monitor.name, monitor.epsilon, monitor.answers_per_window, window, compute_max_lead(config), slots
        )
    times = count_most_designated_times(monitor, config.privacy.period)
    bounds = monitor.at_least if isinstance(monitor, AtTimesMonitor) else None
    return charge_at_times(monitor.name, monitor.epsilon, times, None if bounds is None else bounds.epsilon)


def compute_max_lead(config: Config) -> int:
    """Return F: how many slots after its record's timestamp a visit may end.

    A visit may begin `accept_ahead` after it, and lasts `default_stay` without `left_at` (docs/rules.md, rule 7).
    """
    return count_slots(config, config.visits.accept_ahead) + count_slots(config, config.visits.default_stay)


def count_slots(config: Config, duration: int) -> int:
    """Return how many slots a duration (microseconds) takes, rounded up."""
    return -(-duration // config.clock.slot)
