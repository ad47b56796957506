"""Algorithms 1 and 2 and the baselines as simulated: errors in closed form, budgets, and orders."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from simulators.baselines import GENERAL, MONOTONE, FreeGapNoisyMax, FreeGapSparseVector, Scale, combine_estimates
from simulators.continuous_noise import Floats, make_exponential, make_laplace, make_laplace_difference
from simulators.paper_algorithms import CHEAP, FULL, Branches, NoisyMax, SparseVector, run_adaptive, threshold_share
from simulators.top_k import (
    NOTHING,
    Exceedances,
    TopK,
    TopKAlgorithm,
    choose_within_budget,
    draw_above,
    draw_highest,
    draw_thresholds,
    run_and_score,
    score,
)

pytestmark = pytest.mark.long

K, EPSILON = 5, 1.0
APART = np.concatenate([np.arange(40, 0, -1) * 10_000, np.zeros(100, dtype=np.int64)])
"""Forty counts so far apart that no noise changes their order, and a hundred items that nobody has."""

CLOSE = np.array([12, 11, 10, 9, 8, 7, 6, 5, *[4] * 20, *[0] * 200])
RUNS = 20_000


def make_rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def measure_error(algorithm: TopKAlgorithm, seed: int) -> tuple[float, float]:
    """Return the mean squared error over many iterations, and its standard error."""
    errors = run_and_score(algorithm, RUNS, make_rng(seed)).squared_error
    return float(errors.mean()), float(errors.std() / math.sqrt(RUNS))


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (NoisyMax(APART, EPSILON, K, debiased=True), 1.0),
        (NoisyMax(APART, EPSILON, K, debiased=False), 2.0),
        (FreeGapNoisyMax(APART, EPSILON, K, GENERAL), 16 * (1 + 1 / K)),
        (FreeGapNoisyMax(APART, EPSILON, K, MONOTONE), 4 * (1 + 1 / K)),
        (SparseVector(APART, EPSILON, K, "as coded"), 4.0),
        (SparseVector(APART, EPSILON, K, "as printed"), 1.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_equals_noise_variance(algorithm: TopKAlgorithm, expected: float) -> None:
    """Where the order is certain, the error is the variance of the noise, or twice that with its mean.

    In units of (k/ε)², within 6.5 standard errors, seeded.
    """
    observed, standard_error = measure_error(algorithm, 11)
    assert abs(observed - expected * (K / EPSILON) ** 2) < 6.5 * standard_error


@pytest.mark.parametrize("scale", [GENERAL, MONOTONE])
def test_sparse_baseline_error(scale: Scale) -> None:
    """The error of the sparse baseline is that of gap and measurement, weighted as the program does.

    All answers are far. The gap has the noise of query and threshold. Within 6.5 standard errors, seeded.
    """
    share = threshold_share(K)
    query_epsilon = EPSILON / 2 * (1 - share)
    gap = 2 * ((2 * scale * K / query_epsilon) ** 2 + (scale / (EPSILON / 2 * share)) ** 2)
    taken_for, measure = 2 * scale**2 / share**3 / (query_epsilon / 2) ** 2, 2 * (scale * K / (EPSILON / 2)) ** 2
    weight = (1 / taken_for) / (1 / taken_for + 1 / measure)
    observed, standard_error = measure_error(FreeGapSparseVector(APART, EPSILON, K, scale), 12)
    assert abs(observed - (weight**2 * gap + (1 - weight) ** 2 * measure)) < 6.5 * standard_error


def compute_tail(a: float, b: float, x: float) -> float:
    """Return the chance that the difference of Laplace noise of the scales a and b is above x (partial fractions)."""
    return (a * a * math.exp(-x / a) - b * b * math.exp(-x / b)) / (2 * (a * a - b * b))


def test_difference_has_its_tail() -> None:
    """The noise of a query minus that of a threshold has the tail of the formula (6.5 standard errors, seeded)."""
    drawn = make_laplace_difference(3.0, 1.0)(make_rng(1), (RUNS,))
    for x in (0.1, 1.0, 4.0, 9.0):
        chance = compute_tail(3.0, 1.0, x)
        for share in ((drawn > x).mean(), (drawn < -x).mean()):
            assert abs(share - chance) < 6.5 * math.sqrt(chance * (1 - chance) / RUNS)


@pytest.mark.parametrize("scale", [GENERAL, MONOTONE])
def test_sparse_baseline_answers_far_and_near(scale: Scale) -> None:
    """With equal counts, the number of answers is that of the noise of queries and thresholds (6.5 standard errors).

    A value is above the threshold with chance 1/2, and far above it if the noise is 4·√2 scales of a full query.
    An answer that is far costs half. A first draw that is only above the threshold leads to a second draw.
    """
    share = threshold_share(K)
    query, threshold = scale * K / (EPSILON / 2 * (1 - share)), scale / (EPSILON / 2 * share)
    far = 4 * math.sqrt(2) * query
    first, second = (compute_tail(each, threshold, far) for each in (2 * query, query))
    cheap, full = first + (1 / 2 - first) * second, (1 / 2 - first) * (1 / 2 - second)
    cheap /= cheap + full
    expected = [0.0, cheap]
    for budget in range(2, 2 * K + 1):
        expected.append(1 + cheap * expected[budget - 1] + (1 - cheap) * expected[budget - 2])
    found = FreeGapSparseVector(np.full(200, 50), EPSILON, K, scale)(4_000, make_rng(13))
    answers = (found.items != NOTHING).sum(axis=1)
    assert abs(answers.mean() - expected[-1]) < 6.5 * answers.std() / math.sqrt(answers.size)


def test_highest_are_sorted() -> None:
    """The highest noisy counts and their items are the first of all of them, sorted (equal seeds)."""
    law, runs = make_laplace(4.0), 200
    items, values = draw_highest(CLOSE.astype(np.float64), law, 9, runs, make_rng(13))
    noisy: Floats = CLOSE + law(make_rng(13), (runs, CLOSE.size))
    assert (items == np.argsort(-noisy, axis=1)[:, :9]).all()
    assert (values == -np.sort(-noisy, axis=1)[:, :9]).all()


def test_items_above_their_threshold() -> None:
    """Exactly the items above the threshold of their iteration are found, with their values (equal seeds)."""
    law, thresholds = make_exponential(5.0), np.where(np.arange(200) % 2 == 0, 10.0, 30.0)
    above = draw_above(CLOSE.astype(np.float64), law, thresholds, make_rng(14))
    noisy: Floats = CLOSE + law(make_rng(14), (200, CLOSE.size))
    expected = {(row, item) for row, item in np.ndindex(noisy.shape) if noisy[row, item] > thresholds[row]}
    assert set(zip(above.iterations.tolist(), above.items.tolist(), strict=True)) == expected
    assert above.items.size == len(expected) > 0
    assert (above.values == noisy[above.iterations, above.items]).all()


def test_estimates_combine_measurements() -> None:
    """Exact gaps and measurements give exact estimates; an error counts half, plus its share of the mean."""
    true = np.array([[90.0, 60.0, 30.0]])
    gaps = np.array([[30.0, 30.0, 7.0]])
    np.testing.assert_allclose(combine_estimates(true, gaps), true)
    np.testing.assert_allclose(combine_estimates(true + np.array([[6.0, 0.0, 0.0]]), gaps) - true, [[4.0, 1.0, 1.0]])


def make_exceedances(iterations: NDArray[np.int64]) -> Exceedances:
    return Exceedances(iterations, np.arange(iterations.size), np.ones(iterations.size))


def test_budget_is_never_exceeded() -> None:
    """Answers end before the one that would exceed the budget of 4 per iteration, in orders that are equally likely."""
    iterations = np.repeat([0, 1], 6)
    costs = np.array([FULL] * 6 + [CHEAP] * 6)
    taken = choose_within_budget(make_exceedances(iterations), costs, 4, make_rng(17))
    assert iterations[taken].tolist() == [0] * 2 + [1] * 4
    firsts = [
        int(choose_within_budget(make_exceedances(np.zeros(3, np.int64)), np.ones(3, np.int64), 1, make_rng(s))[0])
        for s in range(900)
    ]
    assert np.bincount(firsts, minlength=3).min() > 200  # each has 300 ± 14; fails with chance 10^-11


def test_unaffordable_answer_ends_answers() -> None:
    """A full answer beyond the budget ends the answers, even if a cheap one would fit.

    Costs 1, 2, 1 with budget 2: two answers only if both cheap ones come first.
    """
    costs = np.array([CHEAP, FULL, CHEAP])
    sizes = {
        len(choose_within_budget(make_exceedances(np.zeros(3, np.int64)), costs, 2, make_rng(seed))): seed
        for seed in range(50)
    }
    assert set(sizes) == {1, 2}


def test_far_answers_cost_half() -> None:
    """Far answers cost half: as coded k to 2k of them are answered, as printed k."""
    coded = SparseVector(APART, EPSILON, K, "as coded")(500, make_rng(18))
    printed = SparseVector(APART, EPSILON, K, "as printed")(500, make_rng(18))
    answers = (coded.items != NOTHING).sum(axis=1)
    assert coded.items.shape == (500, 2 * K)
    assert set(answers.tolist()) == set(range(K, 2 * K + 1))
    assert printed.items.shape == (500, K)
    assert (printed.items != NOTHING).all()


def test_far_is_two_deviations() -> None:
    """An answer is cheap if its draw is σ above the threshold: two deviations of Laplace noise of scale 4k/ε_query.

    One item has the count 0, the threshold is 0, k = 1, ε_query = 8: σ = √2. The first draw has the mean 1, the second
    1/2. Both are above the threshold, so the answer is cheap with chance e^-σ + (1 - e^-σ)·e^-2σ (6 standard errors,
    seeded).
    """
    branches = Branches.of(make_exponential(1.0), make_exponential(0.5), 8.0, 1)
    found = run_adaptive(np.zeros(1), np.zeros(RUNS), branches, make_rng(26))
    far = math.exp(-math.sqrt(2))
    chance = far + (1 - far) * far**2
    assert found.cheap.size == RUNS
    assert abs(found.cheap.mean() - chance) < 6 * math.sqrt(chance * (1 - chance) / RUNS)


def test_thresholds_are_ranked_counts() -> None:
    """Thresholds are the counts at all ranks from k to 2k, from 0, or the last count if there are fewer."""
    drawn = draw_thresholds(APART.astype(np.float64), K, 2000, make_rng(20))
    assert set(drawn.tolist()) == {float(APART[rank]) for rank in range(K, 2 * K + 1)}
    assert set(draw_thresholds(np.array([3.0, 2.0]), 2, 10, make_rng(21)).tolist()) == {2.0}


def test_no_answers_no_error() -> None:
    """An iteration without answers has accuracy 0 and error NaN.

    Three counts of 5, a threshold of 5 + k/ε = 6: with chance (1 - 1/e)³ none is above it.
    """
    nothing = SparseVector(np.array([5, 5, 5]), 2.0, 2, "as printed")(200, make_rng(23))
    empty = (nothing.items == NOTHING).all(axis=1)
    scores = score(nothing, np.full(3, 5.0), 2)
    assert empty.any()
    assert (scores.accuracy[empty] == 0).all()
    assert (np.isnan(scores.squared_error) == empty).all()


def test_accuracy_counts_k_highest() -> None:
    """Accuracy counts only the k answers with the highest values: of these two, one is right."""
    answered = TopK(np.array([[0, 2, 1]]), np.array([[9.0, 8.0, 7.0]]))
    scores = score(answered, np.array([9.0, 6.0, 5.0]), 2)
    assert scores.accuracy.tolist() == [0.5]
    assert scores.squared_error.tolist() == [(0 + 9 + 1) / 3]


def test_iterations_run_in_parts() -> None:
    """More iterations than fit into memory at a time are all run."""
    scores = run_and_score(NoisyMax(APART, EPSILON, K, debiased=True), 9001, make_rng(24))
    assert scores.accuracy.shape == scores.squared_error.shape == (9001,)
    assert (scores.accuracy == 1).all()
