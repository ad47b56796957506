"""Three mechanisms for means and the paired sum: exact losses over all values, estimates, errors against formulas."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pytest

from monitor.errors import BoundsError, EpsilonError, ExactnessError, NoDataError, PrivacyError
from monitor.onesided.bounded.means import CentredMean, NaiveMean, PairedMean, PairedSum
from monitor.onesided.bounded.variances import (
    centred_mean,
    correlated_ratio,
    count_from_totals,
    laplace,
    lattice,
    least_mean,
    naive_mean,
    paired_mean,
    paired_sum,
    staircase,
)
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.sum_and_count import SumAndCountRule
from tests.privacy.laws import ONE, Given, align

pytestmark = pytest.mark.long

MEANS = [NaiveMean, CentredMean, PairedMean]
BOUNDS = [(0, 1), (0, 5), (-2, 3), (4, 9)]


@pytest.mark.parametrize("kind", MEANS)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_adding_a_value_costs_epsilon(kind: type[NaiveMean], low: int, high: int) -> None:
    """With any value more, noise shifted by its contribution gives the same mean. The shifts cost at most ε, and ε."""
    rule, costs = kind(ONE, low, high), []
    for value, others in product(range(low - 1, high + 2), [(), (low + 1, high)]):
        shift = rule.contribution(value)
        run, neighbour = partial(rule.release, (*others, value)), partial(rule.release, others)
        costs += [align(run, neighbour, drawn, shift) for drawn in product((-2 * high, 0, 1, 3 * high), repeat=2)]
    assert max(costs) == ONE


def test_paired_region_wastes_nothing() -> None:
    """Every value has the L1 norm R in the paired form. In the other two only some values reach the bound."""

    def norms(rule: NaiveMean | CentredMean | PairedMean) -> set[Fraction]:
        return {
            sum((e * abs(c) for e, c in zip(rule.noise_epsilons, rule.contribution(x), strict=True)), Fraction(0))
            for x in range(7)
        }

    assert norms(PairedMean(ONE, 0, 6)) == {ONE}
    assert len(norms(CentredMean(ONE, 0, 6))) == 4
    assert len(norms(NaiveMean(ONE, 0, 6))) == 7


@pytest.mark.parametrize("kind", MEANS)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_without_noise_the_mean_is_exact(kind: type[NaiveMean], low: int, high: int) -> None:
    """With draws of 0, the estimate is the mean of the values."""
    for values in product(range(low, high + 1), repeat=3):
        assert kind(ONE, low, high).release(values, Given(0, 0, 0, 0)) == Fraction(sum(values), 3)


@pytest.mark.parametrize("kind", MEANS)
def test_noisy_means_stay_in_bounds(kind: type[NaiveMean]) -> None:
    """Any noise gives a mean within the bounds, or None if the noisy count is not above 0. No values is valid."""
    noise, found = OneSidedNoise(SeededEntropy(111)), []
    for _ in range(300):
        found.append(kind(Fraction(1, 4), 2, 5).release([3], noise))
        found.append(kind(Fraction(1, 4), 2, 5).release([], noise))
    assert None in found
    assert all(2 <= mean <= 5 for mean in found if mean is not None)


FORMULAS = {"NaiveMean": naive_mean, "CentredMean": centred_mean, "PairedMean": paired_mean}


@pytest.mark.parametrize("kind", MEANS)
@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_errors_follow_the_formulas(kind: type[NaiveMean], mean: float) -> None:
    """For 200 values of 0 and 50 at ε = 2, n²·variance of 1,000 means is within 30 % of the formula.

    For Laplace noise the standard error of such a variance is √(5/1000) = 7 %. The draws are seeded.
    """
    n, runs = 200, 1_000
    ones = round(mean * n)
    rule, noise = kind(Fraction(2), 0, 50), OneSidedNoise(SeededEntropy(112))
    estimates = [rule.release([50] * ones + [0] * (n - ones), noise) for _ in range(runs)]
    errors = np.array([float(each) / 50 - mean for each in estimates if each is not None])
    assert n**2 * errors.var() == pytest.approx(FORMULAS[kind.__name__](2.0, mean), rel=0.3)


def test_paired_mean_halves_the_variance() -> None:
    """At every mean the paired variance is half of the centred one, and at most a quarter of the naive one."""
    for mean in np.linspace(0, 1, 21).tolist():
        assert 2 * paired_mean(1.0, mean) == pytest.approx(centred_mean(1.0, mean))
        assert 4 * paired_mean(1.0, mean) <= naive_mean(1.0, mean) * 1.0000001
    assert naive_mean(1.0, 0.5) / paired_mean(1.0, 0.5) == pytest.approx(10)


def test_paired_mean_is_near_the_bound() -> None:
    """For small ε the paired mean is at most twice the lower bound for additive noise; it meets it at μ = 0 and 1."""
    ratios = [paired_mean(0.01, mean) / least_mean(0.01, mean) for mean in np.linspace(0, 1, 21).tolist()]
    assert max(ratios) == pytest.approx(2, rel=1e-3)
    assert ratios[0] == pytest.approx(1, rel=1e-3)
    assert ratios[-1] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_staircase_is_the_best_additive_noise(epsilon: float) -> None:
    """The formula agrees with a sum over a fine grid, and is below Laplace noise and each other step width."""
    b, width, cells = math.exp(-epsilon), 0.4, 2_000
    height = (1 - b) / (2 * (width + b * (1 - width)))
    x = (np.arange(int(60 / epsilon) * cells) + 0.5) / cells
    k = np.floor(x)
    density = height * np.where(x - k < width, b**k, b ** (k + 1))
    assert 2 * density.sum() / cells == pytest.approx(1, rel=1e-4)
    assert staircase(epsilon) <= 2 * (density * x**2).sum() / cells * 1.0001
    assert staircase(epsilon) < laplace(epsilon)
    assert staircase(0.01) == pytest.approx(laplace(0.01), rel=1e-3)


def test_lattice_noise_approaches_laplace() -> None:
    """Geometric noise in 1,000 steps has the variance of Laplace noise; in one step at ε = 4 much less."""
    assert lattice(1.0, 1_000) == pytest.approx(laplace(1.0), rel=1e-5)
    assert lattice(4.0, 1) < 0.4 * laplace(4.0)


def test_replacing_a_value_costs_epsilon() -> None:
    """For any two values, noise shifted by the change of both totals gives the same sum. The shifts cost up to ε.

    At ε/R, as the text has it, they would cost up to 2ε.
    """
    rule, costs, changes = PairedSum(ONE, 1, 6), [], []
    for one, other in product(range(1, 7), repeat=2):
        shift = one - other, other - one
        run, neighbour = partial(rule.release, (2, one)), partial(rule.release, (2, other))
        costs += [align(run, neighbour, drawn, shift) for drawn in product((-7, 0, 3), repeat=2)]
        changes.append(sum(map(abs, shift)))
    assert max(costs) == ONE
    assert max(changes) * ONE / 5 == 2


def test_public_number_favours_the_textbook_sum() -> None:
    """With the noise that replacement needs, its variance is twice that of the textbook sum, not half."""
    assert paired_sum(1.0) == 2 * laplace(1.0)
    noise, runs = OneSidedNoise(SeededEntropy(113)), 4_000
    drawn = np.array([float(PairedSum(ONE, 0, 40).release([10, 30], noise)) for _ in range(runs)])
    error = math.sqrt(paired_sum(1.0) * 40**2 / runs)
    assert abs(drawn.mean() - 40) < 6 * error
    assert drawn.var() / 40**2 == pytest.approx(paired_sum(1.0), rel=0.2)
    assert PairedSum(ONE, 0, 40).release([10, 30], Given(0, 0, 0, 0)) == 40


def test_count_from_totals_halves_the_variance() -> None:
    """The count of `SumAndCountRule` at ε has the variance 4/ε², the textbook count at ε/2 has 8/ε²."""
    assert 2 * count_from_totals(1.0) == laplace(0.5)
    rule, noise, runs = SumAndCountRule(ONE, 0, 40), OneSidedNoise(SeededEntropy(114)), 4_000
    drawn = np.array([float(rule.release([[7], [9]], noise).count) for _ in range(runs)])
    assert drawn.var() == pytest.approx(count_from_totals(1.0), rel=0.2)


@pytest.mark.parametrize("kind", [*MEANS, PairedSum])
def test_bad_rules_are_refused(kind: type[NaiveMean]) -> None:
    """Invalid ε, bounds and values are refused, each with its own class of error."""
    for wrong in (0, -1, 0.5):
        with pytest.raises(EpsilonError):
            kind(cast("Fraction", wrong), 0, 1)
    with pytest.raises(BoundsError, match="expected low < high"):
        kind(ONE, 3, 2)
    with pytest.raises(ExactnessError, match="low is a float"):
        kind(ONE, cast("int", 0.5), 2)
    with pytest.raises(ExactnessError, match="A value is a float"):
        kind(ONE, 0, 2).release([cast("int", 1.0)], Given(0, 0, 0, 0))


def test_bad_sums_and_formulas_are_refused() -> None:
    """No values where their number is public, a mean outside 0 to 1, an ε of 0 and no queries are refused."""
    with pytest.raises(NoDataError):
        PairedSum(ONE, 0, 1).release([], Given())
    for formula in (naive_mean, centred_mean, paired_mean, least_mean):
        with pytest.raises(BoundsError):
            formula(1.0, 1.5)
    with pytest.raises(EpsilonError):
        laplace(0.0)
    with pytest.raises(PrivacyError):
        correlated_ratio(0)
