"""DAWA and DAWAz: exact costs, the least partition, the proof's shift of noise by enumeration, and post-processing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Final, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import CountsError, EpsilonError, ExactnessError, PrivacyError
from monitor.onesided.osdp.composition import Neighbours
from monitor.onesided.osdp.dawa import Buckets, Costs, Dawa, cheapest, largest_length, measure_costs, sum_buckets
from monitor.onesided.osdp.recipe import NaiveDawa, ZeroAware, run_dawa, sample_histogram
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from simulators.osdp import PublishedDawa, partition_loss
from tests.privacy.laws import HALF, ONE, Given, align, laws_of, two_sided, worst

pytestmark = pytest.mark.long


def make_array(*counts: int) -> NDArray[np.int64]:
    return np.array(counts, dtype=np.int64)


def list_partitions(bins: int) -> Iterator[tuple[int, ...]]:
    """Yield every sequence of powers of two with a sum."""
    if bins == 0:
        yield ()
    length = 1
    while length <= bins:
        for rest in list_partitions(bins - length):
            yield (*rest, length)
        length *= 2


def compute_cost(lengths: Sequence[int], costs: Costs, penalty: int) -> int:
    total = start = 0
    for length in lengths:
        total += int(costs[length.bit_length() - 1][start]) + penalty
        start += length
    return total


def test_costs_are_exact() -> None:
    """The cost of each bucket is Σ |x_j - mean|, in units of 1/(the largest length)."""
    counts = make_array(5, 0, 0, 7, 1, 2)
    assert largest_length(6) == 4
    for k, measured in enumerate(measure_costs(counts)):
        length = 1 << k
        for start, cost in enumerate(measured.tolist()):
            values = counts[start : start + length].tolist()
            mean = Fraction(sum(values), length)
            assert cost == 4 * sum(abs(value - mean) for value in values)


@pytest.mark.parametrize("bins", [1, 2, 3, 4, 5, 6])
def test_partition_is_the_cheapest(bins: int) -> None:
    """For 60 random costs per size, no partition costs less than the chosen one."""
    random = np.random.default_rng(bins)
    for _ in range(60):
        costs = tuple(random.integers(-9, 9, bins - (1 << k) + 1) for k in range(bins.bit_length()))
        chosen = cheapest(costs, 3)
        assert sum(chosen) == bins
        assert compute_cost(chosen, costs, 3) == min(compute_cost(each, costs, 3) for each in list_partitions(bins))


@pytest.mark.parametrize(("bins", "lengths"), [(1, (1,)), (3, (1, 2)), (4, (4,)), (6, (2, 4)), (7, (1, 2, 4))])
def test_longer_last_bucket_wins_ties(bins: int, lengths: tuple[int, ...]) -> None:
    """If all partitions cost the same, the last bucket is the longest one, and so is the one before it."""
    costs = [np.zeros(bins - (1 << k) + 1, np.int64) for k in range(bins.bit_length())]
    assert cheapest(costs, 0) == lengths


def list_neighbours(counts: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield each histogram with a record removed or replaced, and the Δ of its proof."""
    for one in np.flatnonzero(counts).tolist():
        removed = counts.copy()
        removed[one] -= 1
        yield removed, 2
        for other in range(counts.size):
            if other != one:
                replaced = removed.copy()
                replaced[other] += 1
                yield replaced, 4


def test_cost_changes_by_at_most_two() -> None:
    """The cost of a bucket changes by at most 2(1 - 1/L) if a record is removed, and by 2 if one is replaced."""
    for counts in product(range(4), repeat=4):
        for other, most in list_neighbours(make_array(*counts)):
            for k, (before, after) in enumerate(
                zip(measure_costs(make_array(*counts)), measure_costs(other), strict=True)
            ):
                change = Fraction(int(np.abs(before - after).max()), 4)
                assert change <= (2 * (1 - Fraction(1, 1 << k)) if most == 2 else 2)


def shift_noise(
    chosen: Sequence[int], differs: NDArray[np.bool_], before: Costs, after: Costs, fall: int
) -> tuple[Costs, int]:
    """Return the change of the noise in the proof, and the sum of its sizes, for a chosen partition."""
    shifts = tuple(np.zeros_like(each) for each in before)
    starts = [sum(chosen[:place]) for place in range(len(chosen))]
    changed = [
        (length.bit_length() - 1, start)
        for length, start in zip(chosen, starts, strict=True)
        if differs[start : start + length].any()
    ]
    for k, start in changed:
        shifts[k][start] = int(before[k][start]) - int(after[k][start]) - fall // len(changed)
    return shifts, sum(int(np.abs(each).sum()) for each in shifts)


NEIGHBOURS: Final[dict[int, Neighbours]] = {2: "added or removed", 4: "replaced"}
"""The neighbours with a Δ."""


@pytest.mark.parametrize(("bins", "most_records"), [(2, 2), (3, 2), (4, 1), (5, 1)])
def test_shifted_noise_gives_the_same_buckets(bins: int, most_records: int) -> None:
    """For every histogram with counts of 0 to 1 or 2 and every neighbour, the proof's shift keeps what is published.

    With the ε at which `release` asks for its noise, the shift costs at most ε. The noise is drawn, small and large, so
    that every partition is published. The greatest cost is above 5/8·ε, so noise at twice the ε costs too much.
    """
    random, unit, chosen, costs = np.random.default_rng(bins), largest_length(bins), set(), []
    for counts in product(range(most_records + 1), repeat=bins):
        before = make_array(*counts)
        for other, most in list_neighbours(before):
            rule = Dawa(Fraction(32), neighbours=NEIGHBOURS[most])
            number = sum(each.size for each in measure_costs(before))
            for spread in (1, 4, 16):
                drawn = random.integers(-spread * unit, spread * unit + 1, number + bins).tolist()
                lengths = rule.release(before, Given(*drawn, signed=True)).lengths
                pair = measure_costs(before), measure_costs(other)
                shifts = shift_noise(lengths, before != other, *pair, most * unit)[0]
                moved = sum_buckets(before, lengths) - sum_buckets(other, lengths)
                shift = [*np.concatenate(shifts).tolist(), *moved.tolist()]
                costs.append(
                    align(partial(rule.release, before), partial(rule.release, other), drawn[: len(shift)], shift)
                )
                chosen.add(lengths)
    assert 20 < max(costs) <= 32
    assert chosen == set(list_partitions(bins))


@pytest.mark.parametrize(("most", "counts", "other"), [(2, (5, 0), (4, 0)), (4, (4, 0), (3, 1))])
def test_partition_of_two_bins_by_enumeration(most: int, counts: tuple[int, int], other: tuple[int, int]) -> None:
    """The exact loss of the partition of two bins is at most the change of the costs, at the ε of the noise for it.

    ε1 allows 2Δ in units of cost, and the cost changes by Δ/2 here. The noise beyond 2^-8 is cut off.
    """
    rule = Dawa(Fraction(8 * most), Fraction(1, 2), NEIGHBOURS[most])

    def choose(histogram: tuple[int, int], noise: Noise) -> tuple[int, ...]:
        return rule.choose(measure_costs(make_array(*histogram)), 2, noise)

    law = laws_of(choose, two_sided(7), unit=rule.epsilon / 2 / (4 * most), signed=True)
    loss = math.log2(max(worst(law(counts), law(other)), worst(law(other), law(counts))))
    assert 0.6 * most < loss <= most


@pytest.mark.parametrize("most", [2, 4])
def test_totals_cost_the_second_share(most: int) -> None:
    """The noisy totals of two buckets have the worst ratio e^ε2, for a record removed or replaced, and back."""
    rule, q = Dawa(ONE, Fraction(1, 2), NEIGHBOURS[most]), HALF

    def publish(counts: tuple[int, int], noise: Noise) -> tuple[int, ...]:
        return tuple(np.clip(rule.add_noise(make_array(*counts), (1, 1), noise).totals, -2, 4).tolist())

    law = laws_of(publish, two_sided(6), q, Fraction(1, most), signed=True)
    pairs = [((2, 1), (1, 1)), ((1, 1), (2, 1))] if most == 2 else [((2, 1), (1, 2)), ((1, 2), (2, 1))]
    assert {worst(law(one), law(two)) for one, two in pairs} == {q ** -(most // 2)}


def test_penalty_is_the_published_one() -> None:
    """The penalty of a bucket is the scale of its total's noise, 1/ε2 or 2/ε2, plus public scales of a cost's noise."""
    removed = Dawa(ONE, Fraction(1, 2), "added or removed")
    assert removed.penalty(64) == 64 * 2
    assert Dawa(ONE, Fraction(1, 2)).penalty(64) == 64 * 4
    assert Dawa(ONE, Fraction(1, 2), extra_penalty=Fraction(3)).penalty(64) == 64 * (4 + 3 * 16)


@pytest.mark.parametrize("bins", [3, 4])
def test_naive_extension_costs_epsilon(bins: int) -> None:
    """With a non-sensitive record more in any bin, the proof's shift keeps the buckets, and costs at most ε."""
    random, unit, costs, rule = np.random.default_rng(bins), largest_length(bins), [], NaiveDawa(Fraction(32))
    for counts, one in product(product(range(2), repeat=bins), range(bins)):
        before = make_array(*counts)
        other = before + (np.arange(bins) == one)
        pair = measure_costs(before), measure_costs(other)
        for spread in (1, 4, 16):
            drawn = random.integers(-spread * unit, spread * unit + 1, sum(each.size for each in pair[0])).tolist()
            drawn += random.integers(0, 9, bins).tolist()
            lengths = rule.release(before, Given(*drawn, signed=True)).lengths
            shifts = shift_noise(lengths, before != other, *pair, 2 * unit)[0]
            subtracted = sum_buckets(other, lengths) - sum_buckets(before, lengths)
            shift = [*np.concatenate(shifts).tolist(), *subtracted.tolist()]
            costs.append(align(partial(rule.release, before), partial(rule.release, other), drawn[: len(shift)], shift))
    assert 28 < max(costs) <= 32


def test_uniform_regions_share_buckets() -> None:
    """With a penalty of 6 scales more, two flat regions of 512 bins at ε = 10 give few buckets and small errors."""
    counts = np.repeat(make_array(100, 3), 512)
    rule = Dawa(ONE * 10, extra_penalty=Fraction(6))
    buckets = rule.release(counts, OneSidedNoise(SeededEntropy(91)))
    assert sum(buckets.lengths) == 1024
    assert len(buckets.lengths) < 20
    errors = [abs(float(e) - c) for e, c in zip(buckets.estimate(), counts.tolist(), strict=True)]
    assert sorted(errors)[-10] < 1


def test_empty_bins_leave_their_share() -> None:
    """The total of a bucket is shared by its bins that are not empty. A bucket of empty bins is dropped."""
    buckets = Buckets((4, 2), (12, 5))
    assert [str(estimate) for estimate in buckets.estimate()] == ["3", "3", "3", "3", "5/2", "5/2"]
    assert [int(e) for e in buckets.estimate([True, False, False, False, True, True])] == [0, 4, 4, 4, 0, 0]
    with pytest.raises(CountsError, match="5 bins are marked: expected 6"):
        buckets.estimate([True] * 5)


def test_printed_factor_changes_the_total() -> None:
    """Algorithm 3 prints |B|/|Z ∩ B|: 4/1 for one empty bin of four makes a total of 36 out of 12, and 4/0 for none."""
    share, length, empty = Fraction(12, 4), 4, 1
    assert (length - empty) * share * Fraction(length, empty) == 36
    assert sum(Buckets((4,), (12,)).estimate([True, False, False, False])) == 12


def test_dawaz_splits_epsilon() -> None:
    """ρ·ε goes to the primitive on the non-sensitive counts, the rest to the algorithm on all counts."""
    calls: list[tuple[str, Fraction, list[int]]] = []

    def primitive(epsilon: Fraction, counts: NDArray[np.int64], noise: object) -> NDArray[np.int64]:
        calls.append(("primitive", epsilon, counts.tolist()))
        return counts

    def algorithm(epsilon: Fraction, counts: NDArray[np.int64], noise: object) -> Buckets:
        calls.append(("algorithm", epsilon, counts.tolist()))
        return Buckets((2, 1), (8, 3))

    rule = ZeroAware(ONE, Fraction(1, 10), primitive, algorithm)
    released = rule.release([5, 4, 2], [0, 1, 2], OneSidedNoise(SeededEntropy(1)))
    assert [int(estimate) for estimate in released] == [0, 8, 3]
    assert calls == [("primitive", Fraction(1, 10), [0, 1, 2]), ("algorithm", Fraction(9, 10), [5, 4, 2])]


def test_dawaz_asks_for_its_shares() -> None:
    """With the default parts, DAWAz asks for noise at ρ·ε for the sample, and as DAWA at (1 - ρ)·ε does."""
    noise, alone = Given(*[0] * 40, signed=True), Given(*[0] * 40, signed=True)
    ZeroAware(ONE).release([5, 4, 2], [0, 1, 2], noise)
    Dawa(ONE * 9 / 10).release([5, 4, 2], alone)
    assert noise.asked == [ONE / 10] * 3 + alone.asked


def test_dawaz_keeps_empty_bins_at_zero() -> None:
    """With the default parts, bins without non-sensitive records are 0, at any noise."""
    counts = make_array(40, 0, 0, 0, 9, 9, 9, 9)
    noise = OneSidedNoise(SeededEntropy(92))
    for _ in range(20):
        estimates = ZeroAware(ONE).release(counts, counts // 2 * (counts > 9), noise)
        assert not any(estimates[1:])
    assert ZeroAware(ONE).primitive is sample_histogram
    assert ZeroAware(ONE).algorithm is run_dawa


@pytest.mark.parametrize(("bins", "least"), [(3, 1.7), (16, 6.0), (64, 20.0)])
def test_published_partition_costs_more_than_stated(bins: int, least: float) -> None:
    """In the published program, "every bin is a bucket" has a ratio of e^(1.7·ε1) for 3 bins, more for more bins."""
    rule, counts = PublishedDawa(1.0), np.zeros(bins, np.int64)
    counts[bins // 2] = 1
    assert partition_loss(rule, counts, np.zeros(bins, np.int64)) > least * rule.partition_epsilon


def test_invalid_rules_are_refused() -> None:
    """Invalid ε, shares and histograms are refused, each with its own class of error."""
    noise = OneSidedNoise(SeededEntropy(1))
    for wrong in (0, -1, 0.5):
        with pytest.raises(EpsilonError):
            Dawa(cast("Fraction", wrong))
        with pytest.raises(EpsilonError):
            ZeroAware(cast("Fraction", wrong))
    for share in (Fraction(0), ONE):
        with pytest.raises(PrivacyError, match="expected a number between 0 and 1"):
            Dawa(ONE, share)
        with pytest.raises(PrivacyError, match="expected a number between 0 and 1"):
            ZeroAware(ONE, share)
    with pytest.raises(ExactnessError, match="partition_share is a float"):
        Dawa(ONE, cast("Fraction", 0.25))
    with pytest.raises(ExactnessError, match="extra_penalty is a int"):
        Dawa(ONE, extra_penalty=cast("Fraction", 1))
    with pytest.raises(PrivacyError, match="extra_penalty is -1"):
        Dawa(ONE, extra_penalty=-ONE)
    with pytest.raises(CountsError):
        Dawa(ONE).release([], noise)
    with pytest.raises(CountsError, match="too large"):
        Dawa(ONE).release([2**52, 0], noise)
    with pytest.raises(EpsilonError, match="ε of a unit of cost"):
        Dawa(Fraction(1, 10**11)).release([1] * 64, noise)
    with pytest.raises(CountsError, match="more non-sensitive records"):
        ZeroAware(ONE).release([1, 2], [2, 2], noise)
    with pytest.raises(CountsError, match="2 and 1 bins"):
        ZeroAware(ONE).release([1, 2], [1], noise)
