"""The data files say the same, and say what the page shows."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.client.answer_types import NOTHING, About, Answer
from monitor.config.registry import Location
from monitor.kinds.report_delays import ReportDelays
from monitor.page.csv_columns import describe_columns
from monitor.page.current_places import Expected, Place, Snapshot
from monitor.page.languages import Words, read_texts
from monitor.page.write_json_csv_geojson import (
    CSV_COLUMNS,
    describe_place,
    write_locations_csv,
    write_locations_geojson,
)
from monitor.time.instants import DAY, HOUR, parse_instant, to_datetime

ROOT: Final = Path(__file__).parents[2]
START, SINCE, END = (to_datetime(instant) for instant in (0, DAY, 2 * DAY))
ALARM: Final = Answer(
    *("noisy_count", "noisy", DAY, 5 * DAY, 14, 0),
    about=About("places", "over_time", START, SINCE, 10),
    p_value=0.25,
    strength="just_above",
)
BELOW: Final = Answer(
    *("below_since", "below_threshold", 2 * DAY, 3 * DAY, 23, 0),
    about=About("places", "over_time", START, END, 10, counted_since=SINCE),
    last_alarm=ALARM,
    since_at_most=9,
)
FAR: Final = replace(ALARM, count_at_most=90, p_value=1e-9, strength="far_above")
EARLY: Final = Answer(
    "safe", "below_threshold", DAY + 2 * HOUR, 3 * DAY, 9, about=About("noon", "at_times", SINCE, SINCE, 10)
)
DELAYS: Final = ReportDelays((HOUR, 3 * HOUR), (Fraction(1, 8), Fraction(95, 100)))
PAUSED: Final = Answer(
    "paused", "budget_spent", 2 * DAY, 3 * DAY, about=About("places", "over_time", START, END, 10, to_datetime(3 * DAY))
)
EXPECTED: Final = Expected(DELAYS, Fraction(9, 10))
KNOWN: Final[dict[str, tuple[Answer, ...]]] = {
    "market": (BELOW,),
    "park": (PAUSED,),
    "hall": (ALARM,),
    "school": (),
    "mill": (FAR,),
    "port": (replace(PAUSED, last_alarm=FAR),),
    "pool": (EARLY,),
}
PLACES: Final = tuple(
    Place(
        Location(id=name, latitude=1.5, longitude=2.5), answers[0] if answers else NOTHING, answers, expected=EXPECTED
    )
    for name, answers in KNOWN.items()
)


def flatten(place: dict[str, Any]) -> dict[str, str]:
    """Return a place of the JSON as a row of the CSV."""
    row = place | {"location_id": place["id"]}
    for name, value in row.get("last_alarm", {}).items():
        row[f"last_alarm_{name.removeprefix('count_')}"] = value
    return {column: str(row.get(column, "")) for column in CSV_COLUMNS}


def test_csv_and_geojson_say_what_the_json_says() -> None:
    """Each column of the CSV has the value of the JSON, and the properties of the GeoJSON are those of the JSON."""
    described = [describe_place(place) for place in PLACES]
    rows = list(csv.DictReader(io.StringIO(write_locations_csv(Snapshot(places=PLACES)).decode(), newline="")))
    assert rows == [flatten(place) for place in described]
    for column in CSV_COLUMNS:
        assert any(row[column] for row in rows), column
    features = json.loads(write_locations_geojson(Snapshot(places=PLACES)))["features"]
    for feature, place in zip(features, described, strict=True):
        west, north = feature["geometry"]["coordinates"]
        assert feature["properties"] | {"latitude": north, "longitude": west} == json.loads(json.dumps(place))


def test_shown_state_is_that_of_the_page() -> None:
    """A place below the threshold since an alarm is shown with the alarm and its strength, its moment and its level."""
    market, park, hall, school, *_others = (describe_place(place) for place in PLACES)
    assert (market["state"], market["shown_state"], market["shown_strength"]) == (
        "below_since",
        "noisy_count",
        "just_above",
    )
    assert (market["start"], market["end"], market["threshold"]) == ("1970-01-01T00:00:00Z", "1970-01-03T00:00:00Z", 10)
    assert (hall["shown_state"], park["shown_state"], school["shown_state"]) == ("noisy_count", "unknown", "unknown")
    assert "shown_strength" not in park


@pytest.mark.promise(2)
def test_safe_so_far_until_reports_came() -> None:
    """Below the level of a moment is marked "so far", with the share of reports, until enough of them have come."""
    for hours, percent in ((0, 0), (1, 12), (2, 12), (3, None)):
        answer = replace(EARLY, as_of=DAY + hours * HOUR)
        place = Place(Location(id="pool"), answer, (answer,), expected=EXPECTED)
        assert (place.mark, place.level) == ("safe" if percent is None else "so_far", "safe")
        assert describe_place(place).get("reported_percent") == percent
        words = Words(read_texts("en"), expected=EXPECTED)
        assert (f"about {percent} %" in words.list_lines(answer, answer.reason, [])[0]) is (percent is not None)
    assert EXPECTED.find_percent(replace(BELOW, state="safe")) is None  # a window always has late reports


def test_pages_name_each_column() -> None:
    """docs/page.md names each column of the CSV, and the page links only to files that are written."""
    text = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    alarms = {f"last_alarm{name}" for name in named if name.startswith("_")}
    assert set(CSV_COLUMNS) - named - alarms == {"location_id"} - named
    template = (ROOT / "monitor" / "page" / "templates" / "page.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"{#]+)"', template)
    assert sorted({*links}) == ["datapackage.json", "openapi.json", "places.csv", "places.geojson", "places.json"]


READERS: Final[dict[str, Callable[[str], object]]] = {
    "string": str,
    "integer": int,
    "number": float,
    "datetime": parse_instant,
}
"""What reads a cell, by the type of its column."""


def test_data_package_describes_the_csv() -> None:
    """The data package has the columns of the CSV in their order, and each cell has the type and the values it says."""
    (resource,) = describe_columns()["resources"]
    fields = resource["schema"]["fields"]
    rows = list(csv.reader(io.StringIO(write_locations_csv(Snapshot(places=PLACES)).decode(), newline="")))
    assert rows[0] == [field["name"] for field in fields]
    for row in rows[1:]:
        for cell, field in zip(row, fields, strict=True):
            if cell:
                READERS[field["type"]](cell)
                assert cell in field.get("constraints", {}).get("enum", [cell])
            assert field["description"].endswith(".")
