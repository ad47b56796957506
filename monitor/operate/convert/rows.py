"""What all formats share: the rows of a file, their times and ids, and the count of those left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from monitor.config.csv_table import Table
from monitor.errors import MonitorError
from monitor.time.instants import to_instant

SHOWN_PROBLEMS: Final = 20

_LONGEST_ID: Final = 256  # bytes of UTF-8 (docs/interface.md, section 4)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_EARLIEST: Final = to_instant(datetime(1, 1, 1, tzinfo=UTC))
_LATEST: Final = to_instant(datetime(9999, 1, 1, tzinfo=UTC))  # so that a stay and a delay still fit


class BadRowError(MonitorError):
    """A row is invalid. The message states the reason and quotes nothing from the row, which names a person."""


class NothingValidError(MonitorError):
    """No row is valid. The message counts the rows by reason."""


class Stay(NamedTuple):
    """A visit, with instants. If `left_at` is None, its end is not known."""

    person_id: str
    location_id: str
    arrived_at: int
    left_at: int | None = None
    latest_arrival: int | None = None
    """The latest instant at which it may have begun, if a local time that occurs twice is its start."""
    goes_on: bool = False
    """It had not ended when the file was written."""


_T = TypeVar("_T")

Rows: TypeAlias = Iterator[tuple[str, _T | BadRowError | None]]
"""The rows of a file: where each is, and its content, or why it is refused; None if there is nothing to convert."""


@dataclass(slots=True)
class Tally:
    """The counts of a file: `rows` = `written` + `bad` + `passed`, unless points are merged."""

    path: Path
    strict: bool = False
    """The first bad row ends the conversion, and no file with warnings is written."""
    rows: int = 0
    written: int = 0
    bad: int = 0
    passed: int = 0
    """How many have nothing to convert."""
    problems: list[str] = field(default_factory=list)
    """Messages about the first bad rows."""
    unused: tuple[str, ...] = ()
    """The columns that were not asked for."""
    notes: list[str] = field(default_factory=list)
    """What describes the file."""
    warnings: list[str] = field(default_factory=list)
    """What may have been misread."""
    reasons: Counter[str] = field(default_factory=Counter)
    """The number of bad rows by reason."""

    def refuse(self, where: str, reason: str) -> None:
        """Count a bad row. `where` is its line or entry.

        Raises:
            BadRowError: `strict` is true.
        """
        if self.strict:
            raise BadRowError(f"{self.path}, {where}: {reason}")
        self.bad += 1
        self.reasons[reason if reason in self.reasons or len(self.reasons) < SHOWN_PROBLEMS else "other reasons"] += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(f"{where}: {reason}")

    def list_problems(self) -> str:
        """Return the message of a file in which every row must be valid, with the first bad rows."""
        more = [f"… and {self.bad - len(self.problems):,} more"] if self.bad > len(self.problems) else []
        count = "1 bad row" if self.bad == 1 else f"{self.bad:,} bad rows"
        return "\n  ".join([f"{self.path}: {count}, so nothing is written", *self.problems, *more])

    def explain_none(self, what: str) -> str:
        """Return the message of a file in which nothing is valid, with its rows by reason."""
        reasons = self.reasons.most_common()
        if self.passed:
            reasons.append(("nothing to convert", self.passed))
        rows = f"{self.path}: no {what} in {self.rows:,} rows, so nothing is written"
        return "\n  ".join([rows, *(f"{count:,} rows: {reason}" for reason, count in reasons)])

    def count(self, rows: Rows[_T]) -> Iterator[tuple[str, _T]]:
        """Count the rows, and yield the valid ones."""
        for where, row in rows:
            self.rows += 1
            if row is None:
                self.passed += 1
            elif isinstance(row, BadRowError):
                self.refuse(where, str(row))
            else:
                yield where, row


def attempt(read: Callable[..., _T], *given: Any) -> _T | BadRowError:
    """Return what `read` makes of a row, or why it refuses the row."""
    try:
        return read(*given)
    except BadRowError as error:
        return error


def read_table(
    table: Table,
    read: Callable[..., _T],
    required: tuple[str, ...],
    optional: tuple[str, ...] = (),
    *,
    fewest: int | None = None,
    position: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    advice: str = "",
) -> Rows[_T]:
    """Yield what `read` makes of the cells of the named columns, for each row of CSV. A missing optional cell is empty.

    A line of at least `fewest` cells can be a row, by default as many as the required columns need.

    Raises:
        FileFormatError: the header has problems (see `Table.find_columns`), or a quote is broken.
    """
    columns = table.find_columns(required, optional, position=position, advice=advice)
    where = [len(table.header) if column is None else column for column in columns]
    least = max(where[: len(required)]) + 1

    def read_cells(cells: list[str]) -> _T | BadRowError:
        if len(cells) < least:
            return BadRowError(f"{len(cells)} columns: expected at least {least}")
        return attempt(read, *(cells[index] if index < len(cells) else "" for index in where))

    def is_row(cells: list[str]) -> bool:
        needed = "".join(cells[index] for index in where[: len(required)] if index < len(cells))
        if len(cells) < (fewest or least) or _CONTROL.search(needed):
            return False
        return not isinstance(read_cells(cells), BadRowError)

    for line, cells in table.read_rows(is_row):
        if cells:
            yield f"line {line}", read_cells(cells)


def check_id(what: str, text: object) -> str:
    """Return an id if it has 1 to 256 bytes of UTF-8 and no control characters. Otherwise raise BadRowError."""
    if not isinstance(text, str):
        raise BadRowError(f"the {what} id is missing" if text is None else f"the {what} id is not text")
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise BadRowError(f"the {what} id is not UTF-8") from None
    if not 0 < length <= _LONGEST_ID:
        raise BadRowError(f"the {what} id has {length} bytes: expected 1 to {_LONGEST_ID}")
    return check_text(f"{what} id", text)


def check_text(what: str, text: str | None) -> str:
    """Return a text, "" if there is none. Raise BadRowError if it has control characters, or cannot be UTF-8."""
    if text and _CONTROL.search(text):
        raise BadRowError(f"the {what} has control characters")
    try:
        return (text or "").encode().decode()
    except UnicodeEncodeError:
        raise BadRowError(f"the {what} is not UTF-8") from None


def check_instant(what: str, instant: int) -> None:
    """Raise BadRowError unless an instant is in the years that times can be written in."""
    if not _EARLIEST <= instant <= _LATEST:
        raise BadRowError(f"the {what} is not in the years 1 to 9998")
