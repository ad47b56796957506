"""Lower bounds: certain, drawn for every location, and the exact worst privacy loss by enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import EpsilonError, PrivacyError
from monitor.privacy.at_least import step
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from tests.privacy.laws import HALF, ONE, Given, Law, laws_of, one_sided, worst

pytestmark = pytest.mark.long

PLACES = 2
PEOPLE = 3
Bounds = tuple[tuple[int, int], ...]
Stay = tuple[int, bool] | None
"""The report of one person: (place, consent), or none."""

STAYS: list[Stay] = [None, *product(range(PLACES), (False, True))]


def publish(counts: Sequence[int], noise: Noise) -> Bounds:
    rows, bounds = step(ONE, np.array(counts, np.int64), noise)
    return tuple(zip(rows.tolist(), bounds.tolist(), strict=True))


def law(counts: Sequence[int], q: Fraction) -> Law:
    """Return the exact chance of every outcome. Draws above all counts are one outcome: a bound of 0."""
    return laws_of(publish, one_sided(PEOPLE), q)(counts)


def count_consenting(stays: Sequence[Stay]) -> tuple[int, ...]:
    return tuple(sum(stay == (place, True) for stay in stays) for place in range(PLACES))


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
            assert all(1 <= bound <= counts[row] for row, bound in cast("Bounds", outcome))


@pytest.mark.promise(42)
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_missing_consent_costs_exactly_epsilon(q: Fraction, stated_streams: Callable[[str], int]) -> None:
    """Replacing a visit without consent by any other visit changes no outcome's chance by more than e^ε: OSDP."""
    law_of = laws_of(publish, one_sided(PEOPLE), q)
    ratios = {
        worst(law_of(count_consenting(people)), law_of(count_consenting(others))) for people, others in osdp_pairs()
    }
    assert ratios == {1, 1 / q}
    print(f"{len(osdp_pairs())} pairs of D and D' of lower bounds")
    assert len(osdp_pairs()) == stated_streams("Lower bounds, any visit in place of one without consent")


def test_consenting_visit_is_not_protected() -> None:
    """Without a visit with consent, the highest bound is impossible. The person agreed to this."""
    assert worst(law((1, 0), HALF), law((0, 0), HALF)) == math.inf


def test_noise_of_wrong_sign_is_caught() -> None:
    """The enumeration detects noise that is added: the bound is false, and the loss unbounded."""

    class Added:
        secure = False

        def __init__(self, noise: Noise) -> None:
            self._noise = noise
            self.reaches = noise.reaches

        def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
            return -self._noise.geometric(epsilon, size)

    added = laws_of(lambda counts, noise: publish(counts, Added(noise)), one_sided(PEOPLE))
    assert worst(added((0, 0)), added((1, 0))) == math.inf
    assert any(bound > 1 for outcome in added((1, 0)) for _, bound in cast("Bounds", outcome))


def test_zeros_are_left_out() -> None:
    """
    Bounds of 0 are left out, and the others are in registry order.

        counts  3  0  2  5
        noise   1  0  4  5
        bounds  2  -  -  -
    """
    assert publish((3, 0, 2, 5), Given(1, 0, 4, 5)) == ((0, 2),)
    assert publish((3, 0, 2, 5), Given(0, 7, 0, 2)) == ((0, 3), (2, 2), (3, 3))


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
