"""Logging to standard error, one line per event. Logs contain neither person ids nor counts of locations.

Log records of one piece of work, such as the tick that a thread decides, share fields. In a JSON log they are keys, so
that all lines of one tick or batch can be found. The fields are bound to the current thread (or task).

Unexpected errors are logged without their text, which may quote a visit or contain a count (docs/rules.md, rule 10).
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, Literal

from rich.console import Console
from rich.logging import RichHandler

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


LogFormat = Literal["auto", "text", "json"]

# At DEBUG, kafka-python logs the keys and values that it sends, which are personal data. At ERROR, it logs each retry
# of a failure that this product logs once.
_MINIMUM_LEVELS: Final = {"kafka": logging.CRITICAL, "redis": logging.WARNING}


class _UtcFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class _JsonFormatter(_UtcFormatter):
    """One JSON object per line: time, level, logger, message, and the shared fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_FIELDS.get(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_logging(level: int = logging.INFO, log_format: LogFormat = "auto") -> None:
    """Log to standard error.

    Args:
        level: the lowest level that is logged.
        log_format: "json" for one JSON object per line, "text" for plain lines with UTC times, "auto" for colours on a
            terminal and plain lines elsewhere.
    """
    handler: logging.Handler
    if log_format == "json":
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_JsonFormatter())
    elif log_format == "auto" and sys.stderr.isatty():
        handler = RichHandler(console=Console(stderr=True), show_path=False, rich_tracebacks=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_UtcFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, minimum in _MINIMUM_LEVELS.items():
        logging.getLogger(name).setLevel(max(level, minimum))


def log_unexpected(log: logging.Logger, message: str, *arguments: object, error: BaseException) -> None:
    """Log a message at level ERROR, then the lines of code that an error left, call after call, and its class."""
    where = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
    log.error(f"{message}:\n%s", *arguments, where)  # noqa: G004  # `message` is a format itself
