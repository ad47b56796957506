"""The folder of the public page: files that are replaced as a whole, and only if their content has changed."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, Self

from monitor.errors import FailedError, UsageError

LOCK: Final = ".location-monitor.lock"
"""The file that marks a folder of the page. The page that writes into the folder holds its lock."""
PART: Final = ".part"
"""The file that is being written. It gets its name when it is complete."""
_LEAST_GZIP: Final = 4_096  # bytes: a smaller file takes a block of the disk and a few packets, as its twin would
_LEVEL: Final = 5
_LEVEL_HTML: Final = 9
"""Visitors read a page first, so its twin is as small as possible: by a sixth."""


class _Written(NamedTuple):
    """What a file has: the digest of its content, and the second of its last change."""

    digest: bytes
    second: int


class Folder:
    """A folder that one page at a time writes, from `__enter__` to `__exit__`. Names are relative, such as `a/b.json`.

    Each file that gains from it has a compressed twin with the suffix `.gz`. A reader sees the old or the new content
    of a file, never a part: a file is written under another name first. A new page writes every file once, so a file
    that an earlier page, or a power cut, left behind does not stay.

    Raises:
        UsageError: the folder has files, and none of them is the mark of a page (`__enter__`).
        FailedError: another page writes this folder, or it cannot be written (`__enter__`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: dict[str, _Written] = {}
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Create the folder if it is missing, and lock it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (self.path / LOCK).exists() and any(self.path.iterdir()):
                raise UsageError(
                    f"--out is {self.path}, which has files of something else. The page removes files that it did not "
                    "write: give an empty or a new folder"
                )
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.__exit__()
            if isinstance(error, BlockingIOError):
                text = "where another page writes already. End that page, or give another folder"
            else:
                text = f"which cannot be written ({error.strerror}). Give a folder that this user may write"
            raise FailedError(f"--out is {self.path}, {text}") from error
        return self

    def __exit__(self, *_error: object) -> None:
        """Release the lock. The files stay."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    @property
    def size(self) -> int:
        """The number of files, without compressed twins."""
        return len(self._written)

    def write(self, name: str, content: bytes) -> bool:
        """Write a file and its twin if the content has changed. Return whether it has.

        Raises:
            OSError: it cannot be written, for example because the disk is full. The earlier content stays.
        """
        digest, known = hashlib.sha256(content).digest(), self._written.get(name)
        if known is not None and known.digest == digest:
            return False
        second = max(int(time.time()), (known.second if known else self._find_second(name)) + 1)
        level = _LEVEL_HTML if name.endswith(".html") else _LEVEL
        twin = gzip.compress(content, level, mtime=0) if len(content) >= _LEAST_GZIP else None
        self._replace(name, content, second)
        if twin is None:
            (self.path / f"{name}.gz").unlink(missing_ok=True)
        else:
            self._replace(f"{name}.gz", twin, second)
        self._written[name] = _Written(digest, second)
        return True

    def _find_second(self, name: str) -> int:
        """Return the second of the last change of a file that an earlier page wrote; 0 without one."""
        try:
            return int((self.path / name).stat().st_mtime)
        except OSError:
            return 0

    def _replace(self, name: str, content: bytes, second: int) -> None:
        """Replace a file. Each replacement has a later second: a web server makes the ETag of second and size."""
        part, target = self.path / PART, self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            os.utime(part, (second, second))
            part.replace(target)
        except OSError:
            part.unlink(missing_ok=True)  # it may take the space that other files need
            raise

    def remove_others(self, wanted: set[str]) -> None:
        """Remove every file that is not wanted, whoever wrote it, and its twin.

        Raises:
            OSError: a file cannot be removed.
        """
        for name in self._list_names():
            if name.removesuffix(".gz") not in wanted:
                (self.path / name).unlink(missing_ok=True)
                self._written.pop(name, None)

    def _list_names(self) -> Iterator[str]:
        for folder, _folders, names in os.walk(self.path):
            for name in names:
                relative = os.path.relpath(Path(folder) / name, self.path)
                if relative != LOCK:
                    yield relative


_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
_LONGEST: Final = 120
"""The most characters of a part of a path. File systems allow 255."""


@cache
def name_place(location_id: str) -> str:
    """Return the name of the files of a place, without a suffix: `places/` and its id in safe characters.

    Small letters, digits and hyphens stay. Any other byte of the id, in UTF-8, becomes `_` and two digits: a name says
    nothing to a file system, and two ids that differ in case only have different names, also where case does not
    count. A long name continues in a folder. `static/store.js` does the same in the browser.
    """
    text = "".join(chr(byte) if byte in _PLAIN else f"_{byte:02x}" for byte in location_id.encode())
    return "/".join(("places", *(text[start : start + _LONGEST] for start in range(0, len(text), _LONGEST))))
