"""DAWA and DAWAz: exact costs, the least partition, the proof's shift of noise by enumeration, and post-processing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import CountsError, EpsilonError, ExactnessError, PrivacyError
from monitor.onesided.osdp.dawa import Buckets, Costs, Dawa, cheapest, largest_length, measure_costs
from monitor.onesided.osdp.recipe import ZeroAware, run_dawa, sample_histogram
from monitor.privacy.noise import OneSidedNoise, SeededEntropy
from simulators.osdp.published_dawa import PublishedDawa, partition_loss

ONE = Fraction(1)


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


@pytest.mark.parametrize("bins", [2, 3, 4, 5])
def test_shifted_noise_gives_the_same_partition(bins: int) -> None:
    """For every histogram with counts of 0 to 2 and every neighbour, the proof's shift keeps the partition.

    The shift is at most 2Δ, which is the loss at the noise's ε. The noise is drawn: 3 times for each pair, small and
    large, so that many different partitions are chosen.
    """
    random, unit, chosen = np.random.default_rng(bins), largest_length(bins), set()
    for counts in product(range(3), repeat=bins):
        before = measure_costs(make_array(*counts))
        for other, most in list_neighbours(make_array(*counts)):
            after = measure_costs(other)
            differs = make_array(*counts) != other
            for spread in (1, 4, 16):
                noise = [random.integers(-spread * unit, spread * unit + 1, each.size) for each in before]
                lengths = cheapest([c + z for c, z in zip(before, noise, strict=True)], unit)
                shifts, size = shift_noise(lengths, differs, before, after, most * unit)
                assert size <= 2 * most * unit
                moved = [c + z + s for c, z, s in zip(after, noise, shifts, strict=True)]
                assert cheapest(moved, unit) == lengths
                chosen.add(lengths)
    assert chosen == set(list_partitions(bins))


def test_partition_of_two_bins_by_enumeration() -> None:
    """For two bins the chance of each partition, over all noise up to 10^-9, changes by at most e^ε1 = q^-(2Δ·unit)."""
    q, reach, penalty = 0.8, 90, 2
    k = np.arange(-reach, reach + 1)
    weights = (1 - q) / (1 + q) * q ** np.abs(k)
    pair = np.convolve(weights, weights)  # the noise of both single bins
    sums = np.arange(-2 * reach, 2 * reach + 1)

    def together(counts: NDArray[np.int64]) -> float:
        cost = int(measure_costs(counts)[1][0])
        return float(
            (weights[None, :] * pair[:, None])[(cost + penalty + k[None, :]) <= (2 * penalty + sums[:, None])].sum()
        )

    losses = []
    for counts in product(range(4), repeat=2):
        for other, most in list_neighbours(make_array(*counts)):
            one, two = together(make_array(*counts)), together(other)
            loss = max(math.log(one / two), math.log((1 - one) / (1 - two))) / -math.log(q)
            assert loss <= 2 * most * 2
            losses.append(loss)
    assert max(losses) > 1.9


def test_noise_has_the_stated_epsilon() -> None:
    """ε1 = ε/4 is spent on shifts of 2Δ = 8, ε2 = 3ε/4 on totals that change by 2; half of both for removals."""
    rule = Dawa(ONE)
    assert (8 * rule.cost_epsilon, 2 * rule.total_epsilon) == (Fraction(1, 4), Fraction(3, 4))
    rule = Dawa(ONE, Fraction(1, 2), "added or removed")
    assert (4 * rule.cost_epsilon, rule.total_epsilon) == (Fraction(1, 2), Fraction(1, 2))


def test_penalty_is_the_published_one() -> None:
    """The penalty of a bucket is the scale of its total's noise, 1/ε2 or 2/ε2, plus public scales of a cost's noise."""
    removed = Dawa(ONE, Fraction(1, 2), "added or removed")
    assert removed.penalty(64) == 64 * 2
    assert Dawa(ONE, Fraction(1, 2)).penalty(64) == 64 * 4
    assert Dawa(ONE, Fraction(1, 2), extra_penalty=Fraction(3)).penalty(64) == 64 * (4 + 3 * 16)


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
