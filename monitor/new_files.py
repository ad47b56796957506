"""Create files: every command that writes a file which may name people writes it here."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from monitor.errors import UsageError

OWNER_ONLY: Final = 0o600
PUBLIC: Final = 0o666
"""Readable for whom the umask allows: for files without personal data that other users' processes read."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def create_file(path: Path, *, mode: int = OWNER_ONLY) -> Iterator[IO[bytes]]:
    """Create a file, which must not exist. If writing fails, it is removed.

    Raises:
        FileExistsError: something has this name, also if it is a link to nothing.
        OSError: the file cannot be created or written.
    """
    descriptor = os.open(path, _CREATE, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)  # an incomplete file is useless, and may name people
        raise


@contextmanager
def replace_file(path: Path, *, mode: int = OWNER_ONLY) -> Iterator[IO[bytes]]:
    """Write a file that gets its name only when it is complete. A file of this name is replaced; no link is followed.

    Its name is random until then, so that nobody can prepare a link under it.

    Raises:
        UsageError: the name is that of a device or a folder, which cannot be replaced.
        OSError: the file cannot be created or written.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file: expected the name of a file to create or to replace")
    part = path.with_name(f".{secrets.token_hex(16)}.part")
    with create_file(part, mode=mode) as file:
        yield file
    try:
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
