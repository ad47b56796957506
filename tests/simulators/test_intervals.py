"""The measure of certain intervals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from simulators.experiments.data import Movements
from simulators.experiments.datasets import PLACES
from simulators.experiments.intervals import SHARES, measure_intervals

pytestmark = pytest.mark.long

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


def test_quiet_places_have_no_average() -> None:
    """If no place has the threshold's 10 people, there are no averages."""
    five = Movements(np.arange(6), np.zeros(5, np.int64), 2, ("a", "b"), np.zeros((2, 2)))
    assert all(math.isnan(row.width) for row in measure_intervals(PLACES[0], five, iterations=2, seed=3))
