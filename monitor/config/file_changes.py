"""Notices that files have changed, for the commands that read them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

_States = Mapping[Path, tuple[int, ...] | None]
"""The state of each file by path; None if there is no such file."""


class FileChanges:
    """Compares files with those that were read last, by size, time of change and inode."""

    def __init__(self) -> None:
        self._read: _States = {}
        self._seen: _States = {}

    def mark(self, files: Iterable[Path]) -> None:
        """Note the files as they are now. Call it before they are read, so that a change meanwhile is noticed."""
        self._read = self._seen = {path: _look_at(path) for path in files}

    def have_settled(self, files: Iterable[Path]) -> bool:
        """Return whether files have changed since `mark`, but not since the last call: they are written completely."""
        before, self._seen = self._seen, {path: _look_at(path) for path in files}
        return self._seen != self._read and self._seen == before


def _look_at(path: Path) -> tuple[int, ...] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns
