"""The file in which the auditor states what it has proven, for the line of the public page (`page.audit_file`)."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monitor.audit.findings import ProvenStretch
from monitor.errors import UsageError
from monitor.new_files import PUBLIC, replace_file
from monitor.records.signed_notes import Signer
from monitor.time.instants import format_instant

log = logging.getLogger(__name__)


class ResultFile:
    """A file that always has a complete result. A new result replaces it. `cosigner`: cosigns checkpoints in it.

    `cosigned`: the notes that were cosigned last, by output partition, also before a restart.

    Its ε is what the published answers may have cost anyone. What the person who paid most did pay would reveal
    something about this person.

    Raises:
        UsageError: its folder does not exist, or cannot be written to.
    """

    def __init__(self, path: Path, cosigner: Signer | None = None) -> None:
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"--result {path}: the folder does not exist or cannot be written to")
        self._path, self._cosigner = path, cosigner
        self._written: tuple[ProvenStretch, Mapping[int, str]] | None = None
        self._failed = False
        self.cosigned = _read_cosigned(path)

    def write(self, proven: ProvenStretch, notes: Mapping[int, str]) -> None:
        """Write a result, unless it was the last one written. If writing fails, the earlier file stays.

        `notes`: the checkpoints up to which everything was found true, by output partition.
        """
        if (proven, notes) == self._written:
            return
        result: dict[str, Any] = {
            "from": format_instant(proven.since),
            "up_to": format_instant(proven.up_to),
            "false": proven.false,
            "epsilon_at_most": str(proven.epsilon),
        }
        if self._cosigner is not None:
            now = int(time.time())
            result["cosigned"] = {number: self._cosigner.cosign(note, now) for number, note in sorted(notes.items())}
            self.cosigned |= notes
        try:
            with replace_file(self._path, mode=PUBLIC) as file:
                file.write(f"{json.dumps(result)}\n".encode())
        except OSError as error:
            if not self._failed:
                log.warning("the result cannot be written to %s: %s", self._path, error.strerror)
            self._failed = True
            return
        self._written, self._failed = (proven, notes), False


def _read_cosigned(path: Path) -> dict[int, str]:
    """Return the notes of an earlier result; nothing if there is none that can be read."""
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))["cosigned"]
        return {int(number): str(note) for number, note in notes.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
