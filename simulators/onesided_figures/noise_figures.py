"""The exercise of [OSN] (docs/literature.md): in which regime a sample with one-sided noise beats two-sided noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from monitor.onesided.add_remove.variances import (
    break_even,
    laplace_variance,
    raw_break_even,
    subsampled_variance,
    subsampled_variance_continuous,
    two_sided_variance,
)
from monitor.privacy.two_sided_noise import draw_two_sided
from simulators.continuous_noise import Floats
from simulators.experiments.points import LibraryPoint
from simulators.osdp.continuous import FastNoise

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
