"""The bounds of the statistical tests, compared with sums of exact fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from fractions import Fraction
from math import comb, inf, log

import pytest

from tests.statistics.bounds import at_least, at_most, fits, losses, lower, upper

pytestmark = pytest.mark.long


def sum_tail(hits: range, draws: int, chance: Fraction) -> float:
    return float(sum(comb(draws, k) * chance**k * (1 - chance) ** (draws - k) for k in hits))


@pytest.mark.parametrize("chance", [Fraction(1, 2), Fraction(1, 10), Fraction(99, 100)])
@pytest.mark.parametrize("hits", [0, 1, 7, 60, 119, 120])
def test_tails_are_sums_of_the_law(hits: int, chance: Fraction) -> None:
    """Both tails match sums of exact fractions."""
    assert at_least(hits, 120, float(chance)) == pytest.approx(
        sum_tail(range(hits, 121), 120, chance), rel=1e-9, abs=1e-12
    )
    assert at_most(hits, 120, float(chance)) == pytest.approx(
        sum_tail(range(hits + 1), 120, chance), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("hits", [1, 20, 199])
def test_bound_has_the_level_as_tail(hits: int) -> None:
    """At each bound the tail has the chance `level`."""
    assert at_least(hits, 200, lower(hits, 200, 1e-6)) == pytest.approx(1e-6, rel=1e-6)
    assert at_most(hits, 200, upper(hits, 200, 1e-6)) == pytest.approx(1e-6, rel=1e-6)


def test_no_runs_bound_nothing() -> None:
    """Without a hit the lower bound is 0, and with hits only the upper bound is 1."""
    assert (lower(0, 50, 0.1), upper(50, 50, 0.1)) == (0.0, 1.0)
    assert upper(0, 50, 0.1) == pytest.approx(1 - 0.1 ** (1 / 50))


def test_chance_fits_its_own_samples() -> None:
    """A count near the expected one fits its chance, and a distant one does not."""
    assert fits(5_000, 10_000, 0.5, 1e-9)
    assert not fits(5_400, 10_000, 0.5, 1e-9)
    assert not fits(4_600, 10_000, 0.5, 1e-9)
    assert fits(0, 100, 0.0, 1e-9)
    assert not fits(1, 100, 0.0, 1e-9)
    assert not fits(99, 100, 1.0, 1e-9)


def test_loss_is_between_its_bounds() -> None:
    """The bounds contain the true loss, and are infinite above if D' never has the outcome."""
    observed: Counter[Hashable] = Counter({"alarm": 6_000, "safe": 3_000, "rare": 1_000})
    neighbour: Counter[Hashable] = Counter({"alarm": 3_000, "safe": 7_000})
    by_outcome = {loss.outcome: loss for loss in losses(observed, neighbour, 3, 1e-6)}
    assert by_outcome["alarm"].at_least < log(2) < by_outcome["alarm"].at_most < log(2) + 0.3
    assert by_outcome["rare"].at_least > 3
    assert by_outcome["rare"].at_most == inf
