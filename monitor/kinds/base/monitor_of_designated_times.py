"""The keys and parameters that all monitors of designated times have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, time
from functools import lru_cache
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field, PlainValidator, WithJsonSchema

from monitor.errors import Problem, TimeError
from monitor.kinds.base.charged_times import ChargedTimes
from monitor.kinds.base.keys_and_parameters import ConfiguredMonitor, Monitor, ValidKeys
from monitor.kinds.facts_and_questions import NeededFacts
from monitor.kinds.timing import Timing
from monitor.privacy.payment_of_one_person import Charge, charge_at_times
from monitor.time.instants import SECOND, YEAR, format_instant, parse_instant, to_datetime, to_instant
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid
from monitor.time.times_of_day import WEEK_DAYS, TimeOfDay, read_time_of_day
from monitor.values.single_values import Epsilon, PositiveDuration, Timezone, make_value_error
from monitor.values.whole_slots import report_too_short

_SECONDS_PER_HOUR: Final = 60 * 60

_RULES_FROM: Final = to_instant(datetime(2000, 1, 1, tzinfo=UTC))
# Times of day n days apart are closest if the offset from UTC rises in between. Whether it can rise depends on the
# dates of the changes. 40 years contain all weekdays and leap years of fixed rules, which repeat every 28 years until
# 2099. They contain the fasting month, which decides the changes in Morocco, on all dates: it passes through the year
# in 33 years.
_RULES_YEARS: Final = 40


class Timed(ChargedTimes, Monitor):
    """A monitor of designated times."""

    statuses: ClassVar[tuple[str, ...]] = ("complete", "unknown")

    @property
    def needed(self) -> NeededFacts:
        """The people who are present at each location at the designated times."""
        return NeededFacts(times=self.times, horizon=self.horizon)

    def list_deciding(self) -> list[object]:
        """Return what decides the answers of every kind of designated time: kind, name, times, horizon and ε."""
        # The instants rather than the zone's name, because hosts may have different time zone data.
        return [self.kind, self.name, self.times.digest(), self.horizon, str(self.epsilon)]

    @property
    def charged_times(self) -> tuple[ChargedTimes, ...]:
        """The designated times themselves."""
        return (self,)


class Total(Timed):
    """A monitor with one answer per designated time, about the locations of all shards, at its final tick."""

    scope = "all places"

    def reads_all_shards(self, tick: int, grid: SlotGrid) -> bool:
        """Return whether the tick is the final one of a designated time."""
        as_of = grid.as_of(tick)
        return any(self.is_final(time, as_of, grid) for time in self.list_live_times(as_of))


def _parse_designated_time(value: object) -> str:
    what = (
        'a time of day in quotes, from "00:00" to "23:59:59", alone or after days of the week such as "Tue" or '
        '"Mon-Fri", or an RFC 3339 time with an offset'
    )
    if isinstance(value, int) and not isinstance(value, bool):
        raise make_value_error(
            what, f"YAML reads an unquoted {_format_clock_time(value)} as the number {value}: put it in quotes."
        )
    if not isinstance(value, str):
        raise make_value_error(what)
    if read_time_of_day(value) is not None:
        return value
    try:
        parse_instant(value)
    except TimeError as error:
        raise make_value_error(what, _explain_time(value, error)) from None
    return value


def _explain_time(text: str, error: TimeError) -> str:
    """Return what to do about a text that is neither a time of day nor an instant."""
    if text[:1].isalpha():
        return 'Write days with three letters, separated by commas or joined by "-", then a space: "Mon-Wed,Sat 18:00".'
    if "T" in text.upper():
        return f"Correct the instant: {error}."
    if text.startswith("24:"):
        return 'Midnight is "00:00", the beginning of the next day.'
    return 'Write hours and minutes with two digits each, such as "09:30".'


def _format_clock_time(number: int) -> str:
    """Return the probable source text: YAML 1.1 reads 18:00 as 18·60 and 18:00:30 as 18·3600 + 30.

    A number below 3600 has no seconds, because YAML 1.1 reads no number that begins with `0:`.
    """
    hours, rest = divmod(number, 60)
    if 0 <= number < _SECONDS_PER_HOUR:
        return f"{hours}:{rest:02}"
    return f"{hours // 60}:{hours % 60:02}:{rest:02}"


DesignatedTime = Annotated[
    str,
    PlainValidator(_parse_designated_time),
    WithJsonSchema({"type": "string", "examples": ["18:00", "Mon-Fri 18:00", "2026-11-20T18:00:00Z"]}),
]


class TimedMonitor(ConfiguredMonitor):
    """The common fields of the monitors that have designated times.

    A time of day that occurs twice, because the clocks are set back, is evaluated once: the first time.
    """

    at: tuple[DesignatedTime, ...] = Field(
        description='a list of times of day ("18:00", "Mon-Fri 18:00") or RFC 3339 times'
    )
    timezone: Timezone | None = Field(default=None, description="the time zone of the times of day, such as Asia/Tokyo")
    reporting_horizon: PositiveDuration = Field(
        description="how long after a designated time reports about it still count, a duration such as 2d"
    )
    epsilon: Epsilon = Field(description="the ε of each designated time")

    @property
    def has_times_of_day(self) -> bool:
        """Whether any of the times is a time of day, which is one in `timezone`."""
        return bool(self.schedule.times_of_day)

    @property
    def schedule(self) -> Schedule:
        """All designated times."""
        return Schedule.of(self.at, self.timezone)

    def find_timezone(self) -> str | None:
        """Return the value of the key `timezone`."""
        return self.timezone

    def count_most_times(self, period: int) -> int:
        """Return the maximum number of designated times in a half-open interval of length `period` (microseconds).

        The maximum is over the intervals that begin at a designated time. They cover all single instants, and the times
        of day of at least 40 years from 2000 on. Later ones are no closer to each other, except over exactly 28 years
        that contain the end of February 2100.
        """
        return _count_most_times(self.at, self.timezone, period)

    def charge(self, timing: Timing) -> Charge:
        """Return the most that the monitor may charge one person within any period: ε for each designated time."""
        return charge_at_times(self.name, self.epsilon, self.count_most_times(timing.period))

    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition of the times, the time zone and the horizon."""
        if keys.has("at") and not self.at:
            yield Problem(f"{keys.key}.at", "empty", "at least one designated time", 'Add one, such as "18:00".')
        if keys.has("at", "timezone"):
            if self.has_times_of_day and self.timezone is None:
                yield Problem(
                    f"{keys.key}.timezone",
                    "missing",
                    "the time zone of the times of day in `at`",
                    "Add an IANA name, such as Asia/Tokyo or UTC.",
                )
            yield from _check_duplicates(f"{keys.key}.at", self.schedule)
        if keys.has("reporting_horizon") and keys.slot is not None and self.reporting_horizon < keys.slot:
            yield report_too_short(f"{keys.key}.reporting_horizon", self.reporting_horizon, keys.slot)


def _check_duplicates(key: str, times: Schedule) -> Iterator[Problem]:
    once = "each designated time once"
    occurring = Counter((one.at, day) for one in times.times_of_day for day in one.days)
    for one in sorted({TimeOfDay(at, _list_repeated(at, occurring)) for at, _day in occurring}):
        if one.days:
            yield Problem(key, one.text, once, "Remove the duplicate.")
    for instant, number in Counter(times.instants).items():
        if number > 1:
            yield Problem(key, format_instant(instant), once, "Remove the duplicate.")
        if times.zone is not None:
            local = to_datetime(instant).astimezone(times.zone)
            if (local.time(), local.weekday()) in occurring:
                yield Problem(key, format_instant(instant), once, "Remove it: it is one of the times of day.")


def _list_repeated(at: time, occurring: Counter[tuple[time, int]]) -> tuple[int, ...]:
    """Return the days of the week on which a time of day is listed more than once."""
    return tuple(day for day in WEEK_DAYS if occurring[at, day] > 1)


@lru_cache(maxsize=256)
def _count_most_times(at: tuple[str, ...], timezone: str | None, period: int) -> int:
    designated = Schedule.of(at, timezone)
    instants = designated.instants
    low = min((_RULES_FROM, *instants))
    high = max((_RULES_FROM + _RULES_YEARS * YEAR + period, *instants)) + SECOND
    times = designated.find_between(low, high)
    return int((np.searchsorted(times, times + period) - np.arange(times.size)).max(initial=0))
