"""The published schemas are valid, and their references have targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.contracts.schemas import SCHEMAS, build_asyncapi


@pytest.mark.parametrize("name", ["visits", "alerts"])
def test_schema_is_valid(name: str) -> None:
    """Each schema is valid JSON Schema 2020-12."""
    Draft202012Validator.check_schema(SCHEMAS[name]())


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


@pytest.mark.parametrize("name", SCHEMAS)
def test_references_resolve(name: str) -> None:
    """Each reference in the AsyncAPI document has a target."""
    document = SCHEMAS[name]()
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
        "checkpoint",
        "owner",
        "ledger",
    }
