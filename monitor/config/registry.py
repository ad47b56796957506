"""Reads the registry, the public CSV list of all locations (docs/interface.md, section 3; docs/rules.md, rule 6)."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from monitor.config.bounded_lines import open_lines
from monitor.config.csv_table import Table, is_utf_8
from monitor.errors import ConfigError, FileFormatError, Problem
from monitor.kinds.configured_monitor import ConfiguredMonitor
from monitor.records.visits import ID_BYTES, is_identifier
from monitor.values.similar_names import find_similar
from monitor.values.single_values import NO_OUTER_SPACE, REMOVE_SPACE, has_controls, has_outer_space

COLUMNS: Final = ("location_id", "name", "latitude", "longitude", "kind")
MAX_LISTED: Final = 20
_KEY: Final = "locations.file"
_FORM: Final = "location_id[,name,latitude,longitude,kind]"

_BOUNDS: Final = {"latitude": 90.0, "longitude": 180.0}
_COMPARABLE: Final = 10_000  # the search for a similar id takes linear time, so the number of searches is limited


@dataclass(frozen=True, slots=True)
class Location:
    """A public place of the registry; latitude and longitude in degrees. `kind`: words to find it by."""

    id: str
    name: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    kind: str | None = None


def load_registry(path: Path) -> tuple[Location, ...]:
    """Return all locations in file order. The header must name location_id; the other columns are optional.

    Raises:
        ConfigError: with the first 20 problems of the file and the number of others.
    """
    try:
        with open_lines(path) as lines:
            return _read_locations(path, Table(lines))
    except FileFormatError as error:
        raise ConfigError(str(path), error.problems) from None
    except (OSError, EOFError, zlib.error) as error:
        value = f"{path} ({(error.strerror if isinstance(error, OSError) else None) or 'unreadable'})"
        remedy = "Correct the path, which is relative to the configuration file."
        raise ConfigError(str(path), (Problem(_KEY, value, "a readable file", remedy),)) from None


def find_unknown_locations(
    monitors: Mapping[int, ConfiguredMonitor], registry: Sequence[Location]
) -> Iterator[Problem]:
    """Yield a problem for each watched location that is not in the registry. `monitors` maps index to monitor."""
    known = {location.id for location in registry}
    compared = 0
    for index, monitor in monitors.items():
        for location in monitor.location_ids:
            if location not in known:
                compared += len(known)
                near = find_similar(location, known) if compared <= MAX_LISTED * _COMPARABLE else None
                hint = f"Did you mean {near!r}?" if near else "Add it to locations.file, or remove it from the monitor."
                key = f"monitors.{index}.locations"
                yield Problem(key, repr(location), "a location of the registry", hint)


def _read_locations(path: Path, table: Table) -> tuple[Location, ...]:
    advice = f"Write the columns {_FORM}, separated by commas."
    table.find_columns(COLUMNS[:1], COLUMNS[1:], position=(("latitude",), ("longitude",)), advice=advice)
    reader = _Reader(tuple(table.header))
    problems = list(reader.find_header_problems())
    if not problems:
        rows = table.read_rows(lambda cells: len(cells) == len(table.header))
        locations: tuple[Location, ...] = ()
        try:
            locations = tuple(reader.read_location(line, cells) for line, cells in rows if cells)
        except FileFormatError as error:
            reader.problems += error.problems
        problems = reader.problems
        if not (locations or problems):
            problems = [Problem("the file", "without a location", "at least one", "Add a line for each location.")]
    if problems:
        raise ConfigError(str(path), _limit(problems))
    return locations


def _limit(problems: list[Problem]) -> tuple[Problem, ...]:
    more = len(problems) - MAX_LISTED
    listed = tuple(problems[:MAX_LISTED])
    return (*listed, Problem(f"and {more} more", "", "none", "Correct these first.")) if more > 0 else listed


@dataclass
class _Reader:
    """Turns rows into locations, and collects problems."""

    header: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    _line_of: dict[str, int] = field(default_factory=dict)

    def find_header_problems(self) -> Iterator[Problem]:
        """Yield the problems of the first line that only a registry has."""
        for column in dict.fromkeys(self.header):
            if column not in COLUMNS:
                near = find_similar(column, COLUMNS)
                hint = f"Did you mean {near}?" if near else "Remove the column."
                yield Problem("the header", repr(column[:80]), f"columns of {_FORM}", hint)

    def read_location(self, line: int, row: list[str]) -> Location:
        """Return the location of a row. Its problems are appended to `problems`."""
        if len(row) != len(self.header):
            count = "1 field" if len(row) == 1 else f"{len(row)} fields"
            remedy = "Put fields that contain a comma in double quotes."
            self.problems.append(Problem(f"line {line}", count, f"{len(self.header)} fields, as in the header", remedy))
            return Location("")
        cells = dict(zip(self.header, row, strict=True))
        latitude, longitude = (self._read_degrees(line, name, cells.get(name, "")) for name in _BOUNDS)
        if bool(cells.get("latitude", "").strip()) != bool(cells.get("longitude", "").strip()):
            remedy = "Add the missing number."
            self.problems.append(
                Problem(f"line {line}", "half a position", "latitude and longitude, or neither", remedy)
            )
        return Location(
            self._read_id(line, cells["location_id"]),
            self._read_text(line, "name", cells.get("name", "")),
            latitude,
            longitude,
            self._read_text(line, "kind", cells.get("kind", "")),
        )

    def _read_text(self, line: int, column: str, text: str) -> str | None:
        if not is_utf_8(text):
            remedy = "Save the file as UTF-8."
            self.problems.append(Problem(f"line {line}, {column}", repr(text[:80]), "text in UTF-8", remedy))
        elif has_controls(text):
            remedy = "Remove them."
            self.problems.append(Problem(f"line {line}, {column}", repr(text[:80]), "no control characters", remedy))
        return text or None

    def _read_id(self, line: int, text: str) -> str:
        key = f"line {line}, location_id"
        if not is_identifier(text):
            value = repr(text[:80]) if text else "empty"
            what = f"1 to {ID_BYTES} bytes of UTF-8 without control characters"
            self.problems.append(Problem(key, value, what, "Correct it."))
        elif has_outer_space(text):
            self.problems.append(Problem(key, repr(text[:80]), NO_OUTER_SPACE, REMOVE_SPACE))
        elif (first := self._line_of.setdefault(text, line)) != line:
            self.problems.append(
                Problem(key, repr(text), f"a unique id, but line {first} has the same", "Remove one of them.")
            )
        return text

    def _read_degrees(self, line: int, column: str, text: str) -> float | None:
        if not text.strip():
            return None
        bound = _BOUNDS[column]
        try:
            degrees = float(text)
        except ValueError:
            degrees = math.nan
        if abs(degrees) <= bound:
            return degrees
        what = f"degrees from -{bound:g} to {bound:g}, or nothing"
        self.problems.append(Problem(f"line {line}, {column}", repr(text[:80]), what, "Correct it."))
        return None
