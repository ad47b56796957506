"""What was reported: the replay file (docs/interface.md, section 2), and which of its visits count (section 1)."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.text import AuditError, instant, is_id

Ints = NDArray[np.int64]

_FIELD_BYTES: Final = 2**30


@dataclass(frozen=True)
class Visits:
    """The accepted visits, one entry each; and of every dead letter the slot in which it was reported.

    `person` numbers people, `row` is the location's in the registry, `current` the slot c of the report, `last` the
    last slot; `left` and `last` after the cut at slot c + F.
    """

    person: Ints
    row: Ints
    current: Ints
    arrived: Ints
    left: Ints
    last: Ints
    dead: Ints

    @cached_property
    def _by_row(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.row, kind="stable")
        return order, self.row[order]

    def at(self, row: int) -> Ints:
        """The entries of the visits at one location."""
        order, rows = self._by_row
        first, end = np.searchsorted(rows, (row, row + 1))
        return order[first:end]


class Line(NamedTuple):
    """A visit as it was reported: ids, and instants."""

    person: str
    location: str
    arrived: int
    left: int
    reported: int


def read_visits(path: Path, terms: AuditTerms) -> Visits:
    """Read a replay file and judge each visit by itself.

    Raises:
        AuditError: the file cannot be read, or is no replay file.
    """
    limit = csv.field_size_limit(_FIELD_BYTES)  # of the whole process, so it is put back
    try:
        with _opened(path) as file:
            return judged(_lines(csv.reader(file), terms), terms)
    except (OSError, EOFError, csv.Error, StopIteration, ValueError) as error:
        raise AuditError(f"{path}: not a replay file that can be read: {error}") from error
    finally:
        csv.field_size_limit(limit)


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape", newline="")
    return path.open(encoding="utf-8", errors="surrogateescape", newline="")


def _lines(rows: Iterator[list[str]], terms: AuditTerms) -> Iterator[Line | None]:
    """Each line's visit; None for a line that is none."""
    header = next(rows, [])
    missing = {"person_id", "location_id", "arrived_at"} - set(header)
    if missing:
        raise ValueError(f"the header lacks {', '.join(sorted(missing))}")
    for row in rows:
        fields = dict(zip(header, row, strict=False))
        try:
            yield _line(fields, terms)
        except (KeyError, ValueError):
            yield None


def _line(fields: dict[str, str], terms: AuditTerms) -> Line:
    reported = instant(fields["reported_at"]) if fields.get("reported_at") else None
    left = fields.get("left_at") or None
    return line(fields["person_id"], fields["location_id"], fields["arrived_at"], left, reported, terms)


def line(person: str, location: str, arrived: str, left: str | None, reported: int | None, terms: AuditTerms) -> Line:
    """A visit, if it is one; without `reported`, reported when it ended.

    Raises:
        ValueError: it is none.
    """
    arrived_at = instant(arrived)
    left_at = arrived_at + terms.default_stay if left is None else instant(left)
    if left_at < arrived_at or not (is_id(person) and is_id(location)):
        raise ValueError("expected valid ids, and left_at at or after arrived_at")
    return Line(person, location, arrived_at, left_at, left_at if reported is None else reported)


def judged(lines: Iterator[Line | int | None], terms: AuditTerms) -> Visits:
    """Judge each visit by itself; what is none comes as when it was reported, or as None: just before the next visit.

    Raises:
        ValueError: there is no visit among them.
    """
    people: dict[str, int] = {}
    taken: list[tuple[int, int, int, int, int]] = []
    dead: list[int] = []
    grid, waiting, current = terms.grid, 0, None
    for one in lines:
        if one is None:
            waiting += 1
            continue
        if isinstance(one, int):
            dead.append(grid.slot_of(one))
            continue
        current = grid.slot_of(one.reported)
        dead += [current] * waiting
        waiting = 0
        row = terms.rows.get(one.location)
        if row is None or grid.slot_of(one.arrived) > current + terms.max_lead:
            dead.append(current)
            continue
        left = min(one.left, grid.start(current + terms.max_lead + 1))
        taken.append((people.setdefault(one.person, len(people)), row, current, one.arrived, left))
    if current is None:
        raise ValueError("none of its lines is a visit")
    dead += [current] * waiting
    return _columns(taken, dead, terms)


def _columns(taken: list[tuple[int, int, int, int, int]], dead: list[int], terms: AuditTerms) -> Visits:
    person, row, current, arrived, left = np.array(taken, np.int64).reshape(-1, 5).T.copy()
    origin, slot = terms.grid.origin, terms.grid.slot
    last = np.maximum((arrived - origin) // slot, -((origin - left) // slot) - 1)
    return Visits(person, row, current, arrived, left, last, np.array(dead, np.int64))
