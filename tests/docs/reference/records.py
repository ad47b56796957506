"""The page of all records, from their JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor.contracts.dead_letters import DeadLetterHeaders
from monitor.contracts.schemas import build_alerts_schema, build_visits_schema
from tests.docs.reference.markdown import code, paragraphs, table

_HEAD: Final = """# Records

Every record of the three topics, field by field. This page is generated from the schemas
([visits](../schemas/visits.json), [alerts](../schemas/alerts.json), [AsyncAPI](../schemas/asyncapi.json)), which
`location-monitor schema` prints. [The interface](../interface.md#4-records) has keys and headers, [Sending
visits](../producers.md) and [Reading the answers](../subscribers.md) say how to use them.
"""


def render() -> str:
    """Return the page."""
    parts = [_HEAD, "\n## Input\n"]
    parts += [_describe(name, model) for name, model in build_visits_schema()["$defs"].items()]
    parts.append("\n## Output\n")
    parts += [_describe(name, model) for name, model in build_alerts_schema()["$defs"].items()]
    parts.append("\n## Dead letters\n")
    headers = DeadLetterHeaders.model_json_schema()
    parts.append(_describe("DeadLetterHeaders", headers))
    parts += [_describe(name, model) for name, model in headers.get("$defs", {}).items()]
    return "".join(parts)


def _describe(name: str, model: Mapping[str, Any]) -> str:
    text = f"\n### {name}\n\n{paragraphs(model.get('description', ''))}\n"
    if "properties" not in model:
        choices = ", ".join([*map(_link, model.get("oneOf", ())), *map(code, model.get("enum", ()))])
        return f"{text}\nOne of: {choices}.\n" if choices else text
    return f"{text}\n{table(('field', 'type', 'meaning'), _rows(model))}"


def _rows(model: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    required = model.get("required", ())
    for name, field in model["properties"].items():
        optional = "" if name in required else ", optional"
        yield code(name), _type(field) + optional, field.get("description", "")


def _type(field: Mapping[str, Any]) -> str:
    """Return the JSON type of a field in words; a type that is defined on the page is a link."""
    if "$ref" in field:
        return _link(field)
    if values := field.get("enum", [field["const"]] if "const" in field else []):
        return " or ".join(code(str(value)) for value in values)
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    parts = field.get("items") or field.get("additionalProperties")
    name = str(field.get("format", field.get("type", "any")))
    return f"{name} of {_type(parts)}" if isinstance(parts, Mapping) else name


def _link(reference: Mapping[str, Any]) -> str:
    name = str(reference["$ref"]).rpartition("/")[2]
    return f"[{name}](#{name.lower()})"
