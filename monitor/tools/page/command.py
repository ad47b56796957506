"""`location-monitor page`: serve the public page until a signal arrives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from monitor.config import load_valid_config
from monitor.contracts.clock import SystemClock
from monitor.service.service import build_kafka_connections
from monitor.tools.page.config_updates import ConfigUpdates
from monitor.tools.page.server import Page, PageParts


def page_command(
    config_file: Path,
    environ: Mapping[str, str],
    stop: threading.Event,
    signals: Callable[[], AbstractContextManager[None]],
    print_line: Callable[[str], None],
) -> None:
    """Serve the page until `stop` is set. `signals` sets it on a signal. Changed files are read again.

    Raises:
        ConfigError: the configuration, a password file, page.texts or page.background is wrong.
        TopicError: the output topic does not exist.
        UnreachableError: Kafka does not answer.
        FailedError: the address cannot be used, or the HTTP server has ended by itself.
    """
    valid = load_valid_config(config_file, environ)
    updates = ConfigUpdates(config_file, environ, valid)
    parts = PageParts(valid.config, valid.parameters, valid.locations, build_kafka_connections(valid.config))
    with signals(), Page(parts, SystemClock()) as page:
        print_line(f"The page is at {page.url}")
        if page.metrics_url:
            print_line(f"Its metrics are at {page.metrics_url}")
        while not page.wait(stop):
            if (changed := updates.read()) is not None:
                page.use(changed)
