"""Shared parts of the simulated top-k algorithms: the highest noisy counts, budgets, scores.

docs/literature.md defines [DWZK].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from simulators.continuous_noise import Floats, Law, Places

NOTHING: Final = -1
"""The item in an unused cell of `TopK.items`, in an iteration with fewer answers than cells."""

_ROOM: Final = 4_000_000
"""The largest number of values in memory at once: about 32 MB per array."""


@dataclass(frozen=True, slots=True)
class Exceedances:
    """Items whose value (a count plus noise) exceeds the threshold of an iteration, sorted by iteration."""

    iterations: Places
    items: Places
    values: Floats

    def select(self, chosen: NDArray[np.bool_] | Places) -> Exceedances:
        """Return the entries that a mask or an array of indices selects."""
        return Exceedances(self.iterations[chosen], self.items[chosen], self.values[chosen])


@dataclass(frozen=True, slots=True)
class TopK:
    """The answers, shape (iterations, room): items and their estimated counts, highest noisy value first.

    An unused cell has the item NOTHING and the estimate NaN.
    """

    items: Places
    estimates: Floats


@dataclass(frozen=True, slots=True)
class Scores:
    """Accuracy and mean squared error per iteration.

    Accuracy is the share of the true top k that is among the k answers with the highest noisy values. The error is the
    mean over all answers, NaN without answers. A sparse vector may have more than k answers, because some are cheap.
    """

    accuracy: Floats
    squared_error: Floats


class TopKAlgorithm(Protocol):
    """An algorithm with its data and parameters."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """The true counts of all public items."""

    @property
    def k(self) -> int:
        """The number of items requested."""

    def __call__(self, iterations: int, rng: np.random.Generator) -> TopK:
        """Run a number of independent iterations."""


def draw_highest(
    counts: Floats, law: Law, most: int, iterations: int, rng: np.random.Generator
) -> tuple[Places, Floats]:
    """Draw the `most` highest noisy counts per iteration: items and values, shape (iterations, most), highest first."""
    noisy = counts + law(rng, (iterations, counts.size))
    items = np.argpartition(noisy, counts.size - most, axis=1)[:, counts.size - most :]
    values = np.take_along_axis(noisy, items, axis=1)
    order = np.argsort(-values, axis=1)
    return np.take_along_axis(items, order, axis=1), np.take_along_axis(values, order, axis=1)


def draw_above(counts: Floats, law: Law, thresholds: Floats, rng: np.random.Generator) -> Exceedances:
    """Draw noise for each item and iteration. Return the items that exceed the threshold of their iteration."""
    noisy = counts + law(rng, (thresholds.size, counts.size))
    iterations, items = np.nonzero(noisy > thresholds[:, np.newaxis])
    return Exceedances(iterations, items, noisy[iterations, items])


def choose_within_budget(above: Exceedances, costs: Places, budget: int, rng: np.random.Generator) -> Places:
    """Return the indices of the answers published: in a random order, until the next one would exceed the budget."""
    order = np.lexsort((rng.random(costs.size), above.iterations))
    spent = np.cumsum(costs[order])
    rows = above.iterations[order]
    before = np.concatenate([[0], spent])[np.searchsorted(rows, rows)]
    answered: Places = order[spent - before <= budget]
    return answered


def pad_answers(above: Exceedances, estimates: Floats, iterations: int, room: int) -> TopK:
    """Return the answers as arrays, sorted by falling value within an iteration."""
    order = np.lexsort((-above.values, above.iterations))
    rows = above.iterations[order]
    columns = np.arange(rows.size) - np.searchsorted(rows, rows)
    items = np.full((iterations, room), NOTHING, dtype=np.int64)
    shown = np.full((iterations, room), np.nan)
    items[rows, columns] = above.items[order]
    shown[rows, columns] = estimates[order]
    return TopK(items, shown)


def draw_thresholds(counts: Floats, k: int, iterations: int, rng: np.random.Generator) -> Floats:
    """Return one threshold per iteration: the count at a random rank from k to 2k (ranks from 0), as in [DWZK].

    The threshold depends on the exact counts, which the stated ε of the algorithms does not cover.
    """
    falling = -np.sort(-counts)
    return falling[np.minimum(rng.integers(k, 2 * k + 1, iterations), counts.size - 1)]


def score(answered: TopK, counts: Floats, k: int) -> Scores:
    """Return accuracy and mean squared error per iteration. Of tied items, the lower index is in the true top k."""
    is_top = np.zeros(counts.size, dtype=np.bool_)
    is_top[np.argsort(-counts, kind="stable")[:k]] = True
    given = answered.items != NOTHING
    right = (is_top[answered.items] & given)[:, :k].sum(axis=1)
    errors = np.where(given, answered.estimates - counts[answered.items], 0.0)
    with np.errstate(invalid="ignore"):  # without answers, 0/0 gives the documented NaN
        return Scores(right / k, (errors**2).sum(axis=1) / given.sum(axis=1))


def run_and_score(algorithm: TopKAlgorithm, iterations: int, rng: np.random.Generator) -> Scores:
    """Return the scores of many iterations, run in parts that fit into memory."""
    counts, k = algorithm.counts.astype(np.float64), algorithm.k
    at_once = max(1, _ROOM // (8 * k + counts.size))
    parts = [
        score(algorithm(min(at_once, iterations - done), rng), counts, k) for done in range(0, iterations, at_once)
    ]
    return Scores(
        np.concatenate([part.accuracy for part in parts]), np.concatenate([part.squared_error for part in parts])
    )
