"""Instants and durations, and their text forms.

An instant is an `int`: microseconds since 1970-01-01T00:00:00Z. A duration is an `int` of microseconds. Integers keep
slot arithmetic exact and fit numpy's `int64`. Only this module converts between text and times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from monitor.errors import DurationError, TimeError, UsageError

MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
YEAR: Final = 365 * DAY  # as in Prometheus

_UNITS: Final = {"y": YEAR, "w": WEEK, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}
_DURATION: Final = re.compile(
    r"(?:(\d{1,9})y)?(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?",
    re.ASCII,
)

# The fields are checked here, because later versions of Python read more: 3.11 reads the offset +09:60, and 3.14 the
# hour 24. Only whether a month has such a day is left to Python.
_DATE: Final = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_CLOCK: Final = r"(?:[01]\d|2[0-3]):[0-5]\d"
_RFC3339: Final = re.compile(rf"{_DATE}[Tt]{_CLOCK}:[0-5]\d(?:\.\d{{1,18}})?(?:[Zz]|[+-]{_CLOCK})", re.ASCII)
_NAIVE: Final = re.compile(rf"{_DATE}[Tt ]{_CLOCK}(?::[0-5]\d(?:\.\d+)?)?", re.ASCII)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def parse_duration(text: str) -> int:
    """Read a duration in the notation of Prometheus (`30s`, `1h30m`, `14d`) as microseconds.

    Raises:
        DurationError: the text has another form.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise DurationError(f"{text!r} is not a duration: write it as in Prometheus, e.g. 30s, 1h30m or 14d")
    return sum(int(amount) * unit for amount, unit in zip(match.groups(), _UNITS.values(), strict=True) if amount)


def format_duration(duration: int) -> str:
    """Write a duration of whole milliseconds in the notation of Prometheus (`1h30m`). The largest unit is days."""
    if duration <= 0:
        return "0s"
    parts = []
    for name in ("d", "h", "m", "s", "ms"):
        amount, duration = divmod(duration, _UNITS[name])
        if amount:
            parts.append(f"{amount}{name}")
    return "".join(parts) or "0s"


def parse_instant(text: str) -> int:
    """Read an RFC 3339 time with an offset as an instant. Digits after microseconds are dropped.

    Leap seconds are refused: an instant is a number of microseconds since 1970, in which they do not exist.

    Raises:
        TimeError: the text is not RFC 3339, has no offset, or is not an existing date and time.
    """
    if _RFC3339.fullmatch(text) is None:
        if _NAIVE.fullmatch(text):
            raise TimeError("the time has no offset: add Z, or an offset such as +09:00")
        raise TimeError(
            "not an RFC 3339 time such as 2026-11-20T08:15:00Z, with seconds, hours up to 23, and minutes and seconds "
            "up to 59"
        )
    try:
        return to_instant(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        raise TimeError("no such date") from None


def parse_since(text: str | None) -> int | None:
    """Read the time until which what was published has been examined (`--since`); None if it is not given.

    Raises:
        UsageError: the text is not a time.
    """
    try:
        return None if text is None else parse_instant(text)
    except TimeError as error:
        raise UsageError(f"--since {text}: {error}") from error


def parse_local(text: str) -> datetime | None:
    """Read a time without an offset, whose seconds may be missing; None if the text has another form.

    Raises:
        TimeError: no such date exists.
    """
    if _NAIVE.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise TimeError("no such date") from None


def to_instant(moment: datetime) -> int:
    """Convert an aware datetime to an instant.

    Raises:
        TimeError: the datetime is naive.
    """
    if moment.tzinfo is None:
        raise TimeError("the time has no offset")
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(instant: int) -> datetime:
    """Convert an instant to an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def format_instant(instant: int) -> str:
    """Write an instant in UTC with `Z`. It has a fraction, of six digits, only if the fraction is not zero."""
    return to_datetime(instant).isoformat().replace("+00:00", "Z")
