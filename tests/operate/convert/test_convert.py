"""`location-monitor convert`: points become visits; bad rows are reported, and a file without visits is an error."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from monitor.operate.convert.conversion import Conversion, Shape
from monitor.operate.convert.points import Columns, read_points
from monitor.time.instants import MINUTE
from tests.operate.convert.command import ignore, read, run, write

pytestmark = pytest.mark.long

SHARED = Path(__file__).parents[4] / "shared" / "data"
HEADER = "person_id,location_id,time_utc"


def convert_points(folder: Path, points: Sequence[str], *more: object) -> list[list[str]]:
    """Convert points, and return the visits without the header."""
    source = write(folder / "points.csv", HEADER, *points)
    result = run("--visits", source, "--out", folder / "visits.csv", *more)
    assert result.exit_code == 0, result.output
    header, *rows = read(folder / "visits.csv")
    assert header == ["person_id", "location_id", "arrived_at", "left_at", "reported_at", "consent"][: len(rows[0])]
    return rows


AT_NINE = ("ann,cafe,2026-01-05T09:00:00Z",)
LATE = ("7,A,2026-01-05T23:50:00Z", "7,A,2026-01-06T00:00:00Z")
WALK = ("ann,A,2026-01-05T09:00:00Z", "ann,B,2026-01-05T09:05:00Z")
NINE, LOCAL = "2026-01-05T09:00:00Z", ("--timezone", "Asia/Tokyo")
POINTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[tuple[str, ...]]]] = {
    "an open end": (("ann,cafe,2026-01-05T18:00:00+09:00",), (), [("ann", "cafe", NINE, "", "")]),
    "stay and delay": (
        AT_NINE,
        ("--stay", "15m", "--report-delay", "2d"),
        [("ann", "cafe", NINE, "2026-01-05T09:15:00Z", "2026-01-07T09:15:00Z")],
    ),
    "delay of an open end": (
        AT_NINE,
        ("--report-delay", "1h"),
        [("ann", "cafe", NINE, "", "2026-01-05T10:00:00Z")],
    ),
    "merged until the next place": (  # nobody is at two places at one time
        WALK,
        ("--merge", "--gap", "20m"),
        [
            ("ann", "A", NINE, "2026-01-05T09:05:00Z", ""),
            ("ann", "B", "2026-01-05T09:05:00Z", "2026-01-05T09:25:00Z", ""),
        ],
    ),
    "a person per day": (
        LATE,
        ("--person-per-day",),
        [("7@2026-01-05", "A", "2026-01-05T23:50:00Z", "", ""), ("7@2026-01-06", "A", "2026-01-06T00:00:00Z", "", "")],
    ),
    "epoch": (
        ("ann,A,1767603600.5",),
        ("--time-format", "epoch"),
        [("ann", "A", "2026-01-05T09:00:00.500000Z", "", "")],
    ),
    "pattern": (
        ("ann,A,05/01/2026 18:00 +0900",),
        ("--time-format", "%d/%m/%Y %H:%M %z"),
        [("ann", "A", NINE, "", "")],
    ),
    "zone": (("ann,A,2026-01-05T18:00:00",), LOCAL, [("ann", "A", NINE, "", "")]),
    "pattern and zone": (
        ("ann,A,05/01/2026 18:00",),
        ("--time-format", "%d/%m/%Y %H:%M", *LOCAL),
        [("ann", "A", NINE, "", "")],
    ),
    "no consent": (AT_NINE, ("--consent", "0"), [("ann", "cafe", NINE, "", "", "false")]),
    "consent": (AT_NINE, ("--consent", "1"), [("ann", "cafe", NINE, "", "", "true")]),
}


@pytest.mark.parametrize(("points", "options", "visits"), POINTS.values(), ids=POINTS)
def test_points_become_visits(
    points: tuple[str, ...], options: tuple[str, ...], visits: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """A point becomes a visit, as the options say."""
    assert convert_points(tmp_path, points, *options) == list(map(list, visits))


def test_columns_and_separator(tmp_path: Path) -> None:
    """Columns and their separator are those of the options."""
    source = write(tmp_path / "p.tsv", "when\tvenue\tuser", "2026-01-05T09:00:00Z\tA\tann")
    columns = ("--person-column", "user", "--location-column", "venue", "--time-column", "when", "--delimiter", r"\t")
    assert run("--visits", source, "--out", tmp_path / "v.csv", *columns).exit_code == 0
    assert read(tmp_path / "v.csv")[1] == ["ann", "A", NINE, "", ""]


BERLIN = ("--timezone", "Europe/Berlin")
DATES = ("--time-format", "%Y-%m-%d", *BERLIN)
TIMES: dict[str, tuple[str, tuple[str, ...], tuple[str, str]]] = {
    "a date": ("2026-11-20", BERLIN, ("2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z")),
    "a pattern of a date": ("2026-11-20", DATES, ("2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z")),
    "a stay is no part of a day": (
        "2026-11-20",
        (*DATES, "--stay", "15m"),
        ("2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z"),
    ),
    "a day of 23 hours": ("2026-03-29", (*DATES, "--stay", "1d"), ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")),
    "a day of 25 hours": ("2026-10-25", (*DATES, "--stay", "1d"), ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")),
    "a stay of a day of 23 hours": (
        "2026-03-29 00:00",
        (*BERLIN, "--stay", "1d"),
        ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
    ),
    "a stay of a day of 25 hours": (
        "2026-10-24T22:00:00Z",
        (*BERLIN, "--stay", "1d"),
        ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
    ),
    "a stay of a day without a zone": (
        "2026-10-24T22:00:00Z",
        ("--stay", "1d"),
        ("2026-10-24T22:00:00Z", "2026-10-25T22:00:00Z"),
    ),
    "a date with an offset": (
        "2026-10-25+0200",
        ("--time-format", "%Y-%m-%d%z"),
        ("2026-10-24T22:00:00Z", "2026-10-25T22:00:00Z"),
    ),
    "an hour that occurs twice": (
        "2026-10-25 02:30",
        (*BERLIN, "--stay", "15m"),
        ("2026-10-25T00:30:00Z", "2026-10-25T01:45:00Z"),
    ),
    "a pattern of an hour that occurs twice": (
        "25.10.2026 02:30",
        (*BERLIN, "--time-format", "%d.%m.%Y %H:%M", "--stay", "15m"),
        ("2026-10-25T00:30:00Z", "2026-10-25T01:45:00Z"),
    ),
}


@pytest.mark.parametrize(("text", "options", "times"), TIMES.values(), ids=TIMES)
def test_times_cover_what_they_may_mean(
    text: str, options: tuple[str, ...], times: tuple[str, str], tmp_path: Path
) -> None:
    """A date is the whole local day, days of a stay are local days, and a time that occurs twice is both."""
    assert convert_points(tmp_path, [f"ann,A,{text}"], *options) == [["ann", "A", *times, ""]]


COLUMNS: dict[str, tuple[str, str, tuple[str, ...], list[tuple[str, str]]]] = {
    "an end": (
        "person_id,location_id,time_utc,left",
        "ann,A,2026-01-05T08:00:00Z,2026-01-05T17:00:00Z",
        ("--end-column", "left"),
        [("2026-01-05T08:00:00Z", "2026-01-05T17:00:00Z")],
    ),
    "an end that is open": (
        "person_id,location_id,time_utc,left",
        "ann,A,2026-01-05T08:00:00Z,",
        ("--end-column", "left", "--stay", "1h"),
        [("2026-01-05T08:00:00Z", "2026-01-05T09:00:00Z")],
    ),
    "a date and times": (
        "day,from,to,person_id,location_id",
        "2026-10-25,01:30,02:30,ann,A",
        ("--date-column", "day", "--time-column", "from", "--end-column", "to", *BERLIN),
        [("2026-10-24T23:30:00Z", "2026-10-25T01:30:00Z")],
    ),
    "a date without a time": (
        "day,from,to,person_id,location_id",
        "2026-10-25,,,ann,A",
        ("--date-column", "day", "--time-column", "from", "--end-column", "to", *BERLIN),
        [("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")],
    ),
    "two dates and times": (
        "d1,t1,d2,t2,person_id,location_id",
        "05/01/2026,11:00 PM,06/01/2026,01:00 AM,ann,A",
        (
            *("--date-column", "d1", "--time-column", "t1", "--end-column", "t2", "--end-date-column", "d2"),
            *("--time-format", "%d/%m/%Y %I:%M %p", "--timezone", "UTC"),
        ),
        [("2026-01-05T23:00:00Z", "2026-01-06T01:00:00Z")],
    ),
    "an end that is a date": (
        "person_id,location_id,time_utc,left",
        "ann,A,2026-11-19 08:00,2026-11-20",
        ("--end-column", "left", *BERLIN),
        [("2026-11-19T07:00:00Z", "2026-11-20T23:00:00Z")],
    ),
}


@pytest.mark.parametrize(("header", "row", "options", "times"), COLUMNS.values(), ids=COLUMNS)
def test_times_in_several_columns(
    header: str, row: str, options: tuple[str, ...], times: list[tuple[str, str]], tmp_path: Path
) -> None:
    """The end may have a column, and dates may have columns of their own."""
    source = write(tmp_path / "p.csv", header, row)
    result = run("--visits", source, "--out", tmp_path / "v.csv", *options)
    assert result.exit_code == 0, result.output
    assert [tuple(row[2:4]) for row in read(tmp_path / "v.csv")[1:]] == times


SUSPICIOUS: dict[str, tuple[list[str], str]] = {
    "midnight": (["ann,A,2026-01-05T00:00:00Z"], "1 of 1 visits begin at exactly midnight"),
    "no length": (["ann,A,2026-01-05T09:00:00Z,2026-01-05T09:00:00Z"], "1 of 1 visits end when they begin"),
    "placeholders": (
        ["olga,A,2026-01-05T09:00:00Z", "NA,A,2026-01-05T09:00:00Z", "#n/a,A,2026-01-05T09:00:00Z"],
        "2 of 3 visits have an id such as NA, NULL or unknown, so that all of them are of one person, or at one",
    ),
    "a place": (["olga,Unknown,2026-01-05T09:00:00Z"], "1 of 1 visits have an id such as NA"),
    "scientific": (["4.40851E+17,A,2026-01-05T09:00:00Z"], "1 of 1 visits have an id that a spreadsheet has rounded"),
    "zeros": (["440851234567891000,A,2026-01-05T09:00:00Z"], "1 of 1 visits have an id that a spreadsheet has rounded"),
    "addresses": (
        ["Patient/olga,A,2026-01-05T09:00:00Z", "https://a.test/Patient/olga,A,2026-01-05T09:00:00Z"],
        "1 of 2 visits name their person by an address, and others do not",
    ),
    "line breaks": (
        ["olga,A,2026-01-05T09:00:00Z,", 'ann,A,2026-01-05T09:00:00Z,,"a', 'b, c"'],
        "1 rows have line breaks in their cells (the first: line 3)",
    ),
}


@pytest.mark.parametrize(("points", "warning"), SUSPICIOUS.values(), ids=SUSPICIOUS)
def test_suspicious_visits_are_named(points: list[str], warning: str, tmp_path: Path) -> None:
    """What often means that a file was misread is a warning with its line and no id; --strict refuses it."""
    source = write(tmp_path / "p.csv", f"{HEADER},left,note", *points)
    options = ("--visits", source, "--out", tmp_path / "v.csv", "--end-column", "left")
    result = run(*options)
    assert result.exit_code == 0, result.output
    assert f"warning: {warning}" in " ".join(result.output.split())
    assert "olga" not in result.output
    (tmp_path / "v.csv").unlink()
    refused = run(*options, "--strict")
    assert refused.exit_code == 1
    assert warning in " ".join(refused.output.split())
    assert not (tmp_path / "v.csv").exists()


def test_plausible_visits_have_no_warning(tmp_path: Path) -> None:
    """Whole days, long ids and one midnight of many are plausible: days, lines and unused columns are said."""
    points = [
        f"44085123456789{number:04},A,2026-01-{number + 1:02}T0{number % 9 + 1}:00:00Z,,x" for number in range(30)
    ]
    points += ["ann,A,2026-02-01T00:00:00Z,2026-02-02T00:00:00Z,", "ann,A,2026-02-03T00:00:00Z,,"]
    source = write(tmp_path / "p.csv", f"{HEADER},left,note", *points)
    result = run("--visits", source, "--out", tmp_path / "v.csv", "--end-column", "left", "--strict")
    assert result.exit_code == 0, result.output
    assert "warning" not in result.output
    assert "32 rows in 32 lines after the header; visits begin from 2026-01-01 to 2026-02-03 (UTC)" in result.output
    assert "columns not used: note" in result.output


@pytest.mark.parametrize(
    ("visits", "locations", "out", "registry", "named"),
    [
        ("p.csv", None, "p.csv", None, "--out is the file of --visits"),
        ("p.csv", None, "link.csv", None, "--out is the file of --visits"),
        ("p.csv", "l.csv", "l.csv", None, "--out is the file of --locations"),
        (None, "l.csv", None, "l.csv", "--registry is the file of --locations"),
        ("p.csv", "l.csv", "v.csv", "p.csv", "--registry is the file of --visits"),
        ("p.csv", "l.csv", "v.csv", "v.csv", "--registry is the file of --out"),
    ],
)
def test_no_file_of_the_command_is_replaced(
    visits: str | None, locations: str | None, out: str | None, registry: str | None, named: str, tmp_path: Path
) -> None:
    """A file to write must be another one than those to read, also by another name, and than the other to write."""
    write(tmp_path / "p.csv", HEADER, *WALK)
    write(tmp_path / "l.csv", "location_id", "A")
    (tmp_path / "link.csv").symlink_to(tmp_path / "p.csv")
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    files = {"--visits": visits, "--locations": locations, "--out": out, "--registry": registry}
    result = run(*(word for option, name in files.items() if name for word in (option, tmp_path / name)))
    assert result.exit_code == 2
    assert named in result.output
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


PLACES = ("location_id,lat,lon", "A,1,1", "B,1,1")
REFUSED: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], int, str]] = {
    "not in order": (
        (HEADER, *WALK[::-1]),
        PLACES,
        ("--merge",),
        2,
        "line 3: a point is earlier than the previous one",
    ),
    "stay and merge": ((HEADER, *WALK), PLACES, ("--merge", "--stay", "1h"), 2, "--stay and --merge exclude"),
    "end and merge": ((HEADER, *WALK), PLACES, ("--merge", "--end-column", "x"), 2, "--end-column and --merge exclude"),
    "a date of no end": (
        (HEADER, *WALK),
        PLACES,
        ("--end-date-column", "x"),
        2,
        "--end-date-column needs --end-column",
    ),
    "no column of ends": ((HEADER, *WALK), PLACES, ("--end-column", "left"), 2, "in the header is named left"),
    "a date to merge": (
        (HEADER, "olga,A,2026-01-05"),
        PLACES,
        ("--merge", *BERLIN),
        1,
        "1 rows: the point has a date without a time, or an end: --merge needs times",
    ),
    "a time that occurs twice, with an open end": (
        (HEADER, "olga,A,2026-10-25 02:30"),
        PLACES,
        BERLIN,
        1,
        "the clocks change at this local time",
    ),
    "a serial number": ((HEADER, "olga,A,46346.35"), PLACES, ("--time-format", "epoch"), 1, "the serial number of a"),
    "milliseconds": ((HEADER, "olga,A,1767603600500"), PLACES, ("--time-format", "epoch"), 1, "not milliseconds"),
    "an open quote": ((HEADER, 'olga,A,2026-01-05T09:00:00Z,"x', *WALK), PLACES, (), 2, "a cell in line 2 is never"),
    "two quotes": (
        (HEADER, 'olga,A,2026-01-05T09:00:00Z,"x', *WALK, 'zoe,A,2026-01-05T09:00:00Z,y"'),
        PLACES,
        (),
        2,
        "the row in lines 2 to 5 is joined by quotes, but line 2 and line 3 can be read alone",
    ),
    "a quote in places": (
        (HEADER, *WALK),
        ("location_id,name", 'A,"Market', "B,Clinic", 'C,Hall"'),
        (),
        2,
        "the row in lines 2 to 4 is joined by quotes",
    ),
    "columns twice": ((f"{HEADER},person_id", *WALK), PLACES, (), 2, "the column person_id is 2 times in the header"),
    "semicolons": ((HEADER.replace(",", ";"), "olga;A;x"), PLACES, (), 2, "is a semicolon: expected a comma"),
    "places: all problems": (
        (HEADER, *WALK),
        ("location_id,name,lat,long", "A,,1,1", "A,,1,1", "B,b\tb,1,1", "C,,1,"),
        (),
        2,
        "the rows line 4: the name has control characters line 5: half a position: expected latitude and longitude",
    ),
    "places: half a position": ((HEADER, *WALK), ("location_id,lat", "A,1"), (), 2, "with half a position (lat)"),
    "places: wholes and parts": (
        (HEADER, *WALK),
        ("location_id,parent_location_id", "A,", "B,A"),
        (),
        2,
        "line 2: the place has parts",
    ),
    "a zone that does not exist": ((HEADER, *WALK), PLACES, ("--timezone", "Mars/Olympus"), 2, "such as Europe/Berlin"),
    "missing columns": (
        ("person_id,place,time",),
        PLACES,
        (),
        2,
        "none of the 3 columns in the header is named location_id, time_utc",
    ),
    "no header": (("olga,A,2026-01-05T09:00:00Z",), PLACES, (), 2, "none of the 3 columns"),
    "escape sequences": (("x\x1b[2J,\x1b]0;olga\x07", "1,2"), PLACES, (), 2, "none of the 2 columns"),
    "places: escape sequences": ((HEADER,), ("x\x1b[2J,\x1b]0;olga\x07", "1,2"), (), 2, "none of the 2 columns"),
    "places: missing column": ((HEADER,), ("id,lat", "A,1"), (), 2, "is named location_id"),
    "places: twice": ((HEADER,), (PLACES[0], "A,,", "A,,"), (), 2, "line 3: the location is listed twice"),
    "places: no number": ((HEADER,), (PLACES[0], "A,north,1"), (), 2, "line 2: latitude or longitude is not a number"),
    "strict": ((HEADER, *WALK[:1], "olga,A"), PLACES, ("--strict",), 1, "line 3: 2 columns: expected at least 3"),
    "no visit": (
        (HEADER, *["olga,A,2026-01-05T09:00:00"] * 3, ",A,2026-01-05T09:00:00Z"),
        PLACES,
        (),
        1,
        "no visit in 4 rows, so nothing is written 3 rows: the time cannot be read: the time has no offset",
    ),
}


@pytest.mark.parametrize(("points", "places", "options", "code", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused_files(
    points: tuple[str, ...], places: tuple[str, ...], options: tuple[str, ...], code: int, reason: str, tmp_path: Path
) -> None:
    """A file or an option that cannot be used is explained, and nothing is written. No row and no header is quoted."""
    source, known = write(tmp_path / "p.csv", *points), write(tmp_path / "l.csv", *places)
    files = ("--visits", source, "--locations", known, "--out", tmp_path / "v.csv", "--registry", tmp_path / "r.csv")
    result = run(*files, *options)
    assert result.exit_code == code
    assert reason in " ".join(result.output.split())
    assert "olga" not in result.output
    assert "\x1b" not in result.output
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv", "l.csv"}


@pytest.mark.parametrize("grouped", [False, True])
def test_points_are_merged(tmp_path: Path, grouped: bool) -> None:
    """Points at one place within the gap become one visit, in a file sorted by time or by person and time.

            9:00  9:20  9:40  10:00 10:20 10:40
    ann      A     A     B      B           B      gap 20 minutes
            ├───────────┤├───────────┤     ├─────┤
    ben      A     A
            ├───────────┤
    """
    seen = [("ann", "A", "09:00"), ("ben", "A", "09:00"), ("ann", "A", "09:20"), ("ben", "A", "09:20")]
    seen += [("ann", "B", "09:40"), ("ann", "B", "10:00"), ("ann", "B", "10:40")]
    if grouped:
        seen.sort()
    points = [f"{person},{place},2026-01-05T{time}:00Z" for person, place, time in seen]
    rows = convert_points(tmp_path, points, "--merge", "--gap", "20m")
    assert sorted((row[0], row[1], row[2][11:16], row[3][11:16]) for row in rows) == [
        ("ann", "A", "09:00", "09:40"),
        ("ann", "B", "09:40", "10:20"),
        ("ann", "B", "10:40", "11:00"),
        ("ben", "A", "09:00", "09:40"),
    ]


BAD = {
    "olga,A": "2 columns: expected at least 3",
    "olga,A,yesterday": "the time cannot be read",
    "olga,A,2026-01-05T09:00:00": "the time cannot be read: the time has no offset",
    ",A,2026-01-05T09:00:00Z": "the person id has 0 bytes",
    "olga,,2026-01-05T09:00:00Z": "the location id has 0 bytes",
    f"{'é' * 129},A,2026-01-05T09:00:00Z": "the person id has 258 bytes",
    "olga,A\x07,2026-01-05T09:00:00Z": "the location id has control characters",
}


def test_bad_rows_are_reported(tmp_path: Path) -> None:
    """Invalid rows are left out, and the first 20 are reported by line and reason, without their contents."""
    source = write(tmp_path / "p.csv", HEADER, *BAD, "zoe,A,2026-01-05T09:00:00Z")
    source.write_bytes(source.read_bytes() + b"\xff,A,2026-01-05T09:00:00Z\n" + b"x\n" * 42)
    result = run("--visits", source, "--out", tmp_path / "v.csv")
    assert result.exit_code == 0
    assert [row[0] for row in read(tmp_path / "v.csv")[1:]] == ["zoe"]
    for number, reason in enumerate(BAD.values(), start=2):
        assert f"line {number}: {reason}" in result.output
    assert "line 10: the person id is not UTF-8" in result.output
    assert "50 bad rows" in result.output
    assert result.output.count("line ") == 20
    assert "30 more" in result.output
    assert "olga" not in result.output


def test_registry_equals_locations(tmp_path: Path) -> None:
    """The registry is the file of locations in its order, and visits elsewhere are left out."""
    places = write(tmp_path / "l.csv", "location_id,lat,lon,row", "B,35.5,139.25,0", "A,,,1")
    options = ("--locations", places, "--registry", tmp_path / "r.csv")
    rows = convert_points(tmp_path, ["ann,A,2026-01-05T09:00:00Z", "ann,C,2026-01-05T09:00:00Z"], *options)
    assert [row[1] for row in rows] == ["A"]
    assert read(tmp_path / "r.csv") == [
        ["location_id", "name", "latitude", "longitude"],
        ["B", "B", "35.5", "139.25"],
        ["A", "A", "", ""],
    ]


def test_registry_of_seen_ids(tmp_path: Path) -> None:
    """Without --locations the registry has the ids found, sorted."""
    points = [f"ann,{place},2026-01-05T09:00:00Z" for place in "CAB"]
    convert_points(tmp_path, points, "--registry", tmp_path / "r.csv")
    assert [row[:2] for row in read(tmp_path / "r.csv")[1:]] == [["A", "A"], ["B", "B"], ["C", "C"]]


@pytest.mark.parametrize(
    ("content", "option", "reason"),
    [
        (b"x" * 40_000_000, "--visits", "the row is longer than"),
        (b"x" * 40_000_000, "--locations", "the row is longer than"),
        (HEADER.encode() + b"\n" + (b'"' + b"x" * 1_000 + b'\n",') * 40_000, "--visits", "the row is longer than"),
        (HEADER.encode() + b"\n" + b"x" * 999 + (b"\n" + b"x" * 999) * 40_000, "--visits", "more than 200 times"),
        (HEADER.encode() + b'\n"' + b"x\n" * 7_000_000, "--visits", "the row is longer than 10,000 lines"),
    ],
    ids=["one line", "one line of places", "one row", "ratio", "short lines"],
)
def test_compressed_bomb_is_refused(content: bytes, option: str, reason: str, tmp_path: Path) -> None:
    """A small gzip file that expands to one row, or to much more than its size, is refused with bounded memory."""
    bomb, good = tmp_path / "bomb.csv.gz", write(tmp_path / "good.csv", HEADER, "a,b,2026-01-01T00:00:00Z")
    bomb.write_bytes(gzip.compress(content))
    files = {"--visits": good, option: bomb}
    tracemalloc.start()
    try:
        result = run(*(word for pair in files.items() for word in pair), "--out", tmp_path / "v.csv")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.exit_code == 2
    assert reason in " ".join(result.output.split())
    assert most < 200_000_000
    assert not (tmp_path / "v.csv").exists()


def test_memory_is_constant(tmp_path: Path) -> None:
    """Ten times the rows need the same memory, with and without merging.

    The difference is 18,000 rows, which would be more than a megabyte.
    """
    for shape in (Shape(), Shape(merge_gap=20 * MINUTE)):
        peaks = []
        for rows in (2_000, 20_000):
            lines = (f"{row % 50},A,2026-01-{5 + row // 2_000:02}T09:00:00Z" for row in range(rows))
            source = write(tmp_path / "p.csv", HEADER, *lines)
            tracemalloc.start()
            Conversion(partial(read_points, columns=Columns()), shape).run(
                source, tmp_path / "v.csv", strict=True, on_progress=ignore
            )
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] < peaks[0] + 100_000


@pytest.mark.parametrize(
    ("name", "places", "options", "visits"),
    [
        ("gowalla_checkins", "gowalla_locations", (), 157_251),
        (
            "peopleflow_tokyo_traces",
            "peopleflow_tokyo_locations",
            ("--merge", "--gap", "20m", "--person-per-day"),
            None,
        ),
    ],
)
def test_published_traces_are_converted(
    tmp_path: Path, name: str, places: str, options: tuple[str, ...], visits: int | None
) -> None:
    """Every row of the published data is valid, and merged visits of a person do not overlap."""
    if not (SHARED / f"{name}.csv.gz").exists():
        pytest.skip("the data to measure with is not there")
    files = ("--visits", SHARED / f"{name}.csv.gz", "--locations", SHARED / f"{places}.csv.gz")
    result = run(*files, "--out", tmp_path / "v.csv.gz", "--registry", tmp_path / "r.csv", "--strict", *options)
    assert result.exit_code == 0, result.output
    rows = read(tmp_path / "v.csv.gz")[1:]
    assert visits is None or len(rows) == visits
    if options:
        ordered = sorted(rows, key=lambda row: (row[0], row[2]))
        pairs = itertools.pairwise(ordered)
        assert all(first[0] != second[0] or first[3] <= second[2] for first, second in pairs)


def test_broken_gzip_exits_with_1(tmp_path: Path) -> None:
    """A truncated gzip file exits with 1 and leaves no file."""
    broken = tmp_path / "p.csv.gz"
    broken.write_bytes(gzip.compress(b"person_id,location_id,time_utc\n" * 100)[:-12])
    result = run("--visits", broken, "--out", tmp_path / "v.csv")
    assert result.exit_code == 1
    assert not (tmp_path / "v.csv").exists()
