"""Registries: their places, from a table, a timetable (GTFS), a map (GeoJSON) or a case system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from monitor.config.bounded_lines import LONGEST_ROW, BoundedLines, open_lines
from monitor.config.csv_table import Table
from monitor.new_files import PUBLIC
from monitor.operate.convert.files import REGISTRY_HEADER, format_csv_line, open_atomically
from monitor.operate.convert.rows import BadRowError, Rows, Tally, check_id, check_text, read_table

_LATITUDES: Final = ("lat", "latitude")
_LONGITUDES: Final = ("lon", "lng", "long", "longitude")
_POSITION: Final = (_LATITUDES, _LONGITUDES)
_ADVICE: Final = "Write the columns location_id[,name][,lat,lon][,kind], separated by commas."
_GTFS: Final = ("stop_name", "stop_lat", "stop_lon", "location_type", "parent_station")
_IN_GTFS: Final = {"": "stop", "0": "stop", "1": "station"}


class Place(NamedTuple):
    """A place, with its fields as the registry writes them. `part_of`: the id of the place that contains it."""

    id: str
    name: str
    latitude: str = ""
    longitude: str = ""
    kind: str = ""
    part_of: str | None = None


PlaceReader: TypeAlias = Callable[[BoundedLines, Path], Rows[Place]]


@dataclass(slots=True)
class Places:
    """The places of a registry by id, and the parts that count at one of them, as ids of wholes by ids of parts."""

    rows: dict[str, Place] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)

    def find(self, location_id: str) -> str | None:
        """Return the id under which visits to a place count, None if it is not known."""
        if location_id in self.rows:
            return location_id
        whole = self.parts.get(location_id)  # a boarding area is part of a platform, which is part of a station
        return whole if whole is None or whole in self.rows else self.parts.get(whole)


def make_place(
    place_id: object,
    name: str | None,
    where: tuple[object, object] | None,
    kind: str | None = None,
    part_of: str | None = None,
) -> Place:
    """Return a place. `where` is its latitude and longitude, as numbers or text; None if they are not known.

    Raises:
        BadRowError: a field cannot be in a registry.
    """
    found = check_id("location", place_id)
    latitude, longitude = where or ("", "")
    degrees = (_check_degrees(latitude, 90), _check_degrees(longitude, 180))
    if bool(degrees[0]) != bool(degrees[1]):
        raise BadRowError("half a position: expected latitude and longitude, or neither")
    return Place(found, check_text("name", name) or found, *degrees, check_text("kind", kind), part_of)


def _check_degrees(value: object, bound: int) -> str:
    text = value.strip() if isinstance(value, str) else str(value)
    try:
        if text and not abs(float(text)) <= bound:
            raise BadRowError(f"latitude or longitude is not from -{bound} to {bound}")
    except ValueError:
        raise BadRowError("latitude or longitude is not a number") from None
    return text


def read_places(reader: PlaceReader, tally: Tally, *, longest: int = LONGEST_ROW, joins_parts: bool = False) -> Places:
    """Read all places of a file.

    With `joins_parts`, a place that is part of another one counts there, and is no row. Without it, a place with parts
    is refused: people who are reported in a part would be missing in its count.

    Raises:
        UsageError: the file has another format.
        BadRowError: a row is invalid, and the tally is strict.
    """
    found: dict[str, tuple[str, Place]] = {}
    with open_lines(tally.path, longest) as lines:
        for where, place in tally.count(reader(lines, tally.path)):
            if place.id not in found:
                found[place.id] = (where, place)
            else:
                tally.refuse(where, "the location is listed twice: remove one of the rows")
    places = Places()
    wholes = set() if joins_parts else {place.part_of for _, place in found.values()}
    for where, place in found.values():
        if joins_parts and place.part_of:
            places.parts[place.id] = place.part_of
        elif place.id not in wholes:
            places.rows[place.id] = place
        else:
            tally.refuse(where, "the place has parts, which are places of their own")
    for part in places.parts:
        if places.find(part) is None:
            tally.refuse(found[part][0], "the station that it is part of is not in the file")
        else:
            tally.passed += 1
    tally.written = len(places.rows)
    return places


def read_place_table(lines: BoundedLines, _path: Path) -> Rows[Place]:
    """Yield the places of CSV with the column `location_id` and any of `name`, `lat`, `lon`, `kind`.

    `parent_location_id`: the id of the place that contains it, as Go.Data writes it.

    Raises:
        FileFormatError: (while iterating) the header has no ids, or half a position; or a quote is broken.
    """
    table = Table(lines)
    optional = ("name", "kind", "parent_location_id", *_LATITUDES, *_LONGITUDES)
    return read_table(
        table, _read_place, ("location_id",), optional, fewest=len(table.header), position=_POSITION, advice=_ADVICE
    )


def _read_place(place_id: str, name: str, kind: str, part_of: str, *cells: str) -> Place:
    latitude, longitude = (
        next(filter(None, found), "") for found in (cells[: len(_LATITUDES)], cells[len(_LATITUDES) :])
    )
    return make_place(place_id, name, (latitude, longitude), kind, part_of or None)


def read_stops(lines: BoundedLines, _path: Path) -> Rows[Place]:
    """Yield the stops and stations of `stops.txt` (GTFS). Platforms, entrances and the like are parts of a station.

    Raises:
        FileFormatError: (while iterating) the header has no ids, or a quote is broken.
    """
    table = Table(lines)
    advice = "Give the file stops.txt of a GTFS feed."
    return read_table(table, _read_stop, ("stop_id",), _GTFS, fewest=len(table.header), advice=advice)


def _read_stop(stop_id: str, name: str, latitude: str, longitude: str, kind: str, station: str) -> Place:
    if kind not in _IN_GTFS and not station:
        raise BadRowError("the stop is part of a station, but has no parent_station")
    return make_place(stop_id, name, (latitude, longitude), _IN_GTFS.get(kind, ""), station or None)


def write_registry(path: Path, places: Places) -> None:
    """Write a registry, in the given order. It has the column `kind` if a place has a kind."""
    with_kind = any(place.kind for place in places.rows.values())
    with open_atomically(path, mode=PUBLIC) as out:
        out.write(format_csv_line((*REGISTRY_HEADER, "kind") if with_kind else REGISTRY_HEADER))
        for place in places.rows.values():
            out.write(format_csv_line(place[:5] if with_kind else place[:4]))
