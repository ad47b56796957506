"""Three mechanisms for the mean of bounded values under addition and removal, in exact integers ([KSW], [GEO]).

Each publishes two noisy numbers at a total of ε. A person has one value x from L to U, R = U - L. The set of a person's
possible contributions to the two numbers, and its negative, must be inside the region that the noise covers: for
independent two-sided noise of one scale this is a square on its corner (a bound on the L1 norm).

| mechanism | a person's contribution | L1 norm | asymptotic n²·variance of the mean, for L = 0, U = 1 |
|---|---|---|---|
| `NaiveMean` | (x, 1), each at ε/2 | at most max(abs L, abs U), and 1 | 8(1 + μ²)/ε² |
| `CentredMean` | (2x - L - U, R) | at most 2R | 2(1 + 4(μ - 1/2)²)/ε² |
| `PairedMean` | (x - L, U - x) | exactly R | (1 + 4(μ - 1/2)²)/ε² |

For independent noise of one scale, the paired mechanism uses the best linear map: the convex hull of its contributions
and their negatives is the whole square, so none of the noise is wasted. It has half of the variance of the centred one
at every mean μ, and at most a quarter of the naive one's (a tenth at μ = 1/2).
`monitor.onesided.bounded.variances` has the formulas with geometric noise, and a lower bound for additive noise.

docs/literature.md defines [KSW] and [GEO].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from monitor.errors import BoundsError, CountsError, ExactnessError, NoDataError
from monitor.privacy.epsilon import parse_epsilon, require_drawable
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.sum_and_count import SumAndCountRule
from monitor.privacy.two_sided_noise import draw_two_sided

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Mean(ABC):
    """The public rule: ε, and the bounds of a value (integers, low < high)."""

    epsilon: Fraction
    low: int
    high: int

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, BoundsError or ExactnessError for bad bounds."""
        SumAndCountRule(parse_epsilon(self.epsilon), self.low, self.high)
        for each in self.noise_epsilons:
            require_drawable(each, "ε of the noise")

    @property
    @abstractmethod
    def noise_epsilons(self) -> tuple[Fraction, Fraction]:
        """The ε of the noise of each number."""

    @abstractmethod
    def contribution(self, value: int) -> Pair:
        """Return what a value adds to the two numbers. A value beyond a bound counts as the bound."""

    @abstractmethod
    def estimate(self, first: int, second: int) -> Fraction | None:
        """Return the mean from the two noisy numbers, clamped to the bounds; None if the noisy count is not above 0."""

    def release(self, values: Sequence[int], noise: Noise) -> Fraction | None:
        """Return the estimate of the mean of the values. An empty sequence is valid, because n is private.

        Raise ExactnessError if a value is not an integer.
        """
        parts = [self.contribution(require_whole(value)) for value in values]
        noisy = [
            sum(part[place] for part in parts) + int(draw_two_sided(noise, each, 1)[0])
            for place, each in enumerate(self.noise_epsilons)
        ]
        return self.estimate(noisy[0], noisy[1])

    def _clamp(self, value: Fraction | int) -> Fraction:
        return Fraction(min(max(value, self.low), self.high))


class NaiveMean(_Mean):
    """The textbook mechanism: Σ x and n, each at ε/2."""

    __slots__ = ()

    @property
    def noise_epsilons(self) -> tuple[Fraction, Fraction]:
        """The ε of the noise: (ε/2)/max(abs L, abs U), and ε/2."""
        return self.epsilon / (2 * max(abs(self.low), abs(self.high))), self.epsilon / 2

    def contribution(self, value: int) -> Pair:
        """Return (x, 1)."""
        return int(self._clamp(value)), 1

    def estimate(self, first: int, second: int) -> Fraction | None:
        """Return the noisy sum divided by the noisy count."""
        return self._clamp(Fraction(first, second)) if second > 0 else None


class CentredMean(_Mean):
    """Σ (2x - L - U) and n·R, together at ε: the sum is centred, so that its sensitivity is halved."""

    __slots__ = ()

    @property
    def noise_epsilons(self) -> tuple[Fraction, Fraction]:
        """The ε of the noise of both numbers: ε/(2R)."""
        return (self.epsilon / (2 * (self.high - self.low)),) * 2

    def contribution(self, value: int) -> Pair:
        """Return (2x - L - U, R)."""
        return 2 * int(self._clamp(value)) - self.low - self.high, self.high - self.low

    def estimate(self, first: int, second: int) -> Fraction | None:
        """Return (L + U)/2 + R·first/(2·second)."""
        if second <= 0:
            return None
        spread = self.high - self.low
        return self._clamp(Fraction(self.low + self.high, 2) + Fraction(spread * first, 2 * second))


class PairedMean(_Mean):
    """Σ (x - L) and Σ (U - x), together at ε (`monitor.privacy.sum_and_count`)."""

    __slots__ = ()

    @property
    def noise_epsilons(self) -> tuple[Fraction, Fraction]:
        """The ε of the noise of both numbers: ε/R."""
        return (self.epsilon / (self.high - self.low),) * 2

    def contribution(self, value: int) -> Pair:
        """Return (x - L, U - x)."""
        clamped = int(self._clamp(value))
        return clamped - self.low, self.high - clamped

    def estimate(self, first: int, second: int) -> Fraction | None:
        """Return L + R·first/(first + second)."""
        both = first + second
        return self._clamp(self.low + Fraction((self.high - self.low) * first, both)) if both > 0 else None


@dataclass(frozen=True, slots=True)
class PairedSum:
    """A sum over a public number of values, one of which may be replaced, from Σ (x - L) and Σ (U - x) ([FHSS]).

    The average of both noisy totals' estimates has half of the variance of each. But a replaced value x changes both
    totals by abs(x - x'), together by up to 2R, so each needs noise at ε/(2R). The sum alone changes by at most R and
    needs noise at ε/R. So this form has twice the variance of the textbook sum, not half of it: 4(R/ε)² instead of
    2(R/ε)². It has half of the variance only if the textbook sum has noise for a removal followed by an addition, which
    is a change of 2R. [GEO] computes the sensitivity R of adding one value, but then the number of values is
    not public. Use `SumAndCountRule` in that case: it estimates the count too. docs/literature.md defines [FHSS] and
    [GEO].
    """

    epsilon: Fraction
    low: int
    high: int

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, BoundsError or ExactnessError for bad bounds."""
        SumAndCountRule(parse_epsilon(self.epsilon), self.low, self.high)
        require_drawable(self.noise_epsilon, "ε of the noise")

    @property
    def noise_epsilon(self) -> Fraction:
        """The ε of the noise of each total: ε/(2R)."""
        return self.epsilon / (2 * (self.high - self.low))

    def release(self, values: Sequence[int], noise: Noise) -> Fraction:
        """Return the estimate of the sum: (A + n·L + n·U - B)/2.

        Raises:
            NoDataError: there are no values; the number of values is public here.
            ExactnessError: a value is not an integer.
        """
        if not values:
            raise NoDataError("There are no values: expected at least one; their number is public, so publish 0.")
        exact = SumAndCountRule(self.epsilon, self.low, self.high).add_up([require_whole(value)] for value in values)
        drawn = draw_two_sided(noise, self.noise_epsilon, 2).tolist()
        bounds = len(values) * (self.low + self.high)
        return Fraction(exact.above_low + drawn[0] + bounds - exact.below_high - drawn[1], 2)


def require_whole(value: object) -> int:
    """Return an integer value. Raise ExactnessError if it is something else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExactnessError(f"A value is a {type(value).__name__}: expected an integer; choose a smaller unit.")
    return value


def as_rows(
    values: Sequence[Sequence[int]], queries: int, high: int
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return one row of values for each person, each value from 0 to `high`. Without people, the table has no rows.

    Raises:
        CountsError: a row does not have `queries` values.
        ExactnessError: a value is not an integer.
        BoundsError: a value is beyond its bounds.
    """
    if any(len(row) != queries for row in values):
        raise CountsError(f"A row has the wrong length: expected {queries} values, one for each query; complete it.")
    rows = [[require_whole(value) for value in row] for row in values]
    if any(not 0 <= value <= high for row in rows for value in row):
        raise BoundsError(f"A value is out of bounds: expected 0 to {high}; clamp it, or widen the bounds publicly.")
    return np.array(rows, dtype=np.int64).reshape(len(rows), queries)
