"""Errors of sums, counts, means and correlated sums, and of their textbook versions, by ε, n and the mean.

Lines are formulas (`monitor.onesided.bounded.variances`), points are sampled from the exact mechanisms. All errors are
root mean squared errors. Values are from 0 to 1 in 50 steps. The exercise of [OSN] (docs/literature.md) is another
figure: in which regime a sample with one-sided noise beats two-sided noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.onesided.add_remove.variances import (
    break_even,
    laplace_variance,
    raw_break_even,
    subsampled_variance,
    subsampled_variance_continuous,
    two_sided_variance,
)
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
from monitor.privacy.sum_and_count import SumAndCount, SumAndCountRule
from monitor.privacy.two_sided_noise import draw_two_sided
from simulators.continuous_noise import Floats
from simulators.experiments.points import LibraryPoint
from simulators.osdp import FastNoise

STEPS: Final = 50
Drawn = list[float]


@dataclass(frozen=True, slots=True)
class Setting:
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


def _list_settings() -> Iterator[tuple[str, float, Setting]]:
    """Yield the settings of the three panels: panel, coordinate on the axis, setting."""
    base = Setting()
    for epsilon in EPSILONS:
        yield "ε (n = 1,000, mean 0.3)", float(epsilon), replace(base, epsilon=epsilon)
    for records in RECORDS:
        yield "number of values n (ε = 1, mean 0.3)", float(records), replace(base, records=records)
    for mean in MEANS:
        yield "mean of the values (ε = 1, n = 1,000)", float(mean), replace(base, mean=mean)


def compute_sum_points(runs: int, seed: int) -> Iterator[LibraryPoint]:
    """Yield all points of the figures "sums", "means" and "gaussian"."""
    for panel, x, setting in _list_settings():
        noise = FastNoise(np.random.default_rng((seed, *panel.encode(), round(1000 * x))))
        for figure, formulas, samplers in (("sums", SUMS, SUM_SAMPLERS), ("means", MEAN_LINES, MEAN_SAMPLERS)):
            for name, formula in formulas.items():
                yield LibraryPoint(figure, panel, name, x, math.sqrt(formula(setting)))
            for name, sampler in samplers.items():
                value, error = _compute_root_mean_square(sampler(setting, runs, noise))
                yield LibraryPoint(figure, panel, f"{name}, sampled", x, value, error)
    yield from _compute_gaussian_points(runs, seed)


def _compute_root_mean_square(errors: Drawn) -> tuple[float, float]:
    squares = np.array(errors) ** 2
    root = math.sqrt(float(squares.mean()))
    return root, float(squares.std()) / math.sqrt(squares.size) / (2 * root) if root else 0.0


SUMS: Final[dict[str, Callable[[Setting], float]]] = {
    "count, textbook": lambda setting: laplace(float(setting.epsilon) / 2),
    "count, paired": lambda setting: count_from_totals(float(setting.epsilon)),
    "sum, textbook": lambda setting: laplace(float(setting.epsilon) / 2),
    "sum, paired": lambda setting: laplace(float(setting.epsilon)),
    "sum of a public number, textbook": lambda setting: laplace(float(setting.epsilon)),
    "sum of a public number, paired": lambda setting: paired_sum(float(setting.epsilon)),
}
MEAN_LINES: Final[dict[str, Callable[[Setting], float]]] = {
    "naive": lambda setting: naive_mean(float(setting.epsilon), float(setting.mean)) / setting.records**2,
    "centred": lambda setting: centred_mean(float(setting.epsilon), float(setting.mean)) / setting.records**2,
    "paired": lambda setting: paired_mean(float(setting.epsilon), float(setting.mean)) / setting.records**2,
    "lower bound": lambda setting: least_mean(float(setting.epsilon), float(setting.mean)) / setting.records**2,
}


def _draw_totals(setting: Setting, runs: int, noise: FastNoise) -> Iterator[SumAndCount]:
    rule = SumAndCountRule(setting.epsilon, 0, STEPS)
    drawn = draw_two_sided(noise, rule.noise_epsilon, 2 * runs).reshape(runs, 2).tolist()
    above, below = STEPS * setting.ones, STEPS * (setting.records - setting.ones)
    return (SumAndCount(above + first, below + second, 0, STEPS) for first, second in drawn)


def _sample_paired_counts(setting: Setting, runs: int, noise: FastNoise) -> Drawn:
    return [float(totals.count) - setting.records for totals in _draw_totals(setting, runs, noise)]


def _sample_paired_sums(setting: Setting, runs: int, noise: FastNoise) -> Drawn:
    return [float(totals.total) / STEPS - setting.ones for totals in _draw_totals(setting, runs, noise)]


def _sample_public_sums(setting: Setting, runs: int, noise: FastNoise) -> Drawn:
    rule = PairedSum(setting.epsilon, 0, STEPS)
    values = [STEPS] * setting.ones + [0] * (setting.records - setting.ones)
    few = min(runs, 200)  # each run reads all values
    return [float(rule.release(values, noise)) / STEPS - setting.ones for _ in range(few)]


def _make_sampler(
    kind: type[NaiveMean | CentredMean | PairedMean],
) -> Callable[[Setting, int, FastNoise], Drawn]:
    def sample(setting: Setting, runs: int, noise: FastNoise) -> Drawn:
        rule = kind(setting.epsilon, 0, STEPS)
        one, zero = rule.contribution(STEPS), rule.contribution(0)
        exact = [setting.ones * a + (setting.records - setting.ones) * b for a, b in zip(one, zero, strict=True)]
        drawn = [draw_two_sided(noise, each, runs).tolist() for each in rule.noise_epsilons]
        means = [rule.estimate(exact[0] + a, exact[1] + b) for a, b in zip(*drawn, strict=True)]
        true = setting.ones / setting.records
        return [(0.5 if mean is None else float(mean) / STEPS) - true for mean in means]

    return sample


SUM_SAMPLERS: Final = {
    "count, paired": _sample_paired_counts,
    "sum, paired": _sample_paired_sums,
    "sum of a public number, paired": _sample_public_sums,
}
MEAN_SAMPLERS: Final = {
    "naive": _make_sampler(NaiveMean),
    "centred": _make_sampler(CentredMean),
    "paired": _make_sampler(PairedMean),
}

QUERIES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RHOS: Final = (Fraction(1, 32), Fraction(1, 8), Fraction(1, 2), Fraction(2))
_LEAST_RUNS: Final = 10


def _compute_gaussian_points(runs: int, seed: int) -> Iterator[LibraryPoint]:
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
            value, error = _compute_root_mean_square(found)
            yield LibraryPoint("gaussian", panel, f"{name}, sampled", x, value, error)


_HIGH: Final = 10


REGIME: Final = "subsampling-regime"
VARIANCE: Final = "subsampling-variance"
_EPSILONS: Final = tuple(float(epsilon) for epsilon in np.geomspace(0.1, 10, 25))
_RECORDS: Final = (0, 1, 2, 10, 100)
_SAMPLED: Final = (Fraction(1, 4), Fraction(1), Fraction(4))


def compute_subsampling_points(runs: int, seed: int) -> Iterator[LibraryPoint]:
    """Yield the bounds of the regime by ε, and the ratio of the variances by ε and n, computed and sampled."""
    for epsilon in _EPSILONS:
        yield LibraryPoint(REGIME, "records n below which the sample is better", "integers", epsilon, 1.0)
        for name, bound in (("real-valued noise", break_even), ("published number, biased", raw_break_even)):
            value = max(bound(epsilon), 0.0)
            yield LibraryPoint(REGIME, "records n below which the sample is better", name, epsilon, value)
        for records in _RECORDS:
            integers = subsampled_variance(epsilon, records) / two_sided_variance(epsilon)
            reals = subsampled_variance_continuous(epsilon, records) / laplace_variance(epsilon)
            yield LibraryPoint(VARIANCE, "integers", f"n = {records}", epsilon, integers)
            yield LibraryPoint(VARIANCE, "real-valued noise", f"n = {records}", epsilon, reals)
    for exact in _SAMPLED:
        for records in _RECORDS:
            yield _sample_ratio(exact, records, runs, np.random.default_rng((seed, exact.numerator, records)))


def _sample_ratio(epsilon: Fraction, records: int, runs: int, random: np.random.Generator) -> LibraryPoint:
    """Return the ratio of sampled variances, with the laws that `SubsampledCount` and two-sided noise have."""
    ratio = 1 / (1 + math.exp(float(epsilon)))
    kept = -math.expm1(-float(epsilon))
    noise = random.geometric(1 - ratio, runs) - 1
    shifted = random.binomial(records, kept, runs) + noise - math.exp(-float(epsilon))
    estimates: Floats = np.asarray(shifted / kept, dtype=np.float64)
    baseline = draw_two_sided(FastNoise(random), epsilon, runs)
    value = float(estimates.var() / baseline.var())
    error = value * math.sqrt(_relative_error(estimates) ** 2 + _relative_error(baseline.astype(np.float64)) ** 2)
    return LibraryPoint(VARIANCE, "integers", f"n = {records}, sampled", float(epsilon), value, error)


def _relative_error(values: Floats) -> float:
    """Return the standard error of a sample variance, relative to it."""
    centred = values - values.mean()
    variance = float(centred.var())
    return math.sqrt(max(float((centred**4).mean()) / variance**2 - 1, 0.0) / values.size)
