"""Exports in JSON: one document or NDJSON, read record by record, so that memory does not grow with the file.

The decoder is that of the standard library, called at each record. (ijson, the usual library for this, needs memory in
the square of the nesting depth: it cannot be given a file with 100,000 brackets.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from monitor.config.bounded_lines import BoundedLines
from monitor.errors import UsageError
from monitor.operate.convert.rows import BadRowError, Rows, attempt

_LINES: Final = (".ndjson", ".jsonl", ".ndjson.gz", ".jsonl.gz")
_FORM: Final = f". A file with one record in each line has a name that ends in {_LINES[0]} or {_LINES[1]}"
_CHUNK: Final = 2**16  # characters
_LONGEST_MARK: Final = 16  # characters: an escape, a word or the exponent of a number may end at the next chunk
_AFTER_VALUE: Final = tuple(" \t\r\n,:]}")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_LONGEST_INTEGER: Final = 4_300  # digits: Python converts no longer text to an integer


def _read_integer(text: str) -> int | float:
    """Return an integer. One of too many digits is infinite, as 1e999 is: no form accepts it, and few keys are read."""
    return int(text) if len(text) <= _LONGEST_INTEGER else float(text)


_JSON: Final = json.JSONDecoder(parse_int=_read_integer)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Export(Generic[_T]):
    """The mapping of an export to rows.

    `split` returns the rows of a record, and `read` reads a row; both raise BadRowError.
    """

    key: str | None
    """The key of a document's list of records; None if the document is the list."""
    record: str
    """What a record is called."""
    row: str
    """What a row is called, if a record may have several; or ""."""
    split: Callable[[dict[str, Any]], Iterable[Any]]
    read: Callable[[Any, ZoneInfo | None], _T]


def read_export(lines: BoundedLines, path: Path, export: Export[_T], zone: ZoneInfo | None) -> Rows[_T]:
    """Yield the rows of an export, None for a record without a row. The suffix of the file's name says its form.

    Raises:
        UsageError: the document is not JSON, or has no list of records.
    """
    is_lines = path.name.endswith(_LINES)
    for where, record in _read_lines(lines) if is_lines else _read_document(lines, path, export):
        try:
            if not isinstance(record, dict):
                raise record if isinstance(record, BadRowError) else BadRowError("expected a JSON object")
            rows = tuple(export.split(record))
        except BadRowError as error:
            yield where, error
            continue
        if not rows:
            yield where, None
        for number, row in enumerate(rows, start=1):
            yield f"{where}, {export.row} {number}" if export.row else where, attempt(export.read, row, zone)


def read_form(value: object, form: type[_T]) -> _T:
    """Return a value as a form. The error names keys and types, never values.

    Raises:
        BadRowError: the value has another form.
    """
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        raise BadRowError(str(error)) from None
    except UnicodeEncodeError:
        raise BadRowError("a text is not UTF-8") from None


def _read_lines(lines: BoundedLines) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, start=1):
        lines.begin_row()
        if line.strip():
            try:
                yield f"line {number}", _JSON.decode(line)
            except (ValueError, RecursionError):
                yield (
                    f"line {number}",
                    BadRowError("invalid JSON: the name of the file says that each line is a record"),
                )


def _read_document(lines: BoundedLines, path: Path, export: Export[_T]) -> Iterator[tuple[str, Any]]:
    document = _Document(lines, path)
    records = document.read_list() if export.key is None else document.read_member(export.key)
    for number, record in enumerate(records, start=1):
        lines.begin_row()
        yield f"{export.record} {number}", record
    if document.peek():
        document.fail("the end")


class _Document:
    """The text of a JSON document, of which one value at a time is in memory."""

    def __init__(self, lines: BoundedLines, path: Path) -> None:
        self._lines, self._path = lines, path
        self._text = ""
        self._next = self._before = 0  # the next character in `text`; how many characters were before `text`

    def read_list(self) -> Iterator[Any]:
        """Yield the values of a list."""
        self._expect("[")
        if self._accept("]"):
            return
        while True:
            yield self._read_value()
            if self._accept("]"):
                return
            self._expect(",")

    def read_member(self, key: str) -> Iterator[Any]:
        """Yield the values of the list at a key of an object."""
        self._expect("{")
        found = False
        while not self._accept("}"):
            name = self._read_value()
            self._expect(":")
            if name == key:
                found = True
                yield from self.read_list()
            else:
                self._read_value()
            if self.peek() != "}":
                self._expect(",")
        if not found:
            raise UsageError(f"{self._path}: expected a document with the list {key!r}{_FORM}")

    def peek(self) -> str:
        """Return the next character that is no space; "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._next)
            self._next = match.end() if match else self._next
            if self._next < len(self._text):
                return self._text[self._next]
            if not self._read_more(_CHUNK):
                return ""

    def fail(self, expected: str) -> NoReturn:
        """Raise UsageError with the position. The text is not quoted, because it may name a person."""
        at = self._before + self._next
        raise UsageError(f"{self._path}: invalid JSON after {at:,} characters: expected {expected}{_FORM}")

    def _accept(self, mark: str) -> bool:
        found = self.peek() == mark
        self._next += found
        return found

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            self.fail(repr(mark))

    def _read_value(self) -> Any:
        self.peek()
        size = _CHUNK
        while True:
            try:
                value, end = _JSON.raw_decode(self._text, self._next)
            except RecursionError:
                self.fail("less nesting")
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos + _LONGEST_MARK >= len(self._text)
                if not (is_cut and self._read_more(size)):
                    self.fail("a value")
            else:
                rest = self._text[end : end + _LONGEST_MARK]  # what is left of a number that the text ends in, if any
                is_cut = len(rest) < _LONGEST_MARK and rest[:1] not in _AFTER_VALUE
                if not (is_cut and self._read_more(size)):
                    self._next = end
                    return value
            size *= 2  # so that a long value is not decoded from its beginning too often

    def _read_more(self, size: int) -> bool:
        text = self._lines.read(size)
        self._before += self._next
        self._text, self._next = self._text[self._next :] + text, 0
        return bool(text)
