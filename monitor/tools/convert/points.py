"""Points: a person at a place at a time, in a table (check-ins, traces)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from monitor.config.bounded_lines import BoundedLines
from monitor.config.csv_table import Table
from monitor.contracts.instants import SECOND, to_instant
from monitor.errors import TimeError
from monitor.tools.convert.local_times import Moment, locate_time, make_stay, read_moment
from monitor.tools.convert.rows import BadRowError, Rows, Stay, read_table

RFC3339: Final = "rfc3339"
EPOCH: Final = "epoch"

_ADVICE: Final = (
    "Name the columns with --person-column, --location-column, --time-column, and the separator with --delimiter."
)


@dataclass(frozen=True, slots=True)
class Columns:
    """The format of a file of points: column names, separator, and format of times.

    `time_format`: `rfc3339`, `epoch` (seconds), or a `strptime` pattern. `zone`: the zone of times without an offset.
    """

    person: str = "person_id"
    location: str = "location_id"
    time: str = "time_utc"
    delimiter: str = ","
    time_format: str = RFC3339
    zone: ZoneInfo | None = None


def read_points(lines: BoundedLines, _path: Path, columns: Columns) -> Rows[Stay]:
    """Yield each point as a visit whose end is not known.

    Raises:
        FileFormatError: (while iterating) a column is missing, or a quote is broken.
    """
    parse = _choose_parser(columns)

    def read(person_id: str, location_id: str, text: str) -> Stay:
        return make_stay(person_id, location_id, parse(text))

    names = (columns.person, columns.location, columns.time)
    return read_table(Table(lines, columns.delimiter), read, names, advice=_ADVICE)


def _choose_parser(columns: Columns) -> Callable[[str], Moment | None]:
    zone, pattern = columns.zone, columns.time_format
    if pattern == RFC3339:
        return lambda text: read_moment("time", text, zone)

    def parse(text: str) -> Moment:
        try:
            if pattern == EPOCH:
                instant = int(Decimal(text) * SECOND)
                return Moment(instant, instant)
            moment = datetime.strptime(text, pattern)  # noqa: DTZ007  # a naive time is refused, or gets the zone
            if moment.tzinfo is None and zone is not None:
                return locate_time(moment, zone)
            instant = to_instant(moment)
            return Moment(instant, instant)
        except TimeError as error:
            raise BadRowError(f"the time cannot be read: {error}: add %z to the pattern, or --timezone") from None
        except (ValueError, ArithmeticError):
            raise BadRowError(f"the time cannot be read as {pattern}") from None

    return parse
