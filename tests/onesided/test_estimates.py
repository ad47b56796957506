"""Estimates are right on average, bounds hold as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import cast

import numpy as np
import pytest

from monitor.errors import EpsilonError, ExactnessError, PrivacyError
from monitor.onesided.estimates import interval, margin, noise_mean, noise_variance, unbiased
from monitor.onesided.mechanisms import AsymmetricGeometric, Monotone
from monitor.privacy.noise import OneSidedNoise, SeededEntropy


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)])
def test_mean_and_variance_are_the_laws(epsilon: Fraction) -> None:
    """Summed over the law; and below the exponential's 1/ε and 1/ε²."""
    values = np.arange(2000)
    chances = -np.expm1(-float(epsilon)) * np.exp(-float(epsilon) * values)
    mean = float((chances * values).sum())
    assert noise_mean(epsilon) == pytest.approx(mean)
    assert noise_variance(epsilon) == pytest.approx(float((chances * (values - mean) ** 2).sum()))
    assert noise_mean(epsilon) < 1 / epsilon
    assert noise_variance(epsilon) < 1 / epsilon**2


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
def test_the_estimate_is_right_on_average(direction: Monotone) -> None:
    """50,000 noisy counts of 40 people; seeded, 6.5 standard errors: 10^-10 for a random seed."""
    epsilon, runs = Fraction(1, 2), 50_000
    noise = OneSidedNoise(SeededEntropy(41))
    noisy = AsymmetricGeometric(epsilon, 1, direction).release(np.full(runs, 40), noise)
    average = np.mean([unbiased(epsilon, z, direction) for z in noisy.tolist()])
    assert abs(average - 40) < 6.5 * math.sqrt(noise_variance(epsilon) / runs)


@pytest.mark.parametrize(
    ("epsilon", "error", "reach"),
    [(Fraction(1), Fraction(1, 20), 2), (Fraction(1), Fraction(99, 100), 0), (Fraction(1, 2), Fraction(1, 1000), 13)],
)
def test_the_margin_is_the_least_that_will_do(epsilon: Fraction, error: Fraction, reach: int) -> None:
    """e^(-ε(g + 1)) is at most the error for g, and above it for g - 1."""
    assert margin(epsilon, error) == reach
    assert math.exp(-epsilon * (reach + 1)) <= error < math.exp(-epsilon * reach)


def test_an_error_next_to_the_chance_itself_is_decided_by_more_bits() -> None:
    """e^-1 cut to 100 digits, one below and one above: 3 steps or 2 at ε = 1/3."""
    digits = (
        36787944117144232159552377016146086744581113103176783450783680169746149574489980335714727434591964374662732527
    )
    below, above = (Fraction(digits + offset, 10**110) for offset in (0, 1))
    assert margin(Fraction(1, 3), above) == 2
    assert margin(Fraction(1, 3), below) == 3


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
def test_the_interval_holds_the_true_count_as_often_as_it_says(direction: Monotone) -> None:
    """20,000 noisy counts of 30 people at error 1/20: one end always; the other in 95 % less 6.5 standard errors."""
    epsilon, runs, error = Fraction(1, 3), 20_000, Fraction(1, 20)
    noisy = AsymmetricGeometric(epsilon, 1, direction).release(np.full(runs, 30), OneSidedNoise(SeededEntropy(42)))
    ends = np.array([interval(epsilon, z, error, direction) for z in noisy.tolist()])
    certain, other = (ends[:, 1] >= 30, ends[:, 0] <= 30)
    if direction == "increasing":
        certain, other = other, certain
    assert certain.all()
    assert other.mean() > 0.95 - 6.5 * math.sqrt(0.05 * 0.95 / runs)


def test_counts_are_never_said_to_be_below_zero() -> None:
    """There are no fewer than 0 people."""
    assert interval(Fraction(1, 10), 3, Fraction(1, 20)) == (0, 3)
    assert interval(Fraction(1), -2, Fraction(1, 20), "increasing") == (0, 0)


def test_errors_that_are_none_are_refused() -> None:
    """0, 1, floats; and an ε that noise is not drawn at."""
    for error in (Fraction(0), Fraction(1)):
        with pytest.raises(PrivacyError, match="between 0 and 1"):
            margin(Fraction(1), error)
    with pytest.raises(ExactnessError, match=r"write Fraction\('0.05'\)"):
        margin(Fraction(1), cast("Fraction", 0.05))
    with pytest.raises(EpsilonError):
        margin(Fraction(0), Fraction(1, 2))
