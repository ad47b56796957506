"""`python -m simulators experiments`: its figures, options, and missing or invalid data."""

from __future__ import annotations

import csv
import gzip
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from monitor.errors import EXIT_USAGE
from simulators.experiments.data import CATALOGUES, PLACES
from simulators.experiments.location_figures import BY_ALGORITHM_3
from simulators.experiments.run_experiments import FIGURES, PICTURED, TABLES
from tests.experiments.conftest import Written

pytestmark = pytest.mark.long

Experiments = Callable[..., Result]

HEADER = "figure,dataset,measure,algorithm,epsilon,k,threshold,update,variant,paper,ours,standard_error,deviation"
PNG = b"\x89PNG"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_all_writes_every_figure(written: Written) -> None:
    """`all` writes each figure as CSV, and the comparisons to the folder and the page. It skips no data."""
    assert written.result.exit_code == 0, written.result.output
    assert "skipped" not in written.result.output
    for figure in FIGURES:
        with (written.figures / f"{figure}.csv").open(encoding="utf-8") as file:
            assert file.readline() == f"{HEADER}\n"
        assert {row["figure"] for row in rows(written.figures / f"{figure}.csv")} == {figure}
    tables = (written.figures / TABLES).read_text(encoding="utf-8")
    assert "last items twice (estimated)" in tables
    assert "Kosarak (ESTIMATED counts)" in tables
    assert "| T40I10D100K | 100,000 | 942 | 620 |" in tables
    text = written.page.read_text(encoding="utf-8")
    assert "| 3 | T40I10D100K, last items twice (estimated) |" in text
    assert "Figure 4: below 0.01 if nobody was there" in text


def test_all_draws_every_plot(written: Written) -> None:
    """`all` saves a plot with panels of each figure, and two of them for the page. What is rendered is a PNG."""
    pictures = [written.page.parent / f"pictures/experiments-{figure}.png" for figure in PICTURED]
    assert written.panels.keys() == {*(written.figures / f"{figure}.png" for figure in FIGURES), *pictures}
    assert min(written.panels.values()) > 0
    rendered = list(written.figures.glob("*.png"))
    assert len(rendered) >= 2
    assert all(path.read_bytes().startswith(PNG) for path in rendered)


def test_points_have_paper_values(written: Written) -> None:
    """Every point of the paper is compared: 36 of Figure 2, 40 of Figure 3, 15 of Figure 6, 12 of Figure 7."""
    wanted = {"figure2": 36, "figure3": 40, "figure6": 15, "figure7": 12}
    for figure, number in wanted.items():
        variant = "as coded" if figure in {"figure2", "figure3"} else "one place per person, short tail"
        found = [row for row in rows(written.figures / f"{figure}.csv") if row["variant"] == variant and row["paper"]]
        datasets = {row["dataset"] for row in found}
        for dataset in datasets:
            assert sum(row["dataset"] == dataset for row in found) == number


@pytest.mark.usefixtures("without_plots")
def test_same_seed_gives_same_bytes(written: Written, experiments: Experiments, tmp_path: Path) -> None:
    """A seed determines the files, in one process and in two, whatever other figures are computed."""
    assert experiments("figure2", "figure7", "--processes", 2).exit_code == 0
    for name in ("figure2.csv", "figure7.csv"):
        assert (tmp_path / "figures" / name).read_bytes() == (written.figures / name).read_bytes()
    assert experiments("figure2", "figure7", "--seed", 8).exit_code == 0
    assert (tmp_path / "figures/figure2.csv").read_bytes() != (written.figures / "figure2.csv").read_bytes()


@pytest.mark.usefixtures("without_plots")
def test_missing_data_is_reported(experiments: Experiments, data: Path, tmp_path: Path) -> None:
    """Missing data is reported and left out."""
    for missing in (CATALOGUES[-1].file, PLACES[1].visits):
        (data / missing).unlink()
    result = experiments("figure6", "figure2")
    assert result.exit_code == 0, result.output
    assert "BMS-POS is skipped: topk_bms_pos_counts.csv.gz not in data" in result.output
    assert f"{PLACES[1].title} is skipped: {PLACES[1].visits} not in data" in result.output
    assert {row["dataset"] for row in rows(tmp_path / "figures/figure6.csv")} == {
        "People Flow, from Figure 1's histogram",
        PLACES[0].title,
    }


@pytest.mark.usefixtures("without_plots")
def test_figures_without_data(experiments: Experiments, tmp_path: Path) -> None:
    """Figure 4 and the figures from the histogram need no data."""
    result = experiments("all", "--data", tmp_path / "elsewhere")
    assert result.exit_code == 0, result.output
    assert {path.stem for path in (tmp_path / "figures").glob("*.csv")} == {"figure4", "figure6", "figure7"}


@pytest.mark.parametrize(
    ("figure", "lines", "message"),
    [
        ("figure2", ["item,number", "1,2"], "has no column 'count': expected a header with item,count"),
        ("figure2", ["item,count", "1,-2"], "line 2: count is '-2': expected a whole number, 0 or more"),
        ("figure2", ["item,count", "1,2", "x,2"], "line 3: item is 'x': expected a whole number, 0 or more"),
        ("figure2", ["item,count", "1"], "line 2: expected item,count; the row is short"),
        ("figure2", ["item,count"], "has no item: expected rows of item,count"),
        ("figure2", ["item,count", "1,2", "2,3"], "has 2 items with a count above 0: expected at least 502, for k up"),
        ("figure2", None, "cannot be read"),
        ("figure1", ["person_id,location_id", "1,3", "1,400"], "line 3: location_id is '400'"),
    ],
)
def test_invalid_files_are_reported(
    experiments: Experiments, data: Path, figure: str, lines: list[str] | None, message: str
) -> None:
    """Invalid rows and a truncated file (None) are reported with file and line before anything runs."""
    path = data / (CATALOGUES[0].file if figure == "figure2" else PLACES[0].visits)
    packed = path.read_bytes()[:-20] if lines is None else gzip.compress("\n".join([*lines, ""]).encode())
    path.write_bytes(packed)
    result = experiments(figure)
    assert result.exit_code == EXIT_USAGE
    assert message in result.output
    assert path.name in result.output


@pytest.mark.parametrize("arguments", [["figure8"], [], ["figure2", "--iterations", "0"], ["figure2", "--service"]])
def test_wrong_usage_exits_with_2(experiments: Experiments, arguments: list[str]) -> None:
    """Wrong arguments exit with 2 and a message."""
    result = experiments(*arguments)
    assert result.exit_code == EXIT_USAGE
    assert result.output


def test_missing_matplotlib_is_reported(experiments: Experiments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib the message names the extra to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = experiments("figure4")
    assert result.exit_code == EXIT_USAGE
    assert "pip install 'location-monitor[experiments]'" in result.output


@pytest.mark.usefixtures("without_plots")
def test_figure_4_matches_formula(experiments: Experiments, tmp_path: Path) -> None:
    """Figure 4 is e^(-ε(T - f)), by draws of Algorithm 3, and has no values of the paper.

    Each of 45 points is off by 5 standard errors with a chance below 10^-5 (seeded).
    """
    assert experiments("figure4", "--iterations", 4_000).exit_code == 0
    found = rows(tmp_path / "figures/figure4.csv")
    drawn = [row for row in found if row["variant"] == BY_ALGORITHM_3]
    assert len(drawn) == len(found) / 2 == 3 * (5 + 10)
    assert {row["paper"] for row in found} == {""}
    for row in drawn:
        gap = int(row["threshold"]) - int(row["measure"].split()[-1])
        chance = math.exp(-float(row["epsilon"]) * gap)
        assert abs(float(row["ours"]) - chance) < 5 * float(row["standard_error"]) + 5 / 4_000
