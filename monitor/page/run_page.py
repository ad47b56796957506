"""`location-monitor page`: writes the page, and reads the configuration again when its files change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from monitor.config.file_changes import FileChanges
from monitor.config.valid_config import ValidConfig, load_valid_config
from monitor.errors import FailedError, MonitorError
from monitor.kafka.connections import build_kafka_connections
from monitor.page.page_threads import Page, PageParts
from monitor.page.serve import FolderServer
from monitor.time.clock import SystemClock

log = logging.getLogger(__name__)


class ConfigUpdates:
    """The configuration in use (`valid`), which is read again when it or the registry changes.

    The places and the monitors can be used at once. For anything else the page must be started again.
    """

    def __init__(self, config_file: Path, environ: Mapping[str, str], valid: ValidConfig) -> None:
        self.valid = valid
        self._path, self._environ = config_file, environ
        self._changes = FileChanges()
        self._changes.mark(self._files)

    @property
    def _files(self) -> tuple[Path, Path]:
        return self._path, self.valid.config.locations.file

    def read(self) -> ValidConfig | None:
        """Return the configuration if it was changed and can be used, and otherwise None."""
        if not self._changes.have_settled(self._files):
            return None
        self._changes.mark(self._files)
        try:
            fresh = load_valid_config(self._path, self._environ)
        except MonitorError as error:
            log.warning("the configuration was changed, but cannot be used, so the earlier one stays in use: %s", error)
            return None
        before, after = self.valid.config, fresh.config
        if after.clock != before.clock:
            log.warning("clock was changed in the configuration: start the page again")
            return None
        if (after.page, after.kafka) != (before.page, before.kafka):
            log.warning("page or kafka was changed in the configuration: start the page again to use this")
        self.valid = fresh
        self._changes.mark(self._files)
        return fresh


@dataclass(frozen=True, slots=True)
class Target:
    """Where the page goes: a folder (None: a temporary one), and the host and port to serve it at, if it is served."""

    out: Path | None = None
    address: tuple[str, int] | None = None


def page_command(
    config_file: Path,
    environ: Mapping[str, str],
    target: Target,
    stop: threading.Event,
    signals: Callable[[], AbstractContextManager[None]],
    print_line: Callable[[str], None],
    since: str | None = None,
) -> None:
    """Write the page until `stop` is set. `signals` sets it on a signal. Changed files are read again.

    `since`: as in `monitor.client.subscribe`.

    Raises:
        ConfigError: the configuration, a password file, page.texts or page.background is wrong.
        TopicError: the output topic does not exist.
        UnreachableError: Kafka does not answer.
        FailedError: the folder or the address cannot be used, or a part of the page has ended by itself.
        UsageError: `since` is not a time, the configuration has no public key, or the folder has other files.
    """
    valid = load_valid_config(config_file, environ)
    updates = ConfigUpdates(config_file, environ, valid)
    parts = PageParts(
        valid.config,
        valid.parameters,
        valid.locations,
        build_kafka_connections(valid.config.kafka, valid.config.service.name),
        since,
    )
    with signals(), ExitStack() as stack:
        out = target.out or Path(stack.enter_context(TemporaryDirectory(prefix="location-page-")))
        server = None if target.address is None else FolderServer(out, *target.address)
        page = stack.enter_context(Page(parts, SystemClock(), out))
        if target.out is not None:
            print_line(f"The page is in {out}")
        if server is not None:
            stack.enter_context(server)
            print_line(f"The page is at {server.url}")
        if page.metrics_url:
            print_line(f"Its metrics are at {page.metrics_url}")
        while not page.wait(stop):
            if server is not None and server.has_ended:
                raise FailedError("the HTTP server of the page has ended by itself. Start the page again.")
            if (changed := updates.read()) is not None:
                page.use(changed)
