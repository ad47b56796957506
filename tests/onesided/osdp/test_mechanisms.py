"""OsdpRR, OsdpLaplace, OsdpLaplaceL1 and Suppress: exact losses by enumeration, exclusion attacks, composition."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import (
    CountsError,
    EpsilonError,
    ExactnessError,
    MixedPoliciesError,
    NoDataError,
    PrivacyError,
)
from monitor.onesided.osdp.composition import Guarantee, compose_in_parallel, compose_in_sequence
from monitor.onesided.osdp.exclusion import LawOf, Prior, extended_loss, odds_change, one_sided_loss, worst_ratio
from monitor.onesided.osdp.mechanisms import (
    ClampedHistogram,
    HybridHistogram,
    OneSidedHistogram,
    Suppress,
    TruthfulSample,
)
from monitor.onesided.osdp.policies import OneSidedPolicy, Records
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from tests.privacy.laws import HALF, ONE, Given, align, laws_of, one_sided, two_sided, worst

UNIVERSE = ("lounge", "office", "hall")
BINS = ("office", "hall")
POLICY = OneSidedPolicy(frozenset(UNIVERSE), frozenset({"lounge"}))
OTHER = OneSidedPolicy(frozenset(UNIVERSE), frozenset({"lounge", "office"}))
QS = [HALF, Fraction(9, 10)]
BELIEFS: tuple[Prior, ...] = (
    {"lounge": Fraction(1, 2), "office": Fraction(1, 4), "hall": Fraction(1, 4)},
    {"lounge": Fraction(1, 10), "office": Fraction(9, 10)},
)


LOWEST = -2
"""Counts from here down are one outcome."""


def count_open(policy: OneSidedPolicy, dataset: Records, bins: Records) -> tuple[int, ...]:
    return tuple(sum(record == each and policy(record) == 1 for record in dataset) for each in bins)


def sample_records(policy: OneSidedPolicy, epsilon: Fraction, dataset: Records, noise: Noise) -> Records:
    """Publish by OsdpRR."""
    return tuple(TruthfulSample(epsilon).release(dataset, policy, noise))


def publish_counts(
    policy: OneSidedPolicy, bins: Records, rule: OneSidedHistogram | Suppress, dataset: Records, noise: Noise
) -> tuple[int, ...]:
    """Publish the noisy counts of the open records in some bins, cut to LOWEST … 4."""
    return tuple(np.clip(rule.release(count_open(policy, dataset, bins), noise), LOWEST, 4).tolist())


def sample_law(q: Fraction = HALF) -> LawOf:
    return laws_of(partial(sample_records, POLICY, ONE), one_sided(1), q)


def histogram_law(q: Fraction = HALF) -> LawOf:
    return laws_of(partial(publish_counts, POLICY, BINS, OneSidedHistogram(ONE)), one_sided(5), q)


def suppress_law(tau: Fraction | None) -> LawOf:
    """Return the law of Suppress at τ, where e^-1 is 1/2."""
    return laws_of(partial(publish_counts, POLICY, BINS, Suppress(tau)), two_sided(6), signed=True)


@pytest.mark.parametrize("q", QS)
def test_sample_costs_epsilon(q: Fraction) -> None:
    """OsdpRR (Theorem 4.1) has a worst ratio of exactly 1/q, over all datasets of three people."""
    assert one_sided_loss(sample_law(q), POLICY, 3) == 1 / q


@pytest.mark.parametrize("q", QS)
def test_histogram_costs_epsilon(q: Fraction) -> None:
    """OsdpLaplace in integers (Theorem 5.2) has a worst ratio of exactly 1/q, over all datasets of three people."""
    assert one_sided_loss(histogram_law(q), POLICY, 3) == 1 / q


@pytest.mark.parametrize(
    "release", [TruthfulSample(ONE).release_histogram, OneSidedHistogram(ONE).release, ClampedHistogram(ONE).release]
)
def test_histogram_functions_cost_epsilon(release: Callable[[list[int], Noise], NDArray[np.int64]]) -> None:
    """From n to n + 1 open records, each way to publish their count has a worst ratio of exactly 1/q."""
    law_of = laws_of(lambda count, noise: max(int(release([count], noise)[0]), LOWEST), one_sided(6))
    for count in range(4):
        assert worst(law_of(count), law_of(count + 1)) == 2


def test_hybrid_costs_epsilon() -> None:
    """If a sensitive record moves to any bin, noise shifted by the changes gives the same counts, at a cost of ε."""
    rule, before = HybridHistogram(ONE, (True, True, False)), np.array([3, 2, 4])
    for source, goal in product((0, 1), (0, 1, 2)):
        other = before - (np.arange(3) == source) + (np.arange(3) == goal)
        change = (before - other).tolist()
        shift = [*change[:2], -change[2]]  # the noise of the last bin is subtracted
        for drawn in product((-2, 0, 3), (-1, 2), (0, 4)):
            run, neighbour = partial(rule_counts, rule, before), partial(rule_counts, rule, other)
            assert align(run, neighbour, drawn, shift) == (source != goal)
    with pytest.raises(CountsError, match="3 bins are marked: expected 2"):
        rule.release([1, 2], Given())


def rule_counts(rule: HybridHistogram, counts: NDArray[np.int64], noise: Noise) -> tuple[int, ...]:
    return tuple(rule.release(counts, noise).tolist())


def test_histogram_is_below_the_truth() -> None:
    """Every published count is at most the count of non-sensitive records, and so of all records."""
    law_of = histogram_law()
    for dataset in product(UNIVERSE, repeat=3):
        for outcome in cast("list[tuple[int, int]]", list(law_of(dataset))):
            assert all(z <= dataset.count(each) for z, each in zip(outcome, BINS, strict=True))


def test_clamping_is_post_processing() -> None:
    """OsdpLaplaceL1 is a function of OsdpLaplace's outcome: negative is 0, positive rises by the median."""
    assert ClampedHistogram(HALF).median == 1  # P[G ≤ 0] = 1 - e^(-1/2) = 0.39, P[G ≤ 1] = 0.63

    noise = Given(0, 0, 3, 5)
    assert ClampedHistogram(HALF).release([0, 3, 3, 3], noise).tolist() == [0, 4, 0, 0]
    assert noise.asked == [HALF] * 4


@pytest.mark.parametrize(("epsilon", "median"), [(Fraction(1), 0), (Fraction(1, 10), 6), (Fraction(1, 100), 69)])
def test_median_is_that_of_the_noise(epsilon: Fraction, median: int) -> None:
    """The median is the least m with 1 - e^(-ε(m + 1)) ≥ 1/2, near ln 2/ε - 1."""
    assert ClampedHistogram(epsilon).median == median
    assert math.exp(-float(epsilon) * (median + 1)) <= 0.5 < math.exp(-float(epsilon) * median)


def test_empty_bins_stay_empty() -> None:
    """A bin without non-sensitive records is published as 0, with any noise."""
    noise = OneSidedNoise(SeededEntropy(81))
    assert ClampedHistogram(Fraction(1, 50)).release([0] * 500, noise).tolist() == [0] * 500


def test_sampled_share_matches_table_1() -> None:
    """At ε = 1, 0.5 and 0.1 the shares kept are 63 %, 39 % and 9.5 %, within 6.5 standard errors of 100,000."""
    noise, runs = OneSidedNoise(SeededEntropy(82)), 100_000
    for epsilon, printed in ((Fraction(1), 0.63), (HALF, 0.39), (Fraction(1, 10), 0.095)):
        (kept,) = TruthfulSample(epsilon).release_histogram([runs], noise).tolist()
        chance = -math.expm1(-float(epsilon))
        assert abs(chance - printed) < 0.005
        assert abs(kept / runs - chance) < 6.5 * math.sqrt(chance * (1 - chance) / runs)


@pytest.mark.parametrize("tau", [1, 2, 10])
def test_suppress_loses_tau(tau: int) -> None:
    """If e^-1 is 1/2, Suppress at τ has an OSDP loss of exactly 2^τ, which is more than that of ε = 1 for τ > 1."""
    assert one_sided_loss(suppress_law(Fraction(tau)), POLICY, 2) == 2**tau


def test_replaced_open_record_costs_twice() -> None:
    """Suppress at τ loses τ if an open record is added or removed, and 2τ if it is replaced by another open one."""
    law_of = suppress_law(ONE)
    one, two, moved = law_of(("hall",)), law_of(("hall", "hall")), law_of(("office",))
    assert worst_ratio([(one, two), (two, one)]) == 2
    assert worst_ratio([(one, moved), (moved, one)]) == 4


def test_public_number_breaks_theorem_3_4() -> None:
    """The exact number of open records is 0-DP for replaced open records, but its OSDP loss is unbounded."""
    law_of = laws_of(lambda dataset, _: sum(count_open(POLICY, dataset, BINS)), one_sided(1))
    assert worst_ratio([(law_of(("hall",)), law_of(("office",)))]) == 1
    assert one_sided_loss(law_of, POLICY, 2) is None


def test_suppress_without_noise_loses_everything() -> None:
    """Without noise, a missing record must be sensitive: the ratio is unbounded, and so is the adversary's gain."""
    law_of = suppress_law(None)
    assert one_sided_loss(law_of, POLICY, 2) is None
    assert odds_change(law_of, POLICY, BELIEFS, 0) is None


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("q", QS)
def test_osdp_bounds_exclusion_attacks(target: int, q: Fraction) -> None:
    """For beliefs that are products, the odds of a sensitive record rise by at most 1/q (Theorem 3.1)."""
    for law_of in (sample_law(q), histogram_law(q)):
        change = odds_change(law_of, POLICY, BELIEFS, target)
        assert change is not None
        assert 1 < change <= 1 / q


@pytest.mark.parametrize("tau", [2, 10])
def test_suppress_allows_exclusion_attacks(tau: int) -> None:
    """Suppress at τ raises the odds of a sensitive record by exactly e^τ (Theorem 3.4), if others are known."""
    known: tuple[Prior, ...] = (BELIEFS[0], {"hall": ONE})
    assert odds_change(suppress_law(Fraction(tau)), POLICY, known, 0) == 2**tau


def test_correlated_beliefs_are_not_covered() -> None:
    """If all records are sensitive or none is, OsdpRR raises the odds by q^-n for n people, more than e^ε."""
    law_of = sample_law()
    ratio = worst_ratio([(law_of(("lounge",) * 3), law_of(("hall",) * 3))])
    assert ratio == HALF**-3


def publish_twice(dataset: Records, noise: Noise) -> Hashable:
    """Publish by OsdpRR at ε = 1 under POLICY, then by OsdpLaplace at ε = 1/3 under OTHER."""
    sample = sample_records(POLICY, ONE, dataset, noise)
    return sample, publish_counts(OTHER, ("hall",), OneSidedHistogram(ONE / 3), dataset, noise)


def test_sequence_costs_the_sum() -> None:
    """OsdpRR and OsdpLaplace under different policies have the loss of the sum under the minimum relaxation."""
    law_of = laws_of(publish_twice, one_sided(5), HALF, ONE / 3)
    total = compose_in_sequence(Guarantee(POLICY, ONE), Guarantee(OTHER, Fraction(1, 3)))
    assert (total.policy, total.epsilon) == (POLICY, Fraction(4, 3))
    assert one_sided_loss(law_of, POLICY, 2) == HALF**-4


def test_sequence_breaks_the_stricter_policy() -> None:
    """Under the stricter policy the composition has no bound: OsdpRR publishes records that are sensitive there."""
    assert one_sided_loss(laws_of(publish_twice, one_sided(5), HALF, ONE / 3), OTHER, 2) is None


def test_extended_osdp_implies_twice_epsilon() -> None:
    """OsdpRR has an extended loss of 1/q, so a loss of at most q^-2; the true one is 1/q (Theorem 10.1)."""
    law_of = sample_law()
    assert extended_loss(law_of, POLICY, 2) == 2
    assert Guarantee(POLICY, ONE, "added or removed").as_replaced() == Guarantee(POLICY, 2 * ONE)
    assert one_sided_loss(law_of, POLICY, 2) == 2


def split(dataset: Records) -> tuple[Records, Records]:
    """Return the records of the lounge and the office, and those of the hall."""
    return tuple(r for r in dataset if r != "hall"), tuple(r for r in dataset if r == "hall")


def test_parallel_costs_the_maximum() -> None:
    """OsdpRR on two disjoint parts, at ε = 1 and 1/2, has the larger of the extended losses (Theorem 10.2)."""

    def publish(dataset: Records, noise: Noise) -> Hashable:
        left, right = split(dataset)
        return sample_records(POLICY, ONE, left, noise), sample_records(POLICY, HALF, right, noise)

    both = compose_in_parallel(Guarantee(POLICY, ONE, "added or removed"), Guarantee(POLICY, HALF, "added or removed"))
    assert both == Guarantee(POLICY, ONE, "added or removed")
    assert extended_loss(laws_of(publish, one_sided(1), HALF, HALF), POLICY, 2) == 4


def count_if_safe(dataset: Records, noise: Noise) -> Hashable:
    """Count exactly, with chance 1 - e^-ε, if no record is sensitive."""
    silent = bool(noise.reaches(ONE, np.ones(1, np.int64))[0])
    return "silent" if silent or any(POLICY(record) == 0 for record in dataset) else len(dataset)


def test_printed_extended_neighbours_do_not_compose() -> None:
    """By Definition 10.1 as printed, additions need a sensitive record: two such mechanisms compose without a bound."""

    def printed(dataset: Records) -> list[Records]:
        sensitive = any(POLICY(record) == 0 for record in dataset)
        return list(POLICY.extended_neighbours(dataset)) if sensitive else []

    def loss(law_of: LawOf) -> Fraction | None:
        datasets = [dataset for size in range(3) for dataset in product(UNIVERSE, repeat=size)]
        return worst_ratio((law_of(one), law_of(other)) for one in datasets for other in printed(one))

    def count_parts(dataset: Records, noise: Noise) -> Hashable:
        return tuple(count_if_safe(part, noise) for part in split(dataset))

    assert loss(laws_of(count_if_safe, one_sided(1))) == 2
    assert loss(laws_of(count_parts, one_sided(1))) is None
    assert extended_loss(laws_of(count_if_safe, one_sided(1)), POLICY, 2) is None  # the mechanism itself is refused


def test_guarantees_do_not_mix() -> None:
    """Relaxing to a stricter policy, and composing guarantees for different neighbours, are refused."""
    assert Guarantee(OTHER, ONE).relax(POLICY) == Guarantee(POLICY, ONE)
    with pytest.raises(MixedPoliciesError, match="expected a relaxation"):
        Guarantee(POLICY, ONE).relax(OTHER)
    with pytest.raises(MixedPoliciesError, match="as_replaced"):
        compose_in_sequence(Guarantee(POLICY, ONE), Guarantee(POLICY, ONE, "added or removed"))
    with pytest.raises(MixedPoliciesError, match="replaced records"):
        compose_in_parallel(Guarantee(POLICY, ONE))
    assert Guarantee(POLICY, ONE).as_replaced() == Guarantee(POLICY, ONE)


@pytest.mark.parametrize("epsilon", [0, -1, 0.5, float("nan")])
def test_invalid_epsilon_is_refused(epsilon: object) -> None:
    """An ε that is zero, negative or a float is refused by every mechanism and guarantee."""
    wrong = cast("Fraction", epsilon)
    for refuse in (TruthfulSample, OneSidedHistogram, ClampedHistogram, Suppress, partial(Guarantee, POLICY)):
        with pytest.raises(EpsilonError):
            refuse(wrong)


def test_invalid_counts_are_refused() -> None:
    """Negative counts, an empty list of counts, and values that are not integers are refused."""
    noise = OneSidedNoise(SeededEntropy(1))
    for release in (
        TruthfulSample(ONE).release_histogram,
        OneSidedHistogram(ONE).release,
        ClampedHistogram(ONE).release,
        Suppress(None).release,
    ):
        for wrong in ([-1], []):
            with pytest.raises(CountsError):
                release(wrong, noise)
        with pytest.raises(ExactnessError):
            release(np.array([True]), noise)


def test_invalid_enumerations_are_refused() -> None:
    """An empty list of pairs, and a belief that does not sum to 1, are refused."""
    with pytest.raises(NoDataError):
        worst_ratio([])
    with pytest.raises(PrivacyError, match="does not sum to 1"):
        odds_change(sample_law(), POLICY, [{"hall": HALF}], 0)
