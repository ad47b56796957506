"""Asymmetric noise and the one-sided decision, exact (Takagi et al. [ADP], section 5.1; docs/literature.md).

For a query that never rises towards P-neighbours ("decreasing"), noise that only adds is enough. An outcome z ≥ f(D)
has the chance (1 - q) q^(z - f), where q = e^-ε for noise drawn at ε. f(D') is at most Δ below f(D), so with noise
drawn at ε/Δ the chances differ by a factor of at most e^ε. An outcome below f(D) is impossible under D. The other
direction is the mirror image. A query that may move either way needs noise on both sides. This is [ADP], Theorem 10,
with the geometric distribution instead of the exponential one.

For a vector of queries whose changes add up to at most Δ, each query gets independent noise at ε/Δ. The ratios multiply
to e^((ε/Δ)·Σ|f_i(D) - f_i(D')|) ≤ e^ε.

Continuous noise is not offered, because the set of binary floats that can occur as a sum reveals the count ([Mironov]).
On a grid, the distribution is exact (`AsymmetricLaplace`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CountsError, ExactnessError, PrivacyError
from monitor.onesided.counts import as_counts
from monitor.privacy.epsilon import parse_epsilon, require_drawable
from monitor.privacy.one_sided_noise import Noise

Moving = Literal["decreasing", "increasing", "not monotone"]
"""How a query that is not constant may change towards P-neighbours (`monitor.onesided.policies.Direction`)."""

Monotone = Literal["decreasing", "increasing"]


@dataclass(frozen=True, slots=True)
class AsymmetricGeometric:
    """Counts with geometric noise for a total of ε: upwards, downwards, or to both sides.

    `sensitivity` is Δ, the most by which all counts together change towards a P-neighbour
    (`monitor.onesided.policies.Sensitivity.total`).
    """

    epsilon: Fraction
    sensitivity: int = 1
    direction: Moving = "decreasing"

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, PrivacyError if the sensitivity is below 1."""
        parse_epsilon(self.epsilon)
        if self.sensitivity < 1:
            raise PrivacyError(
                f"sensitivity is {self.sensitivity}: expected at least 1; publish a constant query without noise."
            )
        require_drawable(self.noise_epsilon, "ε of the noise")

    @property
    def noise_epsilon(self) -> Fraction:
        """The ε of the noise of each count: ε/Δ."""
        return self.epsilon / self.sensitivity

    def release(self, counts: Sequence[int] | NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
        """Return a noisy count for each count. With noise downwards or to both sides it may be negative.

        With noise upwards, f ≤ z is certain; with noise downwards, z ≤ f. Raise the errors of
        `monitor.onesided.counts.as_counts`.
        """
        exact = as_counts(counts)
        drawn = noise.geometric(self.noise_epsilon, exact.size)
        if self.direction == "decreasing":
            return exact + drawn
        if self.direction == "increasing":
            return exact - drawn
        return exact + drawn - noise.geometric(self.noise_epsilon, exact.size)

    def release_one(self, count: int, noise: Noise) -> int:
        """Return the noisy count of a single query, as `release` does."""
        return int(self.release([count], noise)[0])


@dataclass(frozen=True, slots=True)
class AsymmetricLaplace:
    """The asymmetric Laplace mechanism for a real-valued query on a public grid. It is exactly (P, ε)-ADP.

    The value is rounded to the grid in the direction of the noise, then moved by a geometric number of grid steps.
    After rounding, a change of up to Δ is at most ⌈Δ/grid⌉ steps, so the number of steps is drawn at ε/⌈Δ/grid⌉. For a
    value on the grid and a grid that divides Δ, the noise has the paper's exponential distribution (mean Δ/ε), rounded
    down to the grid.
    """

    epsilon: Fraction
    sensitivity: Fraction
    grid: Fraction
    direction: Moving = "decreasing"

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, ExactnessError or PrivacyError for a bad sensitivity or grid."""
        parse_epsilon(self.epsilon)
        for name, value in (("sensitivity", self.sensitivity), ("grid", self.grid)):
            if _to_fraction(name, value) <= 0:
                raise PrivacyError(f"{name} is {value}: expected a number above 0; raise it.")
        require_drawable(self.step_epsilon, "ε of one grid step")

    @property
    def step_epsilon(self) -> Fraction:
        """The ε of the number of grid steps."""
        return self.epsilon / math.ceil(self.sensitivity / self.grid)

    def release(self, value: Fraction, noise: Noise) -> Fraction:
        """Return the noisy value, a multiple of the grid. Raise ExactnessError if `value` is not an exact rational."""
        steps = _to_fraction("the value", value) / self.grid
        drawn = int(noise.geometric(self.step_epsilon, 1)[0])
        if self.direction == "decreasing":
            return self.grid * (math.ceil(steps) + drawn)
        if self.direction == "increasing":
            return self.grid * (math.floor(steps) - drawn)
        drawn_downwards = int(noise.geometric(self.step_epsilon, 1)[0])
        return self.grid * (math.floor(steps + Fraction(1, 2)) + drawn - drawn_downwards)


@dataclass(frozen=True, slots=True)
class OneSidedDecision:
    """Whether a count is below the threshold T. One of the two answers is certainly true ([ADP], section 5.1.1).

    For a decreasing count the certain answer is "below", given iff f + G < T. For an increasing count it is "reached",
    given iff f - G ≥ T. The other answer is not certain. Let k be the number of P-neighbour steps from the nearest
    dataset with the other answer to this one (T - f, or f - T + 1). The certain answer has the chance P[G < k] =
    1 - e^(-kε), which is the greatest possible: the other answer has the chance 1 before the first step, and each step
    lowers it by a factor of at most e^ε. This is the proof of [ADP], Theorem 9. Its text counts the steps in the other
    direction, in which no path exists. So the decision is optimal at every k ([ADP], Theorem 11).
    """

    epsilon: Fraction
    threshold: int
    direction: Monotone = "decreasing"

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, CountsError if the threshold is below 1."""
        require_drawable(parse_epsilon(self.epsilon), "ε of a decision")
        if self.threshold < 1:
            raise CountsError(f"threshold is {self.threshold}: expected at least 1, because no count is below 0.")

    def steps(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of P-neighbour steps from the other answer to each count ([ADP], Definition 14)."""
        below = self.threshold - counts
        return np.maximum(below if self.direction == "decreasing" else 1 - below, 0)

    def decide(self, counts: Sequence[int] | NDArray[np.int64], noise: Noise) -> NDArray[np.bool_]:
        """Return for each count whether the certain answer is given. Each decision costs the people counted ε.

        Raise the errors of `monitor.onesided.counts.as_counts`.
        """
        return ~noise.reaches(self.epsilon, self.steps(as_counts(counts)))


def most_certain(q: Fraction, steps: int) -> Fraction:
    """Return the greatest chance of a certain answer, k = `steps` P-neighbour steps after the other: 1 - q^k, q = e^-ε.

    This is [ADP], Theorem 9. Raise PrivacyError if q is outside (0, 1) or `steps` is negative.
    """
    if not 0 < q < 1 or steps < 0:
        raise PrivacyError(f"q is {q}, steps is {steps}: expected q between 0 and 1 and steps of 0 or more.")
    return 1 - q**steps


def _to_fraction(name: str, value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ExactnessError(
            f"{name} is a {type(value).__name__}: expected an exact rational; write Fraction('0.1') or an integer."
        )
    return Fraction(value)
