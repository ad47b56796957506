"""`location-monitor page`: serve the public page until a signal arrives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from monitor.config import ValidConfig
from monitor.page.server import Page, PageParts
from monitor.public.clock import SystemClock
from monitor.service import build_kafka_connections


def page_command(
    valid: ValidConfig,
    stop: threading.Event,
    signals: Callable[[], AbstractContextManager[None]],
    print_line: Callable[[str], None],
) -> None:
    """Serve the page until `stop` is set. `signals` sets it on a signal.

    Raises:
        ConfigError: a password file, page.texts or page.background is wrong.
        TopicError: the output topic does not exist.
        UnreachableError: Kafka does not answer.
        FailedError: the address cannot be used, or the HTTP server has ended by itself.
    """
    parts = PageParts(valid.config, valid.parameters, valid.locations, build_kafka_connections(valid.config))
    with signals(), Page(parts, SystemClock()) as page:
        print_line(f"The page is at {page.url}")
        if page.metrics_url:
            print_line(f"Its metrics are at {page.metrics_url}")
        page.wait(stop)
