"""Who is where after each update, and how often a safe place is not called safe: Figures 1 and 4 to 7 by arrays.

The paper counts each person at one place, picked at random of those visited, in five batches of 500. An update is an
evaluation of all places on everything reported so far, with fresh exponential noise of mean 1/ε. Its false-negative
ratio is the share of the places with a count below T whose noisy count is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import EpsilonError, UsageError
from simulators.continuous_noise import Floats, Places
from simulators.experiments.data import Movements
from simulators.experiments.paper import LOCATIONS, UPDATES


class Population(Protocol):
    """Where people are counted."""

    def counts(self, rng: np.random.Generator) -> Places:
        """The people at each place after each update, drawn anew; shape (updates, places)."""


@dataclass(frozen=True, slots=True)
class OnePlaceEach:
    """Recorded people, in a random order in batches of equal size, each at one of the places visited, at random.

    People beyond a multiple of the batches are left out of a draw.
    """

    movements: Movements
    updates: int = UPDATES

    def __post_init__(self) -> None:
        """Raise UsageError if there are fewer people than updates."""
        if self.movements.people < self.updates:
            raise UsageError(f"{self.movements.people} people: expected at least {self.updates}, one for each update")

    def picked(self, rng: np.random.Generator) -> Places:
        """Each person's place, people in a random order; shape (updates, people in a batch)."""
        starts = self.movements.starts
        numbers = np.diff(starts)
        picked = self.movements.places[starts[:-1] + (rng.random(numbers.size) * numbers).astype(np.int64)]
        batch = self.movements.people // self.updates
        return rng.permutation(picked)[: batch * self.updates].reshape(self.updates, batch)

    def counts(self, rng: np.random.Generator) -> Places:
        """The people at each place after each update."""
        return accumulated(self.picked(rng), self.movements.locations)


def accumulated(picked: Places, locations: int) -> Places:
    """How many are at each place after each update, from the places of each update's people."""
    each = np.stack([np.bincount(batch, minlength=locations) for batch in picked])
    return np.cumsum(each, axis=0)


@dataclass(frozen=True, slots=True)
class DrawnByWeight:
    """A model: each person of a batch is at one place, with a chance proportional to the place's public weight."""

    weights: NDArray[np.int64]
    batch: int
    updates: int = UPDATES

    def counts(self, rng: np.random.Generator) -> Places:
        """The people at each place after each update."""
        return np.cumsum(rng.multinomial(self.batch, self.weights / self.weights.sum(), self.updates), axis=0)


@dataclass(frozen=True, slots=True)
class AsRead:
    """Fixed counts and one update."""

    fixed: NDArray[np.int64]

    def counts(self, _rng: np.random.Generator) -> Places:
        """The counts; shape (1, places)."""
        return self.fixed[np.newaxis]


@dataclass(frozen=True, slots=True)
class Asked:
    """A point of Figure 6 or 7: ε, threshold T (people), and after which update, from 1."""

    epsilon: float
    threshold: int
    update: int


@dataclass(frozen=True, slots=True)
class Ratios:
    """False-negative ratios: with drawn noise, and as expected for the same counts; shape (asked, iterations).

    NaN where no count is below T.
    """

    drawn: Floats
    expected: Floats


def expected_ratio(counts: Places, epsilon: float, threshold: int) -> float:
    """The mean of e^(-ε(T - f)) over the counts f below T; NaN if there is none.

    Raises:
        EpsilonError: ε is not above 0 and finite.
        UsageError: the threshold is below 1.
    """
    _check(epsilon, threshold)
    numbers = np.bincount(counts)[:threshold]
    total = numbers.sum()
    return float(numbers @ np.exp(-epsilon * (threshold - np.arange(numbers.size))) / total) if total else math.nan


def ratios(population: Population, asked: Sequence[Asked], iterations: int, rng: np.random.Generator) -> Ratios:
    """Draw people and noise anew in each iteration. One draw of noise serves all ε and T of an update.

    Raises:
        EpsilonError, UsageError: as `expected_ratio`.
    """
    for one in asked:
        _check(one.epsilon, one.threshold)
    shape = (len(asked), iterations)
    found = Ratios(np.full(shape, math.nan), np.full(shape, math.nan))
    for iteration in range(iterations):
        counts = population.counts(rng)
        noise = {update: rng.exponential(1, (counts.shape[1],)) for update in sorted({one.update for one in asked})}
        for place, one in enumerate(asked):
            now = counts[one.update - 1]
            below = now < one.threshold
            wrong = np.count_nonzero(now[below] + noise[one.update][below] / one.epsilon > one.threshold)
            if below.any():
                found.drawn[place, iteration] = wrong / np.count_nonzero(below)
            found.expected[place, iteration] = expected_ratio(now, one.epsilon, one.threshold)
    return found


def _check(epsilon: float, threshold: int) -> None:
    if not 0 < epsilon < math.inf:
        raise EpsilonError(f"ε is {epsilon}: expected a finite number above 0.")
    if threshold < 1:
        raise UsageError(f"the threshold is {threshold} people: expected at least 1")


def histogram_counts(bars: Sequence[int]) -> NDArray[np.int64]:
    """One count for each place of a histogram: bars[c] places have c visitors."""
    return np.repeat(np.arange(len(bars)), bars)


def with_unread(counts: NDArray[np.int64], *, long_tail: bool, most: int) -> NDArray[np.int64]:
    """Add the places of the paper that its Figure 1 has beyond what can be read: each has more than the largest count.

    Either each has one visitor more than that, or, with a long tail, the numbers of those with at least c fall as 1/c,
    cut at `most`. The truth lies between.
    """
    unread, beyond = LOCATIONS - counts.size, int(counts.max()) + 1
    if not long_tail:
        return np.append(counts, np.full(unread, beyond))
    ranks = np.arange(unread) + 0.5
    return np.append(counts, np.clip(beyond * unread / ranks, beyond, most).astype(np.int64))


def bars_of(movements: Movements, batch: int, iterations: int, rng: np.random.Generator) -> Floats:
    """How many places had 0, 1, … visitors in random batches of people, all places visited; (iterations, bars)."""
    numbers = np.diff(movements.starts)
    owners = np.repeat(np.arange(movements.people), numbers)
    bars = np.zeros((iterations, batch + 1))
    for iteration in range(iterations):
        chosen = np.zeros(movements.people, np.bool_)
        chosen[rng.permutation(movements.people)[:batch]] = True
        visitors = np.bincount(movements.places[chosen[owners]], minlength=movements.locations)
        bars[iteration] = np.bincount(visitors, minlength=batch + 1)
    return bars
