"""Read visits from a replay file (docs/interface.md, section 2) or from input records, and accept or refuse them.

Section 1 of docs/interface.md defines which visits count.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, repeat
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, NoReturn

from msgspec import Struct, ValidationError, convert, field

from monitor.audit.parse_values import AuditError, is_id, parse_instant
from monitor.audit.shared_terms import SharedTerms

_FIELD_BYTES: Final = 2**30
_REQUIRED: Final = {"person_id", "location_id", "arrived_at"}
_OPTIONAL: Final = {"left_at", "reported_at", "consent"}
_DEEPEST: Final = 200
_MICROSECOND_DIGITS: Final = 16
_HEADS: Final = ((b"\x00", 5), (b"\xef\xbb\xbf", 3))
"""The first byte or bytes before the JSON, and how many bytes to skip: Confluent's header, and a byte order mark."""
_EMPTY: Final = re.compile(rb"\[\s*\]|\{\s*\}")
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')


class AcceptedVisit(NamedTuple):
    """A visit that counts."""

    person: int
    """A number that stands for a person id."""
    row: int
    """The location's row in the registry."""
    current: int
    """The slot c of the report."""
    arrived: int
    """An instant, as `left`."""
    left: int
    """The end, after the cut at the end of slot c + F."""
    last: int
    """The last slot, after the same cut."""
    consent: bool = False
    """Whether the visit counts in lower bounds."""


class Line(NamedTuple):
    """A visit as reported. Times are instants."""

    person: str
    location: str
    arrived: int
    left: int
    reported: int
    consent: bool = False


def read_visits(path: Path, terms: SharedTerms) -> Iterator[Line | int]:
    """Yield the visits of a replay file, and the instant of report of each invalid one.

    An invalid line is reported with the next valid one, or with the last one if none follows. If there is no valid
    line, the invalid ones have no time and are left out.

    Raises:
        AuditError: the file cannot be read, or is not a replay file.
    """
    limit = csv.field_size_limit(_FIELD_BYTES)  # a setting of the whole process, so it is restored
    try:
        with open_text(path) as file:
            invalid, reported = 0, None
            for line in _read_lines(file, terms):
                if line is None:
                    invalid += 1
                    continue
                reported = line.reported
                yield from repeat(reported, invalid)
                yield line
                invalid = 0
            if reported is not None:
                yield from repeat(reported, invalid)
    except (OSError, EOFError, csv.Error, ValueError) as error:
        raise AuditError(f"{path}: cannot be read as a replay file: {error}") from error
    finally:
        csv.field_size_limit(limit)


def open_text(path: Path) -> IO[str]:
    """Open a file of CSV, gzipped if its name ends in .gz, with or without a byte order mark."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def _read_lines(file: Iterable[str], terms: SharedTerms) -> Iterator[Line | None]:
    """Yield the visit of each line; None for an invalid one."""
    taken: list[str] = []  # the lines of the present row

    def take() -> Iterator[str]:
        for text in file:
            taken.append(text)
            yield text

    rows = csv.reader(take(), strict=True)
    header = next(rows, [])
    if missing := sorted(_REQUIRED - set(header)):
        raise ValueError(f"the header lacks {', '.join(missing)}")
    if twice := sorted(name for name in _REQUIRED | _OPTIONAL if header.count(name) > 1):
        raise ValueError(f"the header has {', '.join(twice)} more than once")
    while True:
        taken.clear()
        before = rows.line_num
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise ValueError(f"a quote is broken in the row that begins in line {before + 1}: {error}") from None
        if row is None:
            return
        line = _parse_cells(header, row, terms)
        if len(taken) > 1 and sum(_is_visit(header, text, terms) for text in taken) > (line is not None):
            raise ValueError(f"a quote joins lines {before + 1} to {rows.line_num}, of which one is a visit by itself")
        yield line


def _is_visit(header: list[str], text: str, terms: SharedTerms) -> bool:
    """Return whether a line is a visit by itself, whatever its quotes mean."""
    plain = text.rstrip("\r\n")
    ways = (plain.split(","), next(csv.reader([plain]), []))
    return any(_parse_cells(header, cells, terms) is not None for cells in ways)


def _parse_cells(header: list[str], cells: list[str], terms: SharedTerms) -> Line | None:
    """Return the visit of a row; None if it is invalid."""
    try:
        return _parse_fields(dict(zip(header, cells, strict=False)), terms)
    except (KeyError, ValueError):
        return None


def _parse_fields(fields: dict[str, str], terms: SharedTerms) -> Line:
    consent = fields.get("consent") or "false"
    if consent not in ("true", "false"):
        raise ValueError("consent: expected true, false or nothing")
    arrived = parse_instant(fields["arrived_at"])
    left = parse_instant(fields["left_at"]) if fields.get("left_at") else arrived + terms.default_stay
    reported = parse_instant(fields["reported_at"]) if fields.get("reported_at") else left
    line = Line(fields["person_id"], fields["location_id"], arrived, left, reported, consent == "true")
    return _require_valid(line)


def _require_valid(line: Line) -> Line:
    """Return a visit as it is. Raise ValueError if it is invalid."""
    if line.left < line.arrived or not (is_id(line.person) and is_id(line.location)):
        raise ValueError("expected valid ids, and left_at at or after arrived_at")
    return line


def accept(line: Line, person: int, terms: SharedTerms) -> AcceptedVisit | None:
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


def decode(value: Any, stamped: int, terms: SharedTerms) -> Iterator[Line | int]:
    """Yield the visits of an input record, and `stamped`, the instant of its timestamp, for each dead letter in it."""
    if not isinstance(value, bytes | None):
        yield from repeat(stamped, value.records)
        return
    visits = parse_visits(value)
    if visits is None:
        yield stamped
        return
    for visit in visits:
        try:
            yield _parse_visit(visit, stamped, terms)
        except (ValueError, ValidationError):
            yield stamped


class _Visit(Struct):
    """The types of a visit's keys."""

    person_id: str
    location_id: str
    arrived_at: str | int
    left_at: str | int | None = None
    consent: bool = False
    deleted: Any = field(default=None, name="__deleted")


def _parse_visit(value: Any, stamped: int, terms: SharedTerms) -> Line:
    """Parse a visit from its JSON. Raise ValueError or ValidationError if it is invalid."""
    visit = convert(value, _Visit)
    if visit.deleted is True or visit.deleted == "true":
        raise ValueError("expected a row that is not deleted")
    arrived = _read_time(visit.arrived_at)
    left = arrived + terms.default_stay if visit.left_at is None else _read_time(visit.left_at)
    return _require_valid(Line(visit.person_id, visit.location_id, arrived, left, stamped, visit.consent))


def _read_time(time: str | int) -> int:
    """Return the instant. Raise ValueError for an integer that is not a number of microseconds of 16 digits."""
    if isinstance(time, str):
        return parse_instant(time)
    if not (time > 0 and len(str(time)) == _MICROSECOND_DIGITS):
        raise ValueError("expected a time as text, or microseconds")
    return time


def parse_visits(value: bytes | None) -> list[Any] | None:
    """Return the visits of a record, not yet checked; None if it is not strict JSON, or neither a visit nor a batch.

    A framing is read alone, except for Connect's envelope in a CloudEvent.
    """
    text = value or b""
    head = next((length for first, length in _HEADS if text.startswith(first)), 0)
    text = text[head:]
    hook = _require_encodable if b"\\u" in text else None  # UTF-8 has no lone surrogate, so only an escape can be one
    try:
        record = json.loads(text.decode(), parse_constant=_refuse_constant, object_pairs_hook=hook)
    except (ValueError, RecursionError):
        return None
    if _is_too_deep(text):
        return None
    record = record if head else _unwrap(record)
    if not isinstance(record, dict):
        return None
    visits = record.get("visits", [record])
    return visits if isinstance(visits, list) else None


def _unwrap(record: Any) -> Any:
    """Return the content of a CloudEvent, and of an envelope of Kafka Connect."""
    if _is_event(record):
        record = record.get("data")
    if isinstance(record, dict) and set(record) == {"schema", "payload"}:
        record = record["payload"]
    return record


def _is_event(record: Any) -> bool:
    keys = set(record) if isinstance(record, dict) else set()
    return "specversion" in keys and record["specversion"] == "1.0" and not keys & {"visits", "person_id"}


def _require_encodable(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raise ValueError for a lone surrogate, even in a pair that a repeated key hides."""
    json.dumps(pairs, ensure_ascii=False).encode()
    return dict(pairs)


def _refuse_constant(constant: str) -> NoReturn:
    """Refuse NaN and Infinity, as the `parse_constant` of `json.loads`."""
    raise ValueError(f"{constant} is not JSON")


def _is_too_deep(text: bytes) -> bool:
    """Return whether arrays and objects are nested more than 200 deep in a JSON text."""
    if text.count(b"[") + text.count(b"{") <= _DEEPEST:
        return False
    # The service's parser does not count the innermost array or object if it is empty.
    brackets = re.findall(rb"[\[\]{}]", _EMPTY.sub(b"", _STRING.sub(b'""', text)))
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0) > _DEEPEST
