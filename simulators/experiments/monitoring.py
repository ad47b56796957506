"""Draw the counts after each update, and how often a safe place is not called safe, for Figures 1 and 4 to 7.

The paper counts each person at one of the places visited, chosen at random, in five batches of 500 people. An update
evaluates all places on all reports so far, with new exponential noise of mean 1/ε. Its false-negative ratio is the
share of places with a noisy count of T or more among the places with a count below T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import UsageError
from simulators.continuous_noise import Floats, Places
from simulators.experiments.data import Movements
from simulators.experiments.points import LOCATIONS, UPDATES


class Population(Protocol):
    """A source of the number of people at each place."""

    def draw_counts(self, rng: np.random.Generator) -> Places:
        """Draw the people at each place after each update, shape (updates, places)."""


@dataclass(frozen=True, slots=True)
class OnePlaceEach:
    """Recorded people in random batches of equal size. Each is at one of the person's places, chosen at random.

    If the number of people is not a multiple of the number of batches, a draw leaves out the remainder.
    """

    movements: Movements
    updates: int = UPDATES

    def __post_init__(self) -> None:
        """Raise UsageError if there are fewer people than updates."""
        if self.movements.people < self.updates:
            raise UsageError(f"{self.movements.people} people: expected at least {self.updates}, one per update")

    def pick_places(self, rng: np.random.Generator) -> Places:
        """Draw the place of each person, in random order, shape (updates, people per batch)."""
        starts = self.movements.starts
        numbers = np.diff(starts)
        picked = self.movements.places[starts[:-1] + (rng.random(numbers.size) * numbers).astype(np.int64)]
        batch = self.movements.people // self.updates
        return rng.permutation(picked)[: batch * self.updates].reshape(self.updates, batch)

    def draw_counts(self, rng: np.random.Generator) -> Places:
        """Draw the people at each place after each update."""
        return accumulate(self.pick_places(rng), self.movements.locations)


def accumulate(picked: Places, locations: int) -> Places:
    """Return the number of people at each place after each update, shape (updates, places).

    `picked` has the places of each update's people, shape (updates, people).
    """
    counts = np.stack([np.bincount(batch, minlength=locations) for batch in picked])
    return np.cumsum(counts, axis=0)


@dataclass(frozen=True, slots=True)
class DrawnByWeight:
    """A model: each person of a batch is at one place, with a chance proportional to its public weight."""

    weights: NDArray[np.int64]
    batch: int
    updates: int = UPDATES

    def draw_counts(self, rng: np.random.Generator) -> Places:
        """Draw the people at each place after each update."""
        return np.cumsum(rng.multinomial(self.batch, self.weights / self.weights.sum(), self.updates), axis=0)


@dataclass(frozen=True, slots=True)
class AsRead:
    """Fixed counts, and only one update."""

    fixed: NDArray[np.int64]

    def draw_counts(self, _rng: np.random.Generator) -> Places:
        """Return the counts, shape (1, places)."""
        return self.fixed[np.newaxis]


@dataclass(frozen=True, slots=True)
class RatioQuery:
    """A point of Figure 6 or 7: ε, threshold T (people), and the update, from 1."""

    epsilon: float
    threshold: int
    update: int


@dataclass(frozen=True, slots=True)
class Ratios:
    """False-negative ratios with drawn noise, and expected ones for the same counts, shape (queries, iterations).

    A ratio is NaN if no count is below T.
    """

    drawn: Floats
    expected: Floats


def compute_expected_ratio(counts: Places, epsilon: float, threshold: int) -> float:
    """Return the mean of e^(-ε(T - f)) over the counts f below T; NaN if there are none."""
    numbers = np.bincount(counts)[:threshold]
    total = numbers.sum()
    return float(numbers @ np.exp(-epsilon * (threshold - np.arange(numbers.size))) / total) if total else math.nan


def draw_ratios(
    population: Population, queries: Sequence[RatioQuery], iterations: int, rng: np.random.Generator
) -> Ratios:
    """Draw people and noise in each iteration, and return the ratios. All ε and T of an update use one noise draw."""
    shape = (len(queries), iterations)
    found = Ratios(np.full(shape, math.nan), np.full(shape, math.nan))
    updates = sorted({query.update for query in queries})
    for iteration in range(iterations):
        counts = population.draw_counts(rng)
        noise = {update: rng.exponential(1, (counts.shape[1],)) for update in updates}
        for place, query in enumerate(queries):
            now = counts[query.update - 1]
            below = now < query.threshold
            wrong = np.count_nonzero(now[below] + noise[query.update][below] / query.epsilon >= query.threshold)
            if below.any():
                found.drawn[place, iteration] = wrong / np.count_nonzero(below)
            found.expected[place, iteration] = compute_expected_ratio(now, query.epsilon, query.threshold)
    return found


def list_histogram_counts(bars: Sequence[int]) -> NDArray[np.int64]:
    """Return the count of each place, given a histogram: bars[c] places have c visitors."""
    return np.repeat(np.arange(len(bars)), bars)


def add_unread_places(counts: NDArray[np.int64], *, long_tail: bool, most: int) -> NDArray[np.int64]:
    """Add the places beyond the readable bars of the paper's Figure 1. Each has more visitors than the largest count.

    With a short tail, each has exactly one visitor more. With a long tail, the number of places with at least c
    visitors falls as 1/c, up to `most` visitors. The true counts are between the two.
    """
    unread, beyond = LOCATIONS - counts.size, int(counts.max()) + 1
    if not long_tail:
        return np.append(counts, np.full(unread, beyond))
    ranks = np.arange(unread) + 0.5
    return np.append(counts, np.clip(beyond * unread / ranks, beyond, most).astype(np.int64))


def draw_bars(movements: Movements, batch: int, iterations: int, rng: np.random.Generator) -> Floats:
    """Draw the number of places with 0, 1, … visitors in random batches of people, shape (iterations, bars)."""
    numbers = np.diff(movements.starts)
    owners = np.repeat(np.arange(movements.people), numbers)
    bars = np.zeros((iterations, batch + 1))
    for iteration in range(iterations):
        chosen = np.zeros(movements.people, np.bool_)
        chosen[rng.permutation(movements.people)[:batch]] = True
        visitors = np.bincount(movements.places[chosen[owners]], minlength=movements.locations)
        bars[iteration] = np.bincount(visitors, minlength=batch + 1)
    return bars
