"""The committed schemas equal the generated ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.contracts.schemas import build_alerts_schema, build_asyncapi, build_visits_schema

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"
MAKERS: dict[str, Callable[[], dict[str, Any]]] = {
    "visits": build_visits_schema,
    "alerts": build_alerts_schema,
    "asyncapi": build_asyncapi,
}


@pytest.mark.parametrize("name", MAKERS)
def test_committed_schema_is_current(name: str) -> None:
    """The committed schema is the generated one. To write it: location-monitor schema NAME > docs/schemas/NAME.json."""
    assert (FOLDER / f"{name}.json").read_text() == json.dumps(MAKERS[name](), indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", ["visits", "alerts"])
def test_schema_is_valid(name: str) -> None:
    """Each schema is valid JSON Schema 2020-12."""
    Draft202012Validator.check_schema(MAKERS[name]())


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


@pytest.mark.parametrize("name", MAKERS)
def test_references_resolve(name: str) -> None:
    """Each reference in the AsyncAPI document has a target."""
    document = MAKERS[name]()
    references = set(_references(document))
    assert references
    for reference in references:
        part: Any = document
        for key in reference.removeprefix("#/").split("/"):
            part = part[key]


def test_asyncapi_has_three_channels() -> None:
    """The AsyncAPI document has a channel for visits, alerts and dead letters."""
    document = build_asyncapi()
    assert document["asyncapi"].startswith("3.")
    assert {name: operation["action"] for name, operation in document["operations"].items()} == {
        "receiveVisits": "receive",
        "sendAlerts": "send",
        "sendDeadLetters": "send",
    }
    assert set(document["channels"]["alerts"]["messages"]) == {
        "overTime",
        "atTimes",
        "hotSpots",
        "dwell",
        "owner",
        "ledger",
    }
