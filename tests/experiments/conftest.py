"""The command on synthetic data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simulators.cli import cli
from simulators.synthetic import write_synthetic


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The synthetic files."""
    write_synthetic(tmp_path / "data", 7)
    return tmp_path / "data"


@pytest.fixture
def experiments(data: Path, tmp_path: Path) -> Callable[..., Result]:
    """A function that runs the command on the synthetic data, in one process, with plots in tmp_path/figures."""

    def run(*arguments: object) -> Result:
        fixed = ["--data", data, "--out", tmp_path / "figures", "--processes", "1", "--iterations", "3"]
        return CliRunner().invoke(cli, ["experiments", *(str(one) for one in [*fixed, *arguments])])

    return run


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out laying out and writing plots, which takes longer than the points."""
    monkeypatch.setattr("simulators.experiments.run_experiments.save", lambda *_: None)
