"""Figures 1 and 4 to 7: points from populations, under titles that say whose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from monitor.privacy.noise import OneSidedNoise, SeededEntropy
from simulators.continuous_noise import Places
from simulators.experiments.data import Movements
from simulators.experiments.datasets import HISTOGRAM, PEOPLE_FLOW, Place
from simulators.experiments.monitoring import (
    Asked,
    AsRead,
    DrawnByWeight,
    OnePlaceEach,
    Population,
    bars_of,
    histogram_counts,
    ratios,
    with_unread,
)
from simulators.experiments.paper import BATCH, EPSILONS, THRESHOLD, THRESHOLDS, UPDATES, VISITORS, paper_value
from simulators.experiments.points import FALSE_NEGATIVES, Figure, Paper, Point, Setting, mean_and_error

LOCATION_ITERATIONS: Final = 1_000
"""Most draws of people and noise for Figures 1, 6 and 7, where the paper has 20 and fewer."""

ALGORITHM_3: Final = "Algorithm 3"
ALGORITHM_4: Final = "Algorithm 4"
EXPONENTIAL: Final = "exponential noise"
GEOMETRIC: Final = "the service's geometric noise"
ONE_PLACE: Final = "one place per person"
ALL_PLACES: Final = "all places visited"
AS_READ: Final = "Figure 1 as read"
TAIL_SHORT: Final = "one place per person, short tail"
TAIL_LONG: Final = "one place per person, long tail"
EXPECTED: Final = ", expected"
TRUTH: Final = "ground truth"
HOT_SPOTS: Final = "hot spots"
FIGURE_4_THRESHOLDS: Final = (5, 10)


@dataclass(frozen=True, slots=True)
class Shown:
    """A population under its title and variant; `at_updates` are the updates that its counts are good for."""

    title: str
    variant: str
    population: Population
    at_updates: range
    compared: bool


def recorded(place: Place, movements: Movements) -> Shown:
    """People who were recorded."""
    return Shown(place.title, ONE_PLACE, OnePlaceEach(movements), range(1, UPDATES + 1), place.compared)


def from_histogram() -> tuple[Shown, ...]:
    """What can be had from Figure 1: its bars as they are, and models of one place per person that follow them."""
    bars = [_bar(count) for count in VISITORS]
    counts = histogram_counts(bars)
    short = DrawnByWeight(with_unread(counts, long_tail=False, most=BATCH), BATCH)
    long = DrawnByWeight(with_unread(counts, long_tail=True, most=BATCH), BATCH)
    every = range(1, UPDATES + 1)
    return (
        Shown(HISTOGRAM, AS_READ, AsRead(counts), range(1, 2), compared=True),
        Shown(HISTOGRAM, TAIL_SHORT, short, every, compared=True),
        Shown(HISTOGRAM, TAIL_LONG, long, every, compared=True),
    )


def _bar(count: int) -> int:
    paper = paper_value(_figure_1(PEOPLE_FLOW, count), PEOPLE_FLOW)
    return 0 if paper is None else round(paper.value)


def _figure_1(dataset: str, count: int) -> Setting:
    return Setting("figure1", dataset, f"locations with {count} visitors", update=1)


def figure_1(place: Place, movements: Movements, iterations: int, seed: int) -> Iterator[Point]:
    """Places by visitors, in random batches of 500 people (half of them if there are fewer than 1,000)."""
    batch = min(BATCH, max(1, movements.people // 2))
    found = bars_of(movements, batch, min(iterations, LOCATION_ITERATIONS), _generator(seed, 1, place.title))
    for count in VISITORS:
        setting = _figure_1(place.title, count)
        paper = paper_value(setting, PEOPLE_FLOW) if place.compared else None
        values = found[:, count] if count < found.shape[1] else np.zeros(found.shape[0])
        yield Point(setting, ALL_PLACES, paper, *mean_and_error(values))


def figure_4(iterations: int, seed: int) -> Iterator[Point]:
    """The chance, at each update, that a place is not called safe although its count is below the threshold.

    The paper's figure is exactly e^(-ε(T - f)); drawn here with its noise and with the service's.
    """
    rng, exact = _generator(seed, 4, ""), OneSidedNoise(SeededEntropy(seed))
    for threshold in FIGURE_4_THRESHOLDS:
        for epsilon in EPSILONS:
            for count in range(threshold):
                gap = threshold - count
                setting = Setting(
                    "figure4",
                    "",
                    f"{FALSE_NEGATIVES} at count {count}",
                    ALGORITHM_3,
                    epsilon,
                    threshold=threshold,
                    panel=f"T = {threshold}",
                )
                paper = Paper(math.exp(-epsilon * gap), 0.0)
                drawn = rng.exponential(1 / epsilon, iterations) > gap
                geometric = exact.reaches(Fraction(epsilon), np.full(iterations, gap))
                for variant, alarms in ((EXPONENTIAL, drawn), (GEOMETRIC, geometric)):
                    error = math.sqrt(paper.value * (1 - paper.value) / iterations)
                    yield Point(setting, variant, paper, float(alarms.mean()), error)


@dataclass(frozen=True, slots=True)
class Map:
    """One panel of Figure 5: which places are called hot, at an ε (None: in truth)."""

    epsilon: float | None
    hot: Places


def figure_5(movements: Movements, seed: int) -> tuple[Map, ...]:
    """One run after the last update, T = 10: the places with so many people, in truth and with noise."""
    rng = _generator(seed, 5, "")
    counts = OnePlaceEach(movements).counts(rng)[-1]
    maps = [Map(None, np.flatnonzero(counts >= THRESHOLD))]
    for epsilon in EPSILONS:
        noisy = counts + rng.exponential(1 / epsilon, counts.size)
        maps.append(Map(epsilon, np.flatnonzero(noisy >= THRESHOLD)))
    return tuple(maps)


def figure_5_points(place: Place, maps: Sequence[Map]) -> Iterator[Point]:
    """How many places each map calls hot; the paper prints no number."""
    for one in maps:
        setting = Setting("figure5", place.title, HOT_SPOTS, ALGORITHM_4, one.epsilon, None, THRESHOLD, UPDATES)
        yield Point(setting, TRUTH if one.epsilon is None else ONE_PLACE, None, float(one.hot.size))


def figures_6_and_7(figure: Figure, shown: Shown, iterations: int, seed: int) -> Iterator[Point]:
    """False-negative ratios after each update at T = 10 (Figure 6), or after the last one against T (Figure 7)."""
    points = list(_asked(figure, shown))
    found = ratios(
        shown.population,
        [asked for _, asked in points],
        min(iterations, LOCATION_ITERATIONS),
        _generator(seed, int(figure[-1]), shown.title + shown.variant),
    )
    for place, (setting, _) in enumerate(points):
        paper = paper_value(setting, PEOPLE_FLOW) if shown.compared else None
        yield Point(setting, shown.variant, paper, *mean_and_error(found.drawn[place]))
        yield Point(setting, shown.variant + EXPECTED, None, *mean_and_error(found.expected[place]))


def _asked(figure: Figure, shown: Shown) -> Iterator[tuple[Setting, Asked]]:
    for epsilon in EPSILONS:
        if figure == "figure6":
            for update in shown.at_updates:
                yield ratio_setting(figure, shown.title, epsilon, THRESHOLD, update), Asked(epsilon, THRESHOLD, update)
        else:
            for threshold in THRESHOLDS:
                setting = ratio_setting(figure, shown.title, epsilon, threshold, UPDATES)
                yield setting, Asked(epsilon, threshold, shown.at_updates[-1])


def ratio_setting(figure: Figure, title: str, epsilon: float, threshold: int, update: int) -> Setting:
    """Where a point of Figure 6 or 7 lies."""
    panel = "update" if figure == "figure6" else "threshold"
    return Setting(figure, title, FALSE_NEGATIVES, ALGORITHM_4, epsilon, None, threshold, update, panel)


def _generator(seed: int, figure: int, title: str) -> np.random.Generator:
    return np.random.default_rng((seed, figure, *title.encode()))
