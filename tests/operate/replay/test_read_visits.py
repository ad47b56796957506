"""The lines of a replay file: which are valid, when they are reported, their order, and the extent of the valid."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from monitor.errors import UsageError
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.parameters import Parameters
from monitor.operate.replay.read_visits import BAD_REPORT_TIME, Extent, Line, Refusals, SortedLines, read_lines
from monitor.privacy.over_time import OverTimeRule
from monitor.time.instants import HOUR, format_instant, parse_instant
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid
from tests.builders import build_parameters, watch

HEADER = "person_id,location_id,arrived_at,left_at,reported_at"
Write = Callable[..., Path]


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    """Slots of one hour from midnight UTC, F = 1, W = 3 at inn, a horizon of 6 hours, a default stay of 15 minutes."""
    return build_parameters(
        ("inn", "bath"),
        shards=2,
        max_lead=1,
        grid=SlotGrid(parse_instant("2026-11-20T00:00:00Z"), HOUR),
        over_time=[watch("places", (0,), OverTimeRule(Fraction(1), 1, 5, 3, 1))],
        at_times=[AtTimes("noon", Schedule.of(("12:00",), "UTC"), Fraction(1), 3, 6 * HOUR)],
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes lines to a file."""

    def write_lines(*lines: str, name: str = "visits.csv") -> Path:
        path = tmp_path / name
        path.write_bytes("\n".join(lines).encode(errors="surrogateescape") + b"\n")
        return path

    return write_lines


def read(path: Path, parameters: Parameters) -> tuple[list[Line], Extent]:
    extent = Extent(parameters)
    return list(read_lines(path, extent)), extent


def hour(number: int, minute: int = 0) -> str:
    return f"2026-11-20T{number:02}:{minute:02}:00Z"


def test_time_of_report(parameters: Parameters, write: Write) -> None:
    """A visit is reported at `reported_at`, else at `left_at`, else after the default stay."""
    path = write(
        HEADER,
        f"a,inn,{hour(3)},{hour(4)},{hour(9)}",
        f"b,inn,{hour(3)},{hour(4)},",
        f"c,inn,{hour(3)},,",
    )
    lines, _extent = read(path, parameters)
    assert [format_instant(line.reported_at) for line in lines] == [hour(9), hour(4), hour(3, 15)]
    assert [json.loads(line.payload) for line in lines] == [
        {"person_id": "a", "location_id": "inn", "arrived_at": hour(3), "left_at": hour(4)},
        {"person_id": "b", "location_id": "inn", "arrived_at": hour(3), "left_at": hour(4)},
        {"person_id": "c", "location_id": "inn", "arrived_at": hour(3)},
    ]


def test_columns_in_any_order(parameters: Parameters, write: Write) -> None:
    """Columns may be in any order, and the optional ones may be missing."""
    lines, _extent = read(write("arrived_at,note,location_id,person_id", f"{hour(5)},hi,inn,a"), parameters)
    assert json.loads(lines[0].payload) == {"person_id": "a", "location_id": "inn", "arrived_at": hour(5)}


def test_order_of_invalid_lines(parameters: Parameters, write: Write) -> None:
    """An invalid line comes just before the next valid one, or after the last."""
    good = f"a,inn,{hour(3)},{hour(4)},"
    lines, _extent = read(write(HEADER, "x", good, f"b,inn,{hour(5)},{hour(4)},", f"c,inn,{hour(6)},,noon"), parameters)
    assert [(line.number, line.is_visit, format_instant(line.reported_at)) for line in lines] == [
        (2, False, hour(4)),
        (3, True, hour(4)),
        (4, False, hour(4)),
        (5, False, hour(4)),
    ]


def test_notes_may_have_line_breaks(parameters: Parameters, write: Write) -> None:
    """A cell of another column may have several lines, and the line number of its visit is the first."""
    path = write(f"{HEADER},note", f'a,inn,{hour(3)},,,"met, at', 'the bar, late"', f"b,inn,{hour(3)},,,")
    lines, _extent = read(path, parameters)
    assert [(line.number, line.is_visit) for line in lines] == [(2, True), (4, True)]


def test_invalid_utf_8_is_kept(parameters: Parameters, write: Write) -> None:
    """Bytes that are not UTF-8 are sent unchanged."""
    lines, _extent = read(write(HEADER, f"\udcff,inn,{hour(3)},,", f"a,inn,{hour(3)},,"), parameters)
    assert b"\xff" in lines[0].payload
    assert not lines[0].is_visit


def test_long_id_is_an_invalid_line(parameters: Parameters, write: Write) -> None:
    """An id of a megabyte makes a line invalid, and does not stop the reader."""
    lines, _extent = read(write(HEADER, f"{'x' * 1_000_000},inn,{hour(3)},,", f"a,inn,{hour(3)},,"), parameters)
    assert [line.is_visit for line in lines] == [False, True]


def test_gzipped_file(parameters: Parameters, write: Write) -> None:
    """A gzipped file is read as a plain one."""
    plain = write(HEADER, f"a,inn,{hour(3)},,")
    packed = plain.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read(packed, parameters)[0] == read(plain, parameters)[0]


def test_extent_includes_windows_and_horizons(parameters: Parameters, write: Write) -> None:
    """The extent reaches from the first slot to the last tick of any window or horizon."""
    #   slot   3 … 7 (last slot of b) … 13 = 7 + the longer of W = 3 and the horizon of 6 slots
    _lines, extent = read(write(HEADER, f"b,inn,{hour(7)},,", f"a,bath,{hour(3)},,{hour(5)}"), parameters)
    assert (extent.first_tick, extent.last_tick) == (3, 13)


def test_extent_ignores_what_is_refused(parameters: Parameters, write: Write) -> None:
    """Visits outside the registry are not in the extent, and a far departure is cut at F slots."""
    _lines, extent = read(write(HEADER, f"a,attic,{hour(1)},,", f"b,inn,{hour(3)},{hour(20)},{hour(3)}"), parameters)
    assert (extent.first_tick, extent.last_tick) == (3, 3 + 1 + 6)


def test_refused_lines_have_reasons(parameters: Parameters, write: Write) -> None:
    """Each line that the service refuses has the reason of its dead letter. F = 1."""
    path = write(
        HEADER,
        f"a,inn,{hour(3)},{hour(4)},",
        f"a,attic,{hour(3)},{hour(4)},",
        f"a,inn,{hour(5)},{hour(6)},{hour(3)}",
        f"a,inn,{hour(4)},{hour(5)},{hour(3)}",
        f"a,inn,{hour(3)},{hour(2)},",
        f"a,inn,{hour(3)},{hour(4)},noon",
        "a,inn",
    )
    lines, _extent = read(path, parameters)
    reasons = {line.number: line.fault and line.fault.reason.value for line in lines}
    assert reasons == {
        2: None,
        3: "unknown_location",
        4: "too_far_ahead",
        5: None,
        6: "left_before_arrived",
        7: "not_a_visit",
        8: "not_a_visit",
    }


def test_empty_stays_are_counted(parameters: Parameters, write: Write) -> None:
    """Visits that end when they begin are counted, because no designated time counts them."""
    ended, lasting = f"a,inn,{hour(3)},{hour(3)},", f"a,inn,{hour(3)},{hour(4)},"
    _lines, extent = read(write(HEADER, ended, lasting, ended, f"a,inn,{hour(3)},,"), parameters)
    assert extent.empty_stays == 2


def test_refusals_keep_the_first_lines() -> None:
    """The first ten refused lines are listed in order, with the number of the others."""
    refusals = Refusals()
    for number in (*range(20, 30), *range(2, 8)):
        refusals.add(number, BAD_REPORT_TIME)
    assert [number for number, _fault in refusals.first] == [2, 3, 4, 5, 6, 7, 20, 21, 22, 23]
    assert refusals.describe()[-1] == "and 6 more lines"
    assert refusals.reasons == {"not_a_visit": 16}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("person_id,arrived_at", "a,b"), "named location_id: "),
        (("",), "the header is missing: expected the columns person_id,location_id,arrived_at"),
        ((HEADER, "no visit"), "none of its 1 lines is a valid visit"),
        (
            (HEADER, "", "olga,inn,noon"),
            r"of its 2 lines .*\n  line 2: not_a_visit .*\n  line 3: bad_time \(arrived_at:",
        ),
        ((HEADER,), "none of its 0 lines is a valid visit"),
        ((HEADER.replace(",", ";"),), "the separator of the columns is a semicolon: expected a comma"),
        ((f"{HEADER},person_id",), "the column person_id is 2 times in the header"),
        ((f"{HEADER},note", f'a,inn,{hour(3)},,,"x', f"b,inn,{hour(3)},,,"), "the quote that opens a cell in line 2"),
        (
            (f"{HEADER},note", f'a,inn,{hour(3)},,,"x', f"b,inn,{hour(3)},,,", f'c,inn,{hour(3)},,,y"'),
            "the row in lines 2 to 4 is joined by quotes, but line 2 and line 3 can be read alone",
        ),
    ],
)
def test_file_without_visits_is_refused(
    parameters: Parameters, write: Write, lines: tuple[str, ...], message: str
) -> None:
    """A file without a valid visit is refused, with what was expected."""
    with pytest.raises(UsageError, match=message):
        read(write(*lines), parameters)


def test_truncated_gzip_is_refused(parameters: Parameters, write: Write) -> None:
    """A truncated gzip file is a usage error."""
    path = write(HEADER, f"a,inn,{hour(3)},,")
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(path.read_bytes() * 100)[:-20])
    with pytest.raises(UsageError, match="cannot be read as CSV"):
        read(packed, parameters)


def lines(number: int, seed: int = 5) -> list[Line]:
    draw = random.Random(seed)
    return [Line(draw.randrange(number // 3), n, str(n).encode(), n % 7 > 0) for n in range(number)]


@pytest.mark.parametrize("run_lines", [1, 10, 99, 100, 101, 1_000])
def test_order_of_lines(run_lines: int) -> None:
    """Lines are ordered by report, then by their place in the file, for any number of lines in memory."""
    given, read = lines(100), list[None]()
    with closing(SortedLines(given, lambda: read.append(None), run_lines)) as merged:
        assert list(merged) == sorted(given)
        assert list(merged) == sorted(given), "the lines can be read again"
    assert len(read) == 100


def test_runs_of_many_blocks_are_merged() -> None:
    """Runs longer than a block are merged in order."""
    given = lines(9_000)
    with closing(SortedLines(given, lambda: None, 4_100)) as merged:
        assert [line.number for line in merged] == [line.number for line in sorted(given)]


@pytest.mark.parametrize(("run_lines", "files"), [(10, 10), (100, 1), (101, 0)])
def test_temporary_files(run_lines: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a file for each run, and none if all lines fit in memory. `close` removes them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with closing(SortedLines(lines(100), lambda: None, run_lines)):
        assert sum(path.is_file() for path in tmp_path.rglob("*")) == files
    assert not list(tmp_path.iterdir())


def test_no_lines() -> None:
    """Without lines, nothing is yielded."""
    with closing(SortedLines([], lambda: None)) as merged:
        assert list(merged) == []
