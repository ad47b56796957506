"""Compare the AsyncAPI document with that of the last release: what would break a producer or a subscriber.

`python -m tests.contracts.compatibility --release` makes the present document the released one. Do this once per
release, with the tag.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

CURRENT: Final = Path(__file__).parents[2] / "docs" / "schemas" / "asyncapi.json"
RELEASED: Final = CURRENT.parent / "released" / "asyncapi.json"

INPUT: Final = frozenset({"visits"})
"""The messages that others write. All other messages are read by others."""

_LOWER: Final = ("minimum", "minLength", "minItems")
_UPPER: Final = ("maximum", "maxLength", "maxItems")
_EXACT: Final = ("pattern", "format")

Schema = Mapping[str, Any]


def load(path: Path) -> dict[str, Any]:
    """Read a document."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def find_breaks(released: Schema, current: Schema) -> list[str]:
    """Return the incompatible changes of the current document, each as a line with its place and kind."""
    found: list[str] = []
    messages = current["components"]["messages"]
    for name, message in released["components"]["messages"].items():
        if name not in messages:
            found.append(f"{name}: the message was removed")
            continue
        comparison = _Comparison(released, current, name in INPUT, name)
        for part in ("headers", "payload"):
            found += comparison.at(part).compare(message.get(part, {}), messages[name].get(part, {}))
    return found


@dataclass(frozen=True)
class _Comparison:
    """The comparison of a schema that others write (`written_by_others`) or read, at a path."""

    released: Schema
    current: Schema
    written_by_others: bool
    path: str

    def at(self, step: str) -> _Comparison:
        return replace(self, path=f"{self.path}.{step}")

    def compare(self, old: Schema, new: Schema) -> Iterator[str]:
        old, new = _resolve(old, self.released), _resolve(new, self.current)
        yield from self._values(old, new)
        yield from self._limits(old, new)
        yield from self._properties(old, new)
        yield from self._alternatives(old, new)
        for key in ("items", "additionalProperties"):
            if isinstance(old.get(key), Mapping) and isinstance(new.get(key), Mapping):
                yield from self.at(f"({key})").compare(old[key], new[key])

    def _values(self, old: Schema, new: Schema) -> Iterator[str]:
        if (was := _types(old)) != (now := _types(new)) and not (self.written_by_others and was <= now):
            yield f"{self.path}: the type was {sorted(was)} and is {sorted(now)}"
        if (allowed := _enum(new)) is not None:
            removed = (_enum(old) or {"any value"}) - allowed
            if removed:
                yield f"{self.path}: no longer allowed: {sorted(removed)}"

    def _limits(self, old: Schema, new: Schema) -> Iterator[str]:
        for key in (*_LOWER, *_UPPER, *_EXACT):
            was, now = old.get(key), new.get(key)
            if was == now:
                continue
            looser = now is None or (was is not None and key not in _EXACT and (now < was) == (key in _LOWER))
            if not (self.written_by_others and looser):
                yield f"{self.path}: {key} was {was} and is {now}"

    def _properties(self, old: Schema, new: Schema) -> Iterator[str]:
        properties = new.get("properties", {})
        for name, schema in old.get("properties", {}).items():
            if name in properties:
                yield from self.at(name).compare(schema, properties[name])
            else:
                yield f"{self.path}.{name}: the field was removed"
        was, now = set(old.get("required", ())), set(new.get("required", ()))
        for name in sorted((now - was) if self.written_by_others else (was - now) & properties.keys()):
            yield f"{self.path}.{name}: the field is {'now' if self.written_by_others else 'no longer'} required"
        if self.written_by_others and new.get("additionalProperties") is False is not old.get("additionalProperties"):
            yield f"{self.path}: other fields are no longer allowed"

    def _alternatives(self, old: Schema, new: Schema) -> Iterator[str]:
        for key in ("anyOf", "oneOf", "allOf"):
            named = dict(_name(schema, index) for index, schema in enumerate(new.get(key, ())))
            for index, schema in enumerate(old.get(key, ())):
                name, alternative = _name(schema, index)
                if name in named:
                    yield from self.at(f"({name})").compare(alternative, named[name])
                else:
                    yield f"{self.path}: the alternative {name} was removed"


def _resolve(schema: Schema, document: Schema) -> Schema:
    while "$ref" in schema:
        target: Any = document
        for key in schema["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        schema = target
    return schema


def _name(schema: Schema, index: int) -> tuple[str, Schema]:
    """Return the name of an alternative, by which it is found in the other document."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2], schema
    return str(schema.get("type", index)), schema


def _types(schema: Schema) -> frozenset[str]:
    kind = schema.get("type", ())
    return frozenset([kind] if isinstance(kind, str) else kind)


def _enum(schema: Schema) -> set[str] | None:
    if "const" in schema:
        return {json.dumps(schema["const"])}
    return {json.dumps(value) for value in schema["enum"]} if "enum" in schema else None


if __name__ == "__main__":
    if sys.argv[1:] != ["--release"]:
        sys.exit("usage: python -m tests.contracts.compatibility --release")
    shutil.copyfile(CURRENT, RELEASED)
