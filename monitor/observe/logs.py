"""Logging to standard error, one line per event. Logs contain neither person ids nor counts of locations."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final, Literal

from rich.console import Console
from rich.logging import RichHandler

from monitor.observe.log_fields import get_log_fields

LogFormat = Literal["auto", "text", "json"]

# At DEBUG, kafka-python logs the keys and values that it sends, which are personal data. At ERROR, it logs each retry
# of a failure that this product logs once.
_MINIMUM_LEVELS: Final = {"kafka": logging.CRITICAL, "redis": logging.WARNING}


class _UtcFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class _JsonFormatter(_UtcFormatter):
    """One JSON object per line: time, level, logger, message, and the fields of `monitor.observe.log_fields`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **get_log_fields(),
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
