"""Turn pydantic's errors into problems: key, value, what was expected, what to do. Secrets are masked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from monitor.config.environment import PREFIX, SECRETS
from monitor.errors import Problem
from monitor.records.signed_notes import has_private_key
from monitor.values.single_values import PROBLEM, find_similar

MASKED: Final = "***"

_SECRET_KEYS: Final = frozenset({"person_key", "password", "url"})
_ONLY_IN_ENVIRONMENT: Final = frozenset(name for _, name in SECRETS)
_SERVER_SECTIONS: Final = frozenset({"kafka", "redis"})
_USER_IN_ADDRESS: Final = re.compile(r"^([a-z][a-z0-9+.-]*://)?.*@", re.DOTALL | re.IGNORECASE)
"""The user and password of an address, as in `https://user:password@host`. Group 1 is the scheme."""

_OF_AUDITOR: Final = ("username", "password", "password_file", "token_file", "certificate_file", "key_file")
_REMOVED: Final = {
    **{f"auditor.{key}": f"set {PREFIX}KAFKA__{key.upper()} in the environment of the auditor" for key in _OF_AUDITOR},
    "otel": "a collector of OpenTelemetry can scrape /metrics",
    "page.connections_per_address": "a web server serves the page, and limits its visitors",
    "page.embed_from": "the web server of the page names these origins in its header Content-Security-Policy",
    "page.host": "a web server serves the page; for a look at it, `page` has the option --serve HOST:PORT",
    "page.port": "a web server serves the page; for a look at it, `page` has the option --serve HOST:PORT",
    "page.subscribers": "the page is files, which have no streams",
    "privacy.other_publishers": "the ε of several publishers adds up",
    "visits.framing": "each framing is accepted",
    "visits.times": "times may always be integers of microseconds",
}
"""Keys that are not needed any more, and why."""

_SHAPES: Final = {
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "dict_type": "a mapping from id to weight",
    "tuple_type": "a list",
    "recursion_loop": "a value that does not contain itself",
}
_SIMPLE: Final = {"bool_parsing": "true or false", "bool_type": "true or false"}
_MAX_LENGTH: Final = 80


def list_problems(error: ValidationError, prefix: str, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield the problems of one section or monitor. `prefix` is its dotted key."""
    for detail in error.errors(include_url=False):
        path = _simplify_path(detail["loc"])
        yield _make_problem(detail, ".".join((prefix, *path)), _find_owner(model, path[:-1]), path[-1] if path else "")


def report_unknown_key(key: str, known: tuple[str, ...]) -> Problem:
    """Return the problem of an unknown key. Its value is not shown: the key may be a misspelt secret."""
    if key in _REMOVED:
        return Problem(key, "unknown", "no such key", f"Delete it: {_REMOVED[key]}.")
    near = find_similar(key.rpartition(".")[2], known)
    remedy = f"Did you mean {near}?" if near else "Remove it."
    return Problem(key, "unknown", f"one of {', '.join(known)}", remedy)


def report_misplaced_secret(key: str) -> Problem:
    """Return the problem of a secret written in the configuration file."""
    variable = PREFIX + key.upper().replace(".", "__")
    return Problem(
        key,
        MASKED,
        "no secret in the configuration file",
        f"Move it to a file (`{_name_file_key(key)}`) or to {variable}.",
    )


def format_value(key: str, value: object) -> str:
    """Return a value as text for a message. Secrets are masked; of mappings and lists, only the type is shown.

    In addresses of servers, user and password are masked, also where an address must not have them.
    """
    if key.rpartition(".")[2] in _SECRET_KEYS or (isinstance(value, str) and has_private_key(value)):
        return MASKED
    if isinstance(value, dict | list | tuple | set):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None:
        return "empty"
    if isinstance(value, str) and key.partition(".")[0] in _SERVER_SECTIONS:
        value = _USER_IN_ADDRESS.sub(rf"\1{MASKED}@", value)
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def _make_problem(detail: ErrorDetails, key: str, owner: type[BaseModel] | None, name: str) -> Problem:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == PROBLEM:
        return Problem(key, format_value(key, detail["input"]), context["what"], context["remedy"])
    if kind == "missing":
        return Problem(key, "missing", _find_description(owner, name), "Add it.")
    if kind == "extra_forbidden":
        names = owner.model_fields if owner else ()
        return report_unknown_key(key, tuple(name for name in names if name not in _ONLY_IN_ENVIRONMENT))
    if kind in _SHAPES:
        return Problem(key, _name_shape(detail["input"]), _SHAPES[kind], _suggest_json(detail["input"]))
    if kind == "literal_error":
        return Problem(key, format_value(key, detail["input"]), str(context["expected"]))
    return Problem(key, format_value(key, detail["input"]), _SIMPLE.get(kind, detail["msg"]))


def _simplify_path(location: tuple[int | str, ...]) -> list[str]:
    """Return the parts of a key: pydantic's location, without the tag that the union type of `locations` adds."""
    parts = [str(part) for part in location if part != "[key]"]
    return [parts[0], *parts[2:]] if parts[:1] == ["locations"] and len(parts) > 1 else parts


def _find_owner(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    for part in path:
        field = model.model_fields.get(part)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return None
        model = field.annotation
    return model


def _find_description(owner: type[BaseModel] | None, name: str) -> str:
    fields: Mapping[str, Any] = owner.model_fields if owner else {}
    return str(fields[name].description) if name in fields else "a value"


def _name_shape(value: object) -> str:
    """Return the type of a value in words. The value itself is not shown: it may be a misplaced secret."""
    if value is None:
        return "empty"
    names = {dict: "a mapping", list: "a list", tuple: "a list", str: "a string", bool: "true or false"}
    return names.get(type(value), "a number")


def _suggest_json(value: object) -> str:
    return "In environment variables, write lists and objects as JSON." if isinstance(value, str) else ""


def _name_file_key(key: str) -> str:
    return "redis.password_file" if key == "redis.url" else f"{key}_file"
