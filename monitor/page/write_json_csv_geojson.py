"""Writes the places as JSON, CSV and GeoJSON, and the registry as JSON."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, get_args

import msgspec

from monitor.client.answer_types import Answer, State, Strength
from monitor.config.registry import Locations
from monitor.kinds.locations import Registry
from monitor.kinds.parameters import Parameters
from monitor.page.csv_columns import COLUMNS
from monitor.page.current_places import Place, Snapshot, find_likely_least
from monitor.time.instants import SECOND, format_instant, to_instant

CSV_COLUMNS: Final = tuple(COLUMNS)
_LEADING: Final = (
    *CSV_COLUMNS[4:10],
    *("likely_at_least", "reported_percent", "p_value", "strength", "last_alarm", "counted_since", "since_at_most"),
    *("monitor", "kind", "start", "end", "threshold", "resumes_at"),
)
"""What the answer that counts says about its place."""
_OF_ALARM: Final = ("p_value", "strength", "end", "threshold", "likely_at_least")
_FORMULA: Final = re.compile(r"""(^|[;,|\t\r\n])(["'\s]*)(?=[=+@-])|^(?=[\t\r])""")
"""Where a formula could begin. Spreadsheets of some countries separate cells by other characters than a comma."""

_encode: Final = msgspec.json.Encoder().encode


def describe_answer(answer: Answer, reason: str, percent: int | None = None) -> dict[str, Any]:
    """Return an answer as JSON, with its last alarm: times as text, and without the fields that are None.

    `percent`: how many percent of the reports had come, if it is safe only so far.
    """
    about, alarm = answer.about, answer.last_alarm
    described = {
        "monitor": about and about.monitor,
        "kind": about and about.kind,
        "start": about and about.start and format_instant(to_instant(about.start)),
        "end": about and format_instant(to_instant(about.end)),
        "threshold": about and about.threshold,
        "resumes_at": about and about.resumes_at and format_instant(to_instant(about.resumes_at)),
        "counted_since": about and about.counted_since and format_instant(to_instant(about.counted_since)),
        "state": answer.state,
        "reason": reason,
        "as_of": None if answer.as_of is None else format_instant(answer.as_of),
        "valid_until": None if answer.valid_until is None else format_instant(answer.valid_until),
        "count_at_most": answer.count_at_most,
        "count_at_least": answer.count_at_least,
        "p_value": answer.p_value,
        "strength": answer.strength,
        "since_at_most": answer.since_at_most,
        "likely_at_least": find_likely_least(answer),
        "reported_percent": percent,
        "last_alarm": alarm and describe_answer(alarm, alarm.reason),
    }
    return {name: value for name, value in described.items() if value is not None}


def describe_place(place: Place) -> dict[str, Any]:
    """Return a place as JSON: the registry's fields, the answer that counts, and the answers of all monitors."""
    leading, *answers = (
        describe_answer(each, place.find_reason(each), place.find_percent(each))
        for each in (place.leading, *place.answers)
    )
    answer = {name: leading[name] for name in _LEADING if name in leading}
    return _describe_location(place) | _describe_shown(place) | answer | {"answers": answers}


def _describe_shown(place: Place) -> dict[str, Any]:
    """Return the state by which the page counts and lists a place, and how strong its alarm is, if this is known."""
    strong = {"shown_strength": place.mark} if place.mark in get_args(Strength) else {}
    return {"shown_state": place.level, **strong}


def _describe_location(place: Place) -> dict[str, Any]:
    location = place.location
    described: dict[str, Any] = {"id": location.id, "name": place.name}
    if location.latitude is not None and location.longitude is not None:
        described |= {"latitude": location.latitude, "longitude": location.longitude}
    return described


def write_locations_json(parameters: Parameters, present: Snapshot) -> bytes:
    """Return all places as JSON, with the latest as_of."""
    places, counted = present.places, Counter(place.leading.state for place in present.places)
    return _encode(
        {
            "as_of": None if present.as_of is None else format_instant(present.as_of),
            "slot_seconds": parameters.grid.length / SECOND,
            "registry": present.registry,
            "counts": {state: counted[state] for state in get_args(State)},
            "last_alarms": sum(place.leading.last_alarm is not None for place in places),
            "locations": [describe_place(place) for place in places],
        }
    )


def write_locations_csv(present: Snapshot) -> bytes:
    """Return all places as CSV (RFC 4180), one line for each place with its leading answer."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    for place in present.places:
        row = describe_place(place) | {"location_id": place.location.id}
        if (alarm := row.get("last_alarm")) is not None:
            row |= {"last_alarm_as_of": alarm["as_of"], "last_alarm_at_most": alarm.get("count_at_most", "")}
            row |= {f"last_alarm_{name}": alarm.get(name, "") for name in _OF_ALARM}
        writer.writerow([_escape_formula(row.get(column, "")) for column in CSV_COLUMNS])
    return text.getvalue().encode()


def _escape_formula(value: object) -> object:
    """Return the value of a cell so that no spreadsheet runs it as a formula. Numbers are never changed."""
    return _FORMULA.sub(r"\1\2'", value) if isinstance(value, str) else value


def write_locations_geojson(present: Snapshot) -> bytes:
    """Return all places as GeoJSON (RFC 7946). A place without coordinates has the geometry null."""
    features = []
    for place in present.places:
        properties = describe_place(place)
        latitude, longitude = properties.pop("latitude", None), properties.pop("longitude", None)
        geometry = None if longitude is None else {"type": "Point", "coordinates": [longitude, latitude]}
        features.append({"type": "Feature", "id": place.location.id, "geometry": geometry, "properties": properties})
    return _encode({"type": "FeatureCollection", "features": features})


def write_registry_json(
    shown: Registry, locations: Locations, parameters: Parameters, earlier: Sequence[Registry] = ()
) -> bytes:
    """Return the registry as JSON in columns, which is much shorter than one object per place.

    `earlier`: the registries that the service may still use. Each is written as the rows that it lacks.
    """
    columns = {
        "digest": shown.digest,
        "earlier": [
            {
                "digest": one.digest,
                "lacks": [row for row, location in enumerate(shown.ids) if location not in one.rows],
            }
            for one in earlier
        ],
        "ids": locations.ids,
        "names": [location.name or "" for location in locations],
        "kinds": [location.kind or "" for location in locations],
        "districts": [location.district or "" for location in locations],
        "latitudes": [location.latitude for location in locations],
        "longitudes": [location.longitude for location in locations],
        "shards": shown.shards,
        "shard": shown.shard.tolist(),
        "slot_seconds": parameters.grid.length / SECOND,
        "monitors": [
            {"name": one.name, "kind": one.kind} | ({"rows": one.needed.rows} if one.scope == "place" else {})
            for one in parameters.monitors
            if one.scope != "all places"
        ],
    }
    return _encode(columns)
