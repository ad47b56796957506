"""Search for planted person ids. They may occur only in the input and the dead letters (docs/rules.md, rule 10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from monitor.tools.audit.text import AuditError

_BLOCK: Final = 1 << 20


def find_planted(files: Iterable[Path], planted: Sequence[str]) -> list[str]:
    """Return each file that contains a planted id, with the id's number. Planted ids must not occur in other text.

    Raises:
        AuditError: a file cannot be read.
    """
    ids = [text.encode() for text in planted]
    overlap = max(map(len, ids), default=1) - 1
    places = []
    for path in files:
        try:
            numbers = {n for block in _read_blocks(path, overlap) for n, text in enumerate(ids) if text in block}
        except OSError as error:
            raise AuditError(f"{path} cannot be read: {error}") from error
        places += [f"{path}: planted id number {n}" for n in sorted(numbers)]
    return places


def _read_blocks(path: Path, overlap: int) -> Iterator[bytes]:
    """Yield the file in blocks. Each begins with the last `overlap` bytes of the previous one."""
    tail = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield tail + block
            tail = (tail + block)[-overlap:] if overlap else b""
