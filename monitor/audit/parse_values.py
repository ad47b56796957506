"""Parse times, durations and ε, format times, and check ids (docs/interface.md).

Instants and durations are `int` microseconds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt](\d\d):(\d\d):(\d\d)(?:\.\d{1,18})?(?:[Zz]|[+-](\d\d):(\d\d))", re.ASCII)
_BELOW: Final = (24, 60, 60, 24, 60)
"""The limits of hours, minutes and seconds, and of an offset's hours and minutes. Some versions of Python read more."""

_PART: Final = re.compile(r"(\d+)(ms|[ywdhms])", re.ASCII)
_UNIT: Final = {
    "y": timedelta(days=365),
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_ID_BYTES: Final = 256
_WEEK: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class AuditError(Exception):
    """A file, a topic or the configurations cannot be used. The message names them and what was expected."""


def parse_instant(text: str) -> int:
    """Parse an RFC 3339 time with an offset. Digits beyond microseconds are dropped.

    Raises:
        ValueError: the text is something else.
    """
    match = _TIME.fullmatch(text)
    if match is None or any(int(field or 0) >= limit for field, limit in zip(match.groups(), _BELOW, strict=True)):
        raise ValueError("expected a time of RFC 3339 with an offset")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MICROSECOND


EARLIEST: Final = parse_instant("0002-01-01T00:00:00Z")
LATEST: Final = parse_instant("9998-12-31T00:00:00Z")
"""The first and the last instant whose neighbours within a year can be written as times."""


@lru_cache(maxsize=4096)
def format_utc(at: int) -> str:
    """Format an instant as in the output topic: UTC with `Z`, and a fraction only if it is not zero."""
    return (_EPOCH + timedelta(microseconds=at)).replace(tzinfo=None).isoformat() + "Z"


def parse_duration(text: str) -> int:
    """Parse a duration in the form of Prometheus (`1h30m`, `14d`).

    Raises:
        ValueError: the text is something else.
    """
    parts = _PART.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise ValueError("expected a duration such as 30s, 1h or 14d")
    return sum((int(amount) * _UNIT[unit] for amount, unit in parts), timedelta()) // _MICROSECOND


def is_time_of_day(text: str) -> bool:
    """Return whether a designated time is a time of day. An instant begins with the four digits of its year."""
    return not text[:4].isdigit()


def parse_time_of_day(text: str) -> tuple[time, frozenset[int]]:
    """Parse a time of day and the days of the week on which it occurs: `18:00`, `Tue 18:00`, `Mon-Wed,Sat 18:00`.

    The days are numbered from Monday, which is 0. `Fri-Mon` are Friday, Saturday, Sunday and Monday.

    Raises:
        ValueError: the text is something else.
    """
    names, space, clock = text.rpartition(" ")
    if not space:
        return time.fromisoformat(clock), frozenset(range(7))
    days: set[int] = set()
    for part in names.lower().split(","):
        ends = [_WEEK.index(name) for name in part.split("-", 1)]
        days.add(ends[-1])
        day = ends[0]
        while day != ends[-1]:
            days.add(day)
            day = (day + 1) % 7
    return time.fromisoformat(clock), frozenset(days)


def find_occurrences(texts: Iterable[str]) -> frozenset[tuple[time, int]]:
    """Return the times of day among designated times, each with one day of the week on which it occurs."""
    parsed = (parse_time_of_day(text) for text in texts if is_time_of_day(text))
    return frozenset((clock, day) for clock, days in parsed for day in days)


@lru_cache(maxsize=4096)
def parse_epsilon(text: str) -> Fraction:
    """Parse an exact ε (`1/2`, `0.5`, `3`).

    Raises:
        ValueError: the text is something else.
    """
    return Fraction(text)


def is_id(text: str) -> bool:
    """Return whether a text is 1 to 256 bytes of UTF-8 without control characters."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    if not 1 <= size <= _ID_BYTES:
        return False
    return text.isprintable() or all(unicodedata.category(letter) != "Cc" for letter in text)
