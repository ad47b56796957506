"""Logs: one line an event, on standard error. They hold neither person ids nor what a place counted."""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

from rich.console import Console
from rich.logging import RichHandler

# At DEBUG, kafka-python prints the keys and values that it sends: personal data. At ERROR it repeats at each try what
# this product says once in its own words.
_LOUD: Final = {"kafka": logging.CRITICAL, "redis": logging.WARNING}


class _UtcFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def set_up_logging(level: int = logging.INFO) -> None:
    """Log to standard error: coloured on a terminal, plain lines with UTC times otherwise."""
    handler: logging.Handler
    if sys.stderr.isatty():
        handler = RichHandler(console=Console(stderr=True), show_path=False, rich_tracebacks=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_UtcFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, floor in _LOUD.items():
        logging.getLogger(name).setLevel(max(level, floor))
