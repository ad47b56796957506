"""Parse the values and the fields of records that all kinds share (docs/interface.md, section 4).

Instants and durations are `int` microseconds. Anybody who may write to the output topic can forge a record. So msgspec
checks the type and the range of every field that the audit uses. These types share nothing with the contracts of the
service.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from monitor.audit.history import History

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


_MOST: Final = 2**63 - 1
_LONGEST_EPSILON: Final = 400

Whole = Annotated[int, Meta(ge=-_MOST, le=_MOST)]
People = Annotated[int, Meta(ge=0, le=_MOST)]
Positive = Annotated[int, Meta(ge=1, le=_MOST)]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
Status = Literal["complete", "unknown"]


class FormError(Exception):
    """A record is not in the form of docs/interface.md. The message names a field, and quotes nothing of the record."""


class Instant(int):
    """An instant in microseconds, written as a time in UTC with Z."""


class Answer(Struct, frozen=True, kw_only=True):
    """The fields of every answer."""

    monitor: str
    kind: str
    tick: Whole
    as_of: Instant
    epsilon: Fraction

    @property
    def subject(self) -> str:
        """What the answer is about, after the monitor in its key."""
        raise NotImplementedError

    @property
    def watched(self) -> str:
        """The location whose public values differ from those of other answers; empty if all have equal ones."""
        return ""

    def note_unjudged(self, history: History) -> None:
        """Note in the history that this answer is not judged: what it says about earlier ones counts as correct."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the output topic, which may have any form."""

    position: str
    """Where it was read, in words."""
    partition: int
    key: str
    headers: Mapping[str, str]
    written: bytes
    """All its bytes."""
    form: Any
    """Its fields; None if they do not have the form of its kind, and `fault` is then the reason."""
    fault: str
    tick: int | None
    monitor: str
    """`tick`, `monitor`: those of the value, also if it has another form."""

    @property
    def kind(self) -> str:
        """The last part of its ce_type; empty if it has none."""
        return self.headers.get("ce_type", "").rpartition(".")[2]

    @property
    def ce_id(self) -> str:
        """Its ce_id; empty if it has none."""
        return self.headers.get("ce_id", "")


@lru_cache(maxsize=4096)
def parse_utc(text: str) -> Instant:
    """Parse a time as records have it, in UTC with Z. Raise ValueError for another form."""
    try:
        at = parse_instant(text)
        if format_utc(at) == text:
            return Instant(at)
    except (ValueError, OverflowError):
        pass
    raise ValueError("Expected a time in UTC with Z")


@lru_cache(maxsize=4096)
def parse_recorded_epsilon(text: str) -> Fraction:
    """Parse an ε as records have it, `3` or `1/2`. Raise ValueError for another form."""
    try:
        if len(text) <= _LONGEST_EPSILON and str(Fraction(text)) == text and text[:1] not in ("-", "0"):
            return Fraction(text)
    except (ValueError, ZeroDivisionError):
        pass
    raise ValueError("Expected an ε, a whole number or a reduced fraction")
