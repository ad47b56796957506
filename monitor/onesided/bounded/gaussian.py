"""Gaussian noise for several sums at once: independent, and correlated ([CJL]), with exact discrete noise ([CKS]).

The guarantee is ρ-zero-concentrated differential privacy under addition and removal. Each number gets independent
integer noise of the discrete Gaussian law with the parameter σ²: P[Z = z] ∝ e^(-z²/(2σ²)). A change by an integer
vector v then costs ρ = |v|²/(2σ²), as for the continuous law ([CKS]). |v| is the L2 norm.

Each person has d values from 0 to R, one for each sum.

* `IndependentSums` publishes Σ x_j. A person's vector has a norm of up to R√d.
* `CorrelatedSums` publishes Σ (2x_j - R) for each j, and W times the number of people. A person's vector has a norm of
  at most √(dR² + W²). The estimate of a sum is half of (first + R·second/W): the noise of the count is shared by all
  sums, so it is correlated. Its variance is σ²(1 + R²/W²)/4, which is least for W² = R²√d: then it is
  R²(√d + 1)²/4 in units of 1/(2ρ). Independent sums have R²d: the same for d = 1, nearly four times as much for many
  sums.

docs/literature.md defines [CJL] and [CKS].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import BoundsError, EpsilonError, ExactnessError, InsecureNoiseError, PrivacyError
from monitor.onesided.bounded.means import as_rows
from monitor.privacy.epsilon import require_drawable
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.two_sided_noise import draw_two_sided

_MOST_ROUNDS: Final = 400
"""A round accepts each draw with a chance above 1/3, so only a broken source needs more rounds."""


def draw_gaussian(noise: Noise, variance: Fraction, size: int) -> NDArray[np.int64]:
    """Draw independent integers of the discrete Gaussian law with the parameter σ² = `variance`, exactly.

    Method ([CKS], Algorithm 3): draw y of two-sided geometric noise at 1/t, t = ⌊σ⌋ + 1, and accept it with the chance
    e^(-(|y| - σ²/t)²/(2σ²)). The product is ∝ e^(-|y|/t - (|y| - σ²/t)²/(2σ²)) = e^(-y²/(2σ²)) · constant. With σ² =
    a/b, the exponent is the integer (|y|·t·b - a)² times 1/(2abt²), so `Noise.reaches` decides exactly.

    Raises:
        ExactnessError: the variance is not a Fraction.
        EpsilonError: 2abt² is above 10^12 (σ of about 800 for integers): round σ² up to fewer digits.
        PrivacyError: the variance is not above 0.
        InsecureNoiseError: the source of bytes is broken.
    """
    if not isinstance(variance, Fraction):
        raise ExactnessError(f"variance is a {type(variance).__name__}: expected an exact rational.")
    if variance <= 0:
        raise PrivacyError(f"variance is {variance}: expected a number above 0.")
    a, b = variance.numerator, variance.denominator
    t = isqrt(a // b) + 1
    unit = Fraction(1, 2 * a * b * t * t)
    require_drawable(unit, "1/(2abt²) of Gaussian noise with σ² = a/b")
    found: list[int] = []
    for _ in range(_MOST_ROUNDS):
        drawn = draw_two_sided(noise, Fraction(1, t), 2 * (size - len(found)) + 1)
        gaps = (np.abs(drawn) * (t * b) - a) ** 2
        found += drawn[noise.reaches(unit, gaps)].tolist()[: size - len(found)]
        if len(found) == size:
            return np.array(found, dtype=np.int64)
    raise InsecureNoiseError("The entropy source rejected nearly all draws: expected uniform bytes; check its source.")


@dataclass(frozen=True, slots=True)
class _Sums:
    """The public rule of d sums with Gaussian noise."""

    rho: Fraction
    """ρ."""
    queries: int
    """d."""
    high: int
    """R."""

    def __post_init__(self) -> None:
        """Raise EpsilonError, ExactnessError, PrivacyError or BoundsError for a bad ρ, d or R."""
        if not isinstance(self.rho, Fraction):
            raise ExactnessError(
                f"ρ is a {type(self.rho).__name__}: expected an exact rational, such as Fraction(1, 2)."
            )
        if self.rho <= 0:
            raise EpsilonError(f"ρ is {self.rho}: expected a number above 0.")
        if self.queries < 1:
            raise PrivacyError(f"queries is {self.queries}: expected at least 1.")
        if self.high < 1:
            raise BoundsError(f"high is {self.high}: expected at least 1, because values are from 0 to high.")


class IndependentSums(_Sums):
    """The textbook mechanism: d sums with independent Gaussian noise."""

    __slots__ = ()

    @property
    def variance(self) -> Fraction:
        """The σ² of each sum's noise: dR²/(2ρ)."""
        return self.queries * self.high**2 / (2 * self.rho)

    def release(self, values: Sequence[Sequence[int]], noise: Noise) -> tuple[Fraction, ...]:
        """Return the noisy sums. `values` has one row for each person. Raise the errors of `as_rows`."""
        sums = as_rows(values, self.queries, self.high).sum(axis=0)
        return tuple(map(Fraction, (sums + draw_gaussian(noise, self.variance, self.queries)).tolist()))


class CorrelatedSums(_Sums):
    """d sums with correlated Gaussian noise."""

    __slots__ = ()

    @property
    def weight(self) -> int:
        """W: the fourth root of dR⁴, rounded down to an integer, which is at least R."""
        return isqrt(isqrt(self.queries * self.high**4))

    @property
    def variance(self) -> Fraction:
        """The σ² of the noise of each published number: (dR² + W²)/(2ρ)."""
        return (self.queries * self.high**2 + self.weight**2) / (2 * self.rho)

    @property
    def sum_variance(self) -> Fraction:
        """The variance of the estimate of each sum, with σ² for the slightly smaller variance of the discrete law."""
        return self.variance * (1 + Fraction(self.high, self.weight) ** 2) / 4

    def contribution(self, row: Sequence[int]) -> tuple[int, ...]:
        """Return what a person adds to the published numbers: 2x_j - R for each j, and W."""
        return (*(2 * value - self.high for value in row), self.weight)

    def release(self, values: Sequence[Sequence[int]], noise: Noise) -> tuple[Fraction, ...]:
        """Return the estimates of the sums. `values` has one row for each person. Raise the errors of `as_rows`."""
        rows = as_rows(values, self.queries, self.high)
        drawn = draw_gaussian(noise, self.variance, self.queries + 1).tolist()
        people = len(values) * self.weight + drawn[-1]
        centred = (2 * rows - self.high).sum(axis=0).tolist()
        return tuple(
            (each + shift + Fraction(self.high * people, self.weight)) / 2
            for each, shift in zip(centred, drawn[:-1], strict=True)
        )
