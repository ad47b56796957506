"""Asymmetric noise and the one-sided decision: exact laws and losses by enumeration, and the sampler."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pytest

from monitor.errors import CountsError, EpsilonError, ExactnessError, PrivacyError
from monitor.onesided.add_remove.variances import two_sided_variance
from monitor.onesided.mechanisms import (
    AsymmetricGeometric,
    AsymmetricLaplace,
    Monotone,
    Moving,
    OneSidedDecision,
    most_certain,
)
from monitor.onesided.policies import VISITED, RecordPolicy
from monitor.privacy.alarm_chances import compute_false_alarm
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from tests.privacy.laws import ONE, Given, below, laws_of, two_sided, worst


def is_within(value: Fraction | int, mark_lifetime: Fraction, z: Hashable) -> bool:
    """Return whether an outcome is closer to the true value than a distance, so that its chance includes every draw."""
    return abs(cast("Fraction", z) - value) < mark_lifetime


@pytest.mark.parametrize(("direction", "sign"), [("decreasing", 1), ("increasing", -1)])
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("sensitivity", [1, 2, 3])
def test_worst_loss_is_exactly_epsilon(direction: Moving, sign: int, q: Fraction, sensitivity: int) -> None:
    """For counts that change by Δ and noise at ε/Δ, the worst ratio is q^-Δ, q = e^(-ε/Δ)."""
    rule = AsymmetricGeometric(ONE, sensitivity, direction)

    law = laws_of(rule.release_one, below(12), q, ONE / sensitivity)
    losses = []
    for count in range(4):
        neighbour = count - sign * sensitivity
        if neighbour >= 0:
            losses.append(worst(law(count), law(neighbour), partial(is_within, count, Fraction(12 - 3))))
        assert all((cast("int", z) - count) * sign >= 0 for z in law(count))
    assert max(losses) == q**-sensitivity


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
def test_reverse_loss_is_unbounded(direction: Moving) -> None:
    """One-sided noise in the wrong direction makes an outcome impossible: 1 → 2 upwards excludes z = 1."""
    rule = AsymmetricGeometric(ONE, 1, direction)
    count, neighbour = (1, 2) if direction == "decreasing" else (2, 1)
    law = laws_of(rule.release_one, below(9))
    assert worst(law(count), law(neighbour)) == math.inf


def test_two_sided_noise_costs_both_ways() -> None:
    """Two-sided noise at ε/Δ has the worst ratio q^-Δ in both directions, for changes of Δ = 2."""
    q, rule = Fraction(1, 2), AsymmetricGeometric(ONE, 2, "not monotone")

    def publish(count: int, noise: Noise) -> int:
        return min(max(rule.release_one(count, noise), -2), 8)

    law = laws_of(publish, two_sided(10), q, ONE / 2, signed=True)
    assert worst(law(3), law(5)) == worst(law(5), law(3)) == q**-2


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(4, 5)])
def test_vector_costs_epsilon_for_total_change(q: Fraction) -> None:
    """Three counts of which a person is in at most two have Δ = 2, noise at ε/2 and worst ratio q^-2."""
    rule = AsymmetricGeometric(ONE, 2)
    most = 5

    law = laws_of(lambda counts, noise: tuple(rule.release(counts, noise).tolist()), below(most), q, ONE / 2)
    losses = []
    for counts in product((1, 2), repeat=3):
        for taken in product((0, 1), repeat=3):
            if 0 < sum(taken) <= 2:
                neighbour = tuple(f - t for f, t in zip(counts, taken, strict=True))
                losses.append(worst(law(counts), law(neighbour), lambda z: max(cast("tuple[int, ...]", z)) < most))
    assert max(losses) == q**-2


@pytest.mark.parametrize(("direction", "sign"), [("decreasing", 1), ("increasing", -1)])
@pytest.mark.parametrize("grid", [Fraction(1, 2), Fraction(2, 3), Fraction(3)])
def test_grid_value_costs_at_most_epsilon(direction: Moving, sign: int, grid: Fraction) -> None:
    """For values in twelfths and Δ = 1, a change is at most ⌈1/grid⌉ grid steps, and this maximum occurs."""
    q, most = Fraction(1, 2), 12
    rule = AsymmetricLaplace(ONE, ONE, grid, direction)
    per_change = math.ceil(1 / grid)
    law = laws_of(rule.release, below(most), q, ONE / per_change)
    losses = []
    for twelfths, change in product(range(12, 25), range(1, 13)):
        value, neighbour = Fraction(twelfths, 12), Fraction(twelfths - sign * change, 12)
        assert all((cast("Fraction", z) - value) * sign >= 0 for z in law(value))
        assert all((cast("Fraction", z) / grid).denominator == 1 for z in law(value))
        losses.append(worst(law(value), law(neighbour), partial(is_within, value, (most - per_change - 1) * grid)))
    assert max(losses) == q**-per_change


def test_grid_law_is_the_exponential() -> None:
    """P[noise ≥ m·grid] = e^(-ε·m·grid/Δ) as for the exponential, within 6.5 standard errors: 10^-10 per point."""
    grid, runs = Fraction(1, 4), 20_000
    rule, noise = AsymmetricLaplace(ONE, Fraction(2), grid), OneSidedNoise(SeededEntropy(31))
    drawn = np.array([float(rule.release(Fraction(3), noise) - 3) for _ in range(runs)])
    for m in (1, 4, 12):
        chance = math.exp(-m / 8)
        assert abs((drawn >= m / 4).mean() - chance) < 6.5 * math.sqrt(chance * (1 - chance) / runs)


def test_two_sided_grid_costs_both_ways() -> None:
    """Values 1 apart on a grid of 1/2, with noise on both sides, have the worst ratio q^-2 in both directions."""
    rule, q = AsymmetricLaplace(ONE, ONE, ONE / 2, "not monotone"), Fraction(1, 2)

    def publish(value: Fraction, noise: Noise) -> Fraction:
        return min(max(rule.release(value, noise), ONE), 4 * ONE)

    law = laws_of(publish, two_sided(6), q, ONE / 2, signed=True)
    assert worst(law(2 * ONE), law(3 * ONE)) == worst(law(3 * ONE), law(2 * ONE)) == q**-2


def test_two_sided_grid_rounds_to_nearest() -> None:
    """A value is rounded to the nearest grid point and moved by the difference of two draws."""
    rule = AsymmetricLaplace(ONE, ONE, Fraction(1, 2), "not monotone")
    assert rule.release(Fraction(7, 10), Given(3, 1)) == Fraction(1, 2) + 1
    assert rule.release(Fraction(78, 100), Given(0, 0)) == 1
    assert rule.release(Fraction(3, 4), Given(0, 0)) == 1


@pytest.mark.parametrize(("direction", "counts"), [("decreasing", range(7)), ("increasing", range(3, 12))])
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_decision_meets_theorem_9(direction: Monotone, counts: range, q: Fraction) -> None:
    """P[certain] = 1 - q^k for k P-neighbours to the other answer, the greatest possible, and each step costs e^ε.

    Any mechanism has P[not certain | k] ≥ q · P[not certain | k - 1] and P[not certain | 0] = 1, so at most 1 - q^k.
    """
    rule, threshold = OneSidedDecision(ONE, 5, direction), 5
    by_steps: dict[int, Fraction] = {}
    law = laws_of(lambda count, noise: bool(rule.decide([count], noise)[0]), below(12), q)
    for count in counts:
        steps = int(rule.steps(np.array([count]))[0])
        certain = law(count).get(True, Fraction(0))
        truth = count < threshold if direction == "decreasing" else count >= threshold
        assert (certain > 0) == truth
        assert certain == most_certain(q, steps) == 1 - q**steps
        by_steps[steps] = 1 - certain
    assert by_steps[0] == 1
    assert all(by_steps[k] == q * by_steps[k - 1] for k in by_steps if k)


def test_steps_come_from_the_other_answer() -> None:
    """For four people at T = 3, k is the least number of steps from a dataset with three people or more.

    By the text of Theorem 9 it is the number of steps to such a dataset, but none can be reached.
    """
    policy, rule = RecordPolicy.uniform(VISITED, 1), OneSidedDecision(ONE, 3)
    datasets = list(product(policy.records(), repeat=4))
    reached = [each for each in datasets if each.count((1,)) >= 3]
    for below_threshold in set(datasets) - set(reached):
        paths = [policy.minimum_step(each, below_threshold) for each in reached]
        (steps,) = rule.steps(np.array([below_threshold.count((1,))])).tolist()
        assert min(path for path in paths if path is not None) == steps
        assert {policy.minimum_step(below_threshold, each) for each in reached} == {None}
        assert compute_false_alarm(ONE, 3, 3 - steps) == pytest.approx(math.exp(-steps))


def test_two_sided_noise_beats_theorem_3() -> None:
    """Two-sided noise at ε = 1 and 4 has a root of the mean square of 1.357 and 0.195, below √2/ε: 1.414 and 0.354.

    100,000 draws agree within 3 % (seeded).
    """
    for epsilon, error in ((1, 1.357), (4, 0.195)):
        rule = AsymmetricGeometric(Fraction(epsilon), 1, "not monotone")
        drawn = rule.release([7] * 100_000, OneSidedNoise(SeededEntropy(33))) - 7
        assert math.sqrt(two_sided_variance(epsilon)) == pytest.approx(error, abs=5e-4)
        assert math.sqrt((drawn**2).mean()) == pytest.approx(error, rel=0.03)
        assert error < math.sqrt(2) / epsilon


def as_fraction(value: object) -> Fraction:
    """Return a value as a type that the checker would refuse."""
    return cast("Fraction", value)


@pytest.mark.parametrize("epsilon", [0, -1, 0.5, float("inf"), float("nan"), "1/2 "])
def test_invalid_epsilon_is_refused(epsilon: object) -> None:
    """An ε that is zero, negative, a float or infinite is refused by every mechanism."""
    wrong = as_fraction(epsilon)
    with pytest.raises(EpsilonError):
        AsymmetricGeometric(wrong)
    with pytest.raises(EpsilonError):
        AsymmetricLaplace(wrong, ONE, ONE)
    with pytest.raises(EpsilonError):
        OneSidedDecision(wrong, 5)


def test_invalid_counts_are_refused() -> None:
    """Floats, negative counts, no counts and a table are refused, and no message contains a count."""
    rule, noise = AsymmetricGeometric(ONE), OneSidedNoise(SeededEntropy(1))
    with pytest.raises(ExactnessError, match="of type float64: expected integers"):
        rule.release(cast("list[int]", [1.0]), noise)
    with pytest.raises(ExactnessError, match="of type bool"):
        rule.release(np.array([True]), noise)
    with pytest.raises(CountsError, match="negative") as caught:
        rule.release([5, -77], noise)
    assert "77" not in str(caught.value)
    with pytest.raises(CountsError, match="at least one entry"):
        rule.release([], noise)
    with pytest.raises(CountsError, match="one axis"):
        rule.release(np.array([[1]]), noise)
    with pytest.raises(CountsError, match="above 2\\^53"):
        rule.release([2**53 + 1], noise)
    assert rule.release([2**53], noise).size == 1


def test_invalid_parameters_are_refused() -> None:
    """Invalid sensitivities, grids, values, thresholds and q are refused, and the error names the value."""
    with pytest.raises(PrivacyError, match="sensitivity is 0"):
        AsymmetricGeometric(ONE, 0)
    with pytest.raises(EpsilonError, match="at least 1/1000000000000"):
        AsymmetricGeometric(ONE, 10**13)
    with pytest.raises(ExactnessError, match="grid is a float"):
        AsymmetricLaplace(ONE, ONE, as_fraction(0.1))
    with pytest.raises(PrivacyError, match="sensitivity is 0"):
        AsymmetricLaplace(ONE, Fraction(0), ONE)
    with pytest.raises(ExactnessError, match="the value is a float"):
        AsymmetricLaplace(ONE, ONE, ONE).release(as_fraction(0.5), OneSidedNoise(SeededEntropy(1)))
    with pytest.raises(CountsError, match="threshold is 0"):
        OneSidedDecision(ONE, 0)
    assert OneSidedDecision(ONE, 1).decide([1], OneSidedNoise(SeededEntropy(1))).tolist() == [False]
    for q in (ONE, Fraction(0)):
        with pytest.raises(PrivacyError, match=f"q is {q}"):
            most_certain(q, 1)
