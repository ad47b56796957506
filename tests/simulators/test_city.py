"""`python -m simulators city`: its files, options, progress and memory."""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from monitor.contracts.instants import parse_instant
from monitor.tools.town import Place, Town, find_kind, make_places
from simulators.city import LineFormatter, default_place_count, write_city
from simulators.cli import cli

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def ignore(day: int, visits: int) -> None:
    """Show no progress."""


def simulate(folder: Path, name: str, *more: str) -> bytes:
    out = folder / name
    result = run(
        "city", "--people", "1500", "--days", "21", "--out", str(out), "--registry", str(folder / "places.csv"), *more
    )
    assert result.exit_code == 0, result.output
    return out.read_bytes()


def test_same_seed_gives_same_bytes(tmp_path: Path) -> None:
    """The same arguments give the same bytes, in a file of another name and at another time too."""
    first = simulate(tmp_path, "a.csv.gz", "--seed", "3")
    assert simulate(tmp_path, "b.csv.gz", "--seed", "3") == first
    assert simulate(tmp_path, "c.csv.gz", "--seed", "4") != first


def test_gz_name_selects_gzip(tmp_path: Path) -> None:
    """A file whose name ends in .gz is gzipped."""
    assert gzip.decompress(simulate(tmp_path, "a.csv.gz")) == simulate(tmp_path, "a.csv")


def test_lines_equal_reports(town: Town, tmp_path: Path) -> None:
    """The lines of the file are the reports of the town."""
    out = tmp_path / "visits.csv"
    written = write_city(out, town, all_visits=False, on_day=ignore)
    with out.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    times = ("arrived_at", "left_at", "reported_at")
    read = [(row["person_id"], row["location_id"], *(parse_instant(row[time]) for time in times)) for row in rows]
    expected = [tuple(visit) for visit in town.list_reports()]
    assert read == expected
    assert written.visits == len(expected)
    assert written.reports == len({visit[0] for visit in expected})


def test_share_of_people_consents(tmp_path: Path) -> None:
    """The given share of people, within 7 deviations (seeded), consents to all their visits; other columns stay."""
    plain = simulate(tmp_path, "plain.csv", "--all-visits").decode().splitlines()
    lines = simulate(tmp_path, "told.csv", "--all-visits", "--consent", "0.25").decode().splitlines()
    assert lines[0] == f"{plain[0]},consent"
    assert [line.rpartition(",")[0] for line in lines] == plain
    answers: dict[str, set[str]] = {}
    for row in csv.DictReader(lines):
        answers.setdefault(row["person_id"], set()).add(row["consent"])
    assert all(len(answer) == 1 for answer in answers.values())
    # of 1,500 people 375 ± 16.8; seven standard deviations
    assert 258 < sum(answer == {"true"} for answer in answers.values()) < 492


def test_places_are_registered(tmp_path: Path) -> None:
    """Every place of the file is in the registry, and homes are in neither."""
    visits = simulate(tmp_path, "a.csv", "--all-visits").decode()
    with (tmp_path / "places.csv").open(encoding="utf-8", newline="") as text:
        registry = list(csv.DictReader(text))
    assert list(registry[0]) == ["location_id", "name", "latitude", "longitude"]
    assert {row["location_id"] for row in csv.DictReader(visits.splitlines())} <= {
        row["location_id"] for row in registry
    }
    assert len(registry) == default_place_count(1500) == 60
    assert all(-90 <= float(row["latitude"]) <= 90 and -180 <= float(row["longitude"]) <= 180 for row in registry)


def test_ids_are_quoted(start: int) -> None:
    """Ids with quotes or commas, and ids of any length and script, are read back unchanged."""
    ids = ['station "east", gate 1', "駅前", "x"]
    town = Town(1, 200, [Place(name, name, find_kind(name)) for name in ids], start, 3)
    lines = LineFormatter(town)
    batches = list(town.list_daily_batches())
    rows = list(csv.reader(b"".join(lines.format(batch) for batch in batches).decode().splitlines()))
    assert {row[1] for row in rows} == set(ids)
    assert all(len(row) == 5 for row in rows)
    assert len(rows) == sum(len(batch) for batch in batches)


def test_failed_run_leaves_no_file(town: Town, tmp_path: Path) -> None:
    """A run that fails leaves no file."""

    def fail(day: int, visits: int) -> None:
        if day == 3:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_city(tmp_path / "visits.csv", town, all_visits=True, on_day=fail)
    assert list(tmp_path.iterdir()) == []


def test_memory_is_constant(tmp_path: Path) -> None:
    """Ten times the days need the same peak memory.

    The difference is 450,000 visits, which would be 18 MB as arrays.
    """
    code = "import resource, sys; from simulators.cli import cli; cli(sys.argv[1:], standalone_mode=False);"
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    peaks = []
    for days in (10, 100):
        arguments = ["city", "--people", "3000", "--days", str(days), "--all-visits", "--out", str(tmp_path / "v.csv")]
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--registry", str(tmp_path / "r.csv")],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        peaks.append(int(ran.stdout) / 1024)
    assert peaks[1] - peaks[0] < 10


def test_progress_goes_to_stderr(tmp_path: Path) -> None:
    """The command writes its progress to standard error and nothing to standard output."""
    command = [sys.executable, "-m", "simulators", "city", "--people", "100", "--days", "2"]
    ran = subprocess.run(
        [*command, "--out", str(tmp_path / "v.csv"), "--registry", str(tmp_path / "r.csv")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert ran.stdout == ""
    assert "visits" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--start", "2026-01-05"), "RFC 3339"),
        (("--start", "2026-01-05T00:00:00"), "offset"),
        (("--start", "2026-01-05T00:00:00.5Z"), "whole seconds"),
        (("--people", "0"), "people"),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """A wrong option exits with 2, is named, and leaves no file."""
    result = run("city", "--out", str(tmp_path / "v"), "--registry", str(tmp_path / "r"), *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_exits_with_1(tmp_path: Path) -> None:
    """An output file in a missing folder exits with 1."""
    result = run("city", "--people", "10", "--out", str(tmp_path / "no" / "v"), "--registry", str(tmp_path / "r"))
    assert result.exit_code == 1
    assert "No such file" in result.output


def test_locations_option_sets_places(tmp_path: Path) -> None:
    """--locations sets the number of places."""
    simulate(tmp_path, "a.csv", "--locations", "33")
    assert len((tmp_path / "places.csv").read_text(encoding="utf-8").splitlines()) == 34
    assert len(make_places(33, 7)) == 33
