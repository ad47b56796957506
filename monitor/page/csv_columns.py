"""The columns of `places.csv`, and their description for programs (`datapackage.json`)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, get_args

from monitor.client.answer_types import Strength
from monitor.page.current_places import STATES
from monitor.values.wording import PEOPLE


class Column(NamedTuple):
    """A column: its type in a data package (Table Schema), what it says, and all of its values if they are few."""

    type: str
    description: str
    values: tuple[str, ...] = ()


COLUMNS: Final = {
    "location_id": Column("string", "The id of the place in the registry."),
    "name": Column("string", "The name of the place, or its id."),
    "latitude": Column("number", "Degrees north (WGS 84)."),
    "longitude": Column("number", "Degrees east (WGS 84)."),
    "state": Column(
        "string",
        "The answer that counts now.",
        ("noisy_count", "below_since", "paused", "unknown", "bounded", "safe"),
    ),
    "as_of": Column("datetime", "When the answer was published: it counts only visits reported before this time."),
    "valid_until": Column("datetime", "After this time, take the place as unknown."),
    "count_at_most": Column("integer", f"A certain upper bound of the {PEOPLE}."),
    "count_at_least": Column("integer", f"A certain lower bound of the {PEOPLE}; 0 says nothing."),
    "reason": Column("string", "Why the answer is what it is."),
    "last_alarm_as_of": Column("datetime", "When the latest alarm that still counts was published."),
    "last_alarm_at_most": Column("integer", f"A certain upper bound of the {PEOPLE}, of that alarm."),
    "p_value": Column("number", "Of an alarm: the largest chance per update that noise alone makes it as high."),
    "strength": Column("string", "Of an alarm: very likely or perhaps at the threshold.", get_args(Strength)),
    "last_alarm_p_value": Column("number", "As p_value, of the latest alarm that still counts."),
    "last_alarm_strength": Column("string", "As strength, of the latest alarm that still counts.", get_args(Strength)),
    "counted_since": Column("datetime", "Of a count since an alarm: its start."),
    "since_at_most": Column("integer", f"A certain upper bound of the {PEOPLE} since counted_since."),
    "shown_state": Column("string", "How the page counts and lists the place.", STATES),
    "shown_strength": Column("string", "The greatest strength of the alarms that still count.", get_args(Strength)),
    "monitor": Column("string", "The monitor of the answer."),
    "kind": Column("string", "The kind of this monitor."),
    "start": Column("datetime", "The start of the time of the visits that are counted."),
    "end": Column("datetime", "The end of this time; equal to start for one moment."),
    "threshold": Column("integer", "The number of people with which the answer compares."),
    "resumes_at": Column("datetime", "Until when a paused place has no new number."),
    "last_alarm_end": Column("datetime", "As end, of the latest alarm that still counts."),
    "last_alarm_threshold": Column("integer", "As threshold, of the latest alarm that still counts."),
    "likely_at_least": Column("integer", "Of an alarm that is far_above: so many people or more, with 95 %."),
    "last_alarm_likely_at_least": Column("integer", "As likely_at_least, of the latest alarm that still counts."),
    "reported_percent": Column("integer", "Of a place that is safe so far: how many percent of the reports have come."),
}
"""The columns by name, in their order."""


def describe_columns() -> dict[str, Any]:
    """Return the data package of `places.csv` (Data Package and Table Schema, version 1)."""
    schema = {
        "fields": [_describe_column(name, column) for name, column in COLUMNS.items()],
        "primaryKey": "location_id",
        "missingValues": [""],
    }
    file = {"path": "places.csv", "format": "csv", "mediatype": "text/csv", "encoding": "utf-8"}
    table = {"profile": "tabular-data-resource", "name": "places", "title": "What is published about each place"}
    return {"profile": "tabular-data-package", "name": "places", "resources": [{**table, **file, "schema": schema}]}


def _describe_column(name: str, column: Column) -> dict[str, Any]:
    described = {"name": name, "type": column.type, "description": column.description}
    return described | ({"constraints": {"enum": list(column.values)}} if column.values else {})
