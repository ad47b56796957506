"""The command on synthetic data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simulators.cli import cli
from simulators.experiments.run_experiments import COMMAND
from simulators.synthetic import write_synthetic
from tests.builders import make_page


def run_experiments(data: Path, out: Path, *arguments: object) -> Result:
    """Run the command in one process."""
    fixed = ["--data", data, "--out", out, "--processes", "1", "--iterations", "3"]
    return CliRunner().invoke(cli, ["experiments", *(str(one) for one in [*fixed, *arguments])])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The synthetic files."""
    write_synthetic(tmp_path / "data", 7)
    return tmp_path / "data"


@pytest.fixture
def experiments(data: Path, tmp_path: Path) -> Callable[..., Result]:
    """A function that runs the command on the synthetic data, in one process, with plots in tmp_path/figures."""
    return partial(run_experiments, data, tmp_path / "figures")


@dataclass(frozen=True)
class Written:
    """What `experiments all` has written."""

    result: Result
    figures: Path
    page: Path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """All figures on the synthetic data, and the page."""
    folder = tmp_path_factory.mktemp("all")
    write_synthetic(folder / "data", 7)
    page = make_page(folder / "docs.md", COMMAND)
    result = run_experiments(folder / "data", folder / "figures", "all", "--document", page)
    return Written(result, folder / "figures", page)


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out laying out and writing plots, which takes longer than the points."""
    monkeypatch.setattr("simulators.experiments.run_experiments.save", lambda *_: None)
