from __future__ import annotations

import csv
import gzip
import itertools
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from monitor.errors import UsageError
from monitor.public.instants import MINUTE
from simulators.cli import cli
from simulators.convert import Columns, Conversion, Shape

SHARED = Path(__file__).parents[3] / "shared" / "data"
HEADER = "person_id,location_id,time_utc"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["convert", *(str(argument) for argument in arguments)])


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> list[list[str]]:
    data = path.read_bytes()
    return list(csv.reader((gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()))


def converted(folder: Path, points: Sequence[str], *more: object) -> list[list[str]]:
    """The visits made of points, without the header."""
    source = write(folder / "points.csv", HEADER, *points)
    result = run("--visits", source, "--out", folder / "visits.csv", *more)
    assert result.exit_code == 0, result.output
    header, *rows = read(folder / "visits.csv")
    assert header == ["person_id", "location_id", "arrived_at", "left_at", "reported_at"]
    return rows


def ignore(read: int, written: int) -> None:
    """Show no progress."""


def test_a_check_in_is_a_visit_with_an_open_end(tmp_path: Path) -> None:
    assert converted(tmp_path, ["ann,cafe,2026-01-05T09:00:00+09:00"]) == [
        ["ann", "cafe", "2026-01-05T00:00:00Z", "", ""]
    ]


def test_a_stay_and_a_delay_end_and_report_it(tmp_path: Path) -> None:
    rows = converted(tmp_path, ["ann,cafe,2026-01-05T09:00:00Z"], "--stay", "15m", "--report-delay", "2d")
    assert rows == [["ann", "cafe", "2026-01-05T09:00:00Z", "2026-01-05T09:15:00Z", "2026-01-07T09:15:00Z"]]


def test_an_open_visit_is_reported_after_its_beginning(tmp_path: Path) -> None:
    rows = converted(tmp_path, ["ann,cafe,2026-01-05T09:00:00Z"], "--report-delay", "1h")
    assert rows == [["ann", "cafe", "2026-01-05T09:00:00Z", "", "2026-01-05T10:00:00Z"]]


@pytest.mark.parametrize("grouped", [False, True])
def test_points_become_stays(tmp_path: Path, grouped: bool) -> None:
    """Sorted by time, or by person and time.

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
    rows = converted(tmp_path, points, "--merge", "--gap", "20m")
    assert sorted((row[0], row[1], row[2][11:16], row[3][11:16]) for row in rows) == [
        ("ann", "A", "09:00", "09:40"),
        ("ann", "B", "09:40", "10:20"),
        ("ann", "B", "10:40", "11:00"),
        ("ben", "A", "09:00", "09:40"),
    ]


def test_a_stay_ends_when_the_person_is_seen_elsewhere(tmp_path: Path) -> None:
    """A 9:00, B 9:05: nobody is at two places at one time."""
    points = ["ann,A,2026-01-05T09:00:00Z", "ann,B,2026-01-05T09:05:00Z"]
    rows = converted(tmp_path, points, "--merge", "--gap", "20m")
    assert [row[3] for row in rows] == ["2026-01-05T09:05:00Z", "2026-01-05T09:25:00Z"]


def test_points_out_of_order_cannot_be_merged(tmp_path: Path) -> None:
    source = write(tmp_path / "p.csv", HEADER, "ann,A,2026-01-05T09:00:00Z", "ann,A,2026-01-05T08:00:00Z")
    result = run("--visits", source, "--out", tmp_path / "v.csv", "--merge")
    assert result.exit_code == 2
    assert "line 3" in result.output
    assert "sort" in result.output
    assert not (tmp_path / "v.csv").exists()


def test_a_person_of_another_day_may_be_another_person(tmp_path: Path) -> None:
    points = ["7,A,2026-01-05T23:50:00Z", "7,A,2026-01-06T00:00:00Z"]
    rows = converted(tmp_path, points, "--merge", "--person-per-day")
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


def test_bad_rows_are_told_and_left_out(tmp_path: Path) -> None:
    """By line and reason, without anything of the row's own."""
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
    source = write(tmp_path / "p.csv", HEADER, *["x"] * 50)
    result = run("--visits", source, "--out", tmp_path / "v.csv")
    assert result.output.count("line ") == 20
    assert "30 more" in result.output


def test_strict_stops_at_the_first_bad_row_and_writes_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "p.csv", HEADER, "ann,A,2026-01-05T09:00:00Z", "olga,A")
    result = run("--visits", source, "--out", tmp_path / "v.csv", "--registry", tmp_path / "r.csv", "--strict")
    assert result.exit_code == 1
    assert "line 3" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_columns_separator_and_times_may_be_others(tmp_path: Path) -> None:
    source = write(tmp_path / "p.tsv", "when\tvenue\tuser", "1767603600.5\tA\tann")
    columns = ("--person-column", "user", "--location-column", "venue", "--time-column", "when", "--delimiter", r"\t")
    assert run("--visits", source, "--out", tmp_path / "v.csv", *columns, "--time-format", "epoch").exit_code == 0
    assert read(tmp_path / "v.csv")[1] == ["ann", "A", "2026-01-05T09:00:00.500000Z", "", ""]


def test_times_may_follow_a_pattern_with_an_offset(tmp_path: Path) -> None:
    points = ["ann,A,05/01/2026 18:00 +0900"]
    assert converted(tmp_path, points, "--time-format", "%d/%m/%Y %H:%M %z")[0][2] == "2026-01-05T09:00:00Z"
    source = write(tmp_path / "p.csv", HEADER, "ann,A,05/01/2026")
    naive = run("--visits", source, "--out", tmp_path / "v.csv", "--time-format", "%d/%m/%Y")
    assert "no offset" in naive.output


def test_the_registry_is_the_file_of_locations_in_its_order(tmp_path: Path) -> None:
    places = write(tmp_path / "l.csv", "location_id,lat,lon,row", "B,35.5,139.25,0", "A,,,1")
    options = ("--locations", places, "--registry", tmp_path / "r.csv")
    rows = converted(tmp_path, ["ann,A,2026-01-05T09:00:00Z", "ann,C,2026-01-05T09:00:00Z"], *options)
    assert [row[1] for row in rows] == ["A"]
    assert read(tmp_path / "r.csv") == [
        ["location_id", "name", "latitude", "longitude"],
        ["B", "B", "35.5", "139.25"],
        ["A", "A", "", ""],
    ]


def test_without_one_the_registry_is_the_ids_seen_in_order_of_id(tmp_path: Path) -> None:
    points = [f"ann,{place},2026-01-05T09:00:00Z" for place in "CAB"]
    converted(tmp_path, points, "--registry", tmp_path / "r.csv")
    assert [row[0] for row in read(tmp_path / "r.csv")[1:]] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["id,lat", "A,1"], "no column location_id"),
        (["location_id", "A", "A"], "line 3: the location is listed twice"),
        (["location_id,lat,lon", "A,north,1"], "line 2: latitude or longitude is not a number"),
    ],
)
def test_a_wrong_file_of_locations_exits_with_2(tmp_path: Path, lines: list[str], told: str) -> None:
    source = write(tmp_path / "p.csv", HEADER)
    result = run("--visits", source, "--out", tmp_path / "v.csv", "--locations", write(tmp_path / "l.csv", *lines))
    assert result.exit_code == 2
    assert told in result.output


def test_a_missing_column_exits_with_2(tmp_path: Path) -> None:
    result = run("--visits", write(tmp_path / "p.csv", "user,place,time"), "--out", tmp_path / "v.csv")
    assert result.exit_code == 2
    assert "no column person_id: found user, place, time" in result.output


def test_a_broken_gzip_file_exits_with_1(tmp_path: Path) -> None:
    broken = tmp_path / "p.csv.gz"
    broken.write_bytes(gzip.compress(b"person_id,location_id,time_utc\n" * 100)[:-12])
    result = run("--visits", broken, "--out", tmp_path / "v.csv")
    assert result.exit_code == 1
    assert not (tmp_path / "v.csv").exists()


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Check-ins, and stays of the same people: 18,000 rows more would be a megabyte and more."""
    for shape in (Shape(), Shape(merge_gap=20 * MINUTE)):
        peaks = []
        for rows in (2_000, 20_000):
            lines = (f"{row % 50},A,2026-01-{5 + row // 2_000:02}T09:00:00Z" for row in range(rows))
            source = write(tmp_path / "p.csv", HEADER, *lines)
            tracemalloc.start()
            Conversion(Columns(), shape).run(source, tmp_path / "v.csv", strict=True, on_rows=ignore)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] < peaks[0] + 100_000


def test_progress_is_told_in_bytes_read(tmp_path: Path) -> None:
    source = write(tmp_path / "p.csv", HEADER, *["ann,A,2026-01-05T09:00:00Z"] * 25_000)
    told: list[tuple[int, int]] = []
    conversion = Conversion(Columns(), Shape())
    conversion.run(source, tmp_path / "v.csv", strict=True, on_rows=lambda read, written: told.append((read, written)))
    assert [written for _, written in told] == [10_000, 20_000, 25_000]
    assert 0 < told[0][0] < told[-1][0] == source.stat().st_size


def test_stay_and_merge_exclude_each_other(tmp_path: Path) -> None:
    result = run("--visits", write(tmp_path / "p.csv", HEADER), "--out", tmp_path / "v", "--merge", "--stay", "1h")
    assert result.exit_code == 2
    assert "--stay" in result.output


def test_a_missing_column_of_the_library_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="time"):
        Conversion(Columns(time="time"), Shape()).run(
            write(tmp_path / "p.csv", HEADER), tmp_path / "v.csv", strict=False, on_rows=ignore
        )


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
    """Every row is good; where points are merged nobody is at two places at one time."""
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
