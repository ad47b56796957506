"""Algorithm 1: the exact loss of the real selection by enumeration, its mutants, and invalid input."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import pytest

from monitor.errors import CountsError, EpsilonError, ExactnessError, SelectionError
from monitor.onesided.noisy_max import NoisyMaxRule, select
from monitor.privacy import hot_spots
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from tests.privacy.laws import ONE, Given, below, laws_of, worst

pytestmark = pytest.mark.long

Counts = tuple[int, ...]
Outcome = tuple[tuple[int, int], ...]
"""(place, noisy count) of the selected, highest first."""

Selection = Callable[[Counts, Noise], Outcome]

ITEMS, MOST = 3, 5
"""Draws end at MOST - 1. An outcome whose highest noisy count is below MOST needs no greater draw."""


def real(rule: NoisyMaxRule) -> Selection:
    def run(counts: Counts, noise: Noise) -> Outcome:
        places, noisy = select(rule, counts, noise)
        return tuple(zip(places.tolist(), noisy.tolist(), strict=True))

    return run


def neighbours(memberships: int) -> Iterator[tuple[Counts, Counts]]:
    """Return the counts of two people in any of three items, with and without some memberships of one person."""
    for counts, taken in product(product((0, 1, 2), repeat=ITEMS), product((0, 1), repeat=ITEMS)):
        if 0 < sum(taken) <= memberships and all(f >= t for f, t in zip(counts, taken, strict=True)):
            yield counts, tuple(f - t for f, t in zip(counts, taken, strict=True))


def is_low(outcome: Hashable) -> bool:
    """Return whether all noisy counts of an outcome are below MOST, so that its chance includes every draw."""
    return all(noisy < MOST for _, noisy in cast("Outcome", outcome))


def worst_of(selection: Selection, q: Fraction, memberships: int, unit: Fraction = ONE) -> Fraction | float:
    law = laws_of(selection, below(MOST), q, unit)
    return max(worst(law(counts), law(neighbour), is_low) for counts, neighbour in neighbours(memberships))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("memberships", [None, 1, 2, 3])
@pytest.mark.parametrize("q", [Fraction(1, 2), pytest.param(Fraction(9, 10), marks=pytest.mark.soak)])
def test_worst_loss_is_exactly_epsilon(k: int, memberships: int | None, q: Fraction) -> None:
    """With noise at ε/min(k, m) and q = e^(-ε/min(k, m)), the worst ratio is q^-min(k, m) = e^ε."""
    rule, most = NoisyMaxRule(ONE, k, memberships), ITEMS if memberships is None else memberships
    assert worst_of(real(rule), q, most, ONE / min(k, most)) == q ** -min(k, most)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_enumeration_omits_only_high_outcomes(k: int) -> None:
    """The chances of the outcomes below MOST add up to P[all noisy counts below MOST]."""
    q, counts = Fraction(1, 2), (2, 0, 1)
    law = laws_of(real(NoisyMaxRule(ONE, k)), below(MOST), q, ONE / k)(counts)
    total = sum(chance for outcome, chance in law.items() if is_low(outcome))
    assert total == math.prod(1 - q ** (MOST - f) for f in counts)


class TestMutants:
    """Small changes of the algorithm that the enumeration must detect."""

    q = Fraction(1, 2)

    def test_skipping_empty_items(self) -> None:
        """If items with count 0 are skipped, a named item proves a person."""

        def skipping(counts: Counts, noise: Noise) -> Outcome:
            draws = noise.geometric(ONE, ITEMS).tolist()
            noisy = [(place, f + g) for place, (f, g) in enumerate(zip(counts, draws, strict=True)) if f > 0]
            return tuple(sorted(noisy, key=lambda item: (-item[1], item[0]))[:1])

        assert worst_of(skipping, self.q, 1) == math.inf

    def test_highest_of_increasing_counts(self) -> None:
        """For k = 1 and three increasing counts with noise downwards, the highest costs more than ε.

        The lowest k cost ε: this is Algorithm 1 mirrored.
        """
        law = {counts: self._argmax_law(counts) for counts in product((0, 1, 2, 3), repeat=ITEMS)}
        ratios = [law[low][outcome] / law[high][outcome] for high, low in neighbours(ITEMS) for outcome in law[low]]
        assert max(ratios) > self.q**-1

    def _argmax_law(self, counts: Counts) -> dict[Outcome, Fraction]:
        """Return P[item j wins with f_j - G_j = z], with ties by index, for z from -1 up, in closed form."""
        law: dict[Outcome, Fraction] = {}
        for place, z in product(range(ITEMS), range(-1, 1)):
            chance = (1 - self.q) * self.q ** (counts[place] - z)
            for neighbour, f in enumerate(counts):
                if neighbour != place:
                    chance *= self.q ** max(f - z + (1 if neighbour < place else 0), 0)
            law[((place, z),)] = chance
        return law


@pytest.mark.promise(21)
def test_ties_keep_public_order() -> None:
    """Of equal noisy counts the earlier item comes first, and the later one is left out."""
    assert real(NoisyMaxRule(ONE, 2))((1, 1, 0), Given(0, 0, 1)) == ((0, 1), (1, 1))
    assert real(NoisyMaxRule(ONE, 3))((0, 2, 1), Given(0, 0, 1)) == ((1, 2), (2, 2), (0, 0))


def test_many_ties_keep_public_order() -> None:
    """Many ties keep the public order, which a sort that is not stable breaks."""
    counts = tuple(place % 3 for place in range(3_000))
    chosen = real(NoisyMaxRule(ONE, 1_500))(counts, Given(*[0] * 3_000))
    assert [place for place, _ in chosen] == [*range(2, 3_000, 3), *range(1, 1_500, 3)]


def test_hot_spots_are_algorithm_1() -> None:
    """The service's k hot spots at ε equal `select` with one membership, for the same noise."""
    counts = np.array([3, 0, 5, 5, 1], dtype=np.int64)
    for seed in range(20):
        rows, noisy = hot_spots.step(ONE, 3, counts, OneSidedNoise(SeededEntropy(seed)))
        same, as_noisy = select(NoisyMaxRule(ONE, 3, 1), counts, OneSidedNoise(SeededEntropy(seed)))
        assert (rows.tolist(), noisy.tolist()) == (same.tolist(), as_noisy.tolist())


def test_million_items_are_selected() -> None:
    """With small noise the truly highest of a million items are found, in order."""
    counts = np.zeros(1_000_000, dtype=np.int64)
    counts[[7, 999_999, 500]] = [900, 800, 700]
    places, noisy = select(NoisyMaxRule(ONE, 3, 1), counts, OneSidedNoise(SeededEntropy(52)))
    assert places.tolist() == [7, 999_999, 500]
    assert all(noisy >= [900, 800, 700])


def test_invalid_input_is_refused() -> None:
    """Invalid ε, k, memberships and counts are refused, and a k above the number of items."""
    noise = OneSidedNoise(SeededEntropy(1))
    for epsilon in (0, -1, 0.5, float("inf")):
        with pytest.raises(EpsilonError):
            NoisyMaxRule(cast("Fraction", epsilon), 1)
    with pytest.raises(SelectionError, match="k is 0: expected at least 1"):
        NoisyMaxRule(ONE, 0)
    with pytest.raises(SelectionError, match="memberships is 0"):
        NoisyMaxRule(ONE, 1, 0)
    with pytest.raises(SelectionError, match="k is 3, but there are 2 items"):
        select(NoisyMaxRule(ONE, 3), [1, 2], noise)
    with pytest.raises(CountsError, match="negative"):
        select(NoisyMaxRule(ONE, 1), [1, -2], noise)
    with pytest.raises(CountsError, match="at least one entry"):
        select(NoisyMaxRule(ONE, 1), [], noise)
    with pytest.raises(ExactnessError, match="expected integers"):
        select(NoisyMaxRule(ONE, 1), np.array([0.5]), noise)
