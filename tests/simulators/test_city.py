"""The simulated town, and the files that `python -m simulators city` writes."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from monitor.errors import UsageError
from monitor.operate.simulated_town import Town, Visits
from monitor.time.instants import DAY, HOUR, parse_instant
from simulators.city import write_city
from simulators.cli import cli

pytestmark = pytest.mark.long

START = parse_instant("2026-01-05T00:00:00Z")  # a Monday
TOWN = Town(11, 3_000, 120, START, 28)


def join(batches: list[Visits]) -> tuple[np.ndarray, ...]:
    names = ("person", "place", "arrived_at", "left_at", "reported_at")
    return tuple(np.concatenate([getattr(batch, name) for batch in batches]) for name in names)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def simulate(folder: Path, name: str, *more: str) -> bytes:
    out = folder / name
    result = run(
        "city", "--people", "1500", "--days", "21", "--out", str(out), "--registry", str(folder / "places.csv"), *more
    )
    assert result.exit_code == 0, result.output
    return out.read_bytes()


def test_visits_do_not_overlap() -> None:
    """Nobody is at two places at one time, which the service assumes (docs/rules.md, section 1)."""
    person, _, arrived, left, _ = join(list(TOWN.list_all_visits()))
    order = np.lexsort((arrived, person))
    same = person[order][1:] == person[order][:-1]
    assert np.all(left > arrived)
    assert np.all(arrived[order][1:][same] >= left[order][:-1][same])


def test_load_is_reported_at_night() -> None:
    """The visits of a load are reported in order, in the night after the day."""
    _, _, arrived, _, reported = join(list(TOWN.list_all_visits()))
    midnight = START + ((arrived - START) // DAY + 1) * DAY
    assert np.all(np.diff(reported) >= 0)
    assert np.all((reported >= midnight) & (reported < midnight + 4 * HOUR))


def test_report_is_complete() -> None:
    """A report has every visit of the 14 days before it that has ended, and each person is reported once."""
    everything = set(zip(*(column.tolist() for column in join(list(TOWN.list_all_visits()))[:4]), strict=True))
    listed, when = set(), dict[int, int]()
    columns = join(list(TOWN.list_reports()))
    for *visit, known in zip(*(column.tolist() for column in columns), strict=True):
        listed.add(tuple(visit))
        assert when.setdefault(visit[0], known) == known
    assert len(when) > 50
    assert np.all(np.diff(columns[4]) >= 0)
    assert listed == {visit for visit in everything if visit[3] <= when.get(visit[0], 0) <= visit[2] + 14 * DAY}


@pytest.mark.parametrize(("people", "days", "count", "late"), [(0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 0), (1, 1, 1, 1)])
def test_impossible_town_is_refused(people: int, days: int, count: int, late: int) -> None:
    """A town without people, days or places, or with a start that is not a whole second, is refused."""
    with pytest.raises(UsageError, match="expected"):
        Town(1, people, count, START + late, days)


def test_same_seed_gives_same_bytes(tmp_path: Path) -> None:
    """The same arguments give the same bytes, in a file of another name and at another time too."""
    first = simulate(tmp_path, "a.csv.gz", "--seed", "3")
    assert simulate(tmp_path, "b.csv.gz", "--seed", "3") == first
    assert simulate(tmp_path, "c.csv.gz", "--seed", "4") != first
    assert simulate(tmp_path, "a.csv", "--seed", "3") == gzip.decompress(first)


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
    """Every place of the file is in the registry, which has as many places as --locations says."""
    visits = simulate(tmp_path, "a.csv", "--all-visits", "--locations", "33").decode()
    with (tmp_path / "places.csv").open(encoding="utf-8", newline="") as text:
        registry = list(csv.DictReader(text))
    assert list(registry[0]) == ["location_id", "name", "latitude", "longitude"]
    assert {row["location_id"] for row in csv.DictReader(visits.splitlines())} == {
        row["location_id"] for row in registry
    }
    assert len(registry) == 33


def test_failed_run_leaves_no_file(tmp_path: Path) -> None:
    """A run that fails leaves no file."""

    def fail() -> None:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_city(tmp_path / "visits.csv", TOWN, all_visits=True, on_day=fail)
    assert list(tmp_path.iterdir()) == []


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
