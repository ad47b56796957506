"""`python -m simulators library` on made-up histograms: files, document, missing and bad data."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from monitor.errors import EXIT_USAGE
from simulators.cli import cli
from simulators.onesided_figures.histograms import FILE, NAMES
from simulators.onesided_figures.osdp_figures import ALGORITHMS, EPSILONS, RATIOS
from simulators.onesided_figures.report import TITLES
from simulators.onesided_figures.run_library import COMMAND, TABLES
from simulators.synthetic import write_synthetic
from tests.builders import make_page

pytestmark = pytest.mark.long

Library = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The synthetic files."""
    write_synthetic(tmp_path / "data", 7)
    return tmp_path / "data"


@pytest.fixture
def library(data: Path, tmp_path: Path) -> Library:
    """Run the command on the made-up data with few runs."""

    def run(*arguments: object) -> Result:
        fixed = ["--data", data, "--out", tmp_path / "figures", "--runs", "2"]
        return CliRunner().invoke(cli, ["library", *(str(each) for each in [*arguments, *fixed])])

    return run


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out drawing plots, which takes longer than the points."""
    monkeypatch.setattr("simulators.onesided_figures.run_library.draw", lambda *_: None)
    monkeypatch.setattr("simulators.onesided_figures.run_library.save", lambda *_: None)


@pytest.mark.usefixtures("without_plots")
def test_all_writes_every_figure(library: Library, tmp_path: Path) -> None:
    """`all` writes each figure as CSV, and the paper's statements and the exercise to the page.

    It skips no data.
    """
    page = make_page(tmp_path / "docs.md", COMMAND)
    result = library("all", "--document", page)
    assert result.exit_code == 0, result.output
    assert "skipped" not in result.output
    for figure in TITLES:
        with (tmp_path / f"figures/{figure}.csv").open(encoding="utf-8", newline="") as file:
            assert {row["figure"] for row in csv.DictReader(file)} == {figure}
    with (tmp_path / "figures/osdp-errors.csv").open(encoding="utf-8") as file:
        lines = len(file.readlines()) - 1
    published, exact = len(ALGORITHMS) + 3, len(ALGORITHMS) + 1  # with both Suppress and the other forms of DAWA
    assert lines == len(NAMES) * 2 * len(RATIOS) * len(EPSILONS) * (2 * published + exact) * 2
    text = page.read_text(encoding="utf-8")
    for named in (result.output, (tmp_path / "figures" / TABLES).read_text(encoding="utf-8"), text):
        assert "The data is synthetic" in named
    assert "| Figure 9a |" in text
    assert "n = 1 from ε = 1.19" in text


def test_plots_are_written(library: Library, tmp_path: Path) -> None:
    """A figure has a plot in the folder, and a small one next to the page."""
    assert library("subsampling", "--document", make_page(tmp_path / "docs.md", COMMAND)).exit_code == 0
    for path in ("figures/subsampling-regime.png", "pictures/library-subsampling-regime.png"):
        assert (tmp_path / path).read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("without_plots")
def test_same_seed_gives_same_bytes(library: Library, tmp_path: Path) -> None:
    """A seed determines the values."""
    written = []
    for _ in range(2):
        assert library("subsampling").exit_code == 0
        written.append((tmp_path / "figures/subsampling-variance.csv").read_bytes())
    assert written[0] == written[1]


@pytest.mark.usefixtures("without_plots")
def test_missing_data_is_reported(library: Library, data: Path, tmp_path: Path) -> None:
    """Without the file, `osdp` is left out, and the page says so."""
    (data / FILE).unlink()
    page = make_page(tmp_path / "docs.md", COMMAND)
    result = library("osdp", "subsampling", "--document", page)
    assert result.exit_code == 0
    assert "osdp is skipped" in result.output
    assert "osdp is skipped" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "bin,adult\n0,1\n", "bin," + ",".join(NAMES) + "\n0" + ",-1" * 7 + "\n"])
def test_bad_data_is_refused(library: Library, data: Path, text: str) -> None:
    """An empty file, missing columns and negative counts are usage errors that name the file."""
    (data / FILE).write_bytes(gzip.compress(text.encode()))
    result = library("osdp")
    assert result.exit_code == EXIT_USAGE
    assert FILE in result.output
