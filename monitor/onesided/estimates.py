"""What a noisy count says of the true one. Averages are for display (binary floats), bounds are whole numbers, exact.

They hold for answers that are given whatever they are (`AsymmetricGeometric`). Of an answer that was published because
it was high (Algorithms 1 to 4) only the certain bound holds; for the rest see the p-value (docs/rules.md, section 2).
"""

from __future__ import annotations

import math
from fractions import Fraction

from monitor.errors import ExactnessError, PrivacyError
from monitor.onesided.mechanisms import Monotone
from monitor.privacy.epsilon import require_drawable
from monitor.privacy.exact import floor_exp

_FIRST_BITS = 64


def noise_mean(epsilon: Fraction) -> float:
    """E[G] = 1/(e^ε - 1), against 1/ε of the exponential law; `epsilon` is that of the noise."""
    return 1 / math.expm1(float(epsilon))


def noise_variance(epsilon: Fraction) -> float:
    """Var[G] = q/(1 - q)² with q = e^-ε, against 1/ε² of the exponential law."""
    return math.exp(-float(epsilon)) / math.expm1(-float(epsilon)) ** 2


def unbiased(epsilon: Fraction, noisy_count: int, direction: Monotone = "decreasing") -> float:
    """The estimate that is right on average: z - 1/(e^ε - 1) where noise was added, z + 1/(e^ε - 1) else."""
    mean = noise_mean(epsilon)
    return noisy_count - mean if direction == "decreasing" else noisy_count + mean


def margin(epsilon: Fraction, error: Fraction) -> int:
    """The least g with P[G > g] = e^(-ε(g + 1)) ≤ error, exactly.

    Raises EpsilonError for an ε that noise cannot be drawn at, PrivacyError for an error that is not an exact rational
    between 0 and 1.
    """
    require_drawable(epsilon, "ε of the noise")
    if not isinstance(error, Fraction):
        raise ExactnessError(f"error is a {type(error).__name__}: expected an exact rational; write Fraction('0.05').")
    if not 0 < error < 1:
        raise PrivacyError(f"error is {error}: expected a number between 0 and 1, such as 1/20.")
    low, high = -1, 1
    while not _at_most(epsilon * (high + 1), error):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _at_most(epsilon * (middle + 1), error) else (middle, high)
    return high


def interval(
    epsilon: Fraction, noisy_count: int, error: Fraction, direction: Monotone = "decreasing"
) -> tuple[int, int]:
    """Whole numbers that the true count lies between, ends included, but for a chance of at most `error`.

    One end is certain: the noisy count itself. `epsilon` is that of the noise. Raises as `margin`.
    """
    reach = margin(epsilon, error)
    if direction == "decreasing":
        return max(noisy_count - reach, 0), noisy_count
    return max(noisy_count, 0), noisy_count + reach


def _at_most(x: Fraction, bound: Fraction) -> bool:
    """Whether e^-x ≤ bound, for x > 0: both cut to more and more bits; as e^-x is irrational they come to differ."""
    bits = _FIRST_BITS
    while True:
        cut, limit = floor_exp(x, bits), (bound.numerator << bits) // bound.denominator
        if cut != limit:
            return cut < limit
        bits *= 2
