"""Made-up data with the names and columns of the shared files, and few rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from simulators.cli import cli
from simulators.experiments.datasets import CATALOGUES, PLACES

ITEMS = 620


def write_gzipped(path: Path, lines: Iterable[str]) -> None:
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Counts of 620 items, and 40 people at 12 places, under the names of the shared files but BMS-POS's."""
    folder = tmp_path / "data"
    folder.mkdir()
    counts = ["item,count", *(f"{item},{100_000 // (item + 1)}" for item in range(ITEMS))]
    for catalogue in CATALOGUES[:3]:
        write_gzipped(folder / catalogue.file, counts)
    rng = np.random.default_rng(5)
    visits = [f"{person},{place}" for person in range(40) for place in rng.integers(0, 12, 4)]
    for place in PLACES:
        write_gzipped(folder / place.visits, ["person_id,location_id", *visits])
        write_gzipped(folder / place.locations, ["location_id,lat,lon", *(f"{n},35.{n},139.{n}" for n in range(12))])
    return folder


@pytest.fixture
def experiments(data: Path, tmp_path: Path) -> Callable[..., Result]:
    """A function that runs the command on the made-up data, in one process, with plots in tmp_path/figures."""

    def run(*arguments: object) -> Result:
        fixed = ["--data", data, "--out", tmp_path / "figures", "--processes", "1", "--iterations", "3"]
        return CliRunner().invoke(cli, ["experiments", *(str(one) for one in [*fixed, *arguments])])

    return run


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out laying out and writing plots, which takes longer than the points."""
    monkeypatch.setattr("simulators.experiments.command.save", lambda *_: None)
