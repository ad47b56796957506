"""The command on synthetic data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from simulators.cli import cli
from simulators.experiments.plots import save
from simulators.experiments.run_experiments import COMMAND, FIGURES
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


RENDERED = frozenset({"figure4", "figure5"})
"""The plots that `written` renders, which are a single panel and the maps; `make soak` renders all."""


@dataclass(frozen=True)
class Written:
    """What `experiments all` has written. `panels`: the number of panels of each plot that was to be saved."""

    result: Result
    figures: Path
    page: Path
    panels: dict[Path, int]


@pytest.fixture(scope="module", params=[RENDERED, pytest.param(frozenset(FIGURES), marks=pytest.mark.soak)], ids=len)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """All figures on the synthetic data, and the page. All plots are drawn, and those of the parameter are rendered."""
    folder, panels = tmp_path_factory.mktemp("all"), dict[Path, int]()

    def save_some(canvas: Any, path: Path, dots_per_inch: int = 110) -> None:
        panels[path] = len(canvas.axes)
        if path.stem in request.param:
            save(canvas, path, dots_per_inch)

    write_synthetic(folder / "data", 7)
    page = make_page(folder / "docs.md", COMMAND)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simulators.experiments.run_experiments.save", save_some)
        result = run_experiments(folder / "data", folder / "figures", "all", "--document", page)
    return Written(result, folder / "figures", page, panels)


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out laying out and writing plots, which takes longer than the points."""
    monkeypatch.setattr("simulators.experiments.run_experiments.save", lambda *_: None)
