"""Parts of Markdown that several generated pages use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. A `|` in a cell is escaped, and a line break becomes a space."""
    lines = ["| " + " | ".join(_cell(text) for text in row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines]) + "\n"


def code(text: str) -> str:
    """Return the text as code, or "" for no text."""
    return f"`{text}`" if text else ""


def paragraphs(text: str) -> str:
    """Return a docstring with each paragraph, and each item of a list, on one line."""
    joined = re.sub(r"[ \t]*\n(?!\s*\n|\* |\n)[ \t]*(?=\S)", " ", re.sub(r"\n\s*\n", "\n\n\n", text.strip()))
    return re.sub(r"\n{2,} ?", "\n\n", joined)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
