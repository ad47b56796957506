"""Asymmetric noise and the one-sided decision: exact laws and losses by enumeration, and the running sampler."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import CountsError, EpsilonError, ExactnessError, PrivacyError
from monitor.onesided.mechanisms import (
    AsymmetricGeometric,
    AsymmetricLaplace,
    Monotone,
    Moving,
    OneSidedDecision,
    most_certain,
)
from monitor.privacy.noise import OneSidedNoise, SeededEntropy

ONE = Fraction(1)
Law = dict[Hashable, Fraction]


class Fixed:
    """Noise that a test wrote: draws in order, and the uniform that decides whether a gap is reached."""

    secure = False

    def __init__(self, draws: Sequence[int], epsilon: Fraction) -> None:
        self._draws, self._epsilon = list(draws), epsilon

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        assert epsilon == self._epsilon
        taken, self._draws = self._draws[:size], self._draws[size:]
        assert len(taken) == size
        return np.array(taken, dtype=np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self.geometric(epsilon, gaps.size) >= gaps


def law_of(run: Callable[[Fixed], Hashable], epsilon: Fraction, q: Fraction, draws: int, most: int) -> Law:
    """Every outcome of the real code with its exact chance, for draws below `most`: (1 - q) q^g each."""
    law: Law = {}
    for taken in product(range(most), repeat=draws):
        said = run(Fixed(taken, epsilon))
        law[said] = law.get(said, Fraction(0)) + (1 - q) ** draws * q ** sum(taken)
    return law


def worst(law: Law, other: Law, seen: Callable[[Hashable], bool]) -> Fraction | float:
    """The greatest ratio over outcomes whose chance the cut draws hold entirely."""
    ratios = [chance / other[said] if other.get(said) else math.inf for said, chance in law.items() if seen(said)]
    return max(ratios)


def within(value: Fraction | int, mark_lifetime: Fraction, z: Hashable) -> bool:
    """Whether an outcome is nearer to the true value than a reach, so that no cut draw is missing from its chance."""
    return abs(cast("Fraction", z) - value) < mark_lifetime


def decided(rule: OneSidedDecision, count: int, noise: Fixed) -> bool:
    return bool(rule.decide([count], noise)[0])


@pytest.mark.parametrize(("direction", "sign"), [("decreasing", 1), ("increasing", -1)])
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("sensitivity", [1, 2, 3])
def test_a_noisy_count_costs_exactly_epsilon_at_worst(
    direction: Moving, sign: int, q: Fraction, sensitivity: int
) -> None:
    """Counts that change by Δ, with noise at ε/Δ: q^-Δ, q = e^(-ε/Δ); and f is never beyond z."""
    rule = AsymmetricGeometric(ONE, sensitivity, direction)

    def law(count: int) -> Law:
        return law_of(partial(rule.release_one, count), ONE / sensitivity, q, 1, 12)

    losses = []
    for count in range(4):
        other = count - sign * sensitivity
        if other >= 0:
            losses.append(worst(law(count), law(other), partial(within, count, Fraction(12 - 3))))
        assert all((cast("int", z) - count) * sign >= 0 for z in law(count))
    assert max(losses) == q**-sensitivity


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
def test_towards_the_other_side_one_sided_noise_costs_without_bound(direction: Moving) -> None:
    """Why the direction is asked for: 1 → 2 upwards rules z = 1 out."""
    rule = AsymmetricGeometric(ONE, 1, direction)
    one, other = (1, 2) if direction == "decreasing" else (2, 1)
    laws = [law_of(partial(rule.release_one, f), ONE, Fraction(1, 2), 1, 9) for f in (one, other)]
    assert worst(laws[0], laws[1], lambda _: True) == math.inf


def test_two_sided_noise_costs_epsilon_both_ways() -> None:
    """P[z - f = d] = (1 - q)/(1 + q) q^|d|, of which neighbours' ratio is q^-1: for d to ±3, but for 2^-20 cut off."""
    q, rule = Fraction(1, 2), AsymmetricGeometric(ONE, 1, "not monotone")
    law = law_of(partial(rule.release_one, 5), ONE, q, 2, 24)
    for distance in range(-3, 4):
        exact = (1 - q) / (1 + q) * q ** abs(distance)
        assert 0 <= exact - law[5 + distance] < Fraction(1, 2**20)


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(4, 5)])
def test_a_vector_costs_epsilon_for_the_sum_of_its_changes(q: Fraction) -> None:
    """Three counts of which a person is in two at most: Δ = 2, noise at ε/2, worst q^-2."""
    rule = AsymmetricGeometric(ONE, 2)
    most = 5

    def law(counts: tuple[int, ...]) -> Law:
        return law_of(lambda noise: tuple(rule.release(counts, noise).tolist()), ONE / 2, q, 3, most)

    losses = []
    for counts in product((1, 2), repeat=3):
        for taken in product((0, 1), repeat=3):
            if 0 < sum(taken) <= 2:
                other = tuple(f - t for f, t in zip(counts, taken, strict=True))
                losses.append(worst(law(counts), law(other), lambda z: max(cast("tuple[int, ...]", z)) < most))
    assert max(losses) == q**-2


@pytest.mark.parametrize(("direction", "sign"), [("decreasing", 1), ("increasing", -1)])
@pytest.mark.parametrize("slots", [Fraction(1, 2), Fraction(2, 3), Fraction(3)])
def test_on_a_grid_a_real_value_costs_at_most_epsilon(direction: Moving, sign: int, slots: Fraction) -> None:
    """Values in twelfths, Δ = 1: a change is ⌈1/slots⌉ slots steps at most, and that is met."""
    q, most = Fraction(1, 2), 12
    rule = AsymmetricLaplace(ONE, ONE, slots, direction)
    per_change = math.ceil(1 / slots)
    assert rule.step_epsilon == ONE / per_change
    losses = []
    for twelfths, change in product(range(12, 25), range(1, 13)):
        value, other = Fraction(twelfths, 12), Fraction(twelfths - sign * change, 12)
        laws = [law_of(partial(rule.release, f), rule.step_epsilon, q, 1, most) for f in (value, other)]
        assert all((cast("Fraction", z) - value) * sign >= 0 for z in laws[0])
        assert all((cast("Fraction", z) / slots).denominator == 1 for z in laws[0])
        losses.append(worst(laws[0], laws[1], partial(within, value, (most - per_change - 1) * slots)))
    assert max(losses) == q**-per_change


def test_on_a_grid_the_law_is_the_exponential_cut_to_the_grid() -> None:
    """P[noise ≥ m·slots] is the same for both: e^(-ε·m·slots/Δ). Seeded; 6.5 standard errors: 10^-10 a point."""
    slots, runs = Fraction(1, 4), 20_000
    rule, noise = AsymmetricLaplace(ONE, Fraction(2), slots), OneSidedNoise(SeededEntropy(31))
    drawn = np.array([float(rule.release(Fraction(3), noise) - 3) for _ in range(runs)])
    for m in (1, 4, 12):
        chance = math.exp(-m / 8)
        assert abs((drawn >= m / 4).mean() - chance) < 6.5 * math.sqrt(chance * (1 - chance) / runs)


def test_two_sided_noise_on_a_grid_rounds_to_the_nearest() -> None:
    """And moves by the difference of two draws."""
    rule = AsymmetricLaplace(ONE, ONE, Fraction(1, 2), "not monotone")
    assert rule.release(Fraction(7, 10), Fixed([3, 1], ONE / 2)) == Fraction(1, 2) + 1
    assert rule.release(Fraction(78, 100), Fixed([0, 0], ONE / 2)) == 1
    assert rule.release(Fraction(3, 4), Fixed([0, 0], ONE / 2)) == 1


@pytest.mark.parametrize(("direction", "counts"), [("decreasing", range(7)), ("increasing", range(3, 12))])
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_a_decision_is_never_wrong_and_meets_theorem_9_at_every_step(
    direction: Monotone, counts: range, q: Fraction
) -> None:
    """P[certain] = 1 - q^k for k P-neighbours to the other answer, and each step costs e^ε exactly: the most there is.

    Any mechanism has P[don't know | k] ≥ q · P[don't know | k - 1] and P[don't know | 0] = 1, so at most 1 - q^k.
    """
    rule, threshold = OneSidedDecision(ONE, 5, direction), 5
    by_steps: dict[int, Fraction] = {}
    for count in counts:
        steps = int(rule.steps(np.array([count]))[0])
        law = law_of(partial(decided, rule, count), ONE, q, 1, 12)
        certain = law.get(True, Fraction(0))
        truth = count < threshold if direction == "decreasing" else count >= threshold
        assert (certain > 0) == truth
        assert certain == most_certain(q, steps) == 1 - q**steps
        by_steps[steps] = 1 - certain
    assert by_steps[0] == 1
    assert all(by_steps[k] == q * by_steps[k - 1] for k in by_steps if k)


def test_the_samplers_decision_has_its_chance() -> None:
    """100,000 decisions at 3 below T, ε = 1/3: 1 - 1/e; seeded, 6.5 standard errors: 10^-10 for a random seed."""
    rule, noise = OneSidedDecision(Fraction(1, 3), 5), OneSidedNoise(SeededEntropy(32))
    certain = rule.decide(np.full(100_000, 2), noise).mean()
    chance = 1 - math.exp(-1)
    assert abs(certain - chance) < 6.5 * math.sqrt(chance * (1 - chance) / 100_000)


def as_fraction(value: object) -> Fraction:
    """What the type checker would have refused."""
    return cast("Fraction", value)


@pytest.mark.parametrize("epsilon", [0, -1, 0.5, float("inf"), float("nan"), "1/2 "])
def test_an_epsilon_that_is_none_is_refused_everywhere(epsilon: object) -> None:
    """Zero, negative, a float, infinite."""
    wrong = as_fraction(epsilon)
    with pytest.raises(EpsilonError):
        AsymmetricGeometric(wrong)
    with pytest.raises(EpsilonError):
        AsymmetricLaplace(wrong, ONE, ONE)
    with pytest.raises(EpsilonError):
        OneSidedDecision(wrong, 5)


def test_counts_that_are_none_are_refused_without_being_said() -> None:
    """Floats, negative ones, none at all, a table of them."""
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


def test_other_parameters_that_are_none_are_refused() -> None:
    """Each names what is expected."""
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
