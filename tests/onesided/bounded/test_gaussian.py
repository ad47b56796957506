"""Exact discrete Gaussian noise, and sums with independent and correlated noise."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import pytest

from monitor.errors import (
    BoundsError,
    CountsError,
    EpsilonError,
    ExactnessError,
    InsecureNoiseError,
    PrivacyError,
)
from monitor.onesided.bounded.gaussian import CorrelatedSums, IndependentSums, draw_gaussian
from monitor.onesided.bounded.variances import correlated_ratio
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from tests.privacy.laws import HALF, Given

pytestmark = pytest.mark.long


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(100)])
def test_accepted_draws_are_gaussian(variance: Fraction) -> None:
    """The exponents of draw and acceptance add up to y²/(2σ²) and a constant, exactly, for all y."""
    a, b = variance.numerator, variance.denominator
    t = math.isqrt(a // b) + 1
    constants = set()
    for y in range(-20, 21):
        exponent = Fraction(abs(y), t) + (abs(y) * t * b - a) ** 2 * Fraction(1, 2 * a * b * t * t)
        constants.add(exponent - y * y / (2 * variance))
    assert len(constants) == 1


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(4), Fraction(50)])
def test_sampled_gaussian_law(variance: Fraction) -> None:
    """The shares of -4 to 4 among 60,000 draws are within 6.5 standard errors of e^(-z²/(2σ²))/Σ."""
    runs, noise = 60_000, OneSidedNoise(SeededEntropy(121))
    drawn = draw_gaussian(noise, variance, runs)
    assert drawn.shape == (runs,)
    total = sum(math.exp(-z * z / (2 * variance)) for z in range(-200, 201))
    for z in range(-4, 5):
        chance = math.exp(-z * z / (2 * variance)) / total
        assert abs((drawn == z).mean() - chance) < 6.5 * math.sqrt(chance * (1 - chance) / runs) + 1e-12


@pytest.mark.parametrize("shift", [1, 3])
def test_shift_costs_rho(shift: int) -> None:
    """The Rényi divergence of order α between the law and its shift by v is at most α·v²/(2σ²), for α to 16."""
    variance = 5.0
    z = np.arange(-150, 151)
    normal = math.log(sum(math.exp(-(k**2) / (2 * variance)) for k in range(-150, 151)))
    law, moved = (-((z - v) ** 2) / (2 * variance) - normal for v in (0, shift))
    for alpha in (1.5, 2.0, 4.0, 16.0):
        weights = alpha * law + (1 - alpha) * moved
        divergence = (weights.max() + math.log(np.exp(weights - weights.max()).sum())) / (alpha - 1)
        assert divergence <= alpha * shift**2 / (2 * variance) + 1e-9
        assert divergence > 0.99 * alpha * shift**2 / (2 * variance)


@pytest.mark.parametrize(("queries", "high"), [(1, 1), (2, 1), (2, 3), (3, 2)])
def test_correlated_sums_cost_rho(queries: int, high: int) -> None:
    """Over all rows, the greatest squared norm of a contribution is 2ρσ², so adding a person costs exactly ρ."""
    rule = CorrelatedSums(HALF, queries, high)
    norms = [sum(part**2 for part in rule.contribution(row)) for row in product(range(high + 1), repeat=queries)]
    assert max(norms) == 2 * HALF * rule.variance
    textbook = IndependentSums(HALF, queries, high)
    assert max(sum(v**2 for v in row) for row in product(range(high + 1), repeat=queries)) == textbook.variance


@pytest.mark.parametrize("queries", [1, 4, 16, 100, 10_000])
def test_correlated_noise_saves_three_quarters(queries: int) -> None:
    """The variance relative to independent noise is (1 + 1/√d)²/4, within 1 % for W in integers."""
    correlated, independent = CorrelatedSums(HALF, queries, 100), IndependentSums(HALF, queries, 100)
    ratio = float(correlated.sum_variance / independent.variance)
    assert ratio == pytest.approx(correlated_ratio(queries), rel=0.01)
    assert correlated_ratio(1) == 1
    assert 0.25 < correlated_ratio(10**8) < 0.2501


@pytest.mark.parametrize("kind", [IndependentSums, CorrelatedSums])
def test_sums_are_unbiased(kind: type[IndependentSums]) -> None:
    """Mean and variance of 600 noisy sums of three rows are within 6 standard errors of the true sum and σ²."""
    rule, noise, runs = kind(HALF, 4, 3), OneSidedNoise(SeededEntropy(122)), 600
    rows = [(0, 1, 2, 3), (3, 3, 0, 0), (1, 0, 0, 3)]
    drawn = np.array([[float(each) for each in rule.release(rows, noise)] for _ in range(runs)])
    variance = float(getattr(rule, "sum_variance", rule.variance))
    assert np.abs(drawn.mean(axis=0) - [4, 4, 2, 6]).max() < 6 * math.sqrt(variance / runs)
    assert drawn.var(axis=0) == pytest.approx([variance] * 4, rel=6 * math.sqrt(2 / runs))


def test_correlated_noise_is_correlated() -> None:
    """Sums with correlated noise have the correlation R²/W²/(1 + R²/W²): 1/3 for d = 4, within 0.1 (seeded)."""
    rule, noise = CorrelatedSums(HALF, 4, 50), OneSidedNoise(SeededEntropy(123))
    drawn = np.array([[float(each) for each in rule.release([], noise)] for _ in range(600)])
    share = 2500 / rule.weight**2
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(share / (1 + share), abs=0.1)


def test_bad_input_is_refused() -> None:
    """Invalid variances, ρ, numbers of queries, bounds and rows are refused, each with its own class of error."""
    noise = OneSidedNoise(SeededEntropy(1))
    with pytest.raises(ExactnessError, match="variance is a float"):
        draw_gaussian(noise, cast("Fraction", 1.0), 1)
    with pytest.raises(PrivacyError, match="variance is 0"):
        draw_gaussian(noise, Fraction(0), 1)
    with pytest.raises(EpsilonError, match="Gaussian noise"):
        draw_gaussian(noise, Fraction(10**8), 1)
    with pytest.raises(InsecureNoiseError):
        draw_gaussian(Given(*[0] * 5_000), Fraction(1), 1)
    for kind in (IndependentSums, CorrelatedSums):
        with pytest.raises(ExactnessError, match="ρ is a float"):
            kind(cast("Fraction", 0.5), 1, 1)
        with pytest.raises(EpsilonError, match="ρ is 0"):
            kind(Fraction(0), 1, 1)
        with pytest.raises(PrivacyError, match="queries is 0"):
            kind(HALF, 0, 1)
        with pytest.raises(BoundsError, match="high is 0"):
            kind(HALF, 1, 0)
        with pytest.raises(CountsError, match="expected 2 values"):
            kind(HALF, 2, 1).release([(1,)], noise)
        with pytest.raises(BoundsError, match="expected 0 to 1"):
            kind(HALF, 2, 1).release([(1, 2)], noise)
        with pytest.raises(ExactnessError):
            kind(HALF, 1, 1).release([(cast("int", 1.0),)], noise)
