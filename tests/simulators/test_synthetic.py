"""Every experiment runs from the checkout alone, on synthetic data that says what it is."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from monitor.errors import EXIT_USAGE
from simulators.cli import cli
from simulators.experiments.data import CATALOGUES, PLACES, Movements
from simulators.experiments.intervals import EPSILONS, SHARES, measure_intervals
from simulators.onesided_figures.histograms import FILE

pytestmark = pytest.mark.long

Run = Callable[..., Result]
NOTE = "The data is synthetic"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder, without laying out plots."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("simulators.experiments.run_experiments.save", lambda *_: None)
    return lambda *arguments: CliRunner().invoke(cli, arguments)


def test_experiments_need_only_the_checkout(run: Run, tmp_path: Path) -> None:
    """After `synthetic`, experiments run with the default folder, skip nothing, and name the data synthetic.

    Figures 1 and 2 read every file of places and of items. With these files, `test_all_writes_every_figure` of the
    experiments and of the library compute all other figures.
    """
    assert run("synthetic").exit_code == 0
    few = ("--iterations", "2")
    for command in (("experiments", "figure1", "figure2", *few, "--processes", "1"), ("intervals", *few)):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert NOTE in result.output
        assert "skipped" not in result.output
    with (tmp_path / "intervals.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(PLACES) * len(EPSILONS) * len(SHARES)
    assert {row["false"] for row in rows} == {"0"}
    assert NOTE in (tmp_path / "figures/experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [("experiments", "figure1"), ("library", "osdp"), ("intervals",)])
def test_missing_data_names_the_page(run: Run, command: tuple[str, ...], tmp_path: Path) -> None:
    """Without data nothing is written. The error names the page with the files, and the synthetic ones."""
    result = run(*command)
    assert result.exit_code == EXIT_USAGE
    assert "docs/experiments.md says how to build the files" in result.output
    assert "python -m simulators synthetic --out data" in result.output
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_page_describes_every_file(run: Run, tmp_path: Path) -> None:
    """The page names each file, with the columns that the synthetic one has."""
    assert run("synthetic").exit_code == 0
    page = (Path(__file__).parents[2] / "docs/experiments.md").read_text(encoding="utf-8")
    files = {each.file for each in CATALOGUES} | {FILE}
    files |= {name for place in PLACES for name in (place.visits, place.locations)}
    for file in files:
        columns = gzip.decompress((tmp_path / "data" / file).read_bytes()).decode().partition("\n")[0]
        assert f"| `{file}` | `{columns}` |" in page


def test_same_seed_same_files(run: Run, tmp_path: Path) -> None:
    """The same seed gives the same files, another one others."""
    for folder, seed in (("first", "7"), ("second", "7"), ("third", "8")):
        assert run("synthetic", "--out", folder, "--seed", seed).exit_code == 0
    written = [
        {path.name: path.read_bytes() for path in (tmp_path / folder).glob("*.gz")}
        for folder in ("first", "second", "third")
    ]
    assert written[0] == written[1]
    assert written[0] != written[2]


PEOPLE = 60
CROWD = Movements(np.arange(PEOPLE + 1), np.arange(PEOPLE) % 3, 4, ("a", "b", "c", "d"), np.zeros((4, 2)))
"""Twenty people at each of three places, and nobody at the fourth."""


def test_intervals_contain_the_count() -> None:
    """No interval is false. More consent makes it narrower, and without consent there is no lower bound."""
    rows = list(measure_intervals(PLACES[0], CROWD, iterations=40, seed=3))
    assert all((row.false, row.people, row.intervals) == (0, 20, 120) for row in rows)
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(2)):
        widths = {row.share: row for row in rows if row.epsilon == epsilon}
        assert tuple(widths) == SHARES
        assert widths[0.0].lower_bounds == widths[0.0].bounded == 0
        assert [widths[share].width for share in SHARES] == sorted((row.width for row in widths.values()), reverse=True)
        # both noises have the mean 1/(e^ε - 1); 120 draws each, seven standard deviations of their sum
        noise = 2 / math.expm1(float(epsilon))
        deviation = math.sqrt(2 * math.exp(float(epsilon)) / math.expm1(float(epsilon)) ** 2 / 120)
        assert abs(widths[1.0].width - noise) < 7 * deviation


def test_quiet_places_have_no_average() -> None:
    """If no place has the threshold's 10 people, there are no averages."""
    five = Movements(np.arange(6), np.zeros(5, np.int64), 2, ("a", "b"), np.zeros((2, 2)))
    assert all(math.isnan(row.width) for row in measure_intervals(PLACES[0], five, iterations=2, seed=3))
