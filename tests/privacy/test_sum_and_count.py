"""Two-sided geometric noise and the paired mechanism: exact laws and losses by enumeration, and bad input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import pytest

from monitor.errors import BoundsError, EpsilonError, ExactnessError, PrivacyError
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.sum_and_count import SumAndCount, SumAndCountRule
from monitor.privacy.two_sided_noise import draw_two_sided
from tests.privacy.laws import HALF, ONE, Given

pytestmark = pytest.mark.long


def chance(q: Fraction, distance: int) -> Fraction:
    """Return P[X = distance] of two-sided geometric noise."""
    return (1 - q) / (1 + q) * q ** abs(distance)


def worst(q: Fraction, exact: SumAndCount, neighbour: SumAndCount) -> Fraction:
    """Return the greatest ratio of the chances of the two noisy totals, exactly.

    Beyond the range enumerated, both distances grow by the same steps, so the ratio stays the same.
    """
    span = range(-2, 3 + max(exact.above_low, exact.below_high, neighbour.above_low, neighbour.below_high))
    return max(
        chance(q, a - exact.above_low)
        * chance(q, b - exact.below_high)
        / (chance(q, a - neighbour.above_low) * chance(q, b - neighbour.below_high))
        for a, b in product(span, span)
    )


def records(low: int, high: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield every sequence of up to `most` values."""
    for length in range(most + 1):
        yield from product(range(low, high + 1), repeat=length)


@pytest.mark.parametrize("q", [HALF, Fraction(9, 10)])
def test_two_sided_law(q: Fraction) -> None:
    """The difference of two geometric draws is k with (1 - q)/(1 + q) · q^|k|, for |k| ≤ 3 within 2 q^40."""
    law: dict[int, Fraction] = {}
    for up, down in product(range(40), repeat=2):
        drawn = int(draw_two_sided(Given(up, down), ONE, 1)[0])
        law[drawn] = law.get(drawn, Fraction(0)) + (1 - q) ** 2 * q ** (up + down)
    assert all(0 <= chance(q, k) - law[k] < 2 * q**40 for k in range(-3, 4))


def test_sampled_two_sided_law() -> None:
    """The shares of -3 to 3 among 200,000 draws at ε = 1/2 are within 6.5 standard errors: 10^-9 in all."""
    runs, q = 200_000, math.exp(-0.5)
    drawn = draw_two_sided(OneSidedNoise(SeededEntropy(71)), HALF, runs)
    for k in range(-3, 4):
        expected = (1 - q) / (1 + q) * q ** abs(k)
        assert abs((drawn == k).mean() - expected) < 6.5 * math.sqrt(expected * (1 - expected) / runs)


@pytest.mark.parametrize("q", [HALF, pytest.param(Fraction(9, 10), marks=pytest.mark.soak)])
@pytest.mark.parametrize(("low", "high", "most"), [(0, 1, 1), (-1, 2, 1), (0, 2, 2), (3, 5, 1)])
def test_adding_a_person_costs_epsilon(low: int, high: int, most: int, q: Fraction) -> None:
    """With noise at ε/(m·R), adding or removing any person has a ratio of at most q^-(m·R), and this occurs."""
    rule = SumAndCountRule(ONE, low, high, most)
    assert rule.noise_epsilon == ONE / (most * (high - low))
    losses = []
    for other in records(low, high, 1):
        without = rule.add_up([other])
        for person in records(low, high, most + 1):
            with_person = rule.add_up([other, person])
            losses += [worst(q, with_person, without), worst(q, without, with_person)]
    assert max(losses) == q ** -(most * (high - low))


def test_changing_a_person_costs_twice_epsilon() -> None:
    """Between any two sets of values of one person the ratio is at most q^-(2·m·R), and this occurs."""
    rule = SumAndCountRule(ONE, 0, 2, 2)
    losses = [
        worst(HALF, rule.add_up([one]), rule.add_up([other]))
        for one, other in product(records(0, 2, 2), records(0, 2, 2))
    ]
    assert max(losses) == HALF**-8


def test_dropping_few_values_costs_epsilon() -> None:
    """Removing some of at most m values costs ε. With m + 1 values it may cost more, because another one is kept."""
    rule = SumAndCountRule(ONE, 0, 2, 2)

    def drop_one(length: int) -> Fraction:
        return max(
            worst(HALF, rule.add_up([values]), rule.add_up([values[:place] + values[place + 1 :]]))
            for values in product(range(3), repeat=length)
            for place in range(length)
        )

    assert drop_one(2) <= HALF**-4
    assert drop_one(3) == HALF**-4  # one value of R is exchanged for another: R from A, R to B
    assert (
        max(worst(HALF, rule.add_up([values]), rule.add_up([values[2:]])) for values in product(range(3), repeat=4))
        == HALF**-8
    )


def test_release_adds_noise_to_both_totals() -> None:
    """A gets the first difference of draws and B the second one, at ε/(m·R)."""
    noise = Given(5, 1, 2, 4)
    noisy = SumAndCountRule(ONE, 10, 14, 2).release([(11, 13, 14), (), (20,)], noise)
    assert noisy == SumAndCount(1 + 3 + 4 + 3, 3 + 1 + 0 - 3, 10, 14)
    assert noise.asked == [ONE / 8] * 4


def test_exact_totals_give_exact_statistics() -> None:
    """Without noise, count, total and mean are those of the values."""
    for values in product(range(-2, 4), repeat=3):
        totals = SumAndCountRule(ONE, -2, 3).add_up([[value] for value in values])
        assert totals.count == 3
        assert totals.total == sum(values)
        assert totals.mean == Fraction(sum(values), 3)


def test_values_outside_the_bounds_are_clamped() -> None:
    """A value beyond a bound counts as the bound."""
    rule = SumAndCountRule(ONE, 0, 5)
    assert rule.add_up([[9], [-9]]) == rule.add_up([[5], [0]])


@pytest.mark.parametrize(
    ("above", "below", "mean"), [(-3, 5, 0), (5, -3, 6), (3, 3, 3), (0, 0, None), (-4, 2, None), (2, 1, 4)]
)
def test_noisy_mean_is_within_the_bounds(above: int, below: int, mean: int | None) -> None:
    """The mean is clamped to the bounds, and None if the count is not above 0."""
    assert SumAndCount(above, below, 0, 6).mean == mean


def test_noisy_estimates_are_unbiased() -> None:
    """The means of 4,000 counts and totals are within 6 standard errors of the true ones: 10^-8."""
    rule, noise, runs = SumAndCountRule(ONE, 2, 6), OneSidedNoise(SeededEntropy(72)), 4_000
    people = [[3], [5], [6]]
    drawn = [rule.release(people, noise) for _ in range(runs)]
    for values, true in (([t.count for t in drawn], 3), ([t.total for t in drawn], 14)):
        sample = np.array([float(value) for value in values])
        assert abs(sample.mean() - true) < 6 * sample.std() / math.sqrt(runs)


def test_no_people_is_valid_input() -> None:
    """The exact totals of nobody are 0, and noise is added as for any data."""
    assert SumAndCountRule(ONE, 0, 3).release([], Given(1, 0, 0, 2)) == SumAndCount(1, -2, 0, 3)


@pytest.mark.parametrize("epsilon", [0, -1, 0.5])
def test_invalid_epsilon_is_refused(epsilon: object) -> None:
    """An ε that is not above 0, or a float, is refused."""
    with pytest.raises(EpsilonError):
        SumAndCountRule(cast("Fraction", epsilon), 0, 1)


def test_invalid_rules_are_refused() -> None:
    """Invalid bounds, numbers of values, ε and values are refused, and the error names the value."""
    with pytest.raises(BoundsError, match="low is 5, high is 5: expected low < high"):
        SumAndCountRule(ONE, 5, 5)
    with pytest.raises(BoundsError, match="low is 7, high is 5"):
        SumAndCountRule(ONE, 7, 5)
    with pytest.raises(ExactnessError, match="high is a float"):
        SumAndCountRule(ONE, 0, cast("int", 1.5))
    with pytest.raises(PrivacyError, match="values_per_person is 0"):
        SumAndCountRule(ONE, 0, 1, 0)
    with pytest.raises(EpsilonError, match="ε of the noise of each total"):
        SumAndCountRule(ONE, 0, 10**13)
    with pytest.raises(ExactnessError, match="a value is a float"):
        SumAndCountRule(ONE, 0, 3).add_up([cast("list[int]", [1.0])])
    with pytest.raises(ExactnessError, match="a value is a bool"):
        SumAndCountRule(ONE, 0, 3).add_up([[True]])
