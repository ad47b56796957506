"""What top-k algorithms have in common in simulation: the highest of many noisy counts, random orders, scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CountsError, EpsilonError, SelectionError
from simulators.continuous_noise import Floats, Law, Places, Risen, exceeding

NOTHING: Final = -1
"""Where an iteration gave fewer answers than there is room for."""

_ROOM: Final = 4_000_000
"""Numbers held at a time: about 32 MB for each array."""


@dataclass(frozen=True, slots=True)
class TopK:
    """What was answered, of shape (iterations, room): items and their estimated counts, highest noisy value first.

    Where there is none the item is NOTHING and the estimate NaN.
    """

    items: Places
    estimates: Floats


@dataclass(frozen=True, slots=True)
class Scores:
    """For each iteration the accuracy and the mean squared error.

    Accuracy is how many of the k answers with the highest noisy values are in the true top k, over k. The error is over
    all answers, which may be more than k (a sparse vector's cheap ones); NaN where there are none.
    """

    accuracy: Floats
    squared_error: Floats


class TopKAlgorithm(Protocol):
    """What the experiments run: an algorithm with its data and parameters."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """The true counts of all public items."""

    @property
    def k(self) -> int:
        """How many items are asked for."""

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of independent iterations."""


def checked(counts: NDArray[np.int64], epsilon: float, k: int, *, spare: int = 0) -> Floats:
    """The counts as floats.

    Raises:
        CountsError: there are none, or one is negative.
        EpsilonError: ε is not above 0 and finite.
        SelectionError: k is not from 1 to the number of items less `spare`.
    """
    if counts.ndim != 1 or counts.size == 0 or int(counts.min()) < 0:
        raise CountsError("Counts are expected on one axis, at least one of them, none negative; pass every item.")
    if not 0 < epsilon < math.inf:
        raise EpsilonError(f"ε is {epsilon}: expected a finite number above 0.")
    if not 1 <= k <= counts.size - spare:
        raise SelectionError(
            f"k is {k}, with {counts.size} items: expected 1 to {counts.size - spare}; lower k or add items."
        )
    return counts.astype(np.float64)


def highest(counts: Floats, law: Law, most: int, iterations: int, rng: np.random.Generator) -> tuple[Places, Floats]:
    """The `most` highest of count plus noise in each iteration: items and values, (iterations, most), highest first.

    A head of the largest counts is drawn in full. Its `most`-th value is a level that the others must exceed to matter.
    """
    falling = np.argsort(-counts, kind="stable")
    head = falling[: 2 * most + 50]
    values = counts[head] + law.sample(rng, (iterations, head.size))
    levels = np.partition(values, head.size - most, axis=1)[:, head.size - most]
    rows, columns = np.nonzero(values >= levels[:, np.newaxis])
    risen = Risen(rows, head[columns], values[rows, columns])
    risen = Risen.joined([risen, exceeding(counts, falling[head.size :], law, levels, rng)])
    order = np.lexsort((-risen.values, risen.iterations))
    starts = np.searchsorted(risen.iterations[order], np.arange(iterations))
    chosen = order[starts[:, np.newaxis] + np.arange(most)]
    return risen.items[chosen], risen.values[chosen]


def in_random_order(risen: Risen, costs: Places, budget: int, rng: np.random.Generator) -> Places:
    """The places of those that are answered if items come in a random order, until the next would exceed the budget."""
    order = np.lexsort((rng.random(costs.size), risen.iterations))
    spent = np.cumsum(costs[order])
    rows = risen.iterations[order]
    before = np.concatenate([[0], spent])[np.searchsorted(rows, rows)]
    answered: Places = order[spent - before <= budget]
    return answered


def padded(risen: Risen, estimates: Floats, iterations: int, room: int) -> TopK:
    """Answers side by side as an array, in each iteration by falling value."""
    order = np.lexsort((-risen.values, risen.iterations))
    rows = risen.iterations[order]
    columns = np.arange(rows.size) - np.searchsorted(rows, rows)
    items = np.full((iterations, room), NOTHING, dtype=np.int64)
    shown = np.full((iterations, room), np.nan)
    items[rows, columns] = risen.items[order]
    shown[rows, columns] = estimates[order]
    return TopK(items, shown)


def ranked_thresholds(counts: Floats, k: int, iterations: int, rng: np.random.Generator) -> Floats:
    """For each iteration the count at a rank drawn from k to 2k (from 0; at most the last), as Ding et al. do.

    This looks at the counts without noise: neither algorithm accounts for it.
    """
    falling = -np.sort(-counts)
    return falling[np.minimum(rng.integers(k, 2 * k + 1, iterations), counts.size - 1)]


def score(answered: TopK, counts: Floats, k: int) -> Scores:
    """Accuracy and mean squared error of each iteration; which items are the true top k is decided by item in a tie."""
    is_top = np.zeros(counts.size, dtype=np.bool_)
    is_top[np.argsort(-counts, kind="stable")[:k]] = True
    given = answered.items != NOTHING
    right = (is_top[answered.items] & given)[:, :k].sum(axis=1)
    errors = np.where(given, answered.estimates - counts[answered.items], 0.0)
    with np.errstate(invalid="ignore"):  # no answers: 0/0, NaN as documented
        return Scores(right / k, (errors**2).sum(axis=1) / given.sum(axis=1))


def scores_of(algorithm: TopKAlgorithm, iterations: int, rng: np.random.Generator) -> Scores:
    """The scores of many iterations, so many at a time as fit the memory. Raises as the algorithm."""
    counts, k = algorithm.counts.astype(np.float64), algorithm.k
    at_once = max(1, _ROOM // (8 * k + 1000 + counts.size // 4))
    parts = [
        score(algorithm(min(at_once, iterations - done), rng), counts, k) for done in range(0, iterations, at_once)
    ]
    return Scores(
        np.concatenate([part.accuracy for part in parts]), np.concatenate([part.squared_error for part in parts])
    )
