"""Convert recorded movements (check-ins, traces) to a replay file and a registry."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

from monitor.contracts.instants import SECOND, format_instant, parse_instant, to_datetime, to_instant
from monitor.errors import MonitorError, TimeError, UsageError
from monitor.tools.bounded_lines import BoundedLines, open_lines
from monitor.tools.convert.files import (
    CONSENT_HEADER,
    REGISTRY_HEADER,
    VISITS_HEADER,
    consents,
    format_csv_line,
    open_atomically,
)

SHOWN_PROBLEMS: Final = 20
RFC3339: Final = "rfc3339"
EPOCH: Final = "epoch"

_LONGEST_ID: Final = 256  # bytes of UTF-8 (docs/interface.md, section 4)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LATITUDES: Final = ("lat", "latitude")
_LONGITUDES: Final = ("lon", "lng", "longitude")
_EARLIEST: Final = to_instant(datetime(1, 1, 1, tzinfo=UTC))
_LATEST: Final = to_instant(datetime(9999, 1, 1, tzinfo=UTC))  # so that a stay and a delay still fit
_REPORT_EVERY: Final = 10_000  # visits


class BadRowError(MonitorError):
    """A row is invalid. The message states the reason and quotes nothing from the row, which names a person."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The format of a file of points: column names, separator, and format of times.

    `time_format`: `rfc3339`, `epoch` (seconds), or a `strptime` pattern with an offset (`%z`).
    """

    person: str = "person_id"
    location: str = "location_id"
    time: str = "time_utc"
    delimiter: str = ","
    time_format: str = RFC3339


@dataclass(frozen=True, slots=True)
class Shape:
    """The rules by which points become visits. Durations are in microseconds, or None.

    `stay`: the duration of a check-in; None leaves its end open. `merge_gap`: points of one person at one place at most
    this far apart are merged into one visit, which ends at the last point plus the gap, or at the person's next point
    elsewhere if that is earlier. `report_delay`: the time from the end of a visit (its beginning if the end is open) to
    its report. `person_per_day`: the same id on another UTC day is another person. `consent`: the share of people who
    consent to lower bounds; None writes no such column.
    """

    stay: int | None = None
    merge_gap: int | None = None
    report_delay: int | None = None
    person_per_day: bool = False
    consent: float | None = None


class NoVisitError(MonitorError):
    """No row is valid. The message counts the rows by reason."""


class Point(NamedTuple):
    """A person at a place at an instant (microseconds), and the point's line in the file."""

    person_id: str
    location_id: str
    at: int
    line: int


class Stay(NamedTuple):
    """A visit to write. If `left_at` is None, the service applies its default stay."""

    person_id: str
    location_id: str
    arrived_at: int
    left_at: int | None


@dataclass(slots=True)
class Tally:
    """The counts of a conversion. `reasons` counts bad rows by reason; `problems` has messages about the first ones."""

    rows: int = 0
    visits: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def refuse(self, number: int, reason: str) -> None:
        """Count a bad row. `number` is its line."""
        self.bad += 1
        self.reasons[reason if reason in self.reasons or len(self.reasons) < SHOWN_PROBLEMS else "other reasons"] += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(f"line {number}: {reason}")


def read_locations(path: Path) -> dict[str, tuple[str, str, str]]:
    """Read a file of locations with the columns `location_id` and any of `name`, `lat`, `lon`.

    Returns:
        Name, latitude and longitude by id.

    Raises:
        UsageError: a column is missing, a line is invalid, or a location is listed twice.
    """
    found: dict[str, tuple[str, str, str]] = {}
    with open_lines(path) as lines:
        rows = csv.DictReader(lines, restval="")
        names = rows.fieldnames or []
        if "location_id" not in names:
            raise UsageError(f"{path}: none of the {len(names)} columns in the header is named location_id")
        latitude, longitude = (next((n for n in some if n in names), "") for some in (_LATITUDES, _LONGITUDES))
        for row in rows:
            lines.begin_row()
            location_id = row["location_id"]
            try:
                _check_id("location", location_id)
                place = (
                    row.get("name") or location_id,
                    _check_degrees(row.get(latitude, "")),
                    _check_degrees(row.get(longitude, "")),
                )
            except BadRowError as error:
                raise UsageError(f"{path}, line {rows.line_num}: {error}") from None
            if location_id in found:
                raise UsageError(f"{path}, line {rows.line_num}: the location is listed twice: remove one of the lines")
            found[location_id] = place
    return found


def write_registry(path: Path, locations: dict[str, tuple[str, str, str]]) -> None:
    """Write a registry of locations, in the given order: name, latitude and longitude by id."""
    with open_atomically(path) as out:
        out.write(format_csv_line(REGISTRY_HEADER))
        for location_id, details in locations.items():
            out.write(format_csv_line((location_id, *details)))


class Conversion:
    """The conversion of a file of points into a replay file.

    `tally` has its counts. `seen` has the location ids in the file, if `known` is None.

    Args:
        columns: the format of the file.
        shape: the rules by which points become visits.
        known: the ids of the known locations; None accepts any id.
    """

    def __init__(self, columns: Columns, shape: Shape, known: Iterable[str] | None = None) -> None:
        self._columns = columns
        self._shape = shape
        self._known = None if known is None else frozenset(known)
        self.tally = Tally()
        self.seen: set[str] = set()

    def run(self, visits: Path, out: Path, *, strict: bool, on_progress: Callable[[int], object]) -> None:
        """Convert a file. `on_progress` is called with the number of bytes read so far.

        Memory grows with the number of places, and with the number of people if points are merged, but not with the
        size of the file.

        Raises:
            UsageError: a column is missing, or points to merge are not in order of time.
            BadRowError: a row is invalid and `strict` is true. No file is written.
            NoVisitError: no row is valid. No file is written.
        """
        with open_lines(visits) as lines, open_atomically(out) as target:
            target.write(format_csv_line(VISITS_HEADER if self._shape.consent is None else CONSENT_HEADER))
            points = self._read_points(lines, visits, strict=strict)
            stays = self._merge_points(points) if self._shape.merge_gap is not None else self._make_stays(points)
            for stay in stays:
                target.write(self._format_line(stay))
                self.tally.visits += 1
                if self.tally.visits % _REPORT_EVERY == 0:
                    on_progress(lines.position())
            on_progress(lines.position())
            if not self.tally.visits:
                raise NoVisitError(self._describe_no_visit(visits))

    def _describe_no_visit(self, path: Path) -> str:
        rows = f"{path}: no visit in {self.tally.rows:,} rows, so nothing is written"
        return "\n  ".join([rows, *(f"{count:,} rows: {reason}" for reason, count in self.tally.reasons.most_common())])

    def _read_points(self, lines: BoundedLines, path: Path, *, strict: bool) -> Iterator[Point]:
        rows = csv.reader(lines, delimiter=self._columns.delimiter)
        header = next(rows, [])
        wanted = (self._columns.person, self._columns.location, self._columns.time)
        missing = [name for name in wanted if name not in header]
        if missing:
            # The header is not quoted: in a file without a header it is a row with a person's id.
            raise UsageError(
                f"{path}: none of the {len(header)} columns in the header is named {', '.join(missing)}: name the"
                " columns with --person-column, --location-column, --time-column, and the separator with --delimiter"
            )
        where = tuple(header.index(name) for name in wanted)
        while True:
            lines.begin_row()
            try:
                row = next(rows)
                self.tally.rows += 1
                yield self._parse_point(row, where, rows.line_num)
            except StopIteration:
                return
            except (BadRowError, csv.Error) as error:
                reason = str(error) if isinstance(error, BadRowError) else "not a row of CSV"
                if strict:
                    raise BadRowError(f"{path}, line {rows.line_num}: {reason}") from None
                self.tally.refuse(rows.line_num, reason)

    def _parse_point(self, row: list[str], where: tuple[int, ...], number: int) -> Point:
        if len(row) <= max(where):
            raise BadRowError(f"{len(row)} columns: expected at least {max(where) + 1}")
        person_id, location_id, written = (row[index] for index in where)
        _check_id("location", location_id)
        if self._known is not None and location_id not in self._known:
            raise BadRowError("the location is not in the file of locations")
        at = _parse_time(written, self._columns.time_format)
        if self._shape.person_per_day and person_id:
            person_id = f"{person_id}@{to_datetime(at).date().isoformat()}"
        _check_id("person", person_id)
        if self._known is None:
            self.seen.add(location_id)
        return Point(person_id, location_id, at, number)

    def _make_stays(self, points: Iterator[Point]) -> Iterator[Stay]:
        stay = self._shape.stay
        for point in points:
            yield Stay(point.person_id, point.location_id, point.at, None if stay is None else point.at + stay)

    def _merge_points(self, points: Iterator[Point]) -> Iterator[Stay]:
        """Yield stays, each as soon as it has ended. Each person has at most one open stay at a time."""
        gap = self._shape.merge_gap or 0
        open_stays: dict[str, tuple[Point, int]] = {}  # by person: the first point, and the instant of the last one
        for point in points:
            first, last = open_stays.get(point.person_id, (point, point.at))
            if point.at < last:
                raise UsageError(
                    f"line {point.line}: a point is earlier than the previous one of the same person: merging needs"
                    " points in order of time; sort the file by time, or by person and time"
                )
            if point.location_id == first.location_id and point.at - last <= gap:
                open_stays[point.person_id] = (first, point.at)
                continue
            yield Stay(first.person_id, first.location_id, first.at, min(last + gap, point.at))
            open_stays[point.person_id] = (point, point.at)
        for first, last in open_stays.values():
            yield Stay(first.person_id, first.location_id, first.at, last + gap)

    def _format_line(self, stay: Stay) -> bytes:
        ends = stay.arrived_at if stay.left_at is None else stay.left_at
        delay = self._shape.report_delay
        left = "" if stay.left_at is None else format_instant(stay.left_at)
        reported = "" if delay is None else format_instant(ends + delay)
        fields = (stay.person_id, stay.location_id, format_instant(stay.arrived_at), left, reported)
        if self._shape.consent is None:
            return format_csv_line(fields)
        return format_csv_line((*fields, "true" if consents(stay.person_id, self._shape.consent) else "false"))


def _check_id(what: str, text: str) -> None:
    """Raise BadRowError unless an id has 1 to 256 bytes of UTF-8 and no control characters."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise BadRowError(f"the {what} id is not UTF-8") from None
    if not 0 < length <= _LONGEST_ID:
        raise BadRowError(f"the {what} id has {length} bytes: expected 1 to {_LONGEST_ID}")
    if _CONTROL.search(text):
        raise BadRowError(f"the {what} id has control characters")


def _parse_time(text: str, time_format: str) -> int:
    """Parse a time and return it as an instant."""
    try:
        if time_format == RFC3339:
            instant = parse_instant(text)
        elif time_format == EPOCH:
            instant = int(Decimal(text) * SECOND)
        else:
            instant = to_instant(datetime.strptime(text, time_format))  # noqa: DTZ007 - to_instant refuses naive times
    except TimeError as error:
        raise BadRowError(f"the time cannot be read: {error}") from None
    except (ValueError, ArithmeticError):
        raise BadRowError(f"the time cannot be read as {time_format}") from None
    if not _EARLIEST <= instant <= _LATEST:
        raise BadRowError("the time is not in the years 1 to 9998")
    return instant


def _check_degrees(text: str) -> str:
    """Return the text if it is empty or a finite number. Otherwise raise BadRowError."""
    try:
        if text and not math.isfinite(float(text)):
            raise BadRowError("latitude or longitude is not finite")
    except ValueError:
        raise BadRowError("latitude or longitude is not a number") from None
    return text
