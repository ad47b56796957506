"""Times of day on days of the week: what is read, what is written, and how often they occur."""

from __future__ import annotations

from datetime import date, time, timedelta

import pytest

from monitor.audit.parse_values import parse_time_of_day
from monitor.time.schedule import Schedule
from monitor.time.times_of_day import WEEK_DAYS, TimeOfDay, read_time_of_day

FORMS = [
    ("18:00", WEEK_DAYS),
    ("Tue 18:00", (1,)),
    ("tue 18:00", (1,)),
    ("Mon-Fri 18:00", (0, 1, 2, 3, 4)),
    ("Mon,Wed-Thu 18:00", (0, 2, 3)),
    ("Fri-Mon 18:00", (0, 4, 5, 6)),
    ("Sat-Sat 18:00", (5,)),
    ("Tue-Mon 18:00", WEEK_DAYS),
]
OTHERS = ["Tue", "Tue18:00", "Tue  18:00", "Tues 18:00", "Mo-Fr 18:00", "Mon..Fri 18:00", "Mon, Tue 18:00"]


@pytest.mark.parametrize(("text", "days"), FORMS)
def test_days_of_the_week(text: str, days: tuple[int, ...]) -> None:
    """The product and the audit, each with a reader of its own, read the same days; the form of records is read too."""
    read = read_time_of_day(text)
    assert read == TimeOfDay(time(18), days)
    assert read_time_of_day(read.text) == read
    assert parse_time_of_day(text) == parse_time_of_day(read.text) == (time(18), frozenset(days))


@pytest.mark.parametrize("text", [*OTHERS, "2026-11-20T18:00:00Z", "24:00", "Tue 24:00"])
def test_other_forms_are_not_read(text: str) -> None:
    """A text of another form is not a time of day."""
    assert read_time_of_day(text) is None


def test_records_of_days_have_no_capital_t() -> None:
    """An earlier version counts a text with a capital T once in a period, so the form of records has none."""
    assert not any("T" in TimeOfDay(time(18), (day,)).text for day in WEEK_DAYS)
    assert TimeOfDay(time(18)).text == "18:00:00"


@pytest.mark.parametrize("days", [(1,), (0, 1), (0, 3, 6), WEEK_DAYS])
def test_most_days_in_dates(days: tuple[int, ...]) -> None:
    """The maximum is that of all beginnings, for any number of dates."""
    dates = [date(2026, 1, 1) + timedelta(days=n) for n in range(60)]
    for length in range(31):
        counts = (sum(on.weekday() in days for on in dates[first : first + length]) for first in range(8))
        assert TimeOfDay(time(18), days).count_most(length) == max(counts)


def test_days_only_have_their_digest() -> None:
    """All seven days are the same times as no days, and six are others: the digest decides facts and fingerprints."""
    digests = [Schedule.of((at,), "Europe/Berlin").digest() for at in ("18:00", "Mon-Sun 18:00", "Mon-Sat 18:00")]
    assert digests[0] == digests[1] != digests[2]
