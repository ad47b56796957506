"""Errors of sums, counts, means and correlated sums against their textbook versions, by ε, n and the value.

Lines are formulas (`monitor.onesided.bounded.variances`), points are sampled from the exact mechanisms. All errors are
root mean squared errors of values from 0 to 1, which have 50 steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.onesided.bounded.gaussian import CorrelatedSums, IndependentSums
from monitor.onesided.bounded.means import CentredMean, NaiveMean, PairedMean, PairedSum
from monitor.onesided.bounded.variances import (
    centred_mean,
    correlated_ratio,
    count_from_totals,
    laplace,
    least_mean,
    naive_mean,
    paired_mean,
    paired_sum,
)
from monitor.privacy.paired import PairedRule, PairedTotals
from monitor.privacy.two_sided import draw_two_sided
from simulators.library.points import LibraryPoint
from simulators.osdp.continuous import FastNoise

STEPS: Final = 50
Drawn = list[float]


@dataclass(frozen=True, slots=True)
class Place:
    """A setting: ε, the number of values, and their mean. Values are 0 and 1."""

    epsilon: Fraction = Fraction(1)
    records: int = 1_000
    mean: Fraction = Fraction(3, 10)

    @property
    def ones(self) -> int:
        """The number of values of 1."""
        return round(self.records * self.mean)


EPSILONS: Final = tuple(Fraction(n, 8) for n in (1, 2, 4, 8, 16, 32))
RECORDS: Final = (10, 30, 100, 300, 1_000, 3_000)
MEANS: Final = tuple(Fraction(n, 10) for n in range(0, 11, 2))


def _places() -> Iterator[tuple[str, float, Place]]:
    """Yield the settings of the three panels, with the coordinate on the axis."""
    base = Place()
    for epsilon in EPSILONS:
        yield "ε (n = 1,000, mean 0.3)", float(epsilon), replace(base, epsilon=epsilon)
    for records in RECORDS:
        yield "number of values n (ε = 1, mean 0.3)", float(records), replace(base, records=records)
    for mean in MEANS:
        yield "mean of the values (ε = 1, n = 1,000)", float(mean), replace(base, mean=mean)


def sum_points(runs: int, seed: int) -> Iterator[LibraryPoint]:
    """Yield all points of the figures "sums", "means" and "gaussian"."""
    for panel, x, place in _places():
        noise = FastNoise(np.random.default_rng((seed, *panel.encode(), round(1000 * x))))
        for figure, formulas, samplers in (("sums", SUMS, SUM_SAMPLERS), ("means", MEAN_LINES, MEAN_SAMPLERS)):
            for name, formula in formulas.items():
                yield LibraryPoint(figure, panel, name, x, math.sqrt(formula(place)))
            for name, sampler in samplers.items():
                value, error = _root_mean_square(sampler(place, runs, noise))
                yield LibraryPoint(figure, panel, f"{name}, sampled", x, value, error)
    yield from _gaussian_points(runs, seed)


def _root_mean_square(errors: Drawn) -> tuple[float, float]:
    squares = np.array(errors) ** 2
    root = math.sqrt(float(squares.mean()))
    return root, float(squares.std()) / math.sqrt(squares.size) / (2 * root) if root else 0.0


SUMS: Final[dict[str, Callable[[Place], float]]] = {
    "count, textbook": lambda place: laplace(float(place.epsilon) / 2),
    "count, paired": lambda place: count_from_totals(float(place.epsilon)),
    "sum, textbook": lambda place: laplace(float(place.epsilon) / 2),
    "sum, paired": lambda place: laplace(float(place.epsilon)),
    "sum of a public number, textbook": lambda place: laplace(float(place.epsilon)),
    "sum of a public number, paired": lambda place: paired_sum(float(place.epsilon)),
}
MEAN_LINES: Final[dict[str, Callable[[Place], float]]] = {
    "naive": lambda place: naive_mean(float(place.epsilon), float(place.mean)) / place.records**2,
    "centred": lambda place: centred_mean(float(place.epsilon), float(place.mean)) / place.records**2,
    "paired": lambda place: paired_mean(float(place.epsilon), float(place.mean)) / place.records**2,
    "lower bound": lambda place: least_mean(float(place.epsilon), float(place.mean)) / place.records**2,
}


def _draw_totals(place: Place, runs: int, noise: FastNoise) -> Iterator[PairedTotals]:
    rule = PairedRule(place.epsilon, 0, STEPS)
    drawn = draw_two_sided(noise, rule.noise_epsilon, 2 * runs).reshape(runs, 2).tolist()
    above, below = STEPS * place.ones, STEPS * (place.records - place.ones)
    return (PairedTotals(above + first, below + second, 0, STEPS) for first, second in drawn)


def _paired_count(place: Place, runs: int, noise: FastNoise) -> Drawn:
    return [float(totals.count) - place.records for totals in _draw_totals(place, runs, noise)]


def _paired_total(place: Place, runs: int, noise: FastNoise) -> Drawn:
    return [float(totals.total) / STEPS - place.ones for totals in _draw_totals(place, runs, noise)]


def _public_sum(place: Place, runs: int, noise: FastNoise) -> Drawn:
    rule = PairedSum(place.epsilon, 0, STEPS)
    values = [STEPS] * place.ones + [0] * (place.records - place.ones)
    few = min(runs, 200)  # each of them reads all values
    return [float(rule.release(values, noise)) / STEPS - place.ones for _ in range(few)]


def _sampler_of(
    kind: type[NaiveMean | CentredMean | PairedMean],
) -> Callable[[Place, int, FastNoise], Drawn]:
    def sample(place: Place, runs: int, noise: FastNoise) -> Drawn:
        rule = kind(place.epsilon, 0, STEPS)
        one, zero = rule.contribution(STEPS), rule.contribution(0)
        exact = [place.ones * a + (place.records - place.ones) * b for a, b in zip(one, zero, strict=True)]
        drawn = [draw_two_sided(noise, each, runs).tolist() for each in rule.noise_epsilons]
        means = [rule.estimate(exact[0] + a, exact[1] + b) for a, b in zip(*drawn, strict=True)]
        true = place.ones / place.records
        return [(0.5 if mean is None else float(mean) / STEPS) - true for mean in means]

    return sample


SUM_SAMPLERS: Final = {
    "count, paired": _paired_count,
    "sum, paired": _paired_total,
    "sum of a public number, paired": _public_sum,
}
MEAN_SAMPLERS: Final = {
    "naive": _sampler_of(NaiveMean),
    "centred": _sampler_of(CentredMean),
    "paired": _sampler_of(PairedMean),
}

QUERIES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RHOS: Final = (Fraction(1, 32), Fraction(1, 8), Fraction(1, 2), Fraction(2))
_LEAST_RUNS: Final = 10


def _gaussian_points(runs: int, seed: int) -> Iterator[LibraryPoint]:
    settings = [("number of sums d (ρ = 1/2)", float(d), Fraction(1, 2), d, 20) for d in QUERIES]
    settings += [("ρ (d = 16)", float(rho), rho, 16, 20) for rho in RHOS]
    settings += [("number of people n (d = 16, ρ = 1/2)", float(n), Fraction(1, 2), 16, n) for n in RECORDS[:4]]
    for panel, x, rho, queries, people in settings:
        noise = FastNoise(np.random.default_rng((seed, *panel.encode(), round(1000 * x))))
        textbook = queries / (2 * float(rho))
        yield LibraryPoint("gaussian", panel, "independent", x, math.sqrt(textbook))
        yield LibraryPoint("gaussian", panel, "correlated", x, math.sqrt(textbook * correlated_ratio(queries)))
        for name, kind in (("independent", IndependentSums), ("correlated", CorrelatedSums)):
            rule = kind(rho, queries, _HIGH)
            rows: NDArray[np.int64] = np.random.default_rng((seed, people)).integers(0, _HIGH + 1, (people, queries))
            table, true = rows.tolist(), rows.sum(axis=0) / _HIGH
            times = max(_LEAST_RUNS, runs // queries)
            found = [
                float(each) / _HIGH - one
                for _ in range(times)
                for each, one in zip(rule.release(table, noise), true.tolist(), strict=True)
            ]
            value, error = _root_mean_square(found)
            yield LibraryPoint("gaussian", panel, f"{name}, sampled", x, value, error)


_HIGH: Final = 10
