"""Estimates are unbiased, and bounds hold with their stated chance."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import cast

import numpy as np
import pytest

from monitor.errors import EpsilonError, ExactnessError, PrivacyError, UnsuitableError
from monitor.onesided.estimates import interval, margin, noise_mean, noise_variance, unbiased
from monitor.onesided.mechanisms import AsymmetricGeometric, Monotone
from monitor.onesided.policies import VISITED, Policy, RecordPolicy, Sensitivity, sum_sensitivity
from monitor.onesided.suitability import Mechanism, list_applicable, require
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy

pytestmark = pytest.mark.long


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)])
def test_mean_and_variance_match_the_law(epsilon: Fraction) -> None:
    """Mean and variance match sums over the law, and are below the exponential's 1/ε and 1/ε²."""
    values = np.arange(2000)
    chances = -np.expm1(-float(epsilon)) * np.exp(-float(epsilon) * values)
    mean = float((chances * values).sum())
    assert noise_mean(epsilon) == pytest.approx(mean)
    assert noise_variance(epsilon) == pytest.approx(float((chances * (values - mean) ** 2).sum()))
    assert noise_mean(epsilon) < 1 / epsilon
    assert noise_variance(epsilon) < 1 / epsilon**2


def test_mean_of_large_epsilon_is_zero() -> None:
    """At an ε so large that e^ε exceeds a binary float, the mean is 0 and the estimate is the noisy count."""
    assert noise_mean(Fraction(1_000)) == 0
    assert unbiased(Fraction(1_000), 7) == 7


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
def test_estimate_is_unbiased(direction: Monotone) -> None:
    """The average of 50,000 estimates of 40 people is within 6.5 standard errors: 10^-10 for a random seed."""
    epsilon, runs = Fraction(1, 2), 50_000
    noise = OneSidedNoise(SeededEntropy(41))
    noisy = AsymmetricGeometric(epsilon, 1, direction).release(np.full(runs, 40), noise)
    values, numbers = np.unique(noisy, return_counts=True)
    average = np.average([unbiased(epsilon, z, direction) for z in values.tolist()], weights=numbers)
    assert abs(average - 40) < 6.5 * math.sqrt(noise_variance(epsilon) / runs)


@pytest.mark.parametrize(
    ("epsilon", "error", "reach"),
    [(Fraction(1), Fraction(1, 20), 2), (Fraction(1), Fraction(99, 100), 0), (Fraction(1, 2), Fraction(1, 1000), 13)],
)
def test_margin_is_the_smallest(epsilon: Fraction, error: Fraction, reach: int) -> None:
    """e^(-ε(g + 1)) is at most the error for g, and above it for g - 1."""
    assert margin(epsilon, error) == reach
    assert math.exp(-epsilon * (reach + 1)) <= error < math.exp(-epsilon * reach)


def test_margin_uses_more_bits_when_close() -> None:
    """For e^-1 with 110 digits, one unit below and above, the margin at ε = 1/3 is 3 and 2."""
    digits = (
        36787944117144232159552377016146086744581113103176783450783680169746149574489980335714727434591964374662732527
    )
    below, above = (Fraction(digits + offset, 10**110) for offset in (0, 1))
    assert margin(Fraction(1, 3), above) == 2
    assert margin(Fraction(1, 3), below) == 3


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
def test_interval_contains_the_true_count(direction: Monotone) -> None:
    """Of 20,000 intervals at error 1/20, one end is always right, the other in 95 % minus 6.5 standard errors."""
    epsilon, runs, error = Fraction(1, 3), 20_000, Fraction(1, 20)
    noisy = AsymmetricGeometric(epsilon, 1, direction).release(np.full(runs, 30), OneSidedNoise(SeededEntropy(42)))
    values, numbers = np.unique(noisy, return_counts=True)
    ends = np.array([interval(epsilon, z, error, direction) for z in values.tolist()])
    certain, other = (ends[:, 1] >= 30, ends[:, 0] <= 30)
    if direction == "increasing":
        certain, other = other, certain
    assert certain.all()
    assert numbers[other].sum() / runs > 0.95 - 6.5 * math.sqrt(0.05 * 0.95 / runs)


def test_interval_is_never_negative() -> None:
    """An interval does not extend below 0 people."""
    assert interval(Fraction(1, 10), 3, Fraction(1, 20)) == (0, 3)
    assert interval(Fraction(1), -2, Fraction(1, 20), "increasing") == (0, 0)


def test_invalid_errors_are_refused() -> None:
    """Errors of 0 and 1, an error that is a float, and an ε of 0 are refused."""
    for error in (Fraction(0), Fraction(1)):
        with pytest.raises(PrivacyError, match="between 0 and 1"):
            margin(Fraction(1), error)
    with pytest.raises(ExactnessError, match=r"write Fraction\('0.05'\)"):
        margin(Fraction(1), cast("Fraction", 0.05))
    with pytest.raises(EpsilonError):
        margin(Fraction(0), Fraction(1, 2))


def test_visitor_counts_allow_upward_noise() -> None:
    """Under the policy "a visit is sensitive" counts never rise, so all mechanisms with upward noise are valid."""
    query = sum_sensitivity(RecordPolicy.uniform(VISITED, 2), lambda record: [int(value == 1) for value in record])
    assert list_applicable(query) == (
        Mechanism.UPWARDS,
        Mechanism.TWO_SIDED,
        Mechanism.CERTAINLY_BELOW,
        Mechanism.NOISY_MAX,
        Mechanism.SPARSE_VECTOR,
    )
    for mechanism in list_applicable(query):
        require(mechanism, query)


def test_symmetric_policy_allows_two_sided_noise() -> None:
    """Under the symmetric policy only two-sided noise is valid, and the error names Theorem 4."""
    symmetric = RecordPolicy.uniform(Policy.symmetric((0, 1)), 1)
    query = sum_sensitivity(symmetric, lambda record: [int(value == 1) for value in record])
    assert list_applicable(query) == (Mechanism.TWO_SIDED,)
    with pytest.raises(UnsuitableError, match=r"symmetric policy .* Theorem 4.* Valid mechanisms: two-sided"):
        require(Mechanism.NOISY_MAX, query)


def test_wrong_direction_is_refused() -> None:
    """Upward noise for an increasing query is refused, because it would make outcomes impossible."""
    rising = Sensitivity("increasing", 1, 1, 1)
    assert Mechanism.DOWNWARDS in list_applicable(rising)
    assert Mechanism.SPARSE_VECTOR_ABOVE in list_applicable(rising)
    with pytest.raises(UnsuitableError, match="expected decreasing; noise on the wrong side"):
        require(Mechanism.UPWARDS, rising)


def test_large_changes_are_refused() -> None:
    """Where noise is not scaled to the sensitivity, a component that changes by 3 is refused."""
    visits = Sensitivity("decreasing", 3, 3, 1)
    require(Mechanism.UPWARDS, visits)
    with pytest.raises(UnsuitableError, match="changes by up to 3: expected at most 1; count people once"):
        require(Mechanism.SPARSE_VECTOR, visits)


def test_constant_query_allows_everything() -> None:
    """A constant query depends on nobody, so every mechanism is valid."""
    assert list_applicable(Sensitivity("constant", 0, 0, 0)) == tuple(Mechanism)
