"""The OpenAPI document of the page's interface."""

from __future__ import annotations

from typing import Any, Final, get_args

from monitor import __version__
from monitor.tools.client.known import Reason
from monitor.tools.page.present import STATES

_TIME: Final = {"type": "string", "format": "date-time"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_STATE: Final = {"type": "string", "enum": list(STATES), "description": "Only safe is safe."}
_REASONS: Final = (*get_args(Reason), "unreachable")
_ANSWER: Final[dict[str, Any]] = {
    "state": _STATE,
    "reason": {"type": "string", "enum": list(_REASONS)},
    "as_of": _TIME | {"description": "The answer is about the visits reported before this time."},
    "valid_until": _TIME | {"description": "After this time, treat the place as unknown."},
    "count_at_most": _COUNT | {"description": "A certain upper bound."},
    "count_at_least": _COUNT | {"description": "A certain lower bound."},
}
_ROWS: Final = {
    "type": "array",
    "items": _COUNT,
    "description": "The rows of /v1/registry that the answer is about: the first and the last row of each run.",
}
_SCHEMAS: Final[dict[str, Any]] = {
    "Answer": {
        "type": "object",
        "required": ["state", "reason"],
        "properties": {
            **_ANSWER,
            "monitor": {"type": "string"},
            "kind": {"type": "string", "enum": ["over_time", "at_times", "hot_spots"]},
            "start": _TIME,
            "end": _TIME,
            "threshold": {"type": "integer", "minimum": 1},
            "resumes_at": _TIME,
        },
    },
    "Place": {
        "type": "object",
        "required": ["id", "name", "state", "reason", "answers"],
        "properties": {
            "id": {"type": "string"},
            "name": {"type": "string"},
            "latitude": {"type": "number"},
            "longitude": {"type": "number"},
            **_ANSWER,
            "answers": {"type": "array", "items": {"$ref": "#/components/schemas/Answer"}},
        },
    },
    "Locations": {
        "type": "object",
        "required": ["as_of", "slot_seconds", "registry", "counts", "locations"],
        "properties": {
            "as_of": {"type": ["string", "null"], "format": "date-time"},
            "slot_seconds": {"type": "number"},
            "registry": {"type": "string"},
            "counts": {"type": "object", "additionalProperties": _COUNT},
            "locations": {"type": "array", "items": {"$ref": "#/components/schemas/Place"}},
        },
    },
    "History": {
        "type": "object",
        "required": ["id", "history"],
        "properties": {
            "id": {"type": "string"},
            "history": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["monitor", "kind", "state", "since", "until"],
                    "properties": {"state": _STATE, "since": _TIME, "until": _TIME, "count_at_most": _COUNT},
                },
            },
        },
    },
    "States": {
        "type": "object",
        "required": ["answers", "as_of", "registry"],
        "properties": {
            "answers": {
                "type": "array",
                "items": {
                    "allOf": [
                        {"$ref": "#/components/schemas/Answer"},
                        {"type": "object", "required": ["rows"], "properties": {"rows": _ROWS}},
                    ]
                },
            },
            "as_of": {"type": ["string", "null"], "format": "date-time"},
            "registry": {"type": "string", "description": "The digest of the registry whose rows these are."},
            "position": {"type": "string"},
            "now": _TIME,
        },
    },
    "Records": {
        "type": "object",
        "required": ["records"],
        "properties": {"position": {"type": "string"}, "now": _TIME, "records": {"type": "array"}},
    },
    "Ticks": {
        "type": "object",
        "required": ["ticks"],
        "properties": {
            "ticks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["as_of", "alarms"],
                    "properties": {"as_of": _TIME, "alarms": _COUNT},
                },
            }
        },
    },
}


def describe_api() -> dict[str, Any]:
    """Return the document (OpenAPI 3.1)."""
    at = _make_parameter("at", "query", "The time; without it, now.", _TIME)
    position = {"type": "string", "pattern": "^[A-Za-z0-9_-]+/[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*$"}
    after = _make_parameter("after", "query", "The position of /v1/records, for the first connection.", position)
    states = _make_parameter("states", "query", "1: the states instead of the records.", {"type": "string"})
    last = _make_parameter("Last-Event-ID", "header", "The id of the last event, for later connections.", position)
    location = _make_parameter("id", "path", "The id of the place, percent-encoded.", {"type": "string"})
    text = {"type": "string"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "location-monitor: which places are safe",
            "version": __version__,
            "description": "The published answers. All are public, and equal for every client.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": {
            "/v1/locations": _get("All places", "application/json", _make_reference("Locations")),
            "/v1/locations.csv": _get("All places as CSV", "text/csv", text),
            "/v1/locations.geojson": _get("All places as GeoJSON", "application/geo+json", {"type": "object"}),
            "/v1/locations/{id}/history": _get(
                "What was published about one place", "application/json", _make_reference("History"), location
            ),
            "/v1/registry": _get("The registry in columns", "application/json", {"type": "object"}),
            "/v1/states": _get("The states of all places", "application/json", _make_reference("States"), at),
            "/v1/records": _get("The records of a state", "application/json", _make_reference("Records"), at),
            "/v1/ticks": _get(
                "The ticks that are kept, with their alarms", "application/json", _make_reference("Ticks")
            ),
            "/v1/stream": _get(
                "All new records, or the states, as server-sent events", "text/event-stream", text, states, after, last
            ),
            "/v1/background.geojson": _get("The agency's map", "application/geo+json", {"type": "object"}),
        },
        "components": {"schemas": _SCHEMAS},
    }


def _make_reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _make_parameter(name: str, where: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "description": description, "schema": schema}


def _get(summary: str, media_type: str, schema: dict[str, Any], *parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "get": {
            "summary": summary,
            "parameters": list(parameters),
            "responses": {
                "200": {"description": summary, "content": {media_type: {"schema": schema}}},
                "304": {"description": "The body has the ETag of If-None-Match."},
                "400": {"description": "An unknown or invalid parameter."},
                "404": {"description": "No such place or file."},
                "503": {"description": "Too many connections. Try again after Retry-After."},
            },
        }
    }
