"""Logging to standard error, one line per event. Logs contain neither person ids nor counts of locations."""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

from rich.console import Console
from rich.logging import RichHandler

# At DEBUG, kafka-python logs the keys and values that it sends, which are personal data. At ERROR, it logs each retry
# of a failure that this product logs once.
_MINIMUM_LEVELS: Final = {"kafka": logging.CRITICAL, "redis": logging.WARNING}


class _UtcFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def set_up_logging(level: int = logging.INFO, process: str = "") -> None:
    """Log to standard error: with colours on a terminal, otherwise as plain lines with UTC times.

    `process` names one of several processes, and comes before each message.
    """
    message = f"{process}: %(message)s" if process else "%(message)s"
    handler: logging.Handler
    if sys.stderr.isatty():
        handler = RichHandler(console=Console(stderr=True), show_path=False, rich_tracebacks=False)
        handler.setFormatter(logging.Formatter(message))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_UtcFormatter(f"%(asctime)s %(levelname)s %(name)s: {message}"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, minimum in _MINIMUM_LEVELS.items():
        logging.getLogger(name).setLevel(max(level, minimum))
