"""False alarms that the service raises, compared with the formula."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from simulators.experiments.data import Movements, Place
from simulators.experiments.location_figures import EXPECTED
from simulators.experiments.on_service import BY_SERVICE, Tally, compute_service_points

pytestmark = pytest.mark.long

PLACE = Place("made up", "", "", compared=False)


@pytest.fixture
def movements() -> Movements:
    """Fifty people who were at place 0 alone, and 40 empty places."""
    return Movements(
        np.arange(51), np.zeros(50, np.int64), 41, tuple(f"place-{n}" for n in range(41)), np.zeros((41, 2))
    )


@pytest.mark.servers
def test_service_matches_formula(movements: Movements) -> None:
    """The service gives false alarms as often as the formula says.

    A share is off by 6 errors and two alarms with a chance below 10^-5.
    """
    points = list(compute_service_points(PLACE, movements, 2, 3, Console(file=io.StringIO())))
    shares = {point.setting: point for point in points if point.variant == BY_SERVICE}
    expected = {point.setting: point.ours for point in points if point.variant == BY_SERVICE + EXPECTED}
    assert len(shares) == 3 * 5 + 3 * 4
    assert shares.keys() == expected.keys()
    for setting, point in shares.items():
        assert abs(point.ours - expected[setting]) < 6 * (point.standard_error or 0) + 2 / 80
    often = max(expected, key=lambda setting: expected[setting])  # e^-1 at each of 80 empty places
    assert (often.epsilon, often.threshold) == (0.5, 2)


def test_tally_adds_variances() -> None:
    """A tally adds chances and variances."""
    tally = Tally()
    tally.add(np.array([0.5, 0.25]), 1)
    tally.add(np.array([0.5]), 0)
    assert (tally.asked, tally.alarms, tally.expected) == (3, 1, 1.25)
    assert tally.variance == pytest.approx(0.25 + 0.1875 + 0.25)
