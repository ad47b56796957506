"""Estimates of a true count from a noisy count. Averages are for display (binary floats); bounds are exact integers.

They are valid for answers that are always published (`AsymmetricGeometric`). For answers that are published only if
they are high (Algorithms 1 to 4), only the certain bound is valid. Use the p-value instead of an estimate
(docs/rules.md, section 2).
"""

from __future__ import annotations

import math
from fractions import Fraction

from monitor.errors import ExactnessError, PrivacyError
from monitor.onesided.mechanisms import Monotone
from monitor.privacy.alarm_chances import compute_mean_noise
from monitor.privacy.epsilon import require_drawable
from monitor.privacy.exact_thresholds import floor_exp

_FIRST_BITS = 64


def noise_mean(epsilon: Fraction) -> float:
    """Return E[G] = 1/(e^ε - 1), which is 1/ε for exponential noise. `epsilon` is the ε of the noise."""
    return compute_mean_noise(epsilon)


def noise_variance(epsilon: Fraction) -> float:
    """Return Var[G] = q/(1 - q)² with q = e^-ε, which is 1/ε² for exponential noise."""
    return math.exp(-float(epsilon)) / math.expm1(-float(epsilon)) ** 2


def unbiased(epsilon: Fraction, noisy_count: int, direction: Monotone = "decreasing") -> float:
    """Return the unbiased estimate: z - 1/(e^ε - 1) if noise was added, z + 1/(e^ε - 1) if it was subtracted."""
    mean = noise_mean(epsilon)
    return noisy_count - mean if direction == "decreasing" else noisy_count + mean


def margin(epsilon: Fraction, error: Fraction) -> int:
    """Return the least g with P[G > g] = e^(-ε(g + 1)) ≤ error, exactly.

    Raises:
        EpsilonError: noise cannot be drawn at this ε.
        ExactnessError: the error is not a Fraction.
        PrivacyError: the error is not between 0 and 1.
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
    """Return a closed interval that contains the true count, except with a chance of at most `error`.

    One end, the noisy count itself, is a certain bound. `epsilon` is the ε of the noise. Raise the errors of `margin`.
    """
    width = margin(epsilon, error)
    if direction == "decreasing":
        return max(noisy_count - width, 0), noisy_count
    return max(noisy_count, 0), noisy_count + width


def _at_most(x: Fraction, bound: Fraction) -> bool:
    """Return whether e^-x ≤ bound, for x > 0. e^-x is irrational, so with enough bits it differs from the bound."""
    bits = _FIRST_BITS
    while True:
        cut, limit = floor_exp(x, bits), (bound.numerator << bits) // bound.denominator
        if cut != limit:
            return cut < limit
        bits *= 2
