"""Points: a person at a place at a time, in a table (check-ins, traces), or from one time to another."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from monitor.config.bounded_lines import BoundedLines
from monitor.config.csv_table import Table
from monitor.errors import TimeError
from monitor.operate.convert.local_times import Moment, locate_day, locate_time, make_stay, read_moment, require_zone
from monitor.operate.convert.rows import BadRowError, Rows, Stay, read_table
from monitor.time.instants import DAY, SECOND, to_instant

RFC3339: Final = "rfc3339"
EPOCH: Final = "epoch"

_ADVICE: Final = (
    "Name the columns with --person-column, --location-column, --time-column, and the separator with --delimiter."
)
_EPOCHS: Final = (10**9, 10**10)  # seconds: the years 2001 to 2286
_TIMES_OF_DAY: Final = frozenset("HIcX")  # what a pattern of `strptime` with a time of day has one of


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """The names of the column of a time, and of the column of its date if that is another one."""

    time: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """The format of a file of points: column names, separator, and format of times."""

    person: str = "person_id"
    location: str = "location_id"
    start: TimeColumns = TimeColumns("time_utc")
    end: TimeColumns | None = None
    """When the person left; None if no column says it."""
    delimiter: str = ","
    time_format: str = RFC3339
    """`rfc3339`, `epoch` (seconds), or a `strptime` pattern, in which a space is between a date and a time of two
    columns.
    """
    zone: ZoneInfo | None = None
    """The zone of times without an offset."""


def read_points(lines: BoundedLines, _path: Path, columns: Columns) -> Rows[Stay]:
    """Yield each point as a visit. Its end is not known, unless the point is a date, or a column has the end.

    Raises:
        FileFormatError: (while iterating) a column is missing, or a quote is broken.
    """
    parse = _choose_parser(columns)
    start, end = columns.start, columns.end
    own_date = end is not None and end.date not in ("", start.date)

    def read(person_id: str, location_id: str, *cells: str) -> Stay:
        at = dict(zip(names[2:], cells, strict=True))
        left = parse("end", _join(at, end, columns)) if end is not None and (at[end.time] or own_date) else None
        return make_stay(person_id, location_id, parse("time", _join(at, start, columns)), left)

    required = (columns.person, columns.location, *filter(None, (start.date, start.time)))
    ends = () if end is None else tuple(name for name in (end.date, end.time) if name and name not in required)
    names = required + ends
    table = Table(lines, columns.delimiter)
    table.find_columns(names, advice=_ADVICE)  # the end must be in the header, though not in every row
    return read_table(table, read, required, ends, advice=_ADVICE)


def _join(cells: dict[str, str], names: TimeColumns, columns: Columns) -> str:
    """Return the text of a time. If only its date is there, the text is a date."""
    parts = (cells.get(names.date, ""), cells[names.time])
    return ("T" if columns.time_format == RFC3339 else " ").join(filter(None, parts))


def _choose_parser(columns: Columns) -> Callable[[str, str], Moment | None]:
    """Return what reads a text as a moment, None if it is empty. The first argument is what it is."""
    zone, pattern = columns.zone, columns.time_format
    if pattern == RFC3339:
        return lambda what, text: read_moment(what, text, zone)
    parse = _parse_epoch if pattern == EPOCH else partial(_parse_pattern, pattern=pattern, zone=zone)

    def read(what: str, text: str) -> Moment | None:
        try:
            return parse(text) if text else None
        except TimeError as error:
            raise BadRowError(f"the {what} cannot be read: {error}: add %z to the pattern, or --timezone") from None
        except (ValueError, ArithmeticError):
            raise BadRowError(f"the {what} cannot be read as {pattern}") from None

    return read


def _parse_epoch(text: str) -> Moment:
    seconds = Decimal(text)
    if not _EPOCHS[0] <= seconds < _EPOCHS[1]:
        raise BadRowError(
            "the epoch is not in the years 2001 to 2286: expected seconds since 1970, not milliseconds or the serial "
            "number of a spreadsheet"
        )
    return Moment(instant := int(seconds * SECOND), instant)


def _parse_pattern(text: str, pattern: str, zone: ZoneInfo | None) -> Moment:
    """Parse a time, or a date, which stands for the whole day, if the pattern has no hours."""
    moment = datetime.strptime(text, pattern)  # noqa: DTZ007  # a naive time is refused, or gets the zone
    is_day = _TIMES_OF_DAY.isdisjoint(re.findall("%(.)", pattern))
    if moment.tzinfo is None and is_day:
        return locate_day(moment.date(), require_zone("date", "has no time and no zone", zone))
    if moment.tzinfo is None and zone is not None:
        return locate_time(moment, zone)
    instant = to_instant(moment)
    return Moment(instant, instant + DAY, is_day=True) if is_day else Moment(instant, instant)
