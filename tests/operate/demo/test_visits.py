"""The demo's visits: an outbreak for every seed, and a few invalid visits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from monitor.config.derive_parameters import derive_parameters
from monitor.config.load import load_config
from monitor.config.registry import load_registry
from monitor.config.whole_config import Config
from monitor.operate.demo.run_demo import copy_examples, write_visits
from monitor.operate.replay.read_visits import Extent, read_lines
from monitor.time.instants import DAY

WriteVisits = Callable[[int, int], tuple[Path, int]]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The configuration of the demo."""
    return load_config(copy_examples(tmp_path_factory.mktemp("demo")), {})


@pytest.fixture(scope="module")
def write(config: Config) -> WriteVisits:
    """A function that returns the file of a seed and a number of days, and its number of visits. It keeps the files."""
    locations = load_registry(config.locations.file)

    @cache
    def write_once(seed: int, days: int) -> tuple[Path, int]:
        path = config.locations.file.parent / f"visits-{seed}-{days}.csv"
        return path, write_visits(path, seed, locations.ids, config.clock.origin, days)

    return write_once


@pytest.mark.parametrize("seed", range(20, 23))
def test_outbreak_lasts_for_every_seed(config: Config, write: WriteVisits, seed: int) -> None:
    """For each of three seeds, people still report visits in the last days of the demo."""
    (path, written), start = write(seed, 14), config.clock.origin
    locations = load_registry(config.locations.file)
    lines = list(read_lines(path, Extent(derive_parameters(config, locations.ids))))
    assert len(lines) == written > 1_000
    assert sum(line.is_visit and line.reported_at > start + 10 * DAY for line in lines) > 200


def test_same_seed_gives_same_visits(config: Config, write: WriteVisits, tmp_path: Path) -> None:
    """The same seed gives the same file, byte for byte."""
    again = tmp_path / "again.csv"
    write_visits(again, 20, load_registry(config.locations.file).ids, config.clock.origin, 8)
    assert write(20, 8)[0].read_bytes() == again.read_bytes()


@pytest.mark.parametrize("days", [1, 8])
def test_number_of_invalid_visits(write: WriteVisits, days: int) -> None:
    """The file contains five invalid visits, but no more than valid ones."""
    path, written = write(20, days)
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    faults = ("lighthouse", "yesterday, around noon", "2199-01-01", "2026-01-04T00:00:00Z")
    invalid = [line for line in lines if line.startswith(",") or any(fault in line for fault in faults)]
    assert len(lines) == written
    assert len(invalid) == min(5, written // 2)
