"""Hot spots: what is named, its exact worst privacy loss by enumeration, and its law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import EpsilonError, PrivacyError
from monitor.privacy.hot_spots import step
from monitor.privacy.noise import OneSidedNoise, SeededEntropy

ONE = Fraction(1)
PLACES = 3
TOPS = (1, 2, 3)
CAP = 5
Outcome = tuple[tuple[int, int], ...]
Stay = tuple[int, ...]
"""The places that one person is reported at."""

ONE_PLACE: list[Stay] = [(), (0,), (1,), (2,)]


class Given:
    """Noise that is told beforehand."""

    secure = False

    def __init__(self, noise: Sequence[int]) -> None:
        self._noise = noise

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        assert epsilon == ONE
        assert size == len(self._noise)
        return np.array(self._noise, np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        pytest.fail(f"hot spots decide nothing by a threshold: ε = {epsilon}, {gaps.size} gaps")


def named(counts: Sequence[int], top: int, noise: Sequence[int]) -> Outcome:
    rows, noisy = step(ONE, top, np.array(counts, np.int64), Given(noise))
    return tuple(zip(rows.tolist(), noisy.tolist(), strict=True))


def law(counts: Sequence[int], top: int, q: Fraction) -> dict[Outcome, Fraction]:
    """The exact chance of every outcome whose noisy counts are CAP at most.

    Who is not named has no more than the lowest that is named, so all noise of such an outcome is CAP at most too: the
    sum over such noise is the whole chance.
    """
    outcomes: dict[Outcome, Fraction] = {}
    for noise in product(range(CAP + 1), repeat=len(counts)):
        said = named(counts, top, noise)
        if max(noisy for _, noisy in said) <= CAP:
            chance = (1 - q) ** len(counts) * q ** sum(noise)
            outcomes[said] = outcomes.get(said, Fraction(0)) + chance
    return outcomes


def counted(people: Sequence[Stay]) -> tuple[int, ...]:
    return tuple(sum(place in stay for stay in people) for place in range(PLACES))


def pairs(stays: Sequence[Stay]) -> list[tuple[tuple[Stay, Stay], tuple[Stay, Stay]]]:
    """All D of two people, each with all D' that lack some of one person's visits."""
    return [
        ((one, other), (less, other))
        for one, other in product(stays, repeat=2)
        for less in sorted({tuple(place for place in one if place in kept) for kept in stays} - {one})
    ]


def worst_ratio(stays: Sequence[Stay], top: int, q: Fraction, law_q: Fraction) -> Fraction:
    """The worst Pr[M(D) = s] / Pr[M(D') = s] over two people, all D and all D'."""
    worst = Fraction(0)
    for people, fewer in pairs(stays):
        full, reduced = law(counted(people), top, law_q), law(counted(fewer), top, law_q)
        worst = max(worst, *(chance / reduced[said] for said, chance in full.items()))
    return worst


@pytest.mark.parametrize("top", TOPS)
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_worst_loss_is_exactly_epsilon(q: Fraction, top: int) -> None:
    """They are drawn at one tick alone, so a stream is what has been reported by then."""
    assert worst_ratio(ONE_PLACE, top, q, q) == 1 / q


def test_stream_count_matches_theory_page(stated_streams: Callable[[str], int]) -> None:
    print(f"hot spots: {len(pairs(ONE_PLACE))} pairs of D and D' for each k of {TOPS}")
    assert len(pairs(ONE_PLACE)) * len(TOPS) == stated_streams("Hot spots, one visit")


def test_two_places_cost_twice_epsilon() -> None:
    q = Fraction(1, 2)
    stays = [(), (0,), (1,), (0, 1)]
    assert worst_ratio(stays, PLACES, q, q) == 1 / q**2


def test_halved_noise_is_caught() -> None:
    q = Fraction(1, 2)
    assert worst_ratio(ONE_PLACE, 2, q, q**2) == 1 / q**2


def test_highest_noisy_counts_come_first() -> None:
    # counts  1  4  0  2
    # noise   3  0  4  0   noisy  4  4  4  2
    assert named((1, 4, 0, 2), 3, (3, 0, 4, 0)) == ((0, 4), (1, 4), (2, 4))


def test_many_ties_keep_registry_order() -> None:
    """Sorting that is not stable shows it only beyond a handful of locations (docs/rules.md, rule 11)."""
    counts = [row % 3 for row in range(3_000)]
    assert [row for row, _ in named(counts, 1_500, [0] * 3_000)] == [*range(2, 3_000, 3), *range(1, 1_500, 3)]


def test_empty_locations_draw_noise() -> None:
    assert named((0, 0), 1, (0, 2)) == ((1, 2),)


def test_fewer_locations_than_top() -> None:
    assert named((1, 2), 5, (0, 0)) == ((1, 2), (0, 1))


def test_noisy_counts_are_upper_bounds() -> None:
    counts = np.arange(1_000, dtype=np.int64) % 7
    rows, noisy = step(Fraction(1, 3), 100, counts, OneSidedNoise(SeededEntropy(5)))
    assert (noisy >= counts[rows]).all()


@pytest.mark.parametrize(("top", "counts", "why"), [(0, [1], "top is 0"), (2, [1, -7], "A count is negative")])
def test_invalid_arguments_are_refused(top: int, counts: list[int], why: str) -> None:
    with pytest.raises(PrivacyError, match=f"^{why}[^7]*$"):
        step(ONE, top, np.array(counts, np.int64), OneSidedNoise(SeededEntropy(1)))


def test_invalid_epsilon_is_refused() -> None:
    with pytest.raises(EpsilonError):
        step(Fraction(0), 1, np.array([1], np.int64), OneSidedNoise(SeededEntropy(1)))
