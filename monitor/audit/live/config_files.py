"""The configurations that the auditor judges by, in files and folders that it reads again when they change."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from monitor.audit.configuration import AuditTerms, find_registry_file, read_terms, require_one_grid
from monitor.audit.parse_values import AuditError
from monitor.config.file_changes import FileChanges

log = logging.getLogger(__name__)

_SUFFIXES: Final = (".yaml", ".yml")


def list_configs(paths: Sequence[Path]) -> list[Path]:
    """Return the configuration files, newest first. Of the files in a folder, the one with the last name is the newest.

    Folders in a folder are searched too. Hidden names are left out: Kubernetes keeps copies under such names.

    Raises:
        AuditError: a folder has no configuration file.
    """
    found: list[Path] = []
    for path in paths:
        listed = _list_folder(path) if path.is_dir() else [path]
        if not listed:
            raise AuditError(f"{path}: this folder has no file *.yaml: put the configurations into it, or name a file")
        found += listed
    return found


def _list_folder(folder: Path) -> list[Path]:
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
    shown = (path for path in files if not any(part.startswith(".") for part in path.parts))
    return [folder / path for path in sorted(shown, reverse=True)]


class ConfigFiles:
    """The configurations of files and folders, newest first (`configs`).

    If a file has other contents than before, its earlier configuration is kept behind the new ones until the process
    ends, because earlier answers are judged by it.

    Raises:
        AuditError: a configuration cannot be read, or the configurations have different slots.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._changes = FileChanges()
        self._registries: list[Path] = []
        self.configs = self._read()
        require_one_grid(self.configs)

    def reread(self) -> bool:
        """Read the files again if they have changed. Return whether `configs` changed.

        If they cannot be read, the earlier configurations stay.
        """
        if not self._changes.have_settled(self._list_files()):
            return False
        try:
            fresh = self._read()
            configs = [*fresh, *(terms for terms in self.configs if terms not in fresh)]
            require_one_grid(configs)
        except AuditError as error:
            self._changes.mark(self._list_files())
            log.warning("the configuration was changed, but cannot be used: %s. The earlier one stays in use", error)
            return False
        changed, self.configs = configs != self.configs, configs
        return changed

    def _read(self) -> list[AuditTerms]:
        configs = list_configs(self._paths)
        self._registries = [find_registry_file(path) for path in configs]
        self._changes.mark(self._list_files())
        return [read_terms(path) for path in configs]

    def _list_files(self) -> list[Path]:
        """Return the configurations that exist now, and the registries of those that were read."""
        found = (path for given in self._paths for path in (_list_folder(given) if given.is_dir() else [given]))
        return [*found, *self._registries]
