"""Simulated noise: its laws, and that drawing only what rises above a level changes nothing in law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simulators.continuous_noise import Exponential, Floats, Laplace, LaplaceSum, Law, exceeding

LAWS: list[Law] = [Exponential(3.0), Laplace(3.0), LaplaceSum(3.0, 1.0), LaplaceSum(0.5, 3.0)]
RUNS = 40_000
SIX_AND_A_HALF = 6.5
"""Standard errors: beyond them with a chance of 10^-10 for a random seed."""


def near(observed: float, chance: float, runs: int = RUNS) -> bool:
    return abs(observed - chance) < SIX_AND_A_HALF * math.sqrt(max(chance * (1 - chance), 1e-9) / runs)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_upper_tail_is_that_of_the_draws(law: Law) -> None:
    """P[noise > x] from the formula and from draws, at seven points; seeded."""
    drawn = law.sample(np.random.default_rng(1), (RUNS,))
    for x in (-6.0, -1.0, -0.1, 0.1, 1.0, 4.0, 9.0):
        assert near(float((drawn > x).mean()), float(law.survival(np.array([x]))[0]))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_tail_and_its_inverse_agree(law: Law) -> None:
    """Also far out, where a level is many scales away."""
    chances = np.array([1e-300, 1e-30, 1e-9, 0.01, 0.05, 0.4, 0.6, 0.99])
    np.testing.assert_allclose(law.survival(law.inverse_survival(chances)), chances, rtol=1e-9)


def levels_of(runs: int) -> Floats:
    return np.where(np.arange(runs) % 2 == 0, 20.0, 23.0)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_each_item_rises_with_its_own_chance(law: Law) -> None:
    """Items near, at and far below the two levels, some alike: dense and sparse groups; seeded."""
    counts = np.array([25.0, 21.0, 20.0, *[14.0] * 4, *[9.0, 8.5, 8.0] * 3, *[0.0] * 20])
    counts = -np.sort(-counts)
    levels = levels_of(RUNS)
    risen = exceeding(counts, np.arange(counts.size), law, levels, np.random.default_rng(2))
    assert (risen.values > levels[risen.iterations]).all()
    pairs = risen.iterations * counts.size + risen.items
    assert np.unique(pairs).size == pairs.size
    for parity, level in ((0, 20.0), (1, 23.0)):
        rose = np.bincount(risen.items[risen.iterations % 2 == parity], minlength=counts.size) / (RUNS / 2)
        chances = law.survival(level - counts)
        assert all(near(float(r), float(p), RUNS // 2) for r, p in zip(rose, chances, strict=True))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_what_rises_rises_as_far_as_the_law_says(law: Law) -> None:
    """Of 400 items 9 below a level, those above it are beyond it by x with chance S(9 + x)/S(9); seeded."""
    counts, levels = np.zeros(400), np.full(4000, 9.0)
    risen = exceeding(counts, np.arange(400), law, levels, np.random.default_rng(3))
    base = float(law.survival(np.array([9.0]))[0])
    assert near(risen.items.size / (400 * 4000), base, 400 * 4000)
    for x in (0.5, 3.0):
        share = float((risen.values > 9 + x).mean())
        assert near(share, float(law.survival(np.array([9 + x]))[0]) / base, risen.items.size)


def test_nothing_rises_where_there_is_nothing() -> None:
    """No items, or a level out of reach."""
    none = exceeding(np.zeros(0), np.zeros(0, np.int64), Exponential(1.0), np.zeros(3), np.random.default_rng(4))
    far = exceeding(np.zeros(5), np.arange(5), Exponential(1.0), np.full(3, 1e6), np.random.default_rng(4))
    assert none.items.size == far.items.size == 0
