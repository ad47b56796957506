"""The measure of certain intervals."""

from __future__ import annotations

import csv
import gzip
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from simulators.cli import cli
from simulators.experiments.data import Movements
from simulators.experiments.datasets import PLACES
from simulators.experiments.intervals import SHARES, measure_intervals

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


def test_missing_data_is_reported(tmp_path: Path) -> None:
    """Without data the command ends with an error that names the folder."""
    result = CliRunner().invoke(cli, ["intervals", "--data", str(tmp_path), "--out", str(tmp_path / "out.csv")])
    assert result.exit_code == 2
    assert "is skipped" in result.output
    assert not (tmp_path / "out.csv").exists()


def test_command_writes_csv(tmp_path: Path) -> None:
    """The command writes a row for each ε and share of each dataset."""
    data = tmp_path / "data"
    data.mkdir()
    place = PLACES[0]
    points = [f"p{number},{number % 2},2026-01-01T00:00:00Z" for number in range(10)]
    for name, lines in (
        (place.visits, ["person_id,location_id,time_utc", *points]),
        (place.locations, ["location_id,lat,lon", "0,0,0", "1,0,0"]),
    ):
        (data / name).write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    out = tmp_path / "out.csv"
    result = CliRunner().invoke(cli, ["intervals", "--data", str(data), "--out", str(out), "--iterations", "2"])
    assert result.exit_code == 0, result.output
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18
    assert {row["false"] for row in rows} == {"0"}
    assert {row["width"] for row in rows} == {"nan"}, "no place has 10 people"
