"""Local dates and times: what a time in a file stands for.

A date without a time is the whole local day, of 23, 24 or 25 hours. A time that occurs twice, because the clocks are
set back, stands for both of its instants. A visit lasts from the earliest instant of its start to the latest of its
end: a visit that is too long can make an answer a noisy count, and one that is too short a false "safe".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import date, datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from monitor.errors import TimeError
from monitor.operate.convert.rows import BadRowError, Stay
from monitor.time.instants import DAY, SECOND, parse_instant, parse_local, to_datetime, to_instant

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MIDNIGHT: Final = time()
_ONE_DAY: Final = timedelta(days=1)


class Moment(NamedTuple):
    """What a time in a file stands for: its earliest and its latest instant.

    They differ for a local time that occurs twice. Those of a date (`is_day`) are the beginning and the end of the day.
    """

    earliest: int
    latest: int
    is_day: bool = False


def make_stay(person_id: str, location_id: str, start: Moment | None, end: Moment | None = None) -> Stay:
    """Return the visit from the earliest start to the latest end. If only a date is known, it is the whole day."""
    if start is None:
        raise BadRowError("the visit has no start")
    if end is None and not start.is_day:
        return Stay(person_id, location_id, start.earliest, None, start.latest)
    end = end or start
    if (start.is_day or end.is_day) and end.latest <= start.earliest:
        raise BadRowError("the end is before the start")
    return Stay(person_id, location_id, start.earliest, end.latest)


def read_moment(what: str, text: str | None, zone: ZoneInfo | None) -> Moment | None:
    """Return a time in RFC 3339; None for an empty one. If there is a zone, the offset or the time may be missing."""
    if not text:
        return None
    try:
        if is_day(text):
            return locate_day(date.fromisoformat(text), require_zone(what, "is a date without a time", zone))
        moment = parse_local(text)
        if moment is None:
            instant = parse_instant(text)
            return Moment(instant, instant)
    except (TimeError, ValueError) as error:
        reason = error if isinstance(error, TimeError) else "no such date"
        raise BadRowError(f"the {what} cannot be read: {reason}") from None
    return locate_time(moment, require_zone(what, "cannot be read: the time has no offset", zone))


def is_day(text: str | None) -> bool:
    """Return whether a text has the form of a date without a time."""
    return text is not None and _DAY.fullmatch(text) is not None


def locate_time(moment: datetime, zone: ZoneInfo) -> Moment:
    """Return what a local time stands for. One that the clocks skip stands for the instants before and after it."""
    instants = [to_instant(moment.replace(tzinfo=zone, fold=fold)) for fold in (0, 1)]
    return Moment(min(instants), max(instants))


def locate_day(day: date, zone: ZoneInfo) -> Moment:
    """Return the local day, from its first instant to its end.

    Raises:
        BadRowError: the zone has no such day, or it is not in the years of dates.
    """
    try:
        begin, end = _find_beginning(day, zone), _find_end(day, zone)
    except OverflowError:
        raise BadRowError("the date is not in the years 1 to 9998") from None
    if begin >= end:
        raise BadRowError(f"the date does not exist in {zone.key}: the clocks skip it")
    return Moment(begin, end, is_day=True)


def add_stay(arrived_at: int, stay: int, zone: ZoneInfo | None) -> int:
    """Return the end of a stay. Whole days are days of the zone, of 23 to 25 hours, if there is one."""
    if zone is None or stay % DAY:
        return arrived_at + stay
    try:
        local = to_datetime(arrived_at).astimezone(zone).replace(tzinfo=None)
        return locate_time(local + timedelta(days=stay // DAY), zone).latest
    except OverflowError:
        raise BadRowError("the end is not in the years 1 to 9998") from None


def widen_midnight(moment: Moment, zone: ZoneInfo) -> Moment:
    """Return the day if a time is its midnight, for a system that writes days so. Return other times as they are."""
    try:
        local = to_datetime(moment.earliest).astimezone(zone)
    except OverflowError:
        raise BadRowError("the date is not in the years 1 to 9998") from None
    day = locate_day(local.date(), zone)
    return day if local.time() == _MIDNIGHT or moment.earliest == day.earliest else moment


def _find_beginning(day: date, zone: ZoneInfo) -> int:
    """Return the first instant whose local date is the day, or later if the clocks skip the day."""
    first, last, _ = locate_time(datetime.combine(day, _MIDNIGHT), zone)
    if _find_date(first, zone) >= day:
        return first
    # The clocks skip midnight: the day begins when they are set forward.
    seconds = range(first, last + 1, SECOND)
    return seconds[bisect_left(seconds, day, key=lambda instant: _find_date(instant, zone))]


def _find_end(day: date, zone: ZoneInfo) -> int:
    """Return the end of the last second whose local date is the day, or earlier if the clocks skip the day."""
    after = day + _ONE_DAY
    _, last, _ = locate_time(datetime.combine(after, _MIDNIGHT), zone)
    # The clocks may be set back over midnight: then the day ends at the second midnight, if it is after the first.
    return last if _find_date(last - SECOND, zone) < after else _find_beginning(after, zone)


def _find_date(instant: int, zone: ZoneInfo) -> date:
    return to_datetime(instant).astimezone(zone).date()


def require_zone(what: str, found: str, zone: ZoneInfo | None) -> ZoneInfo:
    """Return the zone. Raise BadRowError if there is none."""
    if zone is None:
        raise BadRowError(f"the {what} {found}: name the time zone with --timezone")
    return zone
