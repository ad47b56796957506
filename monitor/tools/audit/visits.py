"""Read the visits of a replay file (docs/interface.md, section 2), and decide which of them count (section 1)."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.text import AuditError, is_id, parse_instant

_FIELD_BYTES: Final = 2**30


class AcceptedVisit(NamedTuple):
    """A visit that counts.

    `person` is a number that stands for a person id, `row` the location's row in the registry, `current` the slot c of
    the report, and `last` the visit's last slot. `arrived` and `left` are instants. `left` and `last` are after the cut
    at the end of slot c + F. `consent`: the visit counts in lower bounds.
    """

    person: int
    row: int
    current: int
    arrived: int
    left: int
    last: int
    consent: bool = False


@dataclass(frozen=True, slots=True)
class Visits:
    """The accepted visits, and the slot in which each dead letter was reported."""

    accepted: list[AcceptedVisit]
    dead: list[int]


class Line(NamedTuple):
    """A visit as reported. Times are instants."""

    person: str
    location: str
    arrived: int
    left: int
    reported: int
    consent: bool = False


def read_visits(path: Path, terms: AuditTerms, people: dict[str, int] | None = None) -> Visits:
    """Read a replay file, and accept or refuse each visit. `people` as in `accept_visits`.

    Raises:
        AuditError: the file cannot be read, or is not a replay file.
    """
    limit = csv.field_size_limit(_FIELD_BYTES)  # a setting of the whole process, so it is restored
    try:
        with _open(path) as file:
            return accept_visits(_read_lines(csv.reader(file), terms), terms, people)
    except (OSError, EOFError, csv.Error, StopIteration, ValueError) as error:
        raise AuditError(f"{path}: cannot be read as a replay file: {error}") from error
    finally:
        csv.field_size_limit(limit)


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape", newline="")
    return path.open(encoding="utf-8", errors="surrogateescape", newline="")


def _read_lines(rows: Iterator[list[str]], terms: AuditTerms) -> Iterator[Line | None]:
    """Yield the visit of each line; None for an invalid one."""
    header = next(rows, [])
    missing = {"person_id", "location_id", "arrived_at"} - set(header)
    if missing:
        raise ValueError(f"the header lacks {', '.join(sorted(missing))}")
    for row in rows:
        fields = dict(zip(header, row, strict=False))
        try:
            yield _parse_fields(fields, terms)
        except (KeyError, ValueError):
            yield None


def _parse_fields(fields: dict[str, str], terms: AuditTerms) -> Line:
    reported = parse_instant(fields["reported_at"]) if fields.get("reported_at") else None
    left = fields.get("left_at") or None
    line = parse_line(fields["person_id"], fields["location_id"], fields["arrived_at"], left, reported, terms)
    consent = fields.get("consent") or "false"
    if consent not in ("true", "false"):
        raise ValueError("consent: expected true, false or nothing")
    return line._replace(consent=consent == "true")


def parse_line(
    person: str, location: str, arrived: str, left: str | None, reported: int | None, terms: AuditTerms
) -> Line:
    """Parse a visit from its fields. `reported` is an instant; None if the visit counts as reported when it ends.

    Raises:
        ValueError: the visit is invalid.
    """
    arrived_at = parse_instant(arrived)
    left_at = arrived_at + terms.default_stay if left is None else parse_instant(left)
    if left_at < arrived_at or not (is_id(person) and is_id(location)):
        raise ValueError("expected valid ids, and left_at at or after arrived_at")
    return Line(person, location, arrived_at, left_at, left_at if reported is None else reported)


def accept_visits(
    lines: Iterable[Line | int | None], terms: AuditTerms, people: dict[str, int] | None = None
) -> Visits:
    """Accept or refuse each visit.

    An invalid visit is given as its time of report, or as None. None stands for the time of the next valid visit, or of
    the last one if none follows. If there is no valid visit, these invalid visits have no time and are left out.
    `people` has the number of each person id; give the same dict for several configurations.
    """
    people = {} if people is None else people
    accepted: list[AcceptedVisit] = []
    dead: list[int] = []
    grid, waiting, current = terms.grid, 0, None
    for line in lines:
        if line is None:
            waiting += 1
        elif isinstance(line, int):
            dead.append(grid.find_slot(line))
        else:
            current = grid.find_slot(line.reported)
            dead += [current] * waiting
            waiting = 0
            visit = accept(line, people.setdefault(line.person, len(people)), terms)
            if visit is None:
                dead.append(current)
            else:
                accepted.append(visit)
    return Visits(accepted, dead if current is None else dead + [current] * waiting)


def accept(line: Line, person: int, terms: AuditTerms) -> AcceptedVisit | None:
    """Return the visit, cut at the end of slot c + F, or None if it is refused.

    `last` is the last slot that the visit touches.
    """
    grid = terms.grid
    row, current = terms.rows.get(line.location), grid.find_slot(line.reported)
    if row is None or grid.find_slot(line.arrived) > current + terms.accept_ahead:
        return None
    left = min(line.left, grid.start(current + terms.max_lead + 1))
    last = max(grid.find_slot(line.arrived), grid.find_slot(left - 1))
    return AcceptedVisit(person, row, current, line.arrived, left, last, line.consent)
