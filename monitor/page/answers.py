"""The bodies of the answers about locations: JSON, CSV, GeoJSON, the registry, and records."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import msgspec

from monitor.config import Location
from monitor.page.board import Board
from monitor.page.entries import Entry
from monitor.page.statements import STATES, Place, Statement
from monitor.public.instants import SECOND, format_instant
from monitor.public.parameters import Parameters

CSV_COLUMNS: Final = (
    "location_id",
    "name",
    "latitude",
    "longitude",
    "state",
    "as_of",
    "valid_until",
    "count_at_most",
    "count_at_least",
    "reason",
)
_INSTANTS: Final = frozenset({"start", "end", "as_of", "valid_until", "resumes_at"})
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

_encode: Final = msgspec.json.Encoder().encode


def describe_statement(statement: Statement) -> dict[str, Any]:
    """Return a statement as JSON: times as text, and without the fields that are None."""
    fields = asdict(statement)
    about = fields.pop("about") or {}
    return {
        name: format_instant(value) if name in _INSTANTS else value
        for name, value in (about | fields).items()
        if value is not None
    }


def describe_place(place: Place) -> dict[str, Any]:
    """Return a place as JSON: the registry's fields, the leading statement's answer, and all statements."""
    leading = describe_statement(place.leading)
    answer = {name: leading[name] for name in CSV_COLUMNS[4:] if name in leading}
    return _registered(place) | answer | {"statements": [describe_statement(each) for each in place.statements]}


def _registered(place: Place) -> dict[str, Any]:
    location = place.location
    described: dict[str, Any] = {"id": location.id, "name": location.name or location.id}
    if location.latitude is not None and location.longitude is not None:
        described |= {"latitude": location.latitude, "longitude": location.longitude}
    return described


def locations_json(places: Sequence[Place], board: Board, parameters: Parameters) -> bytes:
    """Return all places as JSON."""
    return _encode(
        {
            "as_of": None if board.as_of is None else format_instant(board.as_of),
            "slot_seconds": parameters.grid.length / SECOND,
            "registry": parameters.registry.digest,
            "counts": count_states(places),
            "locations": [describe_place(place) for place in places],
        }
    )


def count_states(places: Sequence[Place]) -> dict[str, int]:
    """Return the number of places in each state, in the order of STATES."""
    counted = Counter(place.leading.state for place in places)
    return {state: counted[state] for state in STATES}


def locations_csv(places: Sequence[Place]) -> bytes:
    """Return all places as CSV (RFC 4180), one line per place with its leading statement."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    for place in places:
        row = describe_place(place) | {"location_id": place.location.id}
        writer.writerow([_cell(row.get(column, "")) for column in CSV_COLUMNS])
    return text.getvalue().encode()


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet runs as a formula. Numbers are never changed."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def locations_geojson(places: Sequence[Place]) -> bytes:
    """Return all places as GeoJSON (RFC 7946). A place without coordinates has the geometry null."""
    features = []
    for place in places:
        properties = describe_place(place)
        latitude, longitude = properties.pop("latitude", None), properties.pop("longitude", None)
        geometry = None if longitude is None else {"type": "Point", "coordinates": [longitude, latitude]}
        features.append({"type": "Feature", "id": place.location.id, "geometry": geometry, "properties": properties})
    return _encode({"type": "FeatureCollection", "features": features})


def records_json(entries: Sequence[Entry], status: Mapping[str, object]) -> bytes:
    """Return records as JSON, with the position at which the stream continues."""
    head = _encode(dict(status))[:-1]
    return b'%s,"records":[%s]}' % (head, b",".join(entry.line for entry in entries))


def registry_json(locations: Sequence[Location], parameters: Parameters) -> bytes:
    """Return the registry as JSON in columns, which is much shorter than one object per place."""
    columns = {
        "digest": parameters.registry.digest,
        "ids": [location.id for location in locations],
        "names": [location.name or "" for location in locations],
        "latitudes": [location.latitude for location in locations],
        "longitudes": [location.longitude for location in locations],
        "shards": parameters.registry.shards,
        "shard": parameters.registry.shard.tolist(),
        "slot_seconds": parameters.grid.length / SECOND,
        "monitors": [
            *({"name": one.name, "kind": "over_time", "rows": one.rows} for one in parameters.over_time),
            *({"name": one.name, "kind": "at_times"} for one in parameters.at_times),
        ],
    }
    return _encode(columns)
