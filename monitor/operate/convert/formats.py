"""The formats that `convert` reads, by the names of --from and --registry-from."""

from __future__ import annotations

from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

from monitor.errors import UsageError
from monitor.operate.convert import fhir, geojson, godata, sormas
from monitor.operate.convert.conversion import VisitReader
from monitor.operate.convert.exports import Export, read_export
from monitor.operate.convert.points import Columns, read_points
from monitor.operate.convert.registries import Place, Places, read_place_table, read_places, read_stops
from monitor.operate.convert.rows import Stay, Tally

POINTS: Final = "points"
TABLE: Final = "csv"
GTFS: Final = "gtfs"

_LONGEST_RECORD: Final = 2**28  # characters: a tree of places is one record, and all places are in memory anyway

CASES: Final[dict[str, Export[Stay]]] = {"fhir": fhir.EXPOSURES, "sormas": sormas.EXPOSURES, "godata": godata.STAYS}
MAPS: Final[dict[str, Export[Place]]] = {
    "geojson": geojson.FEATURES,
    "fhir": fhir.LOCATIONS,
    "sormas": sormas.FACILITIES,
    "godata": godata.LOCATIONS,
}


def choose_visit_reader(source: str, columns: Columns, zone: ZoneInfo | None) -> VisitReader:
    """Return the reader of a format of visits. `columns` describes points only."""
    if source == POINTS:
        return partial(read_points, columns=columns)
    return partial(read_export, export=CASES[source], zone=zone)


def read_registry(source: str, tally: Tally) -> Places:
    """Read all places of the tally's file. Every row of a table (`csv`) must be valid.

    Raises:
        UsageError: the file has another format, or rows of a table are invalid: the message lists the first ones.
        BadRowError: a row is invalid, and the tally is strict.
    """
    if source in MAPS:
        return read_places(partial(read_export, export=MAPS[source], zone=None), tally, longest=_LONGEST_RECORD)
    if source == GTFS:
        return read_places(read_stops, tally, joins_parts=True)
    tally.strict = False  # so that all problems are listed at once
    places = read_places(read_place_table, tally)
    if tally.bad:
        raise UsageError(tally.list_problems())
    return places
