"""Lower bounds: certain, drawn for every location, and the exact worst privacy loss by enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import EpsilonError, PrivacyError
from monitor.privacy.at_least import step
from monitor.privacy.noise import OneSidedNoise, SeededEntropy

ONE = Fraction(1)
PLACES = 2
PEOPLE = 3
Bounds = tuple[tuple[int, int], ...]
Ratio = Fraction | float
Stay = tuple[int, bool] | None
"""The report of one person: (place, consent), or none."""

STAYS: list[Stay] = [None, *product(range(PLACES), (False, True))]


class Given:
    """Noise with given values."""

    secure = False

    def __init__(self, noise: Sequence[int]) -> None:
        self._noise = noise

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        assert epsilon == ONE
        assert size == len(self._noise)
        return np.array(self._noise, np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        pytest.fail(f"lower bounds decide nothing by a threshold: ε = {epsilon}, {gaps.size} gaps")


def draw(counts: Sequence[int], noise: Sequence[int]) -> Bounds:
    rows, bounds = step(ONE, np.array(counts, np.int64), Given(noise))
    return tuple(zip(rows.tolist(), bounds.tolist(), strict=True))


def law(counts: Sequence[int], q: Fraction, sign: int = 1) -> dict[Bounds, Fraction]:
    """Return the exact chance of every outcome. Draws above all counts are one outcome: a bound of 0."""
    draws = [*((n, (1 - q) * q**n) for n in range(PEOPLE)), (PEOPLE, q**PEOPLE)]
    outcomes: dict[Bounds, Fraction] = {}
    for chosen in product(draws, repeat=len(counts)):
        outcome = draw(counts, [sign * noise for noise, _ in chosen])
        outcomes[outcome] = outcomes.get(outcome, Fraction(0)) + math.prod(chance for _, chance in chosen)
    assert sum(outcomes.values()) == 1
    return outcomes


def count_consenting(stays: Sequence[Stay]) -> tuple[int, ...]:
    return tuple(sum(stay == (place, True) for stay in stays) for place in range(PLACES))


def worst_ratio(full: Sequence[int], other: Sequence[int], law_of: Callable[..., Any], q: Fraction) -> Ratio:
    before, after = law_of(full, q), law_of(other, q)
    return max(chance / after[outcome] if outcome in after else math.inf for outcome, chance in before.items())


def osdp_pairs() -> list[tuple[tuple[Stay, ...], tuple[Stay, ...]]]:
    """Return every D of three people, with every D' that replaces one visit without consent by anything."""
    return [
        (people, (*people[:at], other, *people[at + 1 :]))
        for people in product(STAYS, repeat=PEOPLE)
        for at, stay in enumerate(people)
        if stay is not None and not stay[1]
        for other in STAYS
        if other != stay
    ]


@pytest.mark.promise(41)
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_lower_bounds_never_exceed_the_count(q: Fraction) -> None:
    """A published bound is at least 1 and at most the number of people who consented, for every outcome."""
    for counts in product(range(PEOPLE + 1), repeat=PLACES):
        for outcome in law(counts, q):
            assert all(1 <= bound <= counts[row] for row, bound in outcome)


@pytest.mark.promise(42)
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_missing_consent_costs_exactly_epsilon(q: Fraction, stated_streams: Callable[[str], int]) -> None:
    """Replacing a visit without consent by any other visit changes no outcome's chance by more than e^ε: OSDP."""
    ratios = {
        worst_ratio(count_consenting(people), count_consenting(others), law, q) for people, others in osdp_pairs()
    }
    assert ratios == {1, 1 / q}
    print(f"{len(osdp_pairs())} pairs of D and D' of lower bounds")
    assert len(osdp_pairs()) == stated_streams("Lower bounds, any visit in place of one without consent")


def test_consenting_visit_is_not_protected() -> None:
    """Without a visit with consent, the highest bound is impossible. The person agreed to this."""
    assert worst_ratio((1, 0), (0, 0), law, Fraction(1, 2)) == math.inf


def test_noise_of_wrong_sign_is_caught() -> None:
    """The enumeration detects noise that is added: the bound is false, and the loss unbounded."""

    def added(counts: Sequence[int], q: Fraction) -> dict[Bounds, Fraction]:
        return law(counts, q, sign=-1)

    assert worst_ratio((0, 0), (1, 0), added, Fraction(1, 2)) == math.inf
    assert any(bound > 1 for outcome in added((1, 0), Fraction(1, 2)) for _, bound in outcome)


def test_zeros_are_left_out() -> None:
    """
    Bounds of 0 are left out, and the others are in registry order.

        counts  3  0  2  5
        noise   1  0  4  5
        bounds  2  -  -  -
    """
    assert draw((3, 0, 2, 5), (1, 0, 4, 5)) == ((0, 2),)
    assert draw((3, 0, 2, 5), (0, 7, 0, 2)) == ((0, 3), (2, 2), (3, 3))


@pytest.mark.promise(41)
def test_real_noise_gives_lower_bounds() -> None:
    """With seeded noise, no bound exceeds its count, and the mean gap is 1/(e^ε - 1) within five deviations."""
    counts = np.full(20_000, 10**6, np.int64)
    rows, bounds = step(ONE, counts, OneSidedNoise(SeededEntropy(5)))
    gaps = counts[rows] - bounds
    assert gaps.min() == 0
    deviation = math.exp(0.5) / (math.e - 1) / math.sqrt(gaps.size)
    assert abs(float(gaps.mean()) - 1 / (math.e - 1)) < 5 * deviation


def test_negative_count_is_refused() -> None:
    """A negative count is refused, and the message does not contain it."""
    with pytest.raises(PrivacyError, match=r"^A count is negative[^7]*$"):
        step(ONE, np.array([1, -7], np.int64), OneSidedNoise(SeededEntropy(1)))


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1)])
def test_invalid_epsilon_is_refused(epsilon: Fraction) -> None:
    """An ε at which noise cannot be drawn is refused."""
    with pytest.raises(EpsilonError):
        step(epsilon, np.array([1], np.int64), OneSidedNoise(SeededEntropy(1)))
