"""Reads the configuration and the registry of the page again when their files change."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from monitor.config import ValidConfig, load_valid_config
from monitor.config.file_changes import FileChanges
from monitor.errors import MonitorError

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
