"""Parse times, durations and ε, format times, and check ids (docs/interface.md).

Instants and durations are `int` microseconds.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta
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
