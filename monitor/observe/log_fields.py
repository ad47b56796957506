"""Fields that the log records of one piece of work share, such as the tick that a thread decides.

In a JSON log they are keys, so that all lines of one tick or batch can be found. The fields are bound to the current
thread (or task). They contain no person and no location.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

_NONE: Final[Mapping[str, str | int]] = MappingProxyType({})
_FIELDS: Final[ContextVar[Mapping[str, str | int]]] = ContextVar("log_fields", default=_NONE)


@contextmanager
def log_fields(**fields: str | int) -> Iterator[None]:
    """Add fields to all log records of this thread until the end of the block."""
    token = _FIELDS.set({**_FIELDS.get(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(token)


def get_log_fields() -> Mapping[str, str | int]:
    """Return the fields of the current thread."""
    return _FIELDS.get()
