"""Recorded movements (check-ins, traces) as a replay file and a registry."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from monitor.errors import MonitorError, TimeError, UsageError
from monitor.public.instants import SECOND, format_instant, parse_instant, to_datetime, to_instant
from simulators.files import REGISTRY_HEADER, VISITS_HEADER, line, writing

SHOWN_PROBLEMS: Final = 20
RFC3339: Final = "rfc3339"
EPOCH: Final = "epoch"

_LONGEST_ID: Final = 256  # bytes of UTF-8 (docs/interface.md, section 4)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LATITUDES: Final = ("lat", "latitude")
_LONGITUDES: Final = ("lon", "lng", "longitude")
_EARLIEST: Final = to_instant(datetime(1, 1, 1, tzinfo=UTC))
_LATEST: Final = to_instant(datetime(9999, 1, 1, tzinfo=UTC))  # so that a stay and a delay still fit
_REPORT_EVERY: Final = 10_000  # rows


class BadRowError(MonitorError):
    """A row that is no visit; the message says why, and holds nothing of the row's."""


@dataclass(frozen=True, slots=True)
class Columns:
    """How a file of points is written: the names of its columns, the separator and the format of times.

    `time_format`: `rfc3339`, `epoch` (seconds), or a pattern of `strptime` with an offset (`%z`).
    """

    person: str = "person_id"
    location: str = "location_id"
    time: str = "time_utc"
    delimiter: str = ","
    time_format: str = RFC3339


@dataclass(frozen=True, slots=True)
class Shape:
    """How points become visits; durations in microseconds, `None`: left open.

    `stay`: of a check-in. `merge_gap`: points of one person at one place, no further apart than that, are one visit
    until the last point + the gap, or until the person's next point elsewhere. `report_delay`: from the visit's end
    (or beginning, where the end is open) to its report. `person_per_day`: a person of another (UTC) day is another.
    """

    stay: int | None = None
    merge_gap: int | None = None
    report_delay: int | None = None
    person_per_day: bool = False


class Point(NamedTuple):
    """A person at a place at an instant (microseconds), read from a line of the file."""

    person_id: str
    location_id: str
    at: int
    line: int


class Stay(NamedTuple):
    """A visit to be written; `left_at` is open where the service's default stay shall hold."""

    person_id: str
    location_id: str
    arrived_at: int
    left_at: int | None


@dataclass(slots=True)
class Tally:
    """What a conversion has done; `problems` holds the first bad rows only, as text."""

    rows: int = 0
    visits: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)

    def refuse(self, number: int, reason: str) -> None:
        """Count a bad row."""
        self.bad += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(f"line {number}: {reason}")


def read_locations(path: Path) -> dict[str, tuple[str, str, str]]:
    """Read a file of locations (`location_id`, then any of `name`, `lat`, `lon`): name, latitude, longitude by id.

    Raises:
        UsageError: for a missing column, or a line that is no location or names one twice.
    """
    found: dict[str, tuple[str, str, str]] = {}
    with _reading(path) as (text, _):
        rows = csv.DictReader(text, restval="")
        names = rows.fieldnames or []
        if "location_id" not in names:
            raise UsageError(f"{path}: the header has no column location_id: found {', '.join(names) or 'nothing'}")
        latitude, longitude = (next((n for n in some if n in names), "") for some in (_LATITUDES, _LONGITUDES))
        for row in rows:
            location_id = row["location_id"]
            try:
                _check_id("location", location_id)
                place = (
                    row.get("name") or location_id,
                    _degrees(row.get(latitude, "")),
                    _degrees(row.get(longitude, "")),
                )
            except BadRowError as error:
                raise UsageError(f"{path}, line {rows.line_num}: {error}") from None
            if location_id in found:
                raise UsageError(f"{path}, line {rows.line_num}: the location is listed twice: expected each once")
            found[location_id] = place
    return found


def write_registry(path: Path, locations: dict[str, tuple[str, str, str]]) -> None:
    """Write a registry in the order given."""
    with writing(path) as out:
        out.write(line(REGISTRY_HEADER))
        for location_id, details in locations.items():
            out.write(line((location_id, *details)))


class Conversion:
    """Turns a file of points into a replay file; what it did is in `tally`, the ids seen in `seen`.

    Args:
        columns: how the file is written.
        shape: how points become visits.
        known: the locations that there are; `None`: any.
    """

    def __init__(self, columns: Columns, shape: Shape, known: Iterable[str] | None = None) -> None:
        self._columns = columns
        self._shape = shape
        self._known = None if known is None else frozenset(known)
        self.tally = Tally()
        self.seen: set[str] = set()

    def run(self, visits: Path, out: Path, *, strict: bool, on_rows: Callable[[int, int], None]) -> None:
        """Convert; `on_rows` is told how many bytes are read and how many visits have been written.

        Memory does not grow with the file, but with the number of places, and of people where points are merged.

        Raises:
            UsageError: a column is missing; or points are to be merged and a person's are not in order of time.
            BadRowError: at the first bad row, if `strict`. Nothing is written then.
        """
        with _reading(visits) as (text, position), writing(out) as target:
            target.write(line(VISITS_HEADER))
            points = self._points(text, visits, strict=strict)
            stays = self._merged(points) if self._shape.merge_gap is not None else self._single(points)
            for stay in stays:
                target.write(self._line(stay))
                self.tally.visits += 1
                if self.tally.visits % _REPORT_EVERY == 0:
                    on_rows(position(), self.tally.visits)
            on_rows(position(), self.tally.visits)

    def _points(self, text: TextIO, path: Path, *, strict: bool) -> Iterator[Point]:
        rows = csv.reader(text, delimiter=self._columns.delimiter)
        header = next(rows, [])
        wanted = (self._columns.person, self._columns.location, self._columns.time)
        missing = [name for name in wanted if name not in header]
        if missing:
            raise UsageError(f"{path}: the header has no column {missing[0]}: found {', '.join(header) or 'nothing'}")
        where = tuple(header.index(name) for name in wanted)
        while True:
            try:
                row = next(rows)
                self.tally.rows += 1
                yield self._point(row, where, rows.line_num)
            except StopIteration:
                return
            except (BadRowError, csv.Error) as error:
                reason = str(error) if isinstance(error, BadRowError) else "not a row of CSV"
                if strict:
                    raise BadRowError(f"{path}, line {rows.line_num}: {reason}") from None
                self.tally.refuse(rows.line_num, reason)

    def _point(self, row: list[str], where: tuple[int, ...], number: int) -> Point:
        if len(row) <= max(where):
            raise BadRowError(f"{len(row)} columns: expected at least {max(where) + 1}")
        person_id, location_id, written = (row[index] for index in where)
        _check_id("location", location_id)
        if self._known is not None and location_id not in self._known:
            raise BadRowError("the location is not in the file of locations")
        at = _instant(written, self._columns.time_format)
        if self._shape.person_per_day and person_id:
            person_id = f"{person_id}@{to_datetime(at).date().isoformat()}"
        _check_id("person", person_id)
        if self._known is None:
            self.seen.add(location_id)
        return Point(person_id, location_id, at, number)

    def _single(self, points: Iterator[Point]) -> Iterator[Stay]:
        stay = self._shape.stay
        for point in points:
            yield Stay(point.person_id, point.location_id, point.at, None if stay is None else point.at + stay)

    def _merged(self, points: Iterator[Point]) -> Iterator[Stay]:
        """Each person's points as stays; one stay a person is open at a time."""
        gap = self._shape.merge_gap or 0
        open_stays: dict[str, tuple[Point, int]] = {}  # where a stay began, and its last point's instant
        for point in points:
            first, last = open_stays.get(point.person_id, (point, point.at))
            if point.at < last:
                raise UsageError(
                    f"line {point.line}: a point is earlier than the same person's last one: to merge points, each"
                    " person's must be in order of time; sort the file by time, or by person and time"
                )
            if point.location_id == first.location_id and point.at - last <= gap:
                open_stays[point.person_id] = (first, point.at)
                continue
            yield Stay(first.person_id, first.location_id, first.at, min(last + gap, point.at))
            open_stays[point.person_id] = (point, point.at)
        for first, last in open_stays.values():
            yield Stay(first.person_id, first.location_id, first.at, last + gap)

    def _line(self, stay: Stay) -> bytes:
        ends = stay.arrived_at if stay.left_at is None else stay.left_at
        delay = self._shape.report_delay
        left = "" if stay.left_at is None else format_instant(stay.left_at)
        reported = "" if delay is None else format_instant(ends + delay)
        return line((stay.person_id, stay.location_id, format_instant(stay.arrived_at), left, reported))


@contextmanager
def _reading(path: Path) -> Iterator[tuple[TextIO, Callable[[], int]]]:
    """Open a file, gzipped where its name ends so; also gives how many of its bytes have been read."""
    with path.open("rb") as raw:
        plain = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        with plain, io.TextIOWrapper(plain, "utf-8-sig", "surrogateescape", "") as text:
            yield text, raw.tell


def _check_id(what: str, text: str) -> None:
    """Ids are 1 to 256 bytes of UTF-8 without control characters (docs/interface.md, section 4)."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise BadRowError(f"the {what} id is not UTF-8") from None
    if not 0 < length <= _LONGEST_ID:
        raise BadRowError(f"the {what} id has {length} bytes: expected 1 to {_LONGEST_ID}")
    if _CONTROL.search(text):
        raise BadRowError(f"the {what} id has control characters")


def _instant(text: str, time_format: str) -> int:
    """Read a time as an instant."""
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


def _degrees(text: str) -> str:
    """Degrees as they are written, or nothing."""
    try:
        if text and not math.isfinite(float(text)):
            raise BadRowError("latitude or longitude is not finite")
    except ValueError:
        raise BadRowError("latitude or longitude is not a number") from None
    return text
