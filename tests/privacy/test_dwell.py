"""Dwell times: the values that count, and the exact worst loss of any change of one person's visits."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import pytest

from monitor.errors import BoundsError, EpsilonError, PrivacyError
from monitor.privacy.dwell import DwellRule, Stay, step
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from tests.privacy.laws import Given

ANN, BOB = b"a" * 16, b"b" * 16
LONGEST = 3
Totals = tuple[int, int]


def exact(stays: Sequence[Stay], per_person: int = 1) -> Totals:
    totals = step(DwellRule(Fraction(1), LONGEST, per_person), stays, Given(0, 0, 0, 0))
    return totals.above_low, totals.below_high


def test_bounds_apply_to_lengths_and_visits() -> None:
    """
    Lengths above the longest count as the longest, and of each person the first m visits in registry order count.

        Ann  row 0: 2 s, row 4: 9 s    m = 1: A = 2, B = 1      m = 2: A = 2 + 3, B = 1 + 0
        Bob  row 1: 0 s                       A + 0, B + 3             A + 0, B + 3
    """
    stays = [(ANN, 4, 9), (BOB, 1, 0), (ANN, 0, 2)]
    assert exact(stays) == (2, 4)
    assert exact(stays, per_person=2) == (5, 4)


def test_order_and_repeats_change_nothing() -> None:
    """The totals do not depend on the order, and of several lengths at one location the longest counts."""
    stays = [(ANN, 0, 1), (ANN, 0, 2), (ANN, 3, 1), (BOB, 0, 1)]
    assert {exact(order, 2) for order in permutations([*stays, stays[0]])} == {(4, 5)}


@pytest.mark.promise(44)
@pytest.mark.parametrize("per_person", [1, 2])
def test_any_change_costs_at_most_epsilon(per_person: int) -> None:
    """Over all pairs of one person's visits, the totals differ by at most 2·m·R in the L1 norm, and some reach it.

    Noise at ε/(2·m·R) then costs at most ε (`monitor.privacy.two_sided_noise`), with or without another person.
    """
    visits = list(product(range(3), range(LONGEST + 1)))
    sets = [(), *((visit,) for visit in visits), *combinations_with_replacement(visits, 2)]
    known = {own: exact([(ANN, *visit) for visit in own], per_person) for own in sets}
    distances = {
        abs(above - other_above) + abs(below - other_below)
        for (above, below), (other_above, other_below) in product(known.values(), repeat=2)
    }
    assert max(distances) == 2 * per_person * LONGEST
    removals = {abs(above) + abs(below) for above, below in known.values()}
    assert max(removals) == per_person * LONGEST, "a person without other visits pays half"
    print(f"{len(sets) ** 2} pairs of one person's visits")


@pytest.mark.promise(44)
def test_noise_is_drawn_at_half_epsilon() -> None:
    """Each total has two-sided noise at ε/(2·m·R): two one-sided draws for each."""
    noise = Given(0, 0, 0, 0)
    step(DwellRule(Fraction(1, 2), 60, 3), [], noise)
    assert noise.asked == [Fraction(1, 2) / (2 * 3 * 60)] * 4


def test_nobody_has_noise_too() -> None:
    """Without visits the totals are noise, in both directions."""
    noise = OneSidedNoise(SeededEntropy(3))
    drawn = [step(DwellRule(Fraction(1), 60), [], noise).above_low for _ in range(40)]
    assert min(drawn) < 0 < max(drawn)  # the chance of the opposite is 2^-39


@pytest.mark.parametrize(
    ("epsilon", "longest", "per_person", "error"),
    [
        (Fraction(0), 60, 1, EpsilonError),
        (Fraction(-1), 60, 1, EpsilonError),
        (Fraction(1), 0, 1, BoundsError),
        (Fraction(1), -5, 1, BoundsError),
        (Fraction(1), 60, 0, PrivacyError),
        (Fraction(1, 10**11), 60, 1, EpsilonError),
    ],
)
def test_invalid_rules_are_refused(epsilon: Fraction, longest: int, per_person: int, error: type[Exception]) -> None:
    """An ε of 0 or less, bounds the wrong way round, and no visits per person are refused."""
    with pytest.raises(error):
        DwellRule(epsilon, longest, per_person)
