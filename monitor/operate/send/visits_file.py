"""Read the visits of a file one by one: CSV as `replay` reads it, or one visit or batch of visits in each line of JSON.

The memory does not grow with the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from monitor.config.bounded_lines import BoundedLines, open_lines
from monitor.errors import UsageError
from monitor.operate.replay.read_visits import encode_row, open_table, read_fields, select_keys
from monitor.records.dead_letter_record import encode_visit
from monitor.records.visit_contract import Fault, Reason, open_record

_NO_VISIT = Fault(Reason.NOT_A_VISIT, "visits: expected at least one visit")


class FileVisit(NamedTuple):
    """A visit of a file."""

    line: int
    """Where it begins."""
    keys: Any
    """Its keys, if it is an object."""
    value: bytes = b"null"
    """It as JSON."""
    fault: Fault | None = None
    """Why the line has no visit that can be read; None if it has."""


def read_visits(path: Path) -> Iterator[FileVisit]:
    """Yield the visits of a file. If it begins with a brace or bracket, each line is JSON; otherwise it is CSV.

    Raises:
        UsageError: the file cannot be read, cannot be read twice, or is CSV whose header or quotes are broken.
    """
    if not path.is_file():
        raise UsageError(
            f"{path} is no regular file: expected a file, because it is read twice: before and while it is sent"
        )
    try:
        yield from _read_json_lines(path) if _has_json(path) else _read_rows(path)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _has_json(path: Path) -> bool:
    with open_lines(path) as lines:
        while block := lines.read_block():
            if text := block.lstrip():
                return text[0] in "{["
    return False


def _read_rows(path: Path) -> Iterator[FileVisit]:
    with open_table(path) as table:
        for line, fields in read_fields(table):
            keys = select_keys(fields)
            yield FileVisit(line, keys, encode_row(keys))


def _read_json_lines(path: Path) -> Iterator[FileVisit]:
    with open_lines(path) as lines:
        for text in _read_each(lines):
            value = text.strip().encode(errors="surrogateescape")
            visits = open_record(value) if value else []
            if isinstance(visits, Fault):
                yield FileVisit(lines.line, None, fault=visits)
            elif value and not visits:
                yield FileVisit(lines.line, None, fault=_NO_VISIT)
            else:
                yield from (FileVisit(lines.line, visit, encode_visit(visit)) for visit in visits)


def _read_each(lines: BoundedLines) -> Iterator[str]:
    """Yield the lines, each with a limit on its length."""
    lines.begin_row()
    for text in lines:
        yield text
        lines.begin_row()
