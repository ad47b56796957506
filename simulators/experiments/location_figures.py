"""Compute the points of Figures 1 and 4 to 7."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from monitor.privacy import over_time
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.over_time import OverTimeRule
from simulators.continuous_noise import Places
from simulators.experiments.data import HISTOGRAM, PEOPLE_FLOW, Movements, Place
from simulators.experiments.monitoring import (
    AsRead,
    DrawnByWeight,
    OnePlaceEach,
    Population,
    RatioQuery,
    add_unread_places,
    draw_bars,
    draw_ratios,
    list_histogram_counts,
)
from simulators.experiments.points import (
    BATCH,
    EPSILONS,
    FALSE_NEGATIVES,
    THRESHOLD,
    THRESHOLDS,
    UPDATES,
    VISITORS,
    Figure,
    Point,
    Setting,
    compute_mean_and_error,
    find_paper_value,
)

LOCATION_ITERATIONS: Final = 1_000
"""The largest number of draws of people and noise for Figures 1, 6 and 7. The paper has at most 20 runs."""

ALGORITHM_3: Final = "Algorithm 3"
ALGORITHM_4: Final = "Algorithm 4"
BY_ALGORITHM_3: Final = "the service's Algorithm 3"
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
class TitledPopulation:
    """A population with its title and variant."""

    title: str
    variant: str
    population: Population
    at_updates: range
    """The updates for which it has counts."""
    compared: bool
    """Whether it is compared with the paper's values."""


def make_recorded_population(place: Place, movements: Movements) -> TitledPopulation:
    """Return the population of a dataset's recorded people."""
    return TitledPopulation(place.title, ONE_PLACE, OnePlaceEach(movements), range(1, UPDATES + 1), place.compared)


def make_histogram_populations() -> tuple[TitledPopulation, ...]:
    """Return the populations derived from Figure 1: its bars as they are, and two models with one place per person."""
    bars = [_read_bar(count) for count in VISITORS]
    counts = list_histogram_counts(bars)
    short = DrawnByWeight(add_unread_places(counts, long_tail=False, most=BATCH), BATCH)
    long = DrawnByWeight(add_unread_places(counts, long_tail=True, most=BATCH), BATCH)
    every = range(1, UPDATES + 1)
    return (
        TitledPopulation(HISTOGRAM, AS_READ, AsRead(counts), range(1, 2), compared=True),
        TitledPopulation(HISTOGRAM, TAIL_SHORT, short, every, compared=True),
        TitledPopulation(HISTOGRAM, TAIL_LONG, long, every, compared=True),
    )


def _read_bar(count: int) -> int:
    paper = find_paper_value(_figure_1_setting(PEOPLE_FLOW, count), PEOPLE_FLOW)
    return 0 if paper is None else round(paper.value)


def _figure_1_setting(dataset: str, count: int) -> Setting:
    return Setting("figure1", dataset, f"locations with {count} visitor{'' if count == 1 else 's'}", update=1)


def compute_figure_1_points(place: Place, movements: Movements, iterations: int, seed: int) -> Iterator[Point]:
    """Yield the number of places by visitors, in random batches of 500 people (or half of all people, if fewer).

    The paper's numbers are of 5,835 places, so they are not compared with those of other places.
    """
    batch = min(BATCH, max(1, movements.people // 2))
    found = draw_bars(movements, batch, min(iterations, LOCATION_ITERATIONS), _make_generator(seed, 1, place.title))
    for count in VISITORS:
        setting = _figure_1_setting(place.title, count)
        values = found[:, count] if count < found.shape[1] else np.zeros(found.shape[0])
        yield Point(setting, ALL_PLACES, None, *compute_mean_and_error(values))


def compute_figure_4_points(iterations: int, seed: int) -> Iterator[Point]:
    """Yield how often Algorithm 3 does not call a location safe at an update although its count is below the threshold.

    The paper prints no values of its curves. The expected value is e^(-ε(T - f)).
    """
    noise = OneSidedNoise(SeededEntropy(seed))
    for threshold in FIGURE_4_THRESHOLDS:
        for epsilon in EPSILONS:
            rule = OverTimeRule(Fraction(epsilon), 1, threshold, window=1, max_lead=0)
            for count in range(threshold):
                setting = Setting(
                    "figure4",
                    "",
                    f"{FALSE_NEGATIVES} at count {count}",
                    ALGORITHM_3,
                    epsilon,
                    threshold=threshold,
                    panel=f"T = {threshold}",
                )
                chance = math.exp(-epsilon * (threshold - count))
                error = math.sqrt(chance * (1 - chance) / iterations)
                alarms = _count_alarms(rule, count, noise.geometric(rule.answer_epsilon, iterations).tolist())
                yield Point(setting, BY_ALGORITHM_3, None, alarms / iterations, error)
                yield Point(setting, BY_ALGORITHM_3 + EXPECTED, None, chance)


def _count_alarms(rule: OverTimeRule, count: int, noise: Sequence[int]) -> int:
    """Return the number of updates of a location without marks that the service does not answer "safe"."""
    return sum(over_time.step(rule, (), tick, count, drawn).status != "safe" for tick, drawn in enumerate(noise))


@dataclass(frozen=True, slots=True)
class Map:
    """One panel of Figure 5: the places called hot at an ε; if ε is None, the places that are hot."""

    epsilon: float | None
    hot: Places


def draw_figure_5_maps(movements: Movements, seed: int) -> tuple[Map, ...]:
    """Draw one run and return the places with T = 10 people or more after the last update, without and with noise."""
    rng = _make_generator(seed, 5, "")
    counts = OnePlaceEach(movements).draw_counts(rng)[-1]
    maps = [Map(None, np.flatnonzero(counts >= THRESHOLD))]
    for epsilon in EPSILONS:
        noisy = counts + rng.exponential(1 / epsilon, counts.size)
        maps.append(Map(epsilon, np.flatnonzero(noisy >= THRESHOLD)))
    return tuple(maps)


def compute_figure_5_points(place: Place, maps: Sequence[Map]) -> Iterator[Point]:
    """Yield the number of hot places of each map. The paper does not print these numbers."""
    for panel in maps:
        setting = Setting("figure5", place.title, HOT_SPOTS, ALGORITHM_4, panel.epsilon, None, THRESHOLD, UPDATES)
        yield Point(setting, TRUTH if panel.epsilon is None else ONE_PLACE, None, float(panel.hot.size))


def compute_ratio_points(figure: Figure, shown: TitledPopulation, iterations: int, seed: int) -> Iterator[Point]:
    """Yield the false-negative ratios after each update at T = 10 (Figure 6), or by T after the last one (Figure 7)."""
    points = list(_list_queries(figure, shown))
    found = draw_ratios(
        shown.population,
        [asked for _, asked in points],
        min(iterations, LOCATION_ITERATIONS),
        _make_generator(seed, int(figure[-1]), shown.title + shown.variant),
    )
    for place, (setting, _) in enumerate(points):
        paper = find_paper_value(setting, PEOPLE_FLOW) if shown.compared else None
        yield Point(setting, shown.variant, paper, *compute_mean_and_error(found.drawn[place]))
        yield Point(setting, shown.variant + EXPECTED, None, *compute_mean_and_error(found.expected[place]))


def _list_queries(figure: Figure, shown: TitledPopulation) -> Iterator[tuple[Setting, RatioQuery]]:
    for epsilon in EPSILONS:
        if figure == "figure6":
            for update in shown.at_updates:
                yield (
                    make_ratio_setting(figure, shown.title, epsilon, THRESHOLD, update),
                    RatioQuery(epsilon, THRESHOLD, update),
                )
        else:
            for threshold in THRESHOLDS:
                setting = make_ratio_setting(figure, shown.title, epsilon, threshold, UPDATES)
                yield setting, RatioQuery(epsilon, threshold, shown.at_updates[-1])


def make_ratio_setting(figure: Figure, title: str, epsilon: float, threshold: int, update: int) -> Setting:
    """Return the setting of a point of Figure 6 or 7."""
    panel = "update" if figure == "figure6" else "threshold"
    return Setting(figure, title, FALSE_NEGATIVES, ALGORITHM_4, epsilon, None, threshold, update, panel)


def _make_generator(seed: int, figure: int, title: str) -> np.random.Generator:
    return np.random.default_rng((seed, figure, *title.encode()))
