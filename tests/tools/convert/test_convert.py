"""`location-monitor convert`: points become visits; bad rows are reported, and a file without visits is an error."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from monitor.contracts.instants import MINUTE
from monitor.tools.convert.conversion import Conversion, Shape
from monitor.tools.convert.points import Columns, read_points
from tests.tools.convert.command import ignore, read, run, write

SHARED = Path(__file__).parents[4] / "shared" / "data"
HEADER = "person_id,location_id,time_utc"


def convert_points(folder: Path, points: Sequence[str], *more: object) -> list[list[str]]:
    """Convert points, and return the visits without the header."""
    source = write(folder / "points.csv", HEADER, *points)
    result = run("--visits", source, "--out", folder / "visits.csv", *more)
    assert result.exit_code == 0, result.output
    header, *rows = read(folder / "visits.csv")
    assert header == ["person_id", "location_id", "arrived_at", "left_at", "reported_at"]
    return rows


def test_check_in_has_open_end(tmp_path: Path) -> None:
    """A point becomes a visit with an open end."""
    assert convert_points(tmp_path, ["ann,cafe,2026-01-05T09:00:00+09:00"]) == [
        ["ann", "cafe", "2026-01-05T00:00:00Z", "", ""]
    ]


def test_stay_and_report_delay(tmp_path: Path) -> None:
    """--stay sets the end of a visit, and --report-delay the time of its report after that."""
    rows = convert_points(tmp_path, ["ann,cafe,2026-01-05T09:00:00Z"], "--stay", "15m", "--report-delay", "2d")
    assert rows == [["ann", "cafe", "2026-01-05T09:00:00Z", "2026-01-05T09:15:00Z", "2026-01-07T09:15:00Z"]]


@pytest.mark.parametrize(("share", "expected"), [("0", ["false"] * 2), ("1", ["true"] * 2)])
def test_consent_is_a_column(tmp_path: Path, share: str, expected: list[str]) -> None:
    """--consent adds a column with each person's answer."""
    source = write(tmp_path / "points.csv", HEADER, *(f"{name},cafe,2026-01-05T09:00:00Z" for name in ("ann", "bob")))
    result = run("--visits", source, "--out", tmp_path / "visits.csv", "--consent", share)
    assert result.exit_code == 0, result.output
    header, *rows = read(tmp_path / "visits.csv")
    assert header[-1] == "consent"
    assert [row[-1] for row in rows] == expected


def test_open_visit_is_reported(tmp_path: Path) -> None:
    """The report delay of a visit with an open end counts from its beginning."""
    rows = convert_points(tmp_path, ["ann,cafe,2026-01-05T09:00:00Z"], "--report-delay", "1h")
    assert rows == [["ann", "cafe", "2026-01-05T09:00:00Z", "", "2026-01-05T10:00:00Z"]]


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


def test_stay_ends_at_next_place(tmp_path: Path) -> None:
    """A merged visit ends when the person is seen elsewhere: nobody is at two places at one time."""
    points = ["ann,A,2026-01-05T09:00:00Z", "ann,B,2026-01-05T09:05:00Z"]
    rows = convert_points(tmp_path, points, "--merge", "--gap", "20m")
    assert [row[3] for row in rows] == ["2026-01-05T09:05:00Z", "2026-01-05T09:25:00Z"]


def test_unsorted_points_are_refused(tmp_path: Path) -> None:
    """Points of one person that are not in order of time cannot be merged."""
    source = write(tmp_path / "p.csv", HEADER, "ann,A,2026-01-05T09:00:00Z", "ann,A,2026-01-05T08:00:00Z")
    result = run("--visits", source, "--out", tmp_path / "v.csv", "--merge")
    assert result.exit_code == 2
    assert "line 3" in result.output
    assert "sort" in result.output
    assert not (tmp_path / "v.csv").exists()


def test_person_per_day(tmp_path: Path) -> None:
    """With --person-per-day an id on another UTC day is another person."""
    points = ["7,A,2026-01-05T23:50:00Z", "7,A,2026-01-06T00:00:00Z"]
    rows = convert_points(tmp_path, points, "--merge", "--person-per-day")
    assert [row[0] for row in rows] == ["7@2026-01-05", "7@2026-01-06"]


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
    """Invalid rows are left out and reported by line and reason, without their contents."""
    source = write(tmp_path / "p.csv", HEADER, *BAD, "zoe,A,2026-01-05T09:00:00Z")
    source.write_bytes(source.read_bytes() + b"\xff,A,2026-01-05T09:00:00Z\n")
    result = run("--visits", source, "--out", tmp_path / "v.csv")
    assert result.exit_code == 0
    assert [row[0] for row in read(tmp_path / "v.csv")[1:]] == ["zoe"]
    for number, reason in enumerate(BAD.values(), start=2):
        assert f"line {number}: {reason}" in result.output
    assert "line 10: the person id is not UTF-8" in result.output
    assert "8 bad rows" in result.output
    assert "olga" not in result.output


def test_twenty_bad_rows_are_shown(tmp_path: Path) -> None:
    """At most twenty invalid rows are listed, and the number of the others."""
    source = write(tmp_path / "p.csv", HEADER, *["x"] * 50, "zoe,A,2026-01-05T09:00:00Z")
    result = run("--visits", source, "--out", tmp_path / "v.csv")
    assert result.output.count("line ") == 20
    assert "30 more" in result.output


def test_strict_writes_nothing(tmp_path: Path) -> None:
    """With --strict the first invalid row exits with 1, and no file is written."""
    source = write(tmp_path / "p.csv", HEADER, "ann,A,2026-01-05T09:00:00Z", "olga,A")
    result = run("--visits", source, "--out", tmp_path / "v.csv", "--registry", tmp_path / "r.csv", "--strict")
    assert result.exit_code == 1
    assert "line 3" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_columns_separator_and_epoch(tmp_path: Path) -> None:
    """Columns, separator and epoch times are read as the options say."""
    source = write(tmp_path / "p.tsv", "when\tvenue\tuser", "1767603600.5\tA\tann")
    columns = ("--person-column", "user", "--location-column", "venue", "--time-column", "when", "--delimiter", r"\t")
    assert run("--visits", source, "--out", tmp_path / "v.csv", *columns, "--time-format", "epoch").exit_code == 0
    assert read(tmp_path / "v.csv")[1] == ["ann", "A", "2026-01-05T09:00:00.500000Z", "", ""]


def test_time_pattern_needs_offset(tmp_path: Path) -> None:
    """Times follow a strptime pattern, which needs an offset."""
    points = ["ann,A,05/01/2026 18:00 +0900"]
    assert convert_points(tmp_path, points, "--time-format", "%d/%m/%Y %H:%M %z")[0][2] == "2026-01-05T09:00:00Z"
    source = write(tmp_path / "p.csv", HEADER, "ann,A,05/01/2026")
    naive = run("--visits", source, "--out", tmp_path / "v.csv", "--time-format", "%d/%m/%Y")
    assert "no offset" in naive.output


@pytest.mark.parametrize(
    ("text", "pattern"), [("2026-07-05T18:00:00", "rfc3339"), ("05/07/2026 18:00", "%d/%m/%Y %H:%M")]
)
def test_zone_of_points(text: str, pattern: str, tmp_path: Path) -> None:
    """--timezone is the zone of times without an offset; an unknown zone exits with 2."""
    options = ("--time-format", pattern, "--timezone")
    assert convert_points(tmp_path, [f"ann,A,{text}"], *options, "Asia/Tokyo")[0][2] == "2026-07-05T09:00:00Z"
    unknown = run("--visits", tmp_path / "points.csv", "--out", tmp_path / "v.csv", *options, "Mars/Olympus")
    assert unknown.exit_code == 2
    assert "is not a time zone such as Europe/Berlin" in unknown.output


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
    ("lines", "message"),
    [
        (["id,lat", "A,1"], "is named location_id"),
        (["location_id", "A", "A"], "line 3: the location is listed twice"),
        (["location_id,lat,lon", "A,north,1"], "line 2: latitude or longitude is not a number"),
    ],
)
def test_bad_locations_exit_with_2(tmp_path: Path, lines: list[str], message: str) -> None:
    """An invalid file of locations exits with 2 and names the line."""
    source = write(tmp_path / "p.csv", HEADER)
    result = run("--visits", source, "--out", tmp_path / "v.csv", "--locations", write(tmp_path / "l.csv", *lines))
    assert result.exit_code == 2
    assert message in result.output


def test_missing_column_exits_with_2(tmp_path: Path) -> None:
    """A file without required columns exits with 2, names them, and writes nothing."""
    result = run("--visits", write(tmp_path / "p.csv", "person_id,place,time"), "--out", tmp_path / "v.csv")
    assert result.exit_code == 2
    assert "none of the 3 columns in the header is named location_id, time_utc" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_file_without_header_is_not_quoted(tmp_path: Path) -> None:
    """If the first row is a visit instead of a header, the message does not contain its person id."""
    result = run("--visits", write(tmp_path / "p.csv", "olga,A,2026-01-05T09:00:00Z"), "--out", tmp_path / "v.csv")
    assert result.exit_code == 2
    assert "olga" not in result.output


def test_no_visit_exits_with_1(tmp_path: Path) -> None:
    """A file without a valid row exits with 1, counts its rows by reason, and writes nothing."""
    naive = ["olga,A,2026-01-05T09:00:00"] * 3
    source = write(tmp_path / "p.csv", HEADER, *naive, ",A,2026-01-05T09:00:00Z")
    result = run("--visits", source, "--out", tmp_path / "v.csv", "--registry", tmp_path / "r.csv")
    assert result.exit_code == 1
    assert "no visit in 4 rows, so nothing is written" in result.output
    assert "3 rows: the time cannot be read: the time has no offset" in result.output
    assert "1 rows: the person id has 0 bytes" in result.output
    assert "olga" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


@pytest.mark.parametrize(
    ("content", "option", "reason"),
    [
        (b"x" * 40_000_000, "--visits", "the row is longer than"),
        (b"x" * 40_000_000, "--locations", "the row is longer than"),
        (HEADER.encode() + b"\n" + (b'"' + b"x" * 1_000 + b'\n",') * 40_000, "--visits", "the row is longer than"),
        (HEADER.encode() + b"\n" + b"x" * 999 + (b"\n" + b"x" * 999) * 40_000, "--visits", "more than 200 times"),
    ],
    ids=["one line", "one line of places", "one row", "ratio"],
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


def test_unknown_header_is_not_printed(tmp_path: Path) -> None:
    """A header can contain escape sequences of the terminal, or a person's id: only its number of columns is shown."""
    evil = write(tmp_path / "l.csv", "x\x1b[2J,\x1b]0;PWN\x07", "1,2")
    for option in ("--visits", "--locations"):
        files = {"--visits": write(tmp_path / "p.csv", HEADER, "a,b,2026-01-01T00:00:00Z"), option: evil}
        result = run(*(word for pair in files.items() for word in pair), "--out", tmp_path / "v.csv")
        assert result.exit_code == 2
        assert "of the 2 columns in the header is named" in " ".join(result.output.split())
        assert "\x1b" not in result.output
        assert "PWN" not in result.output


def test_broken_gzip_exits_with_1(tmp_path: Path) -> None:
    """A truncated gzip file exits with 1 and leaves no file."""
    broken = tmp_path / "p.csv.gz"
    broken.write_bytes(gzip.compress(b"person_id,location_id,time_utc\n" * 100)[:-12])
    result = run("--visits", broken, "--out", tmp_path / "v.csv")
    assert result.exit_code == 1
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


def test_stay_and_merge_exclude_each_other(tmp_path: Path) -> None:
    """--stay together with --merge exits with 2."""
    result = run("--visits", write(tmp_path / "p.csv", HEADER), "--out", tmp_path / "v", "--merge", "--stay", "1h")
    assert result.exit_code == 2
    assert "--stay" in result.output


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
