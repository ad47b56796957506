"""The page of all keys of the configuration, from the pydantic model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from monitor.config.environment import PREFIX, SECRETS
from monitor.config.model import Config
from monitor.config.monitors import KINDS
from monitor.public.instants import SECOND, format_duration
from tests.docs.reference.markdown import code, table

_HEAD: Final = """# Keys of the configuration

Every key in the order of the model, with the values that it takes, its default, and the environment variable that
overrides it. This page is generated from `monitor/config/`. [Configuration](../configuration.md) explains each key with
an example, and `location-monitor schema config` prints the JSON Schema.
"""
_COLUMNS: Final = ("key", "value", "default", "environment variable")


def render() -> str:
    """Return the page."""
    parts = [_HEAD]
    for name, field in Config.model_fields.items():
        model = field.annotation
        if inspect.isclass(model) and issubclass(model, BaseModel):
            parts.append(f"\n## {name}\n\n{table(_COLUMNS, _rows(model, (name,)))}")
    for kind, model in KINDS.items():
        parts.append(f"\n## monitors, kind {kind}\n\n{table(_COLUMNS, _rows(model, ('monitors', '0')))}")
    parts.append(
        f"\n## Secrets\n\nThey are never in the file.\n\n{table(('secret', 'environment variable'), _secrets())}"
    )
    return "".join(parts)


def _rows(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        key = (*path, name)
        section = field.annotation
        if inspect.isclass(section) and issubclass(section, BaseModel):
            yield from _rows(section, key)
        elif key not in SECRETS:
            shown = ".".join(key).replace("monitors.0", "monitors[]")
            yield code(shown), field.description or "", code(_default(field)), code(_variable(key))


def _variable(key: tuple[str, ...]) -> str:
    return PREFIX + "__".join(key).upper()


def _secrets() -> Iterator[tuple[str, str]]:
    for key in SECRETS:
        yield code(".".join(key)), code(_variable(tuple(key)))


def _default(field: FieldInfo) -> str:
    """Return a default as it is written in a configuration, "required", or "none"."""
    default: Any = field.default
    if field.is_required():
        return "required"
    if default is None or default is PydanticUndefined:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    return format_duration(default) if isinstance(default, int) and default >= SECOND else str(default)
