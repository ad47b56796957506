"""The published schemas are valid, and their references have targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.operate.schema.command import SCHEMAS


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
def test_schema_is_complete(name: str) -> None:
    """Each schema is valid JSON Schema 2020-12, and each of its references has a target."""
    document = SCHEMAS[name]()
    Draft202012Validator.check_schema(document)
    references = set(_references(document))
    assert references
    for reference in references:
        part: Any = document
        for key in reference.removeprefix("#/").split("/"):
            part = part[key]
