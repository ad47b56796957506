"""`convert --registry-from gtfs|geojson|fhir|sormas|godata`: public places become a registry that the service reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.config.registry import Location, load_registry
from tests.operate.convert.command import read, run, write

pytestmark = pytest.mark.long

FEATURES: list[dict[str, Any]] = [
    {"id": "node/1", "properties": {"name": "Market"}, "geometry": {"type": "Point", "coordinates": [13.4, 52.5, 30]}},
    {"properties": {"id": 2, "kind": "park", "area": 3}, "geometry": {"type": "Polygon", "coordinates": [[[0, 0]]]}},
    {"properties": {"name": "Nameless"}, "geometry": None},
    {"id": "node/1", "properties": None, "geometry": None},
    {"id": "node/3", "geometry": {"type": "Point", "coordinates": [95, 100]}},
]
LOCATIONS: list[dict[str, Any]] = [
    {"id": "h", "name": "Hospital", "status": "active", "position": {"latitude": 52.5, "longitude": 13.4}},
    {
        "id": "w1",
        "name": "Ward 1",
        "mode": "instance",
        "type": [{"text": "ward"}],
        "partOf": {"reference": "Location/h"},
    },
    {"id": "w2", "status": "inactive", "partOf": {"reference": "Location/h"}},
    {"id": "any", "mode": "kind", "name": "Ambulance"},
    {"id": "home", "name": "Home", "type": [{"coding": [{"code": "PTRES", "display": "residence"}]}]},
]
FACILITIES: list[dict[str, Any]] = [
    {"uuid": "F-1", "name": "Clinic", "type": "HOSPITAL", "latitude": 9.0, "longitude": 7.5},
    {"uuid": "F-2", "name": "School", "type": "PRIMARY_SCHOOL", "archived": False},
    {"uuid": "F-3", "archived": True},
    {"uuid": "SORMAS-CONSTID-OTHERS-FACILITY", "name": "OTHER_FACILITY"},
]
LEVEL = "LNG_REFERENCE_DATA_CATEGORY_LOCATION_GEOGRAPHICAL_LEVEL_ADMIN_LEVEL_"
TREE: list[dict[str, Any]] = [
    {
        "location": {"id": "gn", "name": "Guinea", "active": True, "geographicalLevelId": f"{LEVEL}0"},
        "children": [
            {
                "location": {
                    "id": "town",
                    "name": "Town",
                    "parentLocationId": "gn",
                    "geographicalLevelId": f"{LEVEL}1",
                    "geoLocation": {"lat": 9.2, "lng": -10.1},
                },
                "children": [],
            },
            {"location": {"id": "old", "name": "Old", "active": False, "parentLocationId": "gn"}, "children": []},
        ],
    }
]
CASES: dict[str, tuple[object, tuple[Location, ...], str]] = {
    "geojson": (
        {"type": "FeatureCollection", "name": "places", "features": [{"type": "Feature"} | each for each in FEATURES]},
        (Location("node/1", "Market", 52.5, 13.4), Location("2", "2", kind="park")),
        "2 places from 5 rows, 3 bad rows",
    ),
    "fhir": (
        {
            "resourceType": "Bundle",
            "entry": [{"resource": {"resourceType": "Location"} | each} for each in LOCATIONS]
            + [{"resource": {"resourceType": "Patient", "id": "olga"}}],
        },
        (Location("w1", "Ward 1", kind="ward"), Location("home", "Home", kind="residence")),
        "2 places from 6 rows, 3 bad rows left out, 1 with nothing",
    ),
    "sormas": (
        FACILITIES,
        (Location("F-1", "Clinic", 9.0, 7.5, "hospital"), Location("F-2", "School", kind="primary school")),
        "2 places from 4 rows, 2 bad rows",
    ),
    "godata": (TREE, (Location("town", "Town", 9.2, -10.1, "admin level 1"),), "1 places from 3 rows, 2 bad rows"),
}


@pytest.mark.parametrize(("source", "case"), CASES.items(), ids=CASES)
def test_places_become_a_registry(source: str, case: tuple[Any, Any, str], tmp_path: Path) -> None:
    """The service reads the registry; places that cannot be in it, or that have parts, are reported."""
    document, places, counts = case
    path = write(tmp_path / "places.json", json.dumps(document))
    result = run("--registry-from", source, "--locations", path, "--registry", tmp_path / "r.csv")
    assert result.exit_code == 0, result.output
    assert tuple(load_registry(tmp_path / "r.csv")) == places
    assert counts in " ".join(result.output.split())


TAGS: dict[str, dict[str, Any]] = {
    "cafe": {"amenity": "cafe"},
    "fast food, bakery": {"amenity": "fast_food", "shop": "bakery", "name": "Oven"},
    "shop": {"shop": "yes", "office": "no"},
    "pub restaurant": {"amenity": "pub; restaurant"},
    "station": {"railway": "station", "public_transport": "station"},
    "clinic": {"amenity": "clinic", "healthcare": "clinic"},
    "market hall": {"kind": "market hall", "amenity": "marketplace"},
    "": {"amenity": 3, "shop": {"tag": 1}, "building": "yes"},
}


@pytest.mark.parametrize(("kind", "tags"), TAGS.items(), ids=TAGS)
def test_tags_become_the_kind(kind: str, tags: dict[str, Any], tmp_path: Path) -> None:
    """Without the property `kind`, the tags of OpenStreetMap say what a place is; other properties do not."""
    document = {"type": "FeatureCollection", "features": [{"type": "Feature", "id": "node/1", "properties": tags}]}
    path = write(tmp_path / "places.json", json.dumps(document))
    result = run("--registry-from", "geojson", "--locations", path, "--registry", tmp_path / "r.csv")
    assert result.exit_code == 0, result.output
    (place,) = load_registry(tmp_path / "r.csv")
    assert place == Location("node/1", tags.get("name", "node/1"), kind=kind or None)


DIGITS = "9" * 5_000


@pytest.mark.parametrize(("source", "text", "reason"), [
    ("geojson", '{"features": [{"id": "a", "properties": {"id": N}}, {"id": "b", "area": N}]}', "properties.id"),
    ("fhir", '{"entry": [KIND "id": "a", "position": {"latitude": N, "longitude": 1}}, KIND "id": "b", "x": N}]}',
     "latitude or longitude"),
    ("sormas", '[{"uuid": "a", "latitude": -N, "longitude": 1}, {"uuid": "b", "x": N}]', "latitude or longitude"),
    ("godata", '[{"id": "a", "name": N}, {"id": "b", "x": N}]', "$.name"),
])  # fmt: skip
def test_huge_numbers_are_refused(source: str, text: str, reason: str, tmp_path: Path) -> None:
    """An integer of 5,000 digits is refused with its reason where it is read, and changes nothing elsewhere."""
    path = write(tmp_path / "places.json", text.replace("KIND", '{"resourceType": "Location",').replace("N", DIGITS))
    result = run("--registry-from", source, "--locations", path, "--registry", tmp_path / "r.csv")
    assert result.exit_code == 0, result.output
    assert reason in result.output
    assert [place.id for place in load_registry(tmp_path / "r.csv")] == ["b"]


STOPS = (
    "stop_id,stop_name,stop_lat,stop_lon,location_type,parent_station",
    "central,Central station,52.52,13.36,1,",
    "central-1,Platform 1,52.52,13.36,0,central",
    "central-1a,Boarding area,,,4,central-1",
    "mill,Mill road,52.50,13.30,,",
    "lost,Platform,52.5,13.4,0,nowhere",
    "door,Entrance,52.5,13.4,2,",
)


def test_stops_count_at_their_station(tmp_path: Path) -> None:
    """GTFS: stops and stations are places, and a visit to a platform or boarding area counts at its station."""
    stops = write(tmp_path / "stops.txt", *STOPS)
    where = ("mill", "central", "central-1", "central-1a", "lost", "door")
    points = write(
        tmp_path / "p.csv", "person_id,location_id,time_utc", *(f"a,{each},2026-01-05T09:00:00Z" for each in where)
    )
    options = ("--locations", stops, "--registry-from", "gtfs", "--registry", tmp_path / "r.csv")
    result = run("--visits", points, "--out", tmp_path / "v.csv", *options)
    assert result.exit_code == 0, result.output
    assert [(each.id, each.kind) for each in load_registry(tmp_path / "r.csv")] == [
        ("central", "station"),
        ("mill", "stop"),
    ]
    assert [row[1] for row in read(tmp_path / "v.csv")[1:]] == ["mill", "central", "central", "central"]
    assert "line 6: the station that it is part of is not in the file" in result.output
    assert "line 7: the stop is part of a station, but has no parent_station" in result.output
    assert "2 places from 6 rows, 2 bad rows left out, 2 with nothing to convert" in result.output


def test_no_place_exits_with_1(tmp_path: Path) -> None:
    """A file without a valid place exits with 1, counts its rows by reason, and writes nothing."""
    path = write(tmp_path / "s.txt", STOPS[0], STOPS[-1])
    result = run("--registry-from", "gtfs", "--locations", path, "--registry", tmp_path / "r.csv")
    assert result.exit_code == 1
    assert "no place in 1 rows" in result.output
    assert "1 rows: the stop is part of a station" in result.output
    assert not (tmp_path / "r.csv").exists()


@pytest.mark.parametrize("given", [("--visits",), ("--out",), ("--locations",), ("--registry",), ()])
def test_files_need_each_other(given: tuple[str, ...], tmp_path: Path) -> None:
    """A command line that would write nothing exits with 2 and names the options."""
    file = write(tmp_path / "f.csv", "location_id")
    result = run(*(word for option in given for word in (option, file)))
    assert result.exit_code == 2
    assert "--visits and --out" in result.output
