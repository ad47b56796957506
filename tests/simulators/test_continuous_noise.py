"""Simulated noise: its laws, and that drawing only what rises above a level changes nothing in law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simulators.continuous_noise import Exponential, Floats, Laplace, LaplaceSum, Law, draw_exceeding

pytestmark = pytest.mark.long

LAWS: list[Law] = [Exponential(3.0), Laplace(3.0), LaplaceSum(3.0, 1.0), LaplaceSum(0.5, 3.0)]
RUNS = 40_000
SIX_AND_A_HALF = 6.5
"""Standard errors: beyond them with a chance of 10^-10 for a random seed."""


def is_near(observed: float, chance: float, runs: int = RUNS) -> bool:
    return abs(observed - chance) < SIX_AND_A_HALF * math.sqrt(max(chance * (1 - chance), 1e-9) / runs)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_tail_equals_that_of_draws(law: Law) -> None:
    """P[noise > x] of the formula is that of seeded draws, at seven points."""
    drawn = law.sample(np.random.default_rng(1), (RUNS,))
    for x in (-6.0, -1.0, -0.1, 0.1, 1.0, 4.0, 9.0):
        assert is_near(float((drawn > x).mean()), float(law.survival(np.array([x]))[0]))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_tail_and_inverse_agree(law: Law) -> None:
    """The tail of its inverse is the chance, many scales away too."""
    chances = np.array([1e-300, 1e-30, 1e-9, 0.01, 0.05, 0.4, 0.6, 0.99])
    np.testing.assert_allclose(law.survival(law.inverse_survival(chances)), chances, rtol=1e-9)


def make_levels(runs: int) -> Floats:
    return np.where(np.arange(runs) % 2 == 0, 20.0, 23.0)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_items_exceed_with_their_chance(law: Law) -> None:
    """Each item exceeds a level with its own chance, in dense and in sparse groups (seeded)."""
    counts = np.array([25.0, 21.0, 20.0, *[14.0] * 4, *[9.0, 8.5, 8.0] * 3, *[0.0] * 20])
    counts = -np.sort(-counts)
    levels = make_levels(RUNS)
    above = draw_exceeding(counts, np.arange(counts.size), law, levels, np.random.default_rng(2))
    assert (above.values > levels[above.iterations]).all()
    pairs = above.iterations * counts.size + above.items
    assert np.unique(pairs).size == pairs.size
    for parity, level in ((0, 20.0), (1, 23.0)):
        rose = np.bincount(above.items[above.iterations % 2 == parity], minlength=counts.size) / (RUNS / 2)
        chances = law.survival(level - counts)
        assert all(is_near(float(r), float(p), RUNS // 2) for r, p in zip(rose, chances, strict=True))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_excess_follows_the_law(law: Law) -> None:
    """An item 9 below a level that exceeds it is above it by x with chance S(9 + x)/S(9) (400 items, seeded)."""
    counts, levels = np.zeros(400), np.full(4000, 9.0)
    above = draw_exceeding(counts, np.arange(400), law, levels, np.random.default_rng(3))
    base = float(law.survival(np.array([9.0]))[0])
    assert is_near(above.items.size / (400 * 4000), base, 400 * 4000)
    for x in (0.5, 3.0):
        share = float((above.values > 9 + x).mean())
        assert is_near(share, float(law.survival(np.array([9 + x]))[0]) / base, above.items.size)


def test_nothing_exceeds_without_items() -> None:
    """Nothing exceeds a level without items, or a level that is out of reach."""
    none = draw_exceeding(np.zeros(0), np.zeros(0, np.int64), Exponential(1.0), np.zeros(3), np.random.default_rng(4))
    far = draw_exceeding(np.zeros(5), np.arange(5), Exponential(1.0), np.full(3, 1e6), np.random.default_rng(4))
    assert none.items.size == far.items.size == 0
