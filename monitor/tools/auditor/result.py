"""The file in which the auditor states what it has proven, for the line of the public page (`page.audit_file`)."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from monitor.contracts.instants import format_instant
from monitor.errors import UsageError
from monitor.tools.audit.findings import ProvenStretch

log = logging.getLogger(__name__)


class ResultFile:
    """A file that always has a complete result. A new result replaces it.

    Its ε is what the published answers may have cost anyone. What the person who paid most did pay would reveal
    something about this person.

    Raises:
        UsageError: its folder does not exist, or cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"--result {path}: the folder does not exist or cannot be written to")
        self._path = path
        self._part = path.with_name(f"{path.name}.{os.getpid()}.part")
        self._written: ProvenStretch | None = None
        self._failed = False

    def write(self, proven: ProvenStretch) -> None:
        """Write a result, unless it was the last one written. If writing fails, the earlier file stays."""
        if proven == self._written:
            return
        result = {
            "from": format_instant(proven.since),
            "up_to": format_instant(proven.up_to),
            "false": proven.false,
            "epsilon_at_most": str(proven.epsilon),
        }
        try:
            self._part.write_text(json.dumps(result) + "\n", encoding="utf-8")
            self._part.replace(self._path)
        except OSError as error:
            if not self._failed:
                log.warning("the result cannot be written to %s: %s", self._path, error.strerror)
            self._failed = True
            return
        self._written, self._failed = proven, False
