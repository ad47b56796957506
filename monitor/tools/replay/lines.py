"""Read a replay file line by line: CSV (also gzipped) with a header, in any order (docs/interface.md, section 2)."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from monitor.contracts.visits import Fault, Visit, read_visit
from monitor.errors import TimeError, UsageError
from monitor.public.instants import parse_instant
from monitor.public.parameters import Parameters

REQUIRED: Final = ("person_id", "location_id", "arrived_at")
OPTIONAL: Final = ("left_at", "reported_at", "consent")
_CONSENT: Final = {"true": True, "false": False}

# An id of 1 MB must become a dead letter. With the default limit of csv it would stop the reader.
_FIELD_BYTES: Final = 2**30


class Line(NamedTuple):
    """One visit to produce: the instant of its report, its number in the file, and its JSON.

    An invalid visit gets its own record, because it could turn a whole batch into a dead letter.
    """

    reported_at: int
    number: int
    payload: bytes
    is_visit: bool = True


@dataclass(slots=True)
class Extent:
    """The ticks that the valid visits need: from the first slot to the last tick with one in a window or horizon."""

    parameters: Parameters
    first_tick: int | None = None
    last_tick: int | None = None
    lines: int = 0
    bad: int = 0

    def add(self, visit: Visit, left_at: int, reported_at: int) -> None:
        """Add a valid visit, up to `max_lead` slots after its report. The service refuses or cuts off the rest."""
        grid = self.parameters.grid
        reported = grid.slot_of(reported_at)
        first = min(grid.slot_of(visit.arrived_at), reported)
        last = min(grid.last_slot(visit.arrived_at, left_at), reported + self.parameters.max_lead)
        last = max(last, reported)
        after = last + max(self.parameters.widest_window, self.parameters.longest_horizon)
        self.first_tick = first if self.first_tick is None else min(self.first_tick, first)
        self.last_tick = after if self.last_tick is None else max(self.last_tick, after)


def open_text(path: Path) -> IO[str]:
    """Open a file, gzipped if its name ends in .gz. Bytes that are not UTF-8 become lone surrogates."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape", newline="")
    return path.open(encoding="utf-8", errors="surrogateescape", newline="")


def read_lines(path: Path, extent: Extent) -> Iterator[Line]:
    """Yield every line with its time of report, and add the valid visits to `extent`.

    An invalid line gets the time of report of the next valid line, or of the last one if none follows.

    Raises:
        UsageError: the file cannot be read, the header lacks a column, or no line is a valid visit.
    """
    limit = csv.field_size_limit(_FIELD_BYTES)  # a setting of the whole process, so it is restored
    waiting: list[tuple[int, bytes]] = []
    latest: int | None = None
    try:
        with open_text(path) as file:
            rows = csv.reader(file)
            header = _require_columns(path, next(rows, []))
            for number, row in enumerate(rows):
                fields = dict(zip(header, row, strict=False))
                extent.lines += 1
                reported_at, payload = _parse_fields(fields, extent)
                if reported_at is None:
                    extent.bad += 1
                    waiting.append((number, payload))
                    continue
                latest = reported_at
                for before, bad in waiting:
                    yield Line(reported_at, before, bad, is_visit=False)
                waiting.clear()
                yield Line(reported_at, number, payload)
    except (OSError, EOFError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read as CSV: {error}") from error
    finally:
        csv.field_size_limit(limit)
    if latest is None:
        raise UsageError(
            f"{path}: none of its {extent.lines} lines is a valid visit; expected {', '.join(REQUIRED)}, …"
        )
    for before, bad in waiting:
        yield Line(latest, before, bad, is_visit=False)


def _require_columns(path: Path, header: list[str]) -> list[str]:
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        raise UsageError(
            f"{path}: the header lacks {', '.join(missing)}; expected {','.join((*REQUIRED, *OPTIONAL))}, the last "
            "three optional"
        )
    return header


def _parse_fields(fields: dict[str, str], extent: Extent) -> tuple[int | None, bytes]:
    """Return the time of report of a line (None if it is invalid), and its fields as the JSON of a visit."""
    given: dict[str, str | bool] = {name: fields[name] for name in REQUIRED if name in fields}
    if fields.get("left_at"):
        given["left_at"] = fields["left_at"]
    if consent := fields.get("consent"):
        given["consent"] = _CONSENT.get(consent, consent)  # other texts are sent as they are, and refused
    payload = json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogateescape")
    visit = read_visit(given)
    if isinstance(visit, Fault):
        return None, payload
    left_at = visit.arrived_at + extent.parameters.default_stay if visit.left_at is None else visit.left_at
    try:
        reported_at = parse_instant(fields["reported_at"]) if fields.get("reported_at") else left_at
    except TimeError:
        # Without `reported_at`, the other fields would be a valid visit. The whole row is sent, so that it is refused.
        return None, json.dumps(list(fields.values()), ensure_ascii=False).encode(errors="surrogateescape")
    if visit.location_id in extent.parameters.registry.rows:
        extent.add(visit, left_at, reported_at)
    return reported_at, payload
