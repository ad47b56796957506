"""From pydantic's errors to problems: key, value, what was expected, what to do; secrets and unknown values masked."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from monitor.config.environment import PREFIX
from monitor.config.scalars import PROBLEM
from monitor.errors import Problem

MASKED: Final = "***"

_SECRET_KEYS: Final = frozenset({"person_key", "password", "url"})
_SHAPES: Final = {
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "dict_type": "a mapping from id to weight",
    "tuple_type": "a list",
    "recursion_loop": "a value that does not hold itself",
}
_SIMPLE: Final = {"bool_parsing": "true or false", "bool_type": "true or false"}
_LONGEST: Final = 80


def problems_of(error: ValidationError, prefix: str, model: type[BaseModel]) -> Iterator[Problem]:
    """The problems of one section (or one monitor), whose dotted key is `prefix`."""
    for detail in error.errors(include_url=False):
        path = _path(detail["loc"])
        yield _problem(detail, ".".join((prefix, *path)), _owner(model, path[:-1]), path[-1] if path else "")


def unknown_key(key: str, known: tuple[str, ...]) -> Problem:
    """The problem of a key that does not exist; its value is not shown, as it may be a misspelt secret's."""
    near = difflib.get_close_matches(key.rpartition(".")[2], known, n=1)
    remedy = f"Did you mean {near[0]}?" if near else "Remove it."
    return Problem(key, "unknown", f"one of {', '.join(known)}", remedy)


def misplaced_secret(key: str) -> Problem:
    """The problem of a secret that stands in the file in clear."""
    variable = PREFIX + key.upper().replace(".", "__")
    return Problem(
        key, MASKED, "no secret in the configuration file", f"Move it to a file (`{_file_key(key)}`) or to {variable}."
    )


def shown(key: str, value: object) -> str:
    """A value as a message may show it: masked where it is secret, by its shape where it holds others."""
    if key.rpartition(".")[2] in _SECRET_KEYS:
        return MASKED
    if isinstance(value, dict | list | tuple | set):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None:
        return "empty"
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _problem(detail: ErrorDetails, key: str, owner: type[BaseModel] | None, name: str) -> Problem:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == PROBLEM:
        return Problem(key, shown(key, detail["input"]), context["what"], context["remedy"])
    if kind == "missing":
        return Problem(key, "missing", _description(owner, name), "Add it.")
    if kind == "extra_forbidden":
        return unknown_key(key, tuple(owner.model_fields) if owner else ())
    if kind in _SHAPES:
        return Problem(key, _shape(detail["input"]), _SHAPES[kind], _as_json(detail["input"]))
    if kind == "literal_error":
        return Problem(key, shown(key, detail["input"]), str(context["expected"]))
    return Problem(key, shown(key, detail["input"]), _SIMPLE.get(kind, detail["msg"]))


def _path(location: tuple[int | str, ...]) -> list[str]:
    """The parts of a key: pydantic's location without the name of the form that `locations` was read in."""
    parts = [str(part) for part in location if part != "[key]"]
    return [parts[0], *parts[2:]] if parts[:1] == ["locations"] and len(parts) > 1 else parts


def _owner(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    for part in path:
        field = model.model_fields.get(part)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return None
        model = field.annotation
    return model


def _description(owner: type[BaseModel] | None, name: str) -> str:
    fields: Mapping[str, Any] = owner.model_fields if owner else {}
    return str(fields[name].description) if name in fields else "a value"


def _shape(value: object) -> str:
    """What kind of thing a value is: never the value, which could be a secret in the wrong place."""
    if value is None:
        return "empty"
    names = {dict: "a mapping", list: "a list", tuple: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "a number")


def _as_json(value: object) -> str:
    return "From the environment lists and objects are JSON." if isinstance(value, str) else ""


def _file_key(key: str) -> str:
    return "redis.password_file" if key == "redis.url" else f"{key}_file"
