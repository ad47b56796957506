"""Write results: tables as CSV, and the part of a page under docs/ that a command writes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from monitor.errors import UsageError


def replace_part(page: Path, command: str, text: str) -> None:
    """Replace the part of a page that a command writes. It is between two comments that name the command.

    Raises:
        UsageError: the page does not have the two comments.
    """
    begin, end = f"<!-- begin: {command} -->", f"<!-- end: {command} -->"
    before, found_begin, rest = page.read_text(encoding="utf-8").partition(begin) if page.is_file() else ("", "", "")
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise UsageError(f"--document {page}: expected a page with the comments {begin} and {end}; add them")
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}", encoding="utf-8")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write rows with six significant digits. A cell that is None is empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_format(cell) for cell in row] for row in rows)


def _format(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return "" if cell is None else str(cell)
