"""Hot spots: the named locations, the exact worst privacy loss by enumeration, and the law."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import pytest

from monitor.errors import EpsilonError, PrivacyError
from monitor.privacy.hot_spots import step
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from tests.privacy.laws import ONE, Given, below, laws_of, worst

PLACES = 3
TOPS = (1, 2, 3)
CAP = 5
Outcome = tuple[tuple[int, int], ...]
Stay = tuple[int, ...]
"""The places that one person is reported at."""

ONE_PLACE: list[Stay] = [(), (0,), (1,), (2,)]


def publish(counts: Sequence[int], top: int, noise: Noise) -> Outcome:
    rows, noisy = step(ONE, top, np.array(counts, np.int64), noise)
    return tuple(zip(rows.tolist(), noisy.tolist(), strict=True))


def draw_hot_spots(counts: Sequence[int], top: int, draws: Sequence[int]) -> Outcome:
    noise = Given(*draws)
    published = publish(counts, top, noise)
    assert noise.asked == [ONE] * len(counts)
    return published


def is_low(outcome: Hashable) -> bool:
    """Return whether all noisy counts of an outcome are at most CAP, so that its chance includes every draw.

    A location that is not named has at most the lowest named count, so all noise of such an outcome is at most CAP.
    """
    return all(noisy <= CAP for _, noisy in cast("Outcome", outcome))


def count_people(people: Sequence[Stay]) -> tuple[int, ...]:
    return tuple(sum(place in stay for stay in people) for place in range(PLACES))


def pairs(stays: Sequence[Stay]) -> list[tuple[tuple[Stay, Stay], tuple[Stay, Stay]]]:
    """Return every D of two people with every D' that lacks some of one person's visits."""
    return [
        ((person, another), (less, another))
        for person, another in product(stays, repeat=2)
        for less in sorted({tuple(place for place in person if place in kept) for kept in stays} - {person})
    ]


def worst_ratio(stays: Sequence[Stay], top: int, law_q: Fraction) -> Fraction | float:
    """Return the worst Pr[M(D) = s] / Pr[M(D') = s] over two people, all D and all D'."""
    law = laws_of(lambda counts, noise: publish(counts, top, noise), below(CAP + 1), law_q)
    return max(worst(law(count_people(people)), law(count_people(fewer)), is_low) for people, fewer in pairs(stays))


@pytest.mark.promise(13)
@pytest.mark.parametrize("top", TOPS)
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_worst_loss_is_exactly_epsilon(q: Fraction, top: int) -> None:
    """One person at one place loses exactly ε, for any number of named locations."""
    assert worst_ratio(ONE_PLACE, top, q) == 1 / q


def test_stream_count_matches_theory_page(stated_streams: Callable[[str], int]) -> None:
    """The number of pairs is the one in tests/enumeration_sizes.txt."""
    print(f"hot spots: {len(pairs(ONE_PLACE))} pairs of D and D' for each k of {TOPS}")
    assert len(pairs(ONE_PLACE)) * len(TOPS) == stated_streams("Hot spots, one visit")


@pytest.mark.promise(16)
def test_two_places_cost_twice_epsilon() -> None:
    """A person reported at two places pays at both."""
    q = Fraction(1, 2)
    stays = [(), (0,), (1,), (0, 1)]
    assert worst_ratio(stays, PLACES, q) == 1 / q**2


@pytest.mark.promise(21)
def test_highest_noisy_counts_come_first() -> None:
    """
    The highest noisy counts are named, highest first, with ties in registry order.

        counts  1  4  0  2
        noise   3  0  4  0
        noisy   4  4  4  2
    """
    assert draw_hot_spots((1, 4, 0, 2), 3, (3, 0, 4, 0)) == ((0, 4), (1, 4), (2, 4))


def test_many_ties_keep_registry_order() -> None:
    """Many ties keep registry order, which a sort that is not stable breaks (docs/rules.md, rule 11)."""
    counts = [row % 3 for row in range(3_000)]
    assert [row for row, _ in draw_hot_spots(counts, 1_500, [0] * 3_000)] == [*range(2, 3_000, 3), *range(1, 1_500, 3)]


@pytest.mark.promise(13)
def test_empty_locations_draw_noise() -> None:
    """Every location draws noise, also with count 0."""
    assert draw_hot_spots((0, 0), 1, (0, 2)) == ((1, 2),)


def test_fewer_locations_than_top() -> None:
    """If there are fewer locations than `top`, all are named."""
    assert draw_hot_spots((1, 2), 5, (0, 0)) == ((1, 2), (0, 1))


@pytest.mark.promise(3)
def test_noisy_counts_are_upper_bounds() -> None:
    """A named noisy count is never below the true count."""
    counts = np.arange(1_000, dtype=np.int64) % 7
    rows, noisy = step(Fraction(1, 3), 100, counts, OneSidedNoise(SeededEntropy(5)))
    assert (noisy >= counts[rows]).all()


@pytest.mark.parametrize(("top", "counts", "why"), [(0, [1], "top is 0"), (2, [1, -7], "A count is negative")])
def test_invalid_arguments_are_refused(top: int, counts: list[int], why: str) -> None:
    """A `top` below 1 and a negative count are refused, and the message does not contain the count."""
    with pytest.raises(PrivacyError, match=f"^{why}[^7]*$"):
        step(ONE, top, np.array(counts, np.int64), OneSidedNoise(SeededEntropy(1)))


def test_invalid_epsilon_is_refused() -> None:
    """An ε that noise cannot be drawn at is refused."""
    with pytest.raises(EpsilonError):
        step(Fraction(0), 1, np.array([1], np.int64), OneSidedNoise(SeededEntropy(1)))
