"""Errors of sums, counts and means of values from 0 to 1, for display (binary floats).

For means the error is n²·variance (asymptotic for large n), for sums and counts the variance. ε is the total. The
formulas are for continuous Laplace noise; `lattice` replaces 2/ε² by the variance of two-sided geometric noise, which
the exact mechanisms have in units of one step. docs/literature.md defines [KSW], [FHSS], [CJL] and [GV].
"""

from __future__ import annotations

import math
from typing import Final

from monitor.errors import BoundsError, EpsilonError, PrivacyError

_PRECISION: Final = 1e-9


def laplace(epsilon: float, sensitivity: float = 1.0) -> float:
    """Return 2(Δ/ε)², the variance of Laplace noise. Raise EpsilonError if ε is not above 0."""
    _require_positive(epsilon)
    return 2 * (sensitivity / epsilon) ** 2


def lattice(epsilon: float, steps: int) -> float:
    """Return the variance of two-sided geometric noise at ε/steps, in units of (1/steps)².

    This is the noise of a value with `steps` steps from 0 to 1. It approaches `laplace` for many steps.
    """
    _require_positive(epsilon)
    step = epsilon / steps
    return 2 * math.exp(-step) / math.expm1(-step) ** 2 / steps**2


def naive_mean(epsilon: float, mean: float) -> float:
    """Return n²·variance of `NaiveMean`: 8(1 + μ²)/ε². Raise BoundsError if μ is not from 0 to 1."""
    _require_mean(mean)
    return laplace(epsilon / 2) * (1 + mean**2)


def centred_mean(epsilon: float, mean: float) -> float:
    """Return n²·variance of `CentredMean`: 2(1 + 4(μ - 1/2)²)/ε². Raise BoundsError if μ is not from 0 to 1."""
    _require_mean(mean)
    return laplace(epsilon) * (1 + 4 * (mean - 0.5) ** 2)


def paired_mean(epsilon: float, mean: float) -> float:
    """Return n²·variance of `PairedMean`: 2(μ² + (1 - μ)²)/ε². Raise BoundsError if μ is not from 0 to 1.

    The estimate is A/(A + B), and its first-order error is ((1 - μ)·noise of A - μ·noise of B)/n.
    """
    _require_mean(mean)
    return laplace(epsilon) * (mean**2 + (1 - mean) ** 2)


def least_mean(epsilon: float, mean: float) -> float:
    """Return a lower bound of n²·variance for any additive noise: max(μ, 1 - μ)² times that of the staircase.

    The error of the mean is that of Σ (x - μ)/n, which one person changes by up to max(μ, 1 - μ) under addition and
    removal. For one number of sensitivity 1, staircase noise has the least variance of all additive noise. For small ε,
    the paired mean has at most twice this bound: exactly the bound at μ = 0 and 1, and twice the bound at μ = 1/2.
    """
    _require_mean(mean)
    return max(mean, 1 - mean) ** 2 * staircase(epsilon)


def staircase(epsilon: float) -> float:
    """Return the variance of the best additive noise for one number of sensitivity 1 under ε [GV].

    The density is constant on steps of widths γ and 1 - γ, and falls by the factor b = e^-ε from each pair of steps to
    the next. The best γ for the variance is found by golden-section search.
    """
    _require_positive(epsilon)
    ratio, low, high = (math.sqrt(5) - 1) / 2, 0.0, 1.0
    while high - low > _PRECISION:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if _compute_staircase(epsilon, left) < _compute_staircase(epsilon, right):
            high = right
        else:
            low = left
    return _compute_staircase(epsilon, (low + high) / 2)


def _compute_staircase(epsilon: float, wide: float) -> float:
    """Return the variance for γ = `wide`: the sum over steps of density times ∫ x² dx, on both sides."""
    b = math.exp(-epsilon)
    height = (1 - b) / (2 * (wide + b * (1 - wide)))
    # Σ b^k ∫_k^(k+γ) x² dx and Σ b^(k+1) ∫_(k+γ)^(k+1) x² dx with Σ b^k = s0, Σ k b^k = s1, Σ k² b^k = s2.
    s0, s1, s2 = 1 / (1 - b), b / (1 - b) ** 2, b * (1 + b) / (1 - b) ** 3
    first = s2 * wide + s1 * wide**2 + s0 * wide**3 / 3
    second = s2 * (1 - wide) + s1 * (1 - wide**2) + s0 * (1 - wide**3) / 3
    return 2 * height * (first + b * second)


def count_from_totals(epsilon: float) -> float:
    """Return the variance of the count from paired totals, 4/ε². The textbook count at ε/2 has 8/ε²."""
    return 2 * laplace(epsilon)


def paired_sum(epsilon: float) -> float:
    """Return the variance of `PairedSum`, 4/ε², for a public number of values. The textbook sum has 2/ε²."""
    return laplace(epsilon, 2.0) / 2


def correlated_ratio(queries: int) -> float:
    """Return the variance of correlated Gaussian noise for d sums, relative to independent noise: (1 + 1/√d)²/4.

    Raise PrivacyError if d is below 1.
    """
    if queries < 1:
        raise PrivacyError(f"queries is {queries}: expected at least 1.")
    return (1 + 1 / math.sqrt(queries)) ** 2 / 4


def _require_positive(epsilon: float) -> None:
    if not epsilon > 0:
        raise EpsilonError(f"ε is {epsilon}: expected a number above 0.")


def _require_mean(mean: float) -> None:
    if not 0 <= mean <= 1:
        raise BoundsError(f"The mean is {mean}: expected a number from 0 to 1, because values are from 0 to 1.")
