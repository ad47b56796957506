"""Reads the registry, the public CSV list of all locations (docs/interface.md, section 3; docs/rules.md, rule 6)."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from monitor.config.bounded_lines import open_lines
from monitor.config.csv_table import Block, Table, is_utf_8
from monitor.errors import ConfigError, FileFormatError, Problem
from monitor.records.fields import ID_BYTES, is_identifier
from monitor.values.single_values import NO_OUTER_SPACE, REMOVE_SPACE, find_similar, has_controls, has_outer_space

COLUMNS: Final = ("location_id", "name", "latitude", "longitude", "kind", "district")
MAX_LISTED: Final = 20
_KEY: Final = "locations.file"
_FORM: Final = "location_id[,name,latitude,longitude,kind,district]"

_BOUNDS: Final = {"latitude": 90.0, "longitude": 180.0}


class Location(NamedTuple):
    """A public place of the registry; latitude and longitude in degrees. `kind`, `district`: words to find it by."""

    id: str
    name: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    kind: str | None = None
    district: str | None = None


@dataclass(frozen=True, slots=True)
class Locations:
    """All places of a registry, in file order, in columns, because a million objects take 100 MB. Empty: no column."""

    ids: Sequence[str]
    names: Sequence[str | None] = ()
    latitudes: Sequence[float | None] = ()
    longitudes: Sequence[float | None] = ()
    kinds: Sequence[str | None] = ()
    districts: Sequence[str | None] = ()

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self.ids)

    def __iter__(self) -> Iterator[Location]:
        """Yield all places, in file order."""
        others = (self.names, self.latitudes, self.longitudes, self.kinds, self.districts)
        return map(Location, self.ids, *(column or repeat(None, len(self.ids)) for column in others))


def load_registry(path: Path) -> Locations:
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


def _read_locations(path: Path, table: Table) -> Locations:
    advice = f"Write the columns {_FORM}, separated by commas."
    table.find_columns(COLUMNS[:1], COLUMNS[1:], position=(("latitude",), ("longitude",)), advice=advice)
    if problems := list(_find_header_problems(table.header)):
        raise ConfigError(str(path), _limit(problems))
    reader, broken = _Reader(table.header), tuple[Problem, ...]()
    try:
        for block in table.read_blocks(lambda cells: len(cells) == len(table.header)):
            reader.add(block)
    except FileFormatError as error:
        broken = error.problems
    problems = [*reader.find_problems(), *broken]
    if not (reader.ids or problems):
        problems = [Problem("the file", "without a location", "at least one", "Add a line for each location.")]
    if problems:
        raise ConfigError(str(path), _limit(problems))
    return Locations(tuple(reader.ids), *(reader.columns[name] for name in COLUMNS[1:]))


def _find_header_problems(header: Sequence[str]) -> Iterator[Problem]:
    """Yield the problems of the first line that only a registry has."""
    for column in dict.fromkeys(header):
        if column not in COLUMNS:
            near = find_similar(column, COLUMNS)
            hint = f"Did you mean {near}?" if near else "Remove the column."
            yield Problem("the header", repr(column[:80]), f"columns of {_FORM}", hint)


def _limit(problems: list[Problem]) -> tuple[Problem, ...]:
    more = len(problems) - MAX_LISTED
    listed = tuple(problems[:MAX_LISTED])
    return (*listed, Problem(f"and {more} more", "", "none", "Correct these first.")) if more > 0 else listed


class _Reader:
    """Appends blocks of rows to columns, and collects problems. `ids` lacks those that are invalid.

    Most blocks are valid, and a test of the whole block finds this out in a fraction of the time.
    """

    def __init__(self, header: Sequence[str]) -> None:
        self.ids: list[str] = []
        self.columns: dict[str, list[Any]] = {name: [] for name in COLUMNS[1:]}
        self._header = header
        self._lines: list[Iterable[int]] = []  # of the ids
        self._problems: list[tuple[int, Problem]] = []

    def add(self, block: Block) -> None:
        """Append the rows of a block."""
        lines, rows = self._select_rows(block)
        if not rows:
            return
        cells = dict(zip(self._header, zip(*rows, strict=True), strict=True))
        if _BOUNDS.keys() <= cells.keys():
            for name in _BOUNDS:
                self.columns[name] += self._read_degrees(lines, name, cells[name])
            self._require_both(lines, *(cells[name] for name in _BOUNDS))
        self._add_ids(lines, cells["location_id"])
        for name in ("name", "kind", "district"):
            if name in cells:
                self.columns[name] += self._read_texts(lines, name, cells[name])

    def find_problems(self) -> Iterator[Problem]:
        """Yield all problems of rows, in file order."""
        if len(set(self.ids)) < len(self.ids):
            self._find_repeated()
        for _line, problem in sorted(self._problems, key=lambda found: found[0]):
            yield problem

    def _select_rows(self, block: Block) -> Block:
        """Return the rows that have as many cells as the header. Blank lines are no rows."""
        wanted = len(self._header)
        if all(len(row) == wanted for row in block.rows):
            return block
        selected = [(line, row) for line, row in zip(*block, strict=True) if len(row) == wanted]
        for line, row in zip(*block, strict=True):
            if len(row) not in {0, wanted}:
                count = "1 field" if len(row) == 1 else f"{len(row)} fields"
                remedy = "Put fields that contain a comma in double quotes."
                self._refuse(line, "", count, f"{wanted} fields, as in the header", remedy)
        return Block([line for line, _ in selected], [row for _, row in selected])

    def _add_ids(self, lines: Sequence[int], texts: Sequence[str]) -> None:
        if not _are_plain(texts):
            found = [(line, text) for line, text in zip(lines, texts, strict=True) if self._is_id(line, text)]
            lines, texts = [line for line, _ in found], [text for _, text in found]
        self._lines.append(lines)
        self.ids += texts

    def _is_id(self, line: int, text: str) -> bool:
        if not is_identifier(text):
            what = f"1 to {ID_BYTES} bytes of UTF-8 without control characters"
            return self._refuse(line, "location_id", repr(text[:80]) if text else "empty", what)
        if has_outer_space(text):
            return self._refuse(line, "location_id", repr(text[:80]), NO_OUTER_SPACE, REMOVE_SPACE)
        return True

    def _find_repeated(self) -> None:
        line_of: dict[str, int] = {}
        for line, text in zip(chain(*self._lines), self.ids, strict=True):
            if (first := line_of.setdefault(text, line)) != line:
                what = f"a unique id, but line {first} has the same"
                self._refuse(line, "location_id", repr(text), what, "Remove one of them.")

    def _read_texts(self, lines: Sequence[int], column: str, texts: Sequence[str]) -> Iterator[str | None]:
        if not "".join(texts).isprintable():
            for line, text in zip(lines, texts, strict=True):
                if not is_utf_8(text):
                    self._refuse(line, column, repr(text[:80]), "text in UTF-8", "Save the file as UTF-8.")
                elif has_controls(text):
                    self._refuse(line, column, repr(text[:80]), "no control characters", "Remove them.")
        return (text or None for text in texts)

    def _read_degrees(self, lines: Sequence[int], column: str, texts: Sequence[str]) -> Iterator[float | None]:
        bound = _BOUNDS[column]
        for line, text in zip(lines, texts, strict=True):
            degrees = _parse_number(text)
            if degrees is not None and not abs(degrees) <= bound:
                self._refuse(line, column, repr(text[:80]), f"degrees from -{bound:g} to {bound:g}, or nothing")
            yield degrees

    def _require_both(self, lines: Sequence[int], latitudes: Sequence[str], longitudes: Sequence[str]) -> None:
        for line, latitude, longitude in zip(lines, latitudes, longitudes, strict=True):
            if bool(latitude.strip()) != bool(longitude.strip()):
                self._refuse(
                    line, "", "half a position", "latitude and longitude, or neither", "Add the missing number."
                )

    def _refuse(self, line: int, column: str, value: str, expected: str, remedy: str = "Correct it.") -> Literal[False]:
        key = f"line {line}, {column}" if column else f"line {line}"
        self._problems.append((line, Problem(key, value, expected, remedy)))
        return False


def _are_plain(ids: Sequence[str]) -> bool:
    """Return whether all of the ids are valid for sure: no character of UTF-8 takes more than four bytes.

    The only printable character that may not be at the start or the end of an id is the space.
    """
    text = "".join(ids)
    return (
        all(ids)
        and max(map(len, ids)) <= ID_BYTES // 4
        and text.isprintable()
        and not (" " in text and any(map(has_outer_space, ids)))
    )


def _parse_number(text: str) -> float | None:
    """Return a number, None for a blank cell, and NaN for any other text."""
    try:
        return float(text) if text else None
    except ValueError:
        return math.nan if text.strip() else None
