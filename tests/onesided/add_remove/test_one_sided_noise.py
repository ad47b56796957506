"""One-sided noise for addition and for removal, and subsampling: exact laws and losses by enumeration."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import CountsError, EpsilonError, PrivacyError
from monitor.onesided.add_remove.mechanisms import OneSidedCounts, Side, removal_as_addition
from monitor.onesided.add_remove.subsampling import Subsample, SubsampledCount, amplify, two_sided_loss
from monitor.onesided.add_remove.variances import (
    break_even,
    laplace_variance,
    least_epsilon,
    raw_break_even,
    sampling_noise_mean,
    subsampled_estimate,
    subsampled_variance,
    subsampled_variance_continuous,
    two_sided_variance,
)
from monitor.onesided.estimates import noise_variance, unbiased
from monitor.onesided.osdp.exclusion import Law, worst_ratio
from monitor.privacy.noise import OneSidedNoise, SeededEntropy

ONE = Fraction(1)
HALF = Fraction(1, 2)
QS = [HALF, Fraction(9, 10)]
REACH = 8


class Decided:
    """Noise that a test has chosen: the answers of `reaches`, or the draws of `geometric`, one call after the other."""

    secure = False

    def __init__(self, *draws: int, reached: tuple[int, ...] = ()) -> None:
        self._draws, self._reached = list(draws), reached

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        assert epsilon == ONE
        taken, self._draws = self._draws[:size], self._draws[size:]
        return np.array(taken, dtype=np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert (epsilon, gaps.tolist()) == (ONE, [1] * len(self._reached))
        return np.array(self._reached, dtype=np.bool_)


def count_law(side: Side, count: int, q: Fraction, lowest: int = -4, highest: int = 9) -> Law:
    """Return the law of one noisy count, for outcomes from lowest to highest."""
    law: dict[Hashable, Fraction] = {}
    for draw in range(highest - lowest + 1):
        (z,) = OneSidedCounts(ONE, side).release([count], Decided(draw)).tolist()
        if lowest <= z <= highest:
            law[z] = (1 - q) * q**draw
    return law


@pytest.mark.parametrize("q", QS)
def test_addition_costs_epsilon(q: Fraction) -> None:
    """Noise upwards: from x to x' (one record less) the worst ratio is 1/q (Proposition 3); back it is unbounded."""
    pairs = [(count_law("addition", n, q), count_law("addition", n - 1, q)) for n in range(1, 5)]
    assert worst_ratio(pairs) == 1 / q
    assert worst_ratio((b, a) for a, b in pairs) is None


@pytest.mark.parametrize("q", QS)
def test_removal_costs_epsilon(q: Fraction) -> None:
    """Noise downwards: from x' to x (one record more) the worst ratio is 1/q (Proposition 4); back it is unbounded."""
    pairs = [(count_law("removal", n - 1, q), count_law("removal", n, q)) for n in range(1, 5)]
    assert worst_ratio(pairs) == 1 / q
    assert worst_ratio((b, a) for a, b in pairs) is None


def test_both_noises_make_two_sided_noise() -> None:
    """q(x) + G - G' has P[d] = (1 - q)/(1 + q) q^|d|, the discrete Laplace law, for |d| ≤ 3 within 2^-40."""
    law: dict[int, Fraction] = {}
    for up, down in product(range(42), repeat=2):
        law[up - down] = law.get(up - down, Fraction(0)) + HALF ** (2 + up + down)
    for d in range(-3, 4):
        assert 0 <= Fraction(1, 3) * HALF ** abs(d) - law[d] < Fraction(1, 2**40)


def test_one_sided_noise_halves_the_variance() -> None:
    """Geometric noise has half of the variance of two-sided geometric noise, at every ε."""
    for epsilon in (Fraction(1, 10), ONE, Fraction(5)):
        assert 2 * noise_variance(epsilon) == pytest.approx(two_sided_variance(float(epsilon)))


@pytest.mark.parametrize("side", ["addition", "removal"])
def test_unbiased_forms(side: Side) -> None:
    """The mean of 100,000 unbiased estimates of 5 is within 6.5 standard errors: 10^-10."""
    runs = 100_000
    drawn = OneSidedCounts(HALF, side).release([5] * runs, OneSidedNoise(SeededEntropy(101)))
    mean = unbiased(HALF, 0, "decreasing" if side == "addition" else "increasing") + drawn.mean()
    assert abs(mean - 5) < 6.5 * math.sqrt(noise_variance(HALF) / runs)


def test_negative_noise_leaves_zeros() -> None:
    """In a histogram, noise for removal keeps each 0; noise for addition at ε = 1/2 changes 61 % of them."""
    noise, zeros = OneSidedNoise(SeededEntropy(102)), [0] * 1_000
    assert not OneSidedCounts(HALF, "removal").release_histogram(zeros, noise).any()
    changed = int((OneSidedCounts(HALF, "addition").release_histogram(zeros, noise) > 0).sum())
    assert abs(changed - 1_000 * math.exp(-0.5)) < 100


def test_histogram_costs_epsilon() -> None:
    """A record is in one of three counts: the worst ratio of the joint law is 1/q."""

    def law(counts: tuple[int, ...]) -> Law:
        parts = [count_law("addition", count, HALF, 0, 3) for count in counts]
        return {
            tuple(outcome for outcome, _ in chosen): math.prod((chance for _, chance in chosen), start=ONE)
            for chosen in product(*(part.items() for part in parts))
        }

    pairs = [
        (law(counts), law(tuple(c - (place == one) for place, c in enumerate(counts))))
        for counts in product((1, 2), repeat=3)
        for one in range(3)
    ]
    assert worst_ratio(pairs) == 2


@pytest.mark.parametrize(("q", "delta"), [(HALF, Fraction(0)), (Fraction(3, 4), Fraction(1, 8))])
def test_removal_is_addition_at_minus_epsilon(q: Fraction, delta: Fraction) -> None:
    """For 2,000 random pairs of laws, (ε, δ) for removal holds on all events iff (-ε, 1 - q + qδ) for addition does."""
    random, held = np.random.default_rng(5), 0
    factor, other = removal_as_addition(q, delta)
    for _ in range(2_000):
        with_record, without = (
            [Fraction(int(w), int(weights.sum())) for w in weights]
            for weights in (random.integers(1, 9, 3), random.integers(1, 9, 3))
        )
        events = list(product((0, 1), repeat=3))
        chances = [
            tuple(sum((p for p, inside in zip(law, event, strict=True) if inside), Fraction(0)) for event in events)
            for law in (with_record, without)
        ]
        removal = all(b <= a / q + delta for a, b in zip(*chances, strict=True))
        addition = all(a <= factor * b + other for a, b in zip(*chances, strict=True))
        assert removal == addition
        held += removal
    assert 0 < held < 2_000


def sample_law(records: tuple[str, ...], y: Fraction) -> Law:
    law: dict[Hashable, Fraction] = {}
    for dropped in product((0, 1), repeat=len(records)):
        kept = tuple(Subsample(ONE).release(records, Decided(reached=dropped)))
        law[kept] = y ** sum(dropped) * (1 - y) ** (len(records) - sum(dropped))
    return law


@pytest.mark.parametrize("y", QS)
def test_subsampling_is_private_for_removal(y: Fraction) -> None:
    """With p = 1 - y, from x' to x the worst ratio of the published sample is 1/y (Theorem 5); back it is unbounded."""
    pairs = [(sample_law(("a", "b"), y), sample_law(("a", "b", "c"), y))]
    assert worst_ratio(pairs) == 1 / y
    assert worst_ratio((b, a) for a, b in pairs) is None


def geometric_law(r: Fraction, most: int) -> dict[int, Fraction]:
    return {k: (1 - r) * r**k for k in range(most + 1)}


def sampled_count_law(records: int, kept: Fraction, r: Fraction, highest: int = REACH) -> Law:
    """Return the law of Binomial(n, p) plus geometric noise of ratio r, for outcomes up to the highest."""
    law: dict[Hashable, Fraction] = {}
    for taken in range(records + 1):
        chance = math.comb(records, taken) * kept**taken * (1 - kept) ** (records - taken)
        for draw, noise in geometric_law(r, highest - taken).items():
            law[taken + draw] = law.get(taken + draw, Fraction(0)) + chance * noise
    return law


@pytest.mark.parametrize("y", [*QS, Fraction(1, 10)])
@pytest.mark.parametrize("kept", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_theorem_6_by_enumeration(y: Fraction, kept: Fraction) -> None:
    """A count with noise of ratio y on a sample: the worst ratios are at most 1 + p(1/y - 1), and 1/(1 - p)."""
    laws = [sampled_count_law(n, kept, y) for n in range(4)]
    addition = worst_ratio((laws[n + 1], laws[n]) for n in range(3))
    removal = worst_ratio((laws[n], laws[n + 1]) for n in range(3))
    assert addition is not None
    assert removal is not None
    assert addition <= 1 / amplify(y, kept)
    assert removal == 1 / (1 - kept)
    assert max(addition, removal) <= 1 / two_sided_loss(y, kept)


@pytest.mark.parametrize("y", [*QS, Fraction(1, 10)])
def test_equation_3_costs_epsilon_both_ways(y: Fraction) -> None:
    """With p = 1 - y and noise of ratio r = y/(1 + y), both directions have a worst ratio of exactly 1/y."""
    laws = [sampled_count_law(n, 1 - y, y / (1 + y)) for n in range(4)]
    assert worst_ratio((laws[n + 1], laws[n]) for n in range(3)) == 1 / y
    assert worst_ratio((laws[n], laws[n + 1]) for n in range(3)) == 1 / y
    assert two_sided_loss(y / (1 + y), 1 - y) == y


def test_noise_counts_odd_draws() -> None:
    """The noise is the number of odd draws before the first even one; P[odd] = y/(1 + y) exactly."""
    assert SubsampledCount(ONE).draw_noise(Decided(1, 3, 7, 0)) == 3
    assert SubsampledCount(ONE).draw_noise(Decided(4)) == 0
    for y in QS:
        odd = sum(((1 - y) * y ** (2 * k + 1) for k in range(300)), Fraction(0))
        assert 0 <= y / (1 + y) - odd < Fraction(1, 2**80)


def test_released_count_is_sample_plus_noise() -> None:
    """Two of three records are kept, and two odd draws come before an even one: 4."""
    assert SubsampledCount(ONE).release(3, Decided(5, 1, 2, reached=(0, 1, 0))) == 4


@pytest.mark.parametrize("records", [0, 1, 7])
def test_sampled_estimates_have_the_stated_variance(records: int) -> None:
    """At ε = 1, mean and variance of 20,000 estimates are within 6 standard errors of the formula's."""
    noise, runs = OneSidedNoise(SeededEntropy(103 + records)), 20_000
    rule = SubsampledCount(ONE)
    drawn = np.array([subsampled_estimate(1.0, rule.release(records, noise)) for _ in range(runs)])
    variance = subsampled_variance(1.0, records)
    assert abs(drawn.mean() - records) < 6 * math.sqrt(variance / runs)
    fourth = ((drawn - drawn.mean()) ** 4).mean()
    assert abs(drawn.var() - variance) < 6 * math.sqrt(fourth / runs)


@pytest.mark.parametrize("y", [HALF, Fraction(9, 10), Fraction(1, 100)])
def test_exercise_in_integers(y: Fraction) -> None:
    """With E = 1/y exactly, the difference of the variances is (n - 1)/(E - 1): only n = 0 gains, n = 1 is equal."""
    e, p, r = 1 / y, 1 - y, y / (1 + y)
    for n in range(5):
        subsampled = (n * p * (1 - p) + r / (1 - r) ** 2) / p**2
        two_sided = 2 * y / (1 - y) ** 2
        assert subsampled - two_sided == Fraction(n - 1) / (e - 1)
        epsilon = -math.log(y)
        assert subsampled_variance(epsilon, n) == pytest.approx(float(subsampled))


def test_smaller_samples_do_not_help() -> None:
    """For each p up to 1 - 1/E, with the noise that Theorem 6 allows, the variance falls as p rises."""
    for y in (HALF, Fraction(1, 10)):
        for n in (0, 1, 5):
            found = []
            for share in range(1, 11):
                p = (1 - y) * Fraction(share, 10)
                r = p / (p + 1 / y - 1)
                assert amplify(r, p) == y
                found.append(n * (1 - p) / p + r / (1 - r) ** 2 / p**2)
            assert found == sorted(found, reverse=True)


def test_exercise_with_real_noise() -> None:
    """Below `break_even` the subsampled estimate has the smaller variance, above it the larger one."""
    for epsilon in (0.05, 0.5, 1.0, 3.0, 6.0, 10.0):
        bound = break_even(epsilon)
        for n in (0, 1, 2, 5, 50, 300):
            better = subsampled_variance_continuous(epsilon, n) < laplace_variance(epsilon)
            assert better == (n < bound)
    assert [round(least_epsilon(n), 2) for n in (0, 1, 2, 10, 100)] == [0.09, 1.19, 3.04, 5.84, 9.0]


def test_few_records_favour_the_raw_number() -> None:
    """Up to n = 2/ε³ and more, the published number itself varies less than Laplace noise, at small ε."""
    for epsilon in (0.01, 0.1):
        bound = raw_break_even(epsilon)
        assert bound == pytest.approx(2 / epsilon**3, rel=0.2)
        p = -math.expm1(-epsilon)
        for n, better in ((bound - 1, True), (bound + 1, False)):
            assert (n * p * (1 - p) + sampling_noise_mean(epsilon) ** 2 < laplace_variance(epsilon)) == better


def test_bad_input_is_refused() -> None:
    """Invalid ε, chances and counts are refused, each with its own class of error."""
    noise = OneSidedNoise(SeededEntropy(1))
    for wrong in (0, -1, 0.5):
        for refuse in (Subsample, SubsampledCount):
            with pytest.raises(EpsilonError):
                refuse(cast("Fraction", wrong))
        with pytest.raises(EpsilonError):
            OneSidedCounts(cast("Fraction", wrong), "addition")
    for counts in ([-1], []):
        with pytest.raises(CountsError):
            OneSidedCounts(ONE, "removal").release(counts, noise)
    with pytest.raises(CountsError):
        SubsampledCount(ONE).release(-1, noise)
    with pytest.raises(CountsError, match="number of records is negative"):
        subsampled_variance(1.0, -1)
    with pytest.raises(EpsilonError):
        laplace_variance(0.0)
    for y, kept in ((ONE, HALF), (HALF, Fraction(2))):
        with pytest.raises(PrivacyError):
            amplify(y, kept)
    with pytest.raises(PrivacyError, match="kept is 1"):
        two_sided_loss(HALF, ONE)
    with pytest.raises(PrivacyError, match="q is 0"):
        removal_as_addition(Fraction(0), Fraction(0))
