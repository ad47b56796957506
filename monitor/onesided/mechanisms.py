"""Asymmetric noise and the one-sided decision, exact ([ADP], section 5.1).

Where a query never rises towards P-neighbours ("decreasing"), noise that only adds is enough: an outcome z ≥ f(D) has
the chance (1 - q) q^(z - f) with q = e^-ε, f(D') lies at most Δ below f(D), and so the chances differ by e^ε at most
when noise is drawn at ε/Δ; an outcome below f(D) never comes from D. The other direction is the mirror image. A query
that goes both ways needs noise to both sides. ([ADP], Theorem 10, with the geometric law in the place of the
exponential.)

A vector of queries whose sum of changes is at most Δ has independent noise at ε/Δ on each: the ratios multiply to
e^((ε/Δ)·Σ|f_i(D) - f_i(D')|) ≤ e^ε.

The continuous law is not offered: a sum in binary floats betrays the count by which floats can occur (Mironov). On a
grid it is exact (`AsymmetricLaplace`).
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
from monitor.privacy.noise import Noise

Moving = Literal["decreasing", "increasing", "not monotone"]
"""Where a query may go towards P-neighbours (`monitor.onesided.policies.Direction`); a constant one needs no noise."""

Monotone = Literal["decreasing", "increasing"]


@dataclass(frozen=True, slots=True)
class AsymmetricGeometric:
    """Counts with geometric noise for ε in all: upwards, downwards, or to both sides.

    `sensitivity` is Δ, the most that all counts together change by towards a P-neighbour
    (`monitor.onesided.policies.Sensitivity.total`).
    """

    epsilon: Fraction
    sensitivity: int = 1
    direction: Moving = "decreasing"

    def __post_init__(self) -> None:
        """Raise EpsilonError or PrivacyError for what the mechanism is not defined for."""
        parse_epsilon(self.epsilon)
        if self.sensitivity < 1:
            raise PrivacyError(
                f"sensitivity is {self.sensitivity}: expected at least 1; publish what never changes as it is."
            )
        require_drawable(self.noise_epsilon, "ε of the noise")

    @property
    def noise_epsilon(self) -> Fraction:
        """The ε that each count's noise is drawn at: ε/Δ."""
        return self.epsilon / self.sensitivity

    def release(self, counts: Sequence[int] | NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
        """Noisy counts, one for each; downwards and to both sides they may be negative.

        Upwards f ≤ z, downwards z ≤ f, with certainty. Raises CountsError and ExactnessError as
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
        """The noisy count of a single query; as `release`."""
        return int(self.release([count], noise)[0])


@dataclass(frozen=True, slots=True)
class AsymmetricLaplace:
    """A real-valued query on a public grid: the asymmetric Laplace mechanism, exactly (P, ε)-ADP.

    The value is rounded to the grid on the noise's side, then moved by a geometric number of grid steps. Rounding turns
    a change of up to Δ into one of up to ⌈Δ/grid⌉ steps, so a step's noise is drawn at ε/⌈Δ/grid⌉. For a value on the
    grid and a grid that divides Δ, the noise has the law of the paper's exponential one (mean Δ/ε), cut to the grid.
    """

    epsilon: Fraction
    sensitivity: Fraction
    grid: Fraction
    direction: Moving = "decreasing"

    def __post_init__(self) -> None:
        """Raise EpsilonError, ExactnessError or PrivacyError for what the mechanism is not defined for."""
        parse_epsilon(self.epsilon)
        for name, value in (("sensitivity", self.sensitivity), ("grid", self.grid)):
            if _exactly(name, value) <= 0:
                raise PrivacyError(f"{name} is {value}: expected a number above 0; raise it.")
        require_drawable(self.step_epsilon, "ε of one grid step")

    @property
    def step_epsilon(self) -> Fraction:
        """The ε that the number of grid steps is drawn at."""
        return self.epsilon / math.ceil(self.sensitivity / self.grid)

    def release(self, value: Fraction, noise: Noise) -> Fraction:
        """The noisy value, a multiple of the grid. Raises ExactnessError for a value that is not an exact rational."""
        steps = _exactly("the value", value) / self.grid
        drawn = int(noise.geometric(self.step_epsilon, 1)[0])
        if self.direction == "decreasing":
            return self.grid * (math.ceil(steps) + drawn)
        if self.direction == "increasing":
            return self.grid * (math.floor(steps) - drawn)
        other = int(noise.geometric(self.step_epsilon, 1)[0])
        return self.grid * (math.floor(steps + Fraction(1, 2)) + drawn - other)


@dataclass(frozen=True, slots=True)
class OneSidedDecision:
    """Whether a count is below the threshold T, where one answer is certainly true ([ADP], section 5.1.1).

    A decreasing count: "certainly below" iff f + G < T. An increasing one: "certainly reached" iff f - G ≥ T. The other
    answer says nothing for certain. With k P-neighbours to the nearest dataset of the other answer (T - f, or
    f - T + 1) the certain answer comes with the chance P[G < k] = 1 - e^(-kε). That is the most there can be
    ([ADP], Theorem 9): each P-neighbour on the way may lower the chance of "don't know" by e^ε at most, and at its end
    it must be 1. So the decision is optimal at every k at once ([ADP], Theorem 11).
    """

    epsilon: Fraction
    threshold: int
    direction: Monotone = "decreasing"

    def __post_init__(self) -> None:
        """Raise EpsilonError for ε, CountsError for a threshold below 1."""
        require_drawable(parse_epsilon(self.epsilon), "ε of a decision")
        if self.threshold < 1:
            raise CountsError(f"threshold is {self.threshold}: expected at least 1; below it no count would lie.")

    def steps(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many P-neighbours each count is from the other answer ([ADP], Definition 14): k, or 0 if it is that."""
        below = self.threshold - counts
        return np.maximum(below if self.direction == "decreasing" else 1 - below, 0)

    def decide(self, counts: Sequence[int] | NDArray[np.int64], noise: Noise) -> NDArray[np.bool_]:
        """For each count whether the certain answer is given; each costs ε to those counted.

        Raises CountsError and ExactnessError as `monitor.onesided.counts.as_counts`.
        """
        return ~noise.reaches(self.epsilon, self.steps(as_counts(counts)))


def most_certain(q: Fraction, steps: int) -> Fraction:
    """The greatest chance of a certain answer at `steps` P-neighbours from the other one, with q = e^-ε: 1 - q^k.

    [ADP], Theorem 9. Raises PrivacyError for a q outside (0, 1), or negative steps.
    """
    if not 0 < q < 1 or steps < 0:
        raise PrivacyError(f"q is {q}, steps is {steps}: expected q between 0 and 1 and steps of 0 or more.")
    return 1 - q**steps


def _exactly(name: str, value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ExactnessError(
            f"{name} is a {type(value).__name__}: expected an exact rational; write Fraction('0.1') or an integer."
        )
    return Fraction(value)
