"""CSV with a header, read strictly: every file of rows that the product reads is read here, except by `audit`.

A quote that opens a cell joins the lines up to the next quote to one row, so a stray quote would make rows vanish. A
quote that is never closed, or that text follows after it is closed, ends the reading. What else could be a stray quote
cannot be told from a cell with line breaks by its form. Hence a row over several lines ends the reading if a line of it
is a valid row by itself that would be lost: if there are two such lines, or one, and the row is invalid.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

from monitor.config.bounded_lines import LONGEST_ROW, BoundedLines
from monitor.errors import FileFormatError, Problem

_SEPARATORS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
_QUOTED: Final = r'"[^"]*+(?:""[^"]*+)*+"'
_ONE_ROW: Final = "Write a quote inside a cell twice, in a cell within quotes; otherwise remove it."


class Row(NamedTuple):
    """The cells of a row, and the number of its first line."""

    line: int
    cells: list[str]


class Block(NamedTuple):
    """Rows of cells, and for each the number of its first line."""

    lines: Sequence[int]
    rows: list[list[str]]


class Table:
    """The rows of a file. `header`: the names of its columns; empty if the file is.

    Raises:
        FileFormatError: (also in iteration) a quote is broken, a row is too long, or the file expands too much.
    """

    def __init__(self, lines: BoundedLines, delimiter: str = ",") -> None:
        self._lines, self._delimiter = lines, delimiter
        self._rows = csv.reader(lines, delimiter=delimiter, strict=True)
        first = self._read_row()
        self.header = [] if first is None else first.cells

    def find_columns(
        self,
        required: Sequence[str],
        optional: Sequence[str] = (),
        *,
        position: tuple[Sequence[str], Sequence[str]] = ((), ()),
        advice: str = "",
    ) -> list[int | None]:
        """Return the positions of the columns, None for an optional one that is missing.

        `position`: the names of latitudes and those of longitudes: neither or both may be in the header.

        Raises:
            FileFormatError: with all problems of the header. It is not quoted: in a file without a header it is a row
                with a person's id. `advice`: what to do if a column is missing.
        """
        wanted = (*required, *optional)
        problems = tuple(self._find_problems(required, wanted, advice))
        latitude, longitude = ({*names} & {*self.header} for names in position)
        if bool(latitude) != bool(longitude):
            expected = f"one of {', '.join(position[bool(latitude)])} too, or neither"
            problems += (Problem("the header", f"with half a position ({', '.join(latitude | longitude)})", expected),)
        if problems:
            raise FileFormatError(self._lines.path, problems)
        self._lines.unused = tuple(dict.fromkeys(name for name in self.header if name not in wanted))
        return [self.header.index(name) if name in self.header else None for name in wanted]

    def read_rows(self, is_row: Callable[[list[str]], bool]) -> Iterator[Row]:
        """Yield the rows after the header. `is_row` returns whether cells are a valid row."""
        for block in self.read_blocks(is_row):
            yield from map(Row, block.lines, block.rows)

    def read_blocks(self, is_row: Callable[[list[str]], bool]) -> Iterator[Block]:
        """Yield the rows after the header in blocks, which takes a fraction of the time: most rows are one line."""
        while text := self._lines.read_block():
            rows = self._split_block(text)
            if rows is None:
                self._lines.return_block(text)
                yield from self._read_one_by_one(is_row)
            else:
                first = self._lines.line + 1
                self._lines.line += len(rows)
                yield Block(range(first, first + len(rows)), rows)

    def _split_block(self, text: str) -> list[list[str]] | None:
        """Return the rows of a block of lines; None if a row is broken or too long, or has several lines."""
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, strict=True)
        try:
            with _allow_long_cells():
                cells = [] if len(text) > self._lines.longest else list(rows)
        except csv.Error:
            return None
        return cells if 0 < len(cells) == rows.line_num else None

    def _read_one_by_one(self, is_row: Callable[[list[str]], bool]) -> Iterator[Block]:
        """Yield the rows up to the end of a block of lines, and of those that its last row continues in."""
        while self._lines.is_in_block and (row := self._read_row()) is not None:
            if len(self._lines.row) > 1:
                self._require_one_row(row, is_row)
            yield Block([row.line], [row.cells])
        self._lines.begin_row()

    def _read_row(self) -> Row | None:
        self._lines.begin_row()
        line = self._lines.line + 1
        try:
            with _allow_long_cells():
                cells = next(self._rows, None)
        except csv.Error as error:
            raise FileFormatError(self._lines.path, (self._explain(line, error),)) from None
        return None if cells is None else Row(line, cells)

    def _explain(self, line: int, error: csv.Error) -> Problem:
        opened = _find_open_quote("".join(self._lines.row), self._delimiter)
        if opened is None:
            return Problem(f"line {line}", f"no row of CSV ({error})", "cells and separators", _ONE_ROW)
        key, last = f"the quote that opens a cell in line {line + opened}", self._lines.line
        if "end of data" in str(error):
            return Problem(key, "never closed", f"a closing quote before the end, line {last}", _ONE_ROW)
        return Problem(key, f"closed in line {last}, and text follows", "a separator or the end of the line", _ONE_ROW)

    def _require_one_row(self, row: Row, is_row: Callable[[list[str]], bool]) -> None:
        lines = self._lines.row
        alone = (number for number, text in enumerate(lines, row.line) if is_row(self._split_alone(text)))
        found = list(islice(alone, 2))
        if len(found) > is_row(row.cells):
            key = f"the row in lines {row.line} to {row.line + len(lines) - 1}"
            alone_too = " and ".join(f"line {number}" for number in found)
            remedy = f"Remove the quote that is too much, or the line breaks in the cell. {_ONE_ROW}"
            value = f"joined by quotes, but {alone_too} can be read alone"
            raise FileFormatError(self._lines.path, (Problem(key, value, "one row in a line", remedy),))

    def _split_alone(self, line: str) -> list[str]:
        """Return the cells of a line as if it were a file. A quote that it does not close is part of the text."""
        other = re.escape(self._delimiter)
        cells = re.findall(rf"(?:({_QUOTED})|([^{other}]*+)){other}", line.rstrip("\r\n") + self._delimiter)
        return [quoted[1:-1].replace('""', '"') if quoted else plain for quoted, plain in cells]

    def _find_problems(self, required: Sequence[str], wanted: Sequence[str], advice: str) -> Iterator[Problem]:
        if not self.header:
            yield Problem("the header", "missing", f"the columns {','.join(required)}", advice)
            return
        if not all(map(is_utf_8, self.header)):
            remedy = "Save it as UTF-8; it may be Shift-JIS or Windows-1252 now."
            yield Problem("the header", "not UTF-8", "text in UTF-8", remedy)
        missing = [name for name in required if name not in self.header]
        separator = self._find_separator(missing)
        if separator:
            expected = _SEPARATORS.get(self._delimiter, repr(self._delimiter))
            yield Problem("the separator of the columns", _SEPARATORS[separator], expected, advice)
        elif missing:
            count = "the 1 column" if len(self.header) == 1 else f"the {len(self.header)} columns"
            spaced = any(name.strip() in missing for name in self.header)
            remedy = "Remove the spaces around the names." if spaced else advice
            yield Problem(f"none of {count} in the header", f"named {', '.join(missing)}", "each of them once", remedy)
        for name in wanted:
            if self.header.count(name) > 1:
                yield Problem(f"the column {name}", f"{self.header.count(name)} times in the header", "it once")

    def _find_separator(self, missing: Sequence[str]) -> str | None:
        """Return the separator with which the header has names that are missing; None if there is none."""
        text = self._delimiter.join(self.header)
        others = (each for each in _SEPARATORS if each != self._delimiter)
        return next((each for each in others if {name.strip() for name in text.split(each)} & set(missing)), None)


@contextmanager
def _allow_long_cells() -> Iterator[None]:
    """Let csv read cells of the length of a row. The limit is a setting of the whole process."""
    limit = csv.field_size_limit(LONGEST_ROW)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def is_utf_8(text: str) -> bool:
    """Return whether a text that `open_lines` reads was UTF-8: other bytes are lone surrogates."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _find_open_quote(text: str, delimiter: str) -> int | None:
    """Return how many lines of a row are before the quote that is not closed correctly; None if each one is."""
    other = re.escape(delimiter)
    cell = re.compile(rf'(?:{_QUOTED}|(?!")[^{other}\r\n]*+)(?:{other}|$)')
    at = 0
    while match := cell.match(text, at):
        if match.end() == len(text):
            return None
        at = match.end()
    return text.count("\n", 0, at) + text.count("\r", 0, at) - text.count("\r\n", 0, at)
