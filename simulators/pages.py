"""The part of a page under docs/ that a command writes: between two comments that name the command."""

from __future__ import annotations

from pathlib import Path

from monitor.errors import UsageError


def replace_part(page: Path, command: str, text: str) -> None:
    """Replace the part of a page that a command writes. The rest of the page is kept.

    Raises:
        UsageError: the page does not have the two comments.
    """
    begin, end = f"<!-- begin: {command} -->", f"<!-- end: {command} -->"
    before, found_begin, rest = page.read_text(encoding="utf-8").partition(begin) if page.is_file() else ("", "", "")
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise UsageError(f"--document {page}: expected a page with the comments {begin} and {end}; add them")
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}", encoding="utf-8")
