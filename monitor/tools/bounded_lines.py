"""Read text, gzipped if the name ends in .gz, with bounded memory: a small gzip file can contain a row of gigabytes."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self, TextIO

from monitor.errors import UsageError

LONGEST_ROW: Final = 16 * 2**20
"""The longest row of CSV or record of JSON, in characters, with its line breaks."""

LARGEST_RATIO: Final = 200
"""How many characters a byte of the file may give. CSV of people and places gives at most a few dozen."""

_ANY_RATIO: Final = 16 * 2**20  # characters that a file may give at any ratio


class BoundedLines:
    """The lines of a file. Call `begin_row` after each row, unless the rows come from `read_rows`.

    `position` returns how many bytes of the file have been read.

    Raises:
        UsageError: (in iteration and `read`) a row is too long, or the file expands too much.
    """

    def __init__(self, path: Path, text: TextIO, position: Callable[[], int], longest: int) -> None:
        self.position = position
        self._path, self._text, self._longest = path, text, longest
        self._line = self._row = self._total = 0

    def begin_row(self) -> None:
        """Begin a row at the next line."""
        self._row = 0

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> str:
        """Return the next line."""
        line = self._text.readline(self._longest + 1)
        if not line:
            raise StopIteration
        self._line += 1
        self._count(line)
        return line

    def read(self, size: int) -> str:
        """Return the next characters, at most `size`; "" at the end."""
        text = self._text.read(size)
        self._line += text.count("\n")
        self._count(text)
        return text

    def _count(self, text: str) -> None:
        self._row, self._total = self._row + len(text), self._total + len(text)
        if self._row > self._longest:
            raise UsageError(
                f"{self._path}, line {self._line}: the row is longer than {self._longest:,} characters: expected a "
                "short row or record for each visit or place; a quote may be missing"
            )
        if self._total > _ANY_RATIO + LARGEST_RATIO * self.position():
            raise UsageError(
                f"{self._path} expands to more than {LARGEST_RATIO} times its size: expected a file of visits or "
                "places; if you trust it, expand it yourself"
            )


@contextmanager
def open_lines(path: Path, longest: int = LONGEST_ROW) -> Iterator[BoundedLines]:
    """Open a file with rows of at most `longest` characters. Bytes that are not UTF-8 become lone surrogates."""
    with path.open("rb") as raw:
        plain = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        with plain, io.TextIOWrapper(plain, "utf-8-sig", "surrogateescape", "") as text:
            yield BoundedLines(path, text, raw.tell, longest)


def read_rows(lines: BoundedLines) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of CSV with the numbers of their last lines."""
    rows = csv.reader(lines)
    for row in rows:
        lines.begin_row()
        yield rows.line_num, row
