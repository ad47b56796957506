"""Measure the intervals from lower to upper bounds, which contain the count with certainty, by ε and share of consent.

As in Figures 5 to 7 of the paper, each recorded person is at one of the person's places, chosen at random. The noise is
that of the service. Every interval is compared with a recount of the people at its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.privacy import at_least, at_times
from monitor.privacy.at_times import AtTimesRule
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from simulators.continuous_noise import Places
from simulators.experiments.data import GOWALLA, PEOPLE_FLOW_CELLS, Movements, Place
from simulators.experiments.monitoring import OnePlaceEach

EPSILONS: Final = (Fraction(1, 2), Fraction(1), Fraction(2))
SHARES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
THRESHOLDS: Final = {PEOPLE_FLOW_CELLS: 10, GOWALLA: 3}
"""T by dataset. Few places of Gowalla's check-ins have 10 people."""


@dataclass(frozen=True, slots=True)
class Widths:
    """The intervals of one ε (of both bounds) and one share of consent, over all draws.

    All averages are over places with `threshold` people or more, and NaN if there are none.
    """

    dataset: str
    threshold: int
    epsilon: Fraction
    share: float
    intervals: int
    """The number of these places."""
    people: float
    """The average count."""
    below: float
    above: float
    """`below`, `above`: the average distance of the lower and of the upper bound from the count."""
    width: float
    """The average width."""
    bounded: float
    """The share of places with a lower bound."""
    lower_bounds: int
    """The number of lower bounds, of all places."""
    false: int
    """The number of false bounds, of all places."""


def measure_intervals(place: Place, movements: Movements, iterations: int, seed: int) -> Iterator[Widths]:
    """Yield the widths of a dataset for each ε and each share of people who consent."""
    for number, (epsilon, share) in enumerate(product(EPSILONS, SHARES)):
        rng = np.random.default_rng([seed, number])
        noise = OneSidedNoise(SeededEntropy(seed + number))
        rule = AtTimesRule(epsilon, THRESHOLDS[place.title])
        draws = [_draw(movements, rule, share, rng, noise) for _ in range(iterations)]
        counts, least, most = (np.concatenate(columns) for columns in zip(*draws, strict=True))
        crowded = counts >= rule.threshold
        yield Widths(
            dataset=place.title,
            threshold=rule.threshold,
            epsilon=epsilon,
            share=share,
            intervals=int(crowded.sum()),
            people=_average(counts[crowded]),
            below=_average((counts - least)[crowded]),
            above=_average((most - counts)[crowded]),
            width=_average((most - least)[crowded]),
            bounded=_average(least[crowded] > 0),
            lower_bounds=int((least > 0).sum()),
            false=int(((least > counts) | (most < counts)).sum()),
        )


def _average(values: NDArray[Any]) -> float:
    return float(values.mean()) if values.size else math.nan


def _draw(
    movements: Movements, rule: AtTimesRule, share: float, rng: np.random.Generator, noise: OneSidedNoise
) -> tuple[Places, Places, Places]:
    """Draw one designated time: return the counts, the lower and the upper bounds, shape (places,) each."""
    places = OnePlaceEach(movements).pick_places(rng).ravel()
    consents = rng.random(places.size) < share
    counts, consenting = (
        np.bincount(chosen, minlength=movements.locations).astype(np.int64) for chosen in (places, places[consents])
    )
    least, most = np.zeros_like(counts), np.full_like(counts, rule.threshold - 1)
    noisy, noisy_counts = at_times.step(rule, np.zeros(counts.size, np.bool_), counts, noise)
    most[noisy] = noisy_counts
    rows, bounds = at_least.step(rule.epsilon, consenting, noise)
    least[rows] = bounds
    return _recount(places.tolist(), counts.size), least, most


def _recount(places: list[int], locations: int) -> Places:
    """Count people one by one, independently of the arrays from which the bounds were drawn."""
    people: dict[int, set[int]] = {}
    for person, place in enumerate(places):
        people.setdefault(place, set()).add(person)
    return np.array([len(people.get(place, ())) for place in range(locations)], np.int64)
