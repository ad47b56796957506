"""The four kinds of monitor in the configuration (docs/rules.md)."""

from __future__ import annotations

import re
import zoneinfo
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from monitor.config.describe_problems import find_similar
from monitor.config.single_values import (
    Epsilon,
    LocationId,
    Name,
    PositiveDuration,
    Section,
    WholeNumber,
    make_value_error,
)
from monitor.errors import TimeError
from monitor.time.instants import parse_instant

DAILY: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?", re.ASCII)

_SECONDS_PER_HOUR: Final = 60 * 60


def _tag_locations(locations: object) -> str:
    return "weights" if isinstance(locations, dict) else "list"


Locations = Annotated[
    Annotated[tuple[LocationId, ...], Tag("list")] | Annotated[dict[LocationId, WholeNumber], Tag("weights")],
    Discriminator(_tag_locations),
]


def _parse_designated_time(value: object) -> str:
    what = 'a time of day in quotes, from "00:00" to "23:59:59", or an RFC 3339 time with an offset'
    if isinstance(value, int) and not isinstance(value, bool):
        raise make_value_error(
            what, f"YAML reads an unquoted {_format_clock_time(value)} as the number {value}: put it in quotes."
        )
    if not isinstance(value, str):
        raise make_value_error(what)
    if DAILY.fullmatch(value) is not None:
        return value
    try:
        parse_instant(value)
    except TimeError as error:
        raise make_value_error(what, _explain_time(value, error)) from None
    return value


def _explain_time(text: str, error: TimeError) -> str:
    """Return what to do about a text that is neither a time of day nor an instant."""
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


def _parse_timezone(value: object) -> str:
    what = "the IANA name of a time zone, such as Asia/Tokyo"
    if not isinstance(value, str):
        raise make_value_error(what)
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder, such as Europe
        near = find_similar(value, sorted(zoneinfo.available_timezones()))
        raise make_value_error(what, f"Did you mean {near}?" if near else "") from None
    return value


DesignatedTime = Annotated[
    str,
    PlainValidator(_parse_designated_time),
    WithJsonSchema({"type": "string", "examples": ["18:00", "2026-11-20T18:00:00Z"]}),
]
Timezone = Annotated[
    str, PlainValidator(_parse_timezone), WithJsonSchema({"type": "string", "examples": ["Asia/Tokyo"]})
]


class OverTimeMonitor(Section):
    """Algorithm 3: counts the people at each listed location within the window, at each tick."""

    name: Name = Field(description="the monitor's name: letters, digits, - and _")
    kind: Literal["over_time"] = Field(description="over_time, at_times, hot_spots or dwell")
    locations: Locations = Field(description="a list of location ids, or a mapping from id to a public weight")
    epsilon: Epsilon = Field(description="the ε that the monitor's locations share")
    threshold: WholeNumber = Field(description="the number of people below which a location is called safe")
    window: PositiveDuration = Field(description="how far back visits count, a duration such as 14d")
    answers_per_window: WholeNumber = Field(default=1, description="the maximum number of noisy answers per window")

    @property
    def location_ids(self) -> tuple[str, ...]:
        """The ids of the watched locations, in the order written."""
        return tuple(self.locations)

    def compute_shares(self) -> dict[str, Fraction]:
        """Return each location's share ε_l of the monitor's ε: equal shares, or in proportion to the public weights."""
        weights = self.locations if isinstance(self.locations, dict) else dict.fromkeys(self.locations, 1)
        total = sum(weights.values())
        return {location: self.epsilon * weight / total for location, weight in weights.items()}


class TimedMonitor(Section):
    """The common fields of the monitors that have designated times.

    A daily time that occurs twice, because the clocks are set back, is evaluated once: the first time.
    """

    name: Name = Field(description="the monitor's name: letters, digits, - and _")
    at: tuple[DesignatedTime, ...] = Field(description='a list of daily times ("18:00") or RFC 3339 times')
    timezone: Timezone | None = Field(default=None, description="the time zone of the daily times, such as Asia/Tokyo")
    reporting_horizon: PositiveDuration = Field(
        description="how long after a designated time reports about it still count, a duration such as 2d"
    )
    epsilon: Epsilon = Field(description="the ε of each designated time")

    @property
    def has_daily(self) -> bool:
        """Whether any of the times is a time of day, which is one in `timezone`."""
        return any(map(DAILY.fullmatch, self.at))


class AtLeastSettings(Section):
    """The lower bounds of a monitor of kind `at_times` (docs/rules.md, rule 13)."""

    epsilon: Epsilon = Field(
        description="the ε of the lower bounds of each designated time, in addition to that of the monitor"
    )


class AtTimesMonitor(TimedMonitor):
    """Algorithm 4: counts the people at each location of the registry, at each designated time."""

    kind: Literal["at_times"] = Field(description="over_time, at_times, hot_spots or dwell")
    threshold: WholeNumber = Field(description="the number of people below which a location is called safe")
    at_least: AtLeastSettings | None = Field(
        default=None, description="a mapping with the epsilon of lower bounds, which count people who consented"
    )

    @property
    def total_epsilon(self) -> Fraction:
        """The ε of each designated time, including that of its lower bounds."""
        return self.epsilon if self.at_least is None else self.epsilon + self.at_least.epsilon


class HotSpotsMonitor(TimedMonitor):
    """Names the locations with the most people at each designated time, once, at the end of the reporting horizon."""

    kind: Literal["hot_spots"] = Field(description="over_time, at_times, hot_spots or dwell")
    top: WholeNumber = Field(description="the number of locations to name")


class DwellMonitor(TimedMonitor):
    """The number of visits at each designated time and their mean length, once, at the end of the reporting horizon."""

    kind: Literal["dwell"] = Field(description="over_time, at_times, hot_spots or dwell")
    longest_visit: PositiveDuration = Field(
        description="the longest length that counts, a duration of whole seconds such as 2h"
    )
    visits_per_person: WholeNumber = Field(
        default=1, description="the maximum number of visits of one person that count"
    )


AnyMonitor = OverTimeMonitor | AtTimesMonitor | HotSpotsMonitor | DwellMonitor
Monitor = Annotated[AnyMonitor, Field(discriminator="kind")]
KINDS: Final[dict[Any, type[AnyMonitor]]] = {
    "over_time": OverTimeMonitor,
    "at_times": AtTimesMonitor,
    "hot_spots": HotSpotsMonitor,
    "dwell": DwellMonitor,
}
