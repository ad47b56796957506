"""The paper's ways to choose non-sensitive records, its real-valued algorithms, and its measures."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from monitor.errors import SelectionError
from monitor.onesided.mechanisms import AsymmetricGeometric
from monitor.onesided.osdp.dawa import Buckets, measure_costs
from monitor.onesided.osdp.mechanisms import ClampedHistogram, OneSidedHistogram, Suppress
from simulators.osdp import (
    FastNoise,
    PublishedDawa,
    expand,
    make_laplace,
    make_osdp_laplace,
    make_osdp_laplace_l1,
    make_osdp_rr,
    make_suppress_laplace,
    regret,
    relative_errors,
    sample_close,
    sample_far,
    sample_is_worse,
)

pytestmark = pytest.mark.long

RUNS = 60_000


def make_histogram() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return 200 bins with a peak, and half of them empty."""
    bins = np.arange(200)
    return np.where(bins % 2 == 0, 1 + 2_000 // (1 + np.abs(bins - 60)), 0).astype(np.int64)


@pytest.mark.parametrize("ratio", [0.99, 0.5, 0.01])
def test_close_samples_are_close(ratio: float) -> None:
    """MSampling returns a part of the records, of the wanted size, with a mean within 10 % (seeded)."""
    histogram, random = make_histogram(), np.random.default_rng(1)
    found = sample_close(histogram, ratio, random)
    assert found.sum() == round(ratio * int(histogram.sum()))
    assert (found <= histogram).all()
    bins = np.arange(200)
    means = [np.average(bins, weights=each) for each in (histogram, found)]
    assert abs(means[1] - means[0]) <= 0.1 * means[0]


def test_close_samples_have_the_deviation() -> None:
    """A sample with the right mean and another deviation is refused.

    Records in bins 0, 1, 1, 2 have the mean 1 and the deviation √(1/2). Two of them with the mean 1 have 0 or 1.
    """
    with pytest.raises(SelectionError, match=r"theta is 0\.1"):
        sample_close(np.array([1, 2, 1]), 0.5, np.random.default_rng(1))


def test_far_samples_prefer_the_high_range() -> None:
    """With γ = 5, a small sample prefers the high range five times (5 %, seeded); ratios 0 to 1 are met exactly."""
    histogram = np.full(1_000, 100, np.int64)
    found = sample_far(histogram, 0.01, np.random.default_rng(2), beta=0.1)
    centre = int(np.random.default_rng(2).integers(1_000))
    high = np.abs(np.arange(1_000) - centre) <= 100
    share = found[high].sum() / found.sum() / high.mean()
    assert 1.0 / (high.mean() + (1 - high.mean()) / 5) == pytest.approx(share, rel=0.05)
    for ratio in (0.0, 0.3, 0.99, 1.0):
        found = sample_far(histogram, ratio, np.random.default_rng(3))
        assert found.sum() == round(ratio * 100_000)
        assert (found <= histogram).all()


def test_algorithms_have_their_means() -> None:
    """The means of 60,000 estimates of a count of 50, 40 of it non-sensitive, within 6 standard errors: 10^-8."""
    counts, open_counts = np.full(RUNS, 50, np.int64), np.full(RUNS, 40, np.int64)
    random = np.random.default_rng(4)
    for algorithm, mean, deviation in (
        (make_laplace(1.0), 50.0, math.sqrt(8)),
        (make_suppress_laplace(2.0), 40.0, math.sqrt(2) / 2),
        (make_osdp_rr(1.0), 40 * (1 - math.exp(-1)), math.sqrt(40 * math.exp(-1) * (1 - math.exp(-1)))),
        (make_osdp_laplace(1.0), 39.0, 1.0),
        (make_osdp_laplace_l1(1.0), 39.0 + math.log(2), 1.0),
    ):
        drawn = algorithm(counts, open_counts, random)
        assert abs(drawn.mean() - mean) < 6 * deviation / math.sqrt(RUNS)
        assert drawn.std() == pytest.approx(deviation, rel=0.05)


def test_real_valued_noise_is_that_of_the_library() -> None:
    """At ε = 1/20 the deviations of both forms of each mechanism agree within 5 % (seeded)."""
    random, counts, epsilon = np.random.default_rng(9), np.full(RUNS, 9_000, np.int64), Fraction(1, 20)
    noise = FastNoise(random)
    for real_valued, exact in (
        (make_laplace(0.05), AsymmetricGeometric(epsilon, 2, "not monotone").release(counts, noise)),
        (make_suppress_laplace(0.05), Suppress(epsilon).release(counts, noise)),
        (make_osdp_laplace(0.05), OneSidedHistogram(epsilon).release(counts, noise)),
        (make_osdp_laplace_l1(0.05), ClampedHistogram(epsilon).release(counts, noise)),
    ):
        drawn = real_valued(counts, counts, random)
        assert drawn.std() == pytest.approx(exact.std(), rel=0.05)
        assert abs(drawn.mean() - exact.mean()) < 1.5


def test_fast_noise_is_geometric() -> None:
    """P[G ≥ k] = e^(-εk) for k = 1 to 4, within 6.5 standard errors (seeded)."""
    noise = FastNoise(np.random.default_rng(6))
    drawn = noise.geometric(Fraction(1, 2), RUNS)
    for k in range(1, 5):
        chance = math.exp(-k / 2)
        error = 6.5 * math.sqrt(chance * (1 - chance) / RUNS)
        assert abs((drawn >= k).mean() - chance) < error
        assert abs(noise.reaches(Fraction(1, 2), np.full(RUNS, k)).mean() - chance) < error


def test_expand_agrees_with_buckets() -> None:
    """The estimates in floats are those of the library, with and without empty bins."""
    lengths, totals = (4, 1, 2), (12, 7, 5)
    for empty in (None, [True, False, True, False, False, True, True]):
        ours = expand(np.array(lengths), np.array(totals, np.float64), None if empty is None else np.array(empty))
        assert ours.tolist() == [float(estimate) for estimate in Buckets(lengths, totals).estimate(empty)]


def test_published_dawa_finds_flat_regions() -> None:
    """Two flat regions of 512 bins at ε = 1 give less than 50 buckets, and a total near the true one (seeded)."""
    counts = np.repeat(np.array([100, 3]), 512)
    lengths, totals = PublishedDawa(1.0).release(counts, measure_costs(counts), np.random.default_rng(7))
    assert lengths.sum() == 1024
    assert lengths.size < 50
    assert abs(totals.sum() - counts.sum()) < 100


def test_published_dawa_halves_epsilon() -> None:
    """A total has Laplace noise of scale 2/ε, because half of ε chooses the partition (6 standard errors, seeded)."""
    random, runs = np.random.default_rng(10), 5_000
    counts = np.array([1_000], np.int64)
    noise = np.array([PublishedDawa(0.5).release(counts, measure_costs(counts), random)[1][0] for _ in range(runs)])
    assert abs(np.abs(noise - 1_000).mean() - 4) < 6 * 4 / math.sqrt(runs)


def test_published_partition_has_its_chance() -> None:
    """With counts 1 and 0 at ε = 1, both bins are buckets with chance e^(-1/2)/2 (6 standard errors, seeded).

    A pair costs 1 plus noise of scale 1/ε1 = 2 plus a penalty of 1/ε2 = 2. Bins alone cost 2 penalties, without noise.
    So the noise of the pair must be above 1.
    """
    random, runs = np.random.default_rng(11), 5_000
    counts = np.array([1, 0], np.int64)
    apart = [PublishedDawa(1.0).release(counts, measure_costs(counts), random)[0].size == 2 for _ in range(runs)]
    chance = math.exp(-1 / 2) / 2
    assert abs(np.mean(apart) - chance) < 6 * math.sqrt(chance * (1 - chance) / runs)


def test_measures_are_those_of_the_paper() -> None:
    """Relative errors divide by at least 1; regret divides by the least error."""
    assert relative_errors(np.array([0, 4]), np.array([3.0, 3.0])).tolist() == [3.0, 0.25]
    assert regret({"a": 2.0, "b": 1.0}) == {"a": 2.0, "b": 1.0}
    assert regret({"a": 2.0, "b": 0.0}) == {"a": math.inf, "b": 1.0}


def test_samples_are_worse_above_the_bound() -> None:
    """At the paper's example, 100 × 100 bins and ε = 0.1, the bound is n > 2.2·10^5; measured errors agree there."""
    bins, epsilon, random = 10_000, 0.1, np.random.default_rng(8)
    assert not sample_is_worse(220_000, bins, epsilon)
    assert sample_is_worse(222_000, bins, epsilon)
    for each, worse in ((20, False), (24, True)):
        counts = np.full(bins, each, np.int64)
        assert sample_is_worse(each * bins, bins, epsilon) == worse
        errors = [
            np.abs(a(counts, counts, random) - counts).sum() for a in (make_osdp_rr(epsilon), make_laplace(epsilon))
        ]
        assert (errors[0] > errors[1]) == worse
