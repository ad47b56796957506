"""One-sided noise for addition and for removal, and subsampling: exact laws and losses by enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pytest

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
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from tests.privacy.laws import HALF, ONE, Given, laws_of, one_sided, parity

pytestmark = pytest.mark.long

QS = [HALF, Fraction(9, 10)]


def count_law(side: Side, q: Fraction) -> Callable[[int], Law]:
    """Return the law of one noisy count, for outcomes from -4 to 9."""

    def publish(count: int, noise: Noise) -> int:
        return min(max(int(OneSidedCounts(ONE, side).release([count], noise)[0]), -4), 9)

    return laws_of(publish, one_sided(13), q)


@pytest.mark.parametrize("q", QS)
def test_addition_costs_epsilon(q: Fraction) -> None:
    """Noise upwards: from x to x' (one record less) the worst ratio is 1/q (Proposition 3); back it is unbounded."""
    law_of = count_law("addition", q)
    pairs = [(law_of(n), law_of(n - 1)) for n in range(1, 5)]
    assert worst_ratio(pairs) == 1 / q
    assert worst_ratio((b, a) for a, b in pairs) is None


@pytest.mark.parametrize("q", QS)
def test_removal_costs_epsilon(q: Fraction) -> None:
    """Noise downwards: from x' to x (one record more) the worst ratio is 1/q (Proposition 4); back it is unbounded."""
    law_of = count_law("removal", q)
    pairs = [(law_of(n - 1), law_of(n)) for n in range(1, 5)]
    assert worst_ratio(pairs) == 1 / q
    assert worst_ratio((b, a) for a, b in pairs) is None


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

    def publish(counts: tuple[int, ...], noise: Noise) -> tuple[int, ...]:
        return tuple(np.minimum(OneSidedCounts(ONE, "addition").release_histogram(counts, noise), 3).tolist())

    law_of = laws_of(publish, one_sided(3))
    pairs = [
        (law_of(counts), law_of(tuple(c - (place == one) for place, c in enumerate(counts))))
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


@pytest.mark.parametrize("y", QS)
def test_subsampling_is_private_for_removal(y: Fraction) -> None:
    """With p = 1 - y, from x' to x the worst ratio of the published sample is 1/y (Theorem 5); back it is unbounded."""
    law_of = laws_of(lambda records, noise: tuple(Subsample(ONE).release(records, noise)), one_sided(1), y)
    pairs = [(law_of(("a", "b")), law_of(("a", "b", "c")))]
    assert worst_ratio(pairs) == 1 / y
    assert worst_ratio((b, a) for a, b in pairs) is None


def publish_sampled(sampled: Fraction, noised: Fraction, records: tuple[str, ...], noise: Noise) -> int:
    """Publish a count with noise that only adds, of a sample."""
    kept = len(Subsample(sampled).release(records, noise))
    return min(int(OneSidedCounts(noised, "addition").release([kept], noise)[0]), 8)


@pytest.mark.parametrize("sampled", [1, 2, 4])
@pytest.mark.parametrize("noised", [1, 2, 4])
def test_theorem_6_by_enumeration(sampled: int, noised: int) -> None:
    """A count with noise of ratio y on a sample: the worst ratios are at most 1 + p(1/y - 1), and 1/(1 - p)."""
    y, kept = HALF**noised, 1 - HALF**sampled
    law_of = laws_of(partial(publish_sampled, Fraction(sampled), Fraction(noised)), one_sided(8))
    laws = [law_of("abc"[:n]) for n in range(4)]
    addition = worst_ratio((laws[n + 1], laws[n]) for n in range(3))
    removal = worst_ratio((laws[n], laws[n + 1]) for n in range(3))
    assert addition is not None
    assert removal is not None
    assert addition <= 1 / amplify(y, kept)[0]
    assert removal == 1 / (1 - kept)
    assert max(addition, removal) <= 1 / two_sided_loss(y, kept)[0]


@pytest.mark.parametrize("sampled", [1, 2])
@pytest.mark.parametrize("delta", [2, 5])
def test_sampling_lowers_delta(sampled: int, delta: int) -> None:
    """If the exact count leaks with chance δ, the least δ' at ε' is p·δ for addition, and 0 for removal (Theorem 6)."""

    def leak(records: str, noise: Noise) -> tuple[bool, int]:
        kept = len(Subsample(Fraction(sampled)).release(records, noise))
        leaked = bool(noise.reaches(Fraction(delta), np.ones(1, np.int64))[0])
        return leaked, kept if leaked else min(int(OneSidedCounts(ONE, "addition").release([kept], noise)[0]), 6)

    law_of = laws_of(leak, one_sided(6))
    factor, least = two_sided_loss(HALF, 1 - HALF**sampled, HALF**delta)
    assert least == (1 - HALF**sampled) * HALF**delta

    def excess(law: Law, neighbour: Law) -> Fraction:
        return sum((max(law[z] - neighbour.get(z, Fraction(0)) / factor, Fraction(0)) for z in law), Fraction(0))

    for records in ("", "a", "ab"):
        assert excess(law_of(f"{records}z"), law_of(records)) <= least
        assert excess(law_of(records), law_of(f"{records}z")) == 0
    assert excess(law_of("z"), law_of("")) == least


@pytest.mark.parametrize("y", [*QS, Fraction(1, 10)])
def test_equation_3_costs_epsilon_both_ways(y: Fraction) -> None:
    """From n to n + 1 records and back, the published count has a worst ratio of exactly 1/y, over outcomes to 5."""
    law_of = laws_of(SubsampledCount(ONE).release, parity, y, longest=9)
    laws = [{z: chance for z, chance in law_of(n).items() if cast("int", z) <= 5} for n in range(4)]
    assert worst_ratio((laws[n + 1], laws[n]) for n in range(3)) == 1 / y
    assert worst_ratio((laws[n], laws[n + 1]) for n in range(3)) == 1 / y
    assert two_sided_loss(y / (1 + y), 1 - y) == (y, Fraction(0))


def test_noise_counts_odd_draws() -> None:
    """The noise is the number of odd draws before the first even one; P[odd] = y/(1 + y) exactly."""
    assert SubsampledCount(ONE).draw_noise(Given(1, 3, 7, 0)) == 3
    assert SubsampledCount(ONE).draw_noise(Given(4)) == 0
    for y in QS:
        odd = sum(((1 - y) * y ** (2 * k + 1) for k in range(300)), Fraction(0))
        assert 0 <= y / (1 + y) - odd < Fraction(1, 2**80)


def test_released_count_is_sample_plus_noise() -> None:
    """Two of three records are kept, and two odd draws come before an even one: 4."""
    assert SubsampledCount(ONE).release(3, Given(0, 1, 0, 5, 1, 2)) == 4


@pytest.mark.parametrize("records", [0, 1, 7])
def test_sampled_estimates_have_the_stated_variance(records: int) -> None:
    """At ε = 1, mean and variance of 5,000 estimates are within 6 standard errors of the formula's."""
    noise, runs = OneSidedNoise(SeededEntropy(103 + records)), 5_000
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
                assert amplify(r, p) == (y, Fraction(0))
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
    with pytest.raises(PrivacyError, match="delta is 2"):
        amplify(HALF, HALF, Fraction(2))
    with pytest.raises(PrivacyError, match="kept is 1"):
        two_sided_loss(HALF, ONE)
    with pytest.raises(PrivacyError, match="q is 0"):
        removal_as_addition(Fraction(0), Fraction(0))
