"""The chances of false alarms, with the examples of the documentation."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from monitor.privacy.alarm_chances import compute_belief, compute_false_alarm, compute_mean_noise, compute_over_updates


@pytest.mark.parametrize(("threshold", "share"), [(5, 0.90), (10, 0.015)])
def test_chances_add_up_over_updates(threshold: int, share: float) -> None:
    """At ε = 1, T = 5 raises a false alarm at 90 % of the empty locations in 336 updates, T = 10 at 1.5 %."""
    assert compute_over_updates(compute_false_alarm(Fraction(1), threshold, 0), 336) == pytest.approx(share, rel=0.02)


def test_small_chances_are_kept() -> None:
    """Chances of 10^-20 add up over updates, where 1 - (1 - p)^n in floats is 0."""
    assert compute_over_updates(1e-20, 100) == pytest.approx(1e-18, rel=1e-12)
    assert compute_false_alarm(Fraction(1, 3), 20, 5) == pytest.approx(math.exp(-5))


def test_chances_of_zero_and_one() -> None:
    """An alarm is certain at the threshold, impossible without an update, and has chance 0 at a huge ε."""
    assert compute_false_alarm(Fraction(1), 5, 5) == compute_false_alarm(Fraction(1), 5, 9) == 1.0
    assert compute_over_updates(1.0, 3) == compute_over_updates(1.0, 1) == 1.0
    assert compute_over_updates(1.0, 0) == compute_over_updates(0.3, 0) == compute_over_updates(0.0, 9) == 0.0
    assert compute_false_alarm(Fraction(10**12), 10**6, 0) == 0.0


def test_belief_follows_bayes() -> None:
    """The odds of a visit grow by e^ε at most; with ε = 0 nothing is learnt, with a large ε everything."""
    assert compute_belief(Fraction(0), 0.01) == pytest.approx(0.01)
    after = compute_belief(Fraction(3), 0.01)
    assert after / (1 - after) == pytest.approx(math.exp(3) * 0.01 / 0.99)
    assert compute_belief(Fraction(10**12), 0.01) == 1


def test_mean_noise() -> None:
    """The mean is Σ g·(1 - q)·q^g = 1/(e^ε - 1), and 0 at a huge ε, without an overflow."""
    for epsilon in (Fraction(1, 3), Fraction(1), Fraction(2)):
        q = math.exp(-float(epsilon))
        assert compute_mean_noise(epsilon) == pytest.approx(sum(g * (1 - q) * q**g for g in range(300)))
    assert compute_mean_noise(Fraction(10**12)) == 0.0
