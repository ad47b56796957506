"""Dates and local times in files: a date is the whole local day, a time that occurs twice is both."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from monitor.operate.convert.local_times import Moment, locate_day, locate_time, make_stay, read_moment, widen_midnight
from monitor.operate.convert.rows import BadRowError
from monitor.time.instants import HOUR, MINUTE, to_datetime, to_instant

pytestmark = pytest.mark.long

CHANGES = {
    "at 02:00 and 03:00": ("Europe/Berlin", date(2026, 3, 29), date(2026, 10, 25)),
    "at midnight, forward": ("Africa/Cairo", date(2026, 4, 24), date(2026, 10, 30)),
    "at midnight, back to the day before": ("America/Santiago", date(2025, 9, 7), date(2025, 4, 5)),
    "back to midnight": ("America/Havana", date(2026, 3, 8), date(2026, 11, 1)),
    "a minute after midnight": ("America/St_Johns", date(2006, 4, 2), date(2006, 10, 28)),
    "half an hour": ("Australia/Lord_Howe", date(2026, 10, 4), date(2026, 4, 5)),
    "from before to after midnight": ("America/Toronto", date(1919, 3, 30), date(1919, 10, 25)),
    "a day is skipped": ("Pacific/Apia", date(2011, 12, 29), date(2011, 12, 31)),
}


@pytest.mark.parametrize(("name", "forward", "back"), CHANGES.values(), ids=CHANGES)
def test_day_is_all_its_minutes(name: str, forward: date, back: date) -> None:
    """A day lasts from the first to the last of the minutes whose local date it is, whenever the clocks change."""
    zone = ZoneInfo(name)
    for changed in (forward, back):
        noon = to_instant(datetime(changed.year, changed.month, changed.day, 12, tzinfo=zone))
        minutes: dict[date, list[int]] = {}
        for instant in range(noon - 72 * HOUR, noon + 72 * HOUR, MINUTE):
            minutes.setdefault(to_datetime(instant).astimezone(zone).date(), []).append(instant)
        for day in list(minutes)[1:-1]:
            assert locate_day(day, zone) == Moment(minutes[day][0], minutes[day][-1] + MINUTE, is_day=True)


@pytest.mark.parametrize(("name", "day", "hours"), [
    ("Europe/Berlin", "2026-03-29", 23), ("Europe/Berlin", "2026-10-25", 25), ("Europe/Berlin", "2026-11-20", 24),
    ("Australia/Lord_Howe", "2026-04-05", 24.5), ("America/Havana", "2026-11-01", 25),
    ("Africa/Cairo", "2026-04-24", 23),
])  # fmt: skip
def test_days_have_their_hours(name: str, day: str, hours: float) -> None:
    """A day on which the clocks change has 23 or 25 hours, or what the zone says."""
    moment = read_moment("start", day, ZoneInfo(name))
    assert moment is not None
    assert moment.latest - moment.earliest == hours * HOUR


@pytest.mark.parametrize(("day", "reason"), [
    ("2011-12-30", "does not exist in Pacific/Apia"),
    ("2026-02-29", "no such date"),
    ("0001-01-01", "years 1 to 9998"),
    ("9999-12-31", "years 1 to 9998"),
])  # fmt: skip
def test_days_that_do_not_exist(day: str, reason: str) -> None:
    """A date that the calendar, the clocks or the years do not have is refused with its reason."""
    with pytest.raises(BadRowError, match=reason):
        read_moment("start", day, ZoneInfo("Pacific/Apia"))


def test_visit_covers_both_hours() -> None:
    """A visit begins at the first of two instants of its start, and ends at the second of its end."""
    zone = ZoneInfo("Europe/Berlin")
    first = to_instant(datetime(2026, 10, 25, 2, 30, tzinfo=zone))
    twice = locate_time(datetime(2026, 10, 25, 2, 30), zone)  # noqa: DTZ001  # a local time
    assert twice == Moment(first, first + HOUR)
    assert make_stay("p", "l", twice, twice)[2:4] == (first, first + HOUR)
    assert make_stay("p", "l", twice)[2:5] == (first, None, first + HOUR)
    assert read_moment("end", "2026-10-25 02:30", zone) == twice


def test_day_before_start_is_refused() -> None:
    """A visit that ends on the day before its start is refused, although that day ends when the visit begins."""
    zone = ZoneInfo("Europe/Berlin")
    day = locate_day(date(2026, 10, 25), zone)
    before = locate_day(date(2026, 10, 24), zone)
    with pytest.raises(BadRowError, match="the end is before the start"):
        make_stay("p", "l", day, before)
    assert make_stay("p", "l", before, day)[2:4] == (before.earliest, day.latest)


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Havana", "Africa/Cairo", "Asia/Kathmandu"])
def test_every_midnight_is_its_day(name: str) -> None:
    """Of each day of a year, the midnight stands for the day, and a time one second later for itself."""
    zone = ZoneInfo(name)
    for number in range(365):
        day = locate_day(date(2026, 1, 1) + timedelta(days=number), zone)
        assert widen_midnight(Moment(day.earliest, day.earliest), zone) == day
        later = Moment(day.earliest + 1_000_000, day.earliest + 1_000_000)
        assert widen_midnight(later, zone) == later
