"""Convert visits, or points that become visits, to a replay file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from monitor.config.bounded_lines import BoundedLines, open_lines
from monitor.errors import UsageError
from monitor.operate.convert.files import CONSENT_HEADER, VISITS_HEADER, consents, format_csv_line, open_atomically
from monitor.operate.convert.local_times import add_stay
from monitor.operate.convert.plausibility import Plausibility
from monitor.operate.convert.registries import Place, Places
from monitor.operate.convert.rows import BadRowError, NothingValidError, Rows, Stay, Tally, check_id, check_instant
from monitor.time.instants import format_instant, to_datetime

_REPORT_EVERY: Final = 10_000  # rows

VisitReader: TypeAlias = Callable[[BoundedLines, Path], Rows[Stay]]
Located: TypeAlias = Iterator[tuple[str, Stay]]
"""Visits, and where each is in the file."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The rules by which rows become visits. Durations are in microseconds, or None."""

    stay: int | None = None
    """The duration of a visit whose end is not known; None leaves it open."""
    until: int | None = None
    """The instant at which visits end that go on; None refuses them."""
    merge_gap: int | None = None
    """Points of one person at one place at most this far apart are merged into one visit, which ends at the last point
    plus the gap, or at the person's next point elsewhere if that is earlier.
    """
    report_delay: int | None = None
    """The time from the end of a visit (its beginning if the end is open) to its report."""
    person_per_day: bool = False
    """The same id on another UTC day is another person."""
    consent: float | None = None
    """The share of people who consent to lower bounds; None writes no such column."""
    zone: ZoneInfo | None = None
    """The zone whose days, of 23 to 25 hours, a stay of whole days has."""


class Conversion:
    """The conversion of a file into a replay file.

    `tally` has its counts. `places` are the given ones, or those that the file names.

    Args:
        read: yields the rows of the file.
        shape: the rules by which rows become visits.
        places: the known places; None accepts any id.
    """

    def __init__(self, read: VisitReader, shape: Shape, places: Places | None = None) -> None:
        self._read = read
        self._shape = shape
        self._accepts_any = places is None
        self.places = places or Places()
        self.tally = Tally(Path())
        self._plausibility = Plausibility(shape.zone)

    def run(self, visits: Path, out: Path, *, strict: bool, on_progress: Callable[[int], object]) -> None:
        """Convert a file. `on_progress` is called with the number of bytes read so far.

        Memory grows with the number of places, and with the number of people if points are merged, but not with the
        size of the file.

        Raises:
            UsageError: the file has another format, or points to merge are not in order of time.
            BadRowError: `strict` is true, and a row is invalid, or something may have been misread. No file is written.
            NothingValidError: no row is valid. No file is written.
        """
        self.tally, self._plausibility = Tally(visits, strict), Plausibility(self._shape.zone)
        with open_lines(visits) as lines, open_atomically(out) as target:
            target.write(format_csv_line(VISITS_HEADER if self._shape.consent is None else CONSENT_HEADER))
            rows = self.tally.count(self._read(lines, visits))
            stays = self._accept(rows, lambda: on_progress(lines.position()))
            for stay in self._merge(stays) if self._shape.merge_gap is not None else (stay for _, stay in stays):
                target.write(self._format_line(stay))
                self.tally.written += 1
            on_progress(lines.position())
            if not self.tally.written:
                raise NothingValidError(self.tally.explain_none("visit"))
            self._judge(lines)

    def list_places(self) -> Places:
        """Return the places for a registry: those that the file names are in the order of their ids."""
        return Places(dict(sorted(self.places.rows.items()))) if self._accepts_any else self.places

    def _judge(self, lines: BoundedLines) -> None:
        """Add notes and warnings to the tally. Raise BadRowError if there is a warning, and the tally is strict."""
        tally = self.tally
        if lines.unused is not None:
            tally.unused = lines.unused
            tally.notes.append(f"{tally.rows:,} rows in {max(0, lines.line - 1):,} lines after the header")
        tally.notes.append(self._plausibility.describe_days())
        if lines.joined:
            tally.warnings.append(
                f"{lines.joined:,} rows have line breaks in their cells (the first: line {lines.first_joined}): if "
                "these are not texts of several lines, a quote is missing"
            )
        tally.warnings += self._plausibility.find_warnings()
        if tally.strict and tally.warnings:
            raise BadRowError("\n  ".join([f"{tally.path}: --strict writes nothing, because", *tally.warnings]))

    def _accept(self, rows: Located, on_progress: Callable[[], object]) -> Located:
        """Yield the visits that can be written, and count the others."""
        for where, stay in rows:
            if self.tally.rows % _REPORT_EVERY == 0:
                on_progress()
            try:
                accepted = self._check(stay)
            except BadRowError as error:
                self.tally.refuse(where, str(error))
                continue
            self._plausibility.add(where, accepted._replace(person_id=stay.person_id))
            yield where, accepted

    def _check(self, stay: Stay) -> Stay:
        person_id, location_id, arrived_at = stay[:3]
        found = self.places.find(check_id("location", location_id))
        if found is None and not self._accepts_any:
            raise BadRowError("the location is not in the file of locations")
        check_instant("time", arrived_at)
        left_at = self._find_end(stay)
        if left_at is not None and self._shape.merge_gap is not None:
            raise BadRowError("the point has a date without a time, or an end: --merge needs times")
        if left_at is not None:
            check_instant("end", left_at)
            if left_at < arrived_at:
                raise BadRowError("the end is before the start")
        if self._shape.person_per_day and person_id:
            person_id = f"{person_id}@{to_datetime(arrived_at).date().isoformat()}"
        check_id("person", person_id)
        if found is None:
            self.places.rows[location_id] = Place(location_id, location_id)
        return Stay(person_id, found or location_id, arrived_at, left_at)

    def _find_end(self, stay: Stay) -> int | None:
        """Return the end of a visit, None to leave it open. It is given, or follows from the rules."""
        if stay.goes_on:
            if self._shape.until is None:
                raise BadRowError("the stay has no end: name the last day of stays that go on with --until")
            if self._shape.until <= stay.arrived_at:
                raise BadRowError("the stay begins after the day of --until")
            return self._shape.until
        latest = stay.arrived_at if stay.latest_arrival is None else stay.latest_arrival
        if stay.left_at is not None:
            return stay.left_at
        if self._shape.stay is not None:
            return add_stay(latest, self._shape.stay, self._shape.zone)
        if latest != stay.arrived_at:
            raise BadRowError("the clocks change at this local time, and the visit has no end: give --stay, or offsets")
        return None

    def _merge(self, stays: Located) -> Iterator[Stay]:
        """Yield visits made of points, each as soon as it has ended. Each person has at most one at a time."""
        gap = self._shape.merge_gap or 0
        open_stays: dict[str, tuple[Stay, int]] = {}  # by person: the first point, and the instant of the last one
        for where, point in stays:
            if point.left_at is not None:  # a date, which is the whole day
                yield point
                continue
            first, last = open_stays.get(point.person_id, (point, point.arrived_at))
            if point.arrived_at < last:
                raise UsageError(
                    f"{where}: a point is earlier than the previous one of the same person: merging needs points in"
                    " order of time; sort the file by time, or by person and time"
                )
            if point.location_id == first.location_id and point.arrived_at - last <= gap:
                open_stays[point.person_id] = (first, point.arrived_at)
                continue
            yield first._replace(left_at=min(last + gap, point.arrived_at))
            open_stays[point.person_id] = (point, point.arrived_at)
        for first, last in open_stays.values():
            yield first._replace(left_at=last + gap)

    def _format_line(self, stay: Stay) -> bytes:
        ends = stay.arrived_at if stay.left_at is None else stay.left_at
        delay = self._shape.report_delay
        left = "" if stay.left_at is None else format_instant(stay.left_at)
        reported = "" if delay is None else format_instant(ends + delay)
        fields = (stay.person_id, stay.location_id, format_instant(stay.arrived_at), left, reported)
        if self._shape.consent is None:
            return format_csv_line(fields)
        return format_csv_line((*fields, "true" if consents(stay.person_id, self._shape.consent) else "false"))
