"""Read a replay file line by line: CSV (also gzipped) with a header, in any order (docs/interface.md, section 2).

More lines than fit in memory are sorted: sorted runs are written to temporary files, and merged.
"""

from __future__ import annotations

import heapq
import json
import pickle
import zlib
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from monitor.config.bounded_lines import open_lines
from monitor.config.csv_table import Table
from monitor.errors import TimeError, UsageError
from monitor.kinds.parameters import Parameters
from monitor.records.visit_contract import Fault, Reason, Visit, read_visit
from monitor.time.instants import parse_instant

REQUIRED: Final = ("person_id", "location_id", "arrived_at")
OPTIONAL: Final = ("left_at", "reported_at", "consent")
_ADVICE: Final = (
    f"Write {','.join((*REQUIRED, *OPTIONAL))}, the last three optional, separated by commas (docs/interface.md, "
    "section 2); location-monitor convert makes such a file."
)
_CONSENT: Final = {"true": True, "false": False}
SHOWN_LINES: Final = 10

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

BAD_REPORT_TIME: Final = Fault(Reason.NOT_A_VISIT, "reported_at: expected a time as in arrived_at, or nothing")
UNKNOWN_LOCATION: Final = Fault(Reason.UNKNOWN_LOCATION, "location_id: expected an id of locations.file")
TOO_FAR_AHEAD: Final = Fault(
    Reason.TOO_FAR_AHEAD, "reported_at: expected a time at most visits.accept_ahead before arrived_at"
)


class Line(NamedTuple):
    """One visit to produce: the instant of its report, its number in the file, and its JSON.

    An invalid visit gets its own record, because it could turn a whole batch into a dead letter. `fault`: why the
    service will refuse the line, if it will.
    """

    reported_at: int
    number: int
    payload: bytes
    is_visit: bool = True
    fault: Fault | None = None


class Refusals:
    """Counts refused lines. Reasons and errors name keys and expected values, never what a line contains."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.first: list[tuple[int, Fault]] = []

    def add(self, number: int, fault: Fault) -> None:
        """Count a line, and keep it if it is one of the first `SHOWN_LINES` of the file."""
        self.reasons[fault.reason.value] += 1
        if len(self.first) < SHOWN_LINES or number < self.first[-1][0]:
            insort(self.first, (number, fault))
            del self.first[SHOWN_LINES:]

    def describe(self) -> list[str]:
        """Return one text for each of the first lines, and one for the number of the others."""
        texts = [f"line {number}: {fault.reason.value} ({fault.error})" for number, fault in self.first]
        more = self.reasons.total() - len(self.first)
        return [*texts, f"and {more:,} more lines"] if more else texts


@dataclass(slots=True)
class Extent:
    """The ticks that the valid visits need: from the first slot to the last tick with one in a window or horizon.

    `empty_stays`: the number of visits whose `left_at` equals `arrived_at`.
    """

    parameters: Parameters
    first_tick: int | None = None
    last_tick: int | None = None
    empty_stays: int = 0

    def add(self, visit: Visit, left_at: int, reported_at: int) -> None:
        """Add a valid visit, up to `max_lead` slots after its report. The service cuts off the rest."""
        grid = self.parameters.grid
        reported = grid.find_slot(reported_at)
        first = min(grid.find_slot(visit.arrived_at), reported)
        last = min(grid.find_last_slot(visit.arrived_at, left_at), reported + self.parameters.max_lead)
        last = max(last, reported)
        after = last + max(self.parameters.widest_window, self.parameters.longest_horizon)
        self.first_tick = first if self.first_tick is None else min(self.first_tick, first)
        self.last_tick = after if self.last_tick is None else max(self.last_tick, after)


def read_lines(path: Path, extent: Extent) -> Iterator[Line]:
    """Yield every line with its time of report, and add the valid visits to `extent`.

    An invalid line gets the time of report of the next valid line, or of the last one if none follows.

    Raises:
        UsageError: the file cannot be read, the header lacks a column, a quote is broken, or no line is a valid visit.
    """
    with open_table(path) as table:
        parsed = (_parse_fields(number, fields, extent) for number, fields in read_fields(table))
        yield from _order_lines(path, parsed)


@contextmanager
def open_table(path: Path) -> Iterator[Table]:
    """Open a file, and check that its header has the required columns."""
    try:
        with open_lines(path) as lines:
            table = Table(lines)
            table.find_columns(REQUIRED, OPTIONAL, advice=_ADVICE)
            yield table
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read as CSV: {error}") from error


def read_fields(table: Table) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table: the number of the first line of each, and its cells by the names of the columns."""

    def name_cells(cells: list[str]) -> dict[str, str]:
        return dict(zip(table.header, cells, strict=False))

    rows = table.read_rows(lambda cells: not isinstance(read_visit(select_keys(name_cells(cells))), Fault))
    yield from ((number, name_cells(cells)) for number, cells in rows)


def encode_row(given: dict[str, str | bool]) -> bytes:
    """Return the visit of a row as JSON. Bytes of the file that are not UTF-8 stay as they are."""
    return _encode(given).encode(errors="surrogateescape")


def _order_lines(path: Path, parsed: Iterator[Line]) -> Iterator[Line]:
    waiting: list[Line] = []
    latest: int | None = None
    for line in parsed:
        if not line.is_visit:
            waiting.append(line)
            continue
        latest = line.reported_at
        yield from (invalid._replace(reported_at=latest) for invalid in waiting)
        waiting.clear()
        yield line
    if latest is None:
        raise UsageError(_describe_no_visit(path, waiting))
    yield from (invalid._replace(reported_at=latest) for invalid in waiting)


def _describe_no_visit(path: Path, waiting: list[Line]) -> str:
    refusals = Refusals()
    for line in waiting:
        if line.fault is not None:
            refusals.add(line.number, line.fault)
    reasons = "".join(f"\n  {text}" for text in refusals.describe())
    return f"{path}: none of its {len(waiting)} lines is a valid visit; expected {', '.join(REQUIRED)}, …{reasons}"


def check_header(path: Path) -> None:
    """Check that a file has the required columns, without reading the rest.

    Raises:
        UsageError: the file cannot be read, or the header lacks a column.
    """
    with open_table(path):
        pass


def select_keys(fields: dict[str, str]) -> dict[str, str | bool]:
    """Return the keys of the visit in a row."""
    given: dict[str, str | bool] = {name: fields[name] for name in REQUIRED if name in fields}
    if fields.get("left_at"):
        given["left_at"] = fields["left_at"]
    if consent := fields.get("consent"):
        given["consent"] = _CONSENT.get(consent, consent)  # other texts are sent as they are, and refused
    return given


def _parse_fields(number: int, fields: dict[str, str], extent: Extent) -> Line:
    """Parse a line. An invalid one has no time of report yet."""
    given = select_keys(fields)
    payload = encode_row(given)
    visit = read_visit(given)
    if isinstance(visit, Fault):
        return Line(0, number, payload, is_visit=False, fault=visit)
    left_at = visit.arrived_at + extent.parameters.default_stay if visit.left_at is None else visit.left_at
    try:
        reported_at = parse_instant(fields["reported_at"]) if fields.get("reported_at") else left_at
    except TimeError:
        # `reported_at` is no key of a visit, and the other fields alone are a valid visit. The whole row is sent, so
        # that the service refuses it.
        row = json.dumps(list(fields.values()), ensure_ascii=False).encode(errors="surrogateescape")
        return Line(0, number, row, is_visit=False, fault=BAD_REPORT_TIME)
    return Line(reported_at, number, payload, fault=_add_to_extent(visit, left_at, reported_at, extent))


def _add_to_extent(visit: Visit, left_at: int, reported_at: int, extent: Extent) -> Fault | None:
    """Add a valid visit to the extent, and return why the service will refuse it, if it will."""
    extent.empty_stays += visit.left_at == visit.arrived_at
    if visit.location_id not in extent.parameters.registry.rows:
        return UNKNOWN_LOCATION
    extent.add(visit, left_at, reported_at)
    grid = extent.parameters.grid
    if grid.find_slot(visit.arrived_at) > grid.find_slot(reported_at) + extent.parameters.accept_ahead:
        return TOO_FAR_AHEAD
    return None


RUN_LINES: Final = 500_000
_BLOCK: Final = 2_000


class SortedLines:
    """Lines sorted by time of report, then by their order in the file.

    `on_line` is called for each line read. `run_lines` lines are sorted in memory at once. `close` removes the
    temporary files.
    """

    def __init__(self, lines: Iterable[Line], on_line: Callable[[], None], run_lines: int = RUN_LINES) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._runs: list[Path] = []
        self._last: list[Line] = []
        try:
            self._sort(iter(lines), on_line, run_lines)
        except BaseException:
            self.close()
            raise

    def _sort(self, source: Iterator[Line], on_line: Callable[[], None], run_lines: int) -> None:
        while run := list(islice(source, run_lines)):
            run.sort()
            for _ in run:
                on_line()
            if len(run) < run_lines and not self._runs:
                self._last = run
            else:
                self._spill(run)

    def _spill(self, run: list[Line]) -> None:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="location-monitor-replay-")
        path = Path(self._folder.name) / str(len(self._runs))
        with path.open("wb") as file:
            for start in range(0, len(run), _BLOCK):
                pickle.dump(run[start : start + _BLOCK], file)
        self._runs.append(path)

    def __iter__(self) -> Iterator[Line]:
        """Yield all lines, in order."""
        return heapq.merge(self._last, *(_read_run(path) for path in self._runs))

    def close(self) -> None:
        """Remove the temporary files."""
        if self._folder is not None:
            self._folder.cleanup()


def _read_run(path: Path) -> Iterator[Line]:
    with path.open("rb") as file, suppress(EOFError):
        while True:
            yield from pickle.load(file)  # noqa: S301  # this process wrote it
