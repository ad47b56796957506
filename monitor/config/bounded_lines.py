"""Read text, gzipped if the name ends in .gz, with bounded memory: a small gzip file can contain a row of gigabytes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn, Self, TextIO

from monitor.errors import FileFormatError, Problem

LONGEST_ROW: Final = 16 * 2**20
"""The longest row of CSV or record of JSON, in characters, with its line breaks."""

MOST_LINES: Final = 10_000
"""The most lines of a row of CSV. Each line is kept until the next row, and takes more memory than its characters."""

LARGEST_RATIO: Final = 200
"""How many characters a byte of the file may give. CSV of people and places gives at most a few dozen."""

_ANY_RATIO: Final = 16 * 2**20  # characters that a file may give at any ratio
_BLOCK: Final = 2**14  # characters, with the rest of the last line
_HEAD: Final = 64  # bytes from which another format is recognized
_GZIP: Final = b"\x1f\x8b"

_AS_TEXT: Final = "Save it as UTF-8; a spreadsheet calls this CSV UTF-8."
_UNPACK: Final = "Unpack it; of a GTFS feed, give the file stops.txt."
_FORMATS: Final = (
    (b"PK\x03\x04", "a ZIP archive, such as a GTFS feed or a workbook (.xlsx)", f"{_UNPACK} Save a workbook as CSV."),
    (_GZIP, "gzipped", "Give it a name that ends in .gz."),
    (b"\xff\xfe\x00\x00", "UTF-32", _AS_TEXT),
    (b"\x00\x00\xfe\xff", "UTF-32", _AS_TEXT),
    (b"\xff\xfe", "UTF-16", _AS_TEXT),
    (b"\xfe\xff", "UTF-16", _AS_TEXT),
    (b"\xd0\xcf\x11\xe0", "a workbook (.xls)", "Save it as CSV UTF-8."),
    (b"\x28\xb5\x2f\xfd", "compressed with Zstandard", "Unpack it, or compress it with gzip."),
    (b"\xfd7zXZ\x00", "compressed with xz", "Unpack it, or compress it with gzip."),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it."),
    (b"PAR1", "Parquet", "Export it as CSV."),
    (b"SQLite format 3\x00", "a database of SQLite", "Export a table as CSV."),
    (b"%PDF-", "a PDF", "Ask for the table as CSV."),
)


class BoundedLines:
    """The lines of a file. Call `begin_row` before each row, or read whole blocks of lines.

    `path`: the file. `position` returns how many bytes of it have been read. `longest`: the most characters of a row.
    `row`: the lines of the present row.
    `line`: the number of lines read. `joined`: how many rows had several lines; `first_joined`: where the first began.
    `unused`: the columns of the header that were not asked for; None if there is no header.

    Raises:
        FileFormatError: (in iteration, `read_block` and `read`) a row is too long, or the file expands too much.
    """

    def __init__(self, path: Path, text: TextIO, position: Callable[[], int], longest: int = LONGEST_ROW) -> None:
        self.path, self.position, self.longest = path, position, longest
        self.row: list[str] = []
        self.unused: tuple[str, ...] | None = None
        self.line = self.joined = self.first_joined = 0
        self._text = text
        self._length = self._total = 0
        self._block = io.StringIO()  # lines that were read, but not returned yet

    def begin_row(self) -> None:
        """Begin a row at the next line."""
        if len(self.row) > 1:
            self.joined += 1
            self.first_joined = self.first_joined or self.line - len(self.row) + 1
        self.row.clear()
        self._length = 0

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> str:
        """Return the next line."""
        line = self._block.readline()
        if not line:
            self.return_block(self.read_block())
            line = self._block.readline()
        if not line:
            raise StopIteration
        self.line += 1
        self.row.append(line)
        self._add_to_row(len(line))
        if len(self.row) > MOST_LINES:
            self._refuse_row(f"longer than {MOST_LINES:,} lines")
        return line

    def read_block(self) -> str:
        """Return some of the next lines, in one string; "" at the end. The caller counts them (`line`).

        Of a line that is too long only the beginning may be returned; iteration over the block refuses it.
        """
        block = self._block.read()
        if not block:
            block = self._text.read(min(_BLOCK, self.longest))
            block += self._text.readline(self.longest + 1) if block else ""
            self._add_to_total(len(block))
        return block

    def return_block(self, block: str) -> None:
        """Let iteration continue with the lines of a block that was read."""
        self._block = io.StringIO(block, newline="")

    @property
    def is_in_block(self) -> bool:
        """Whether iteration has not returned all lines of a block."""
        at = self._block.tell()
        is_in = bool(self._block.read(1))
        self._block.seek(at)
        return is_in

    def read(self, size: int) -> str:
        """Return the next characters, at most `size`; "" at the end."""
        text = self._text.read(size)
        self.line += text.count("\n")
        self._add_to_row(len(text))
        self._add_to_total(len(text))
        return text

    def _add_to_row(self, characters: int) -> None:
        self._length += characters
        if self._length > self.longest:
            self._refuse_row(f"longer than {self.longest:,} characters")

    def _add_to_total(self, characters: int) -> None:
        self._total += characters
        if self._total > _ANY_RATIO + LARGEST_RATIO * self.position():
            value = f"expanded to more than {LARGEST_RATIO} times its size"
            self._refuse("the file", value, "visits or places", "If you trust it, expand it yourself.")

    def _refuse_row(self, value: str) -> NoReturn:
        key = f"line {self.line - max(0, len(self.row) - 1)}: the row"
        self._refuse(key, value, "a short row or record for each visit or place", "A quote may be missing.")

    def _refuse(self, key: str, value: str, expected: str, remedy: str) -> NoReturn:
        raise FileFormatError(self.path, (Problem(key, value, expected, remedy),))


@contextmanager
def open_lines(path: Path, longest: int = LONGEST_ROW) -> Iterator[BoundedLines]:
    """Open a file with rows of at most `longest` characters. Bytes that are not UTF-8 become lone surrogates.

    Raises:
        FileFormatError: the file is not text in UTF-8, but has a known format.
    """
    with path.open("rb") as raw:
        is_packed = path.suffix == ".gz"
        if is_packed and not raw.peek(len(_GZIP)).startswith(_GZIP):
            problem = Problem("the file", "not gzipped", "gzip, because its name ends in .gz", "Rename it.")
            raise FileFormatError(path, (problem,))
        plain = gzip.GzipFile(fileobj=raw) if is_packed else raw
        with plain:
            _require_text(path, plain.peek(_HEAD)[:_HEAD])
            with io.TextIOWrapper(plain, "utf-8-sig", "surrogateescape", "") as text:
                yield BoundedLines(path, text, raw.tell, longest)


def _require_text(path: Path, head: bytes) -> None:
    """Raise FileFormatError if the first bytes of a file are those of another format."""
    found = next(((name, remedy) for magic, name, remedy in _FORMATS if head.startswith(magic)), None)
    if found is None and b"\x00" in head:
        is_wide = not any(head[0::2]) or not any(head[1::2])
        found = ("UTF-16 without a byte order mark", _AS_TEXT) if is_wide else ("binary", _AS_TEXT)
    if found is not None:
        raise FileFormatError(path, (Problem("the file", found[0], "text in UTF-8", found[1]),))
