"""The demo's visits: an outbreak for every seed, and a few invalid visits."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.config import load_config, load_registry
from monitor.config.derive_parameters import derive_parameters
from monitor.operate.demo.examples import copy_examples
from monitor.operate.demo.visits import write_visits
from monitor.operate.replay.lines import Extent, read_lines
from monitor.time.instants import DAY


@pytest.mark.parametrize("seed", range(20, 26))
def test_outbreak_lasts_for_every_seed(tmp_path: Path, seed: int) -> None:
    """For each of six seeds, people still report visits in the last days of the demo."""
    config = load_config(copy_examples(tmp_path), {})
    locations = load_registry(config.locations.file)
    path, start = tmp_path / "visits.csv", config.clock.origin
    written = write_visits(path, seed, locations.ids, start, 14)
    lines = list(read_lines(path, Extent(derive_parameters(config, locations.ids))))
    assert len(lines) == written > 1_000
    assert sum(line.is_visit and line.reported_at > start + 10 * DAY for line in lines) > 200


def test_same_seed_gives_same_visits(tmp_path: Path) -> None:
    """The same seed gives the same file, byte for byte."""
    config = load_config(copy_examples(tmp_path), {})
    ids = [location.id for location in load_registry(config.locations.file)]
    first, again = tmp_path / "first.csv", tmp_path / "again.csv"
    for path in (first, again):
        write_visits(path, 7, ids, config.clock.origin, 8)
    assert first.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("days", [1, 8, 14])
def test_number_of_invalid_visits(tmp_path: Path, days: int) -> None:
    """The file contains five invalid visits, but no more than valid ones."""
    config = load_config(copy_examples(tmp_path), {})
    locations = load_registry(config.locations.file)
    path = tmp_path / "visits.csv"
    written = write_visits(path, 20, locations.ids, config.clock.origin, days)
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    faults = ("lighthouse", "yesterday, around noon", "2199-01-01", "2026-01-04T00:00:00Z")
    invalid = [line for line in lines if line.startswith(",") or any(fault in line for fault in faults)]
    assert len(lines) == written
    assert len(invalid) == min(5, written // 2)
