"""Times as text: which fields exist, the same in the service, in the audit, and in every version of Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from monitor.audit import parse_values
from monitor.errors import TimeError
from monitor.time.instants import parse_instant, parse_local

FIELDS = {
    "month": ("2026-{}-20T08:15:30Z", range(1, 13)),
    "day": ("2026-12-{}T08:15:30Z", range(1, 32)),
    "day of a short month": ("2026-02-{}T08:15:30Z", range(1, 29)),
    "hour": ("2026-11-20T{}:00:00Z", range(24)),
    "minute": ("2026-11-20T08:{}:30Z", range(60)),
    "second": ("2026-11-20T08:15:{}Z", range(60)),
    "second before a year": ("2016-12-31T23:59:{}Z", range(60)),
    "second with a fraction": ("2026-11-20T08:15:{}.5Z", range(60)),
    "hour of an offset": ("2026-11-20T08:15:30+{}:30", range(24)),
    "minute of an offset": ("2026-11-20T08:15:30+09:{}", range(60)),
    "hour of a negative offset": ("2026-11-20T08:15:30-{}:00", range(24)),
    "minute of a negative offset": ("2026-11-20T08:15:30-23:{}", range(60)),
}


def read(parse: Callable[[str], int], text: str) -> int | None:
    """Return the instant, or None if the text is refused."""
    try:
        return parse(text)
    except (TimeError, ValueError):
        return None


def compute(text: str) -> int:
    """Return the instant of an existing time from its fields, by arithmetic."""
    year, month, day, hour, minute, second = (int(text[at : at + size]) for at, size in ((0, 4), *BEGIN))
    moment = datetime(year, month, day, tzinfo=UTC) + timedelta(hours=hour, minutes=minute, seconds=second)
    if text[19] == ".":
        moment += timedelta(milliseconds=500)
    elif text[-1] != "Z":
        offset = timedelta(hours=int(text[20:22]), minutes=int(text[23:25]))
        moment -= offset if text[19] == "+" else -offset
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


BEGIN = tuple((at, 2) for at in (5, 8, 11, 14, 17))


@pytest.mark.promise(24)
@pytest.mark.parametrize("name", FIELDS)
def test_each_field_has_its_range(name: str) -> None:
    """Of the 100 values of a field, those of RFC 3339 without leap seconds are read, and all others are refused."""
    form, exist = FIELDS[name]
    for value in range(100):
        text = form.format(f"{value:02}")
        expected = compute(text) if value in exist else None
        assert read(parse_instant, text) == expected, text
        assert read(parse_values.parse_instant, text) == expected, text


@pytest.mark.parametrize("name", ["month", "day", "hour", "minute", "second"])
def test_local_times_have_the_same_ranges(name: str) -> None:
    """A time without an offset exists for the same values."""
    form, exist = FIELDS[name]
    for value in range(100):
        text = form.format(f"{value:02}").removesuffix("Z")
        assert (read(lambda text: int(parse_local(text) is not None), text) == 1) == (value in exist), text
