"""Exact dyadic thresholds: floor(2^bits · c) for c = e^-x and c = y/(1 + y), computed with interval arithmetic.

No binary float is used. Both ends of an interval around c are computed in `decimal` with directed rounding. The exp of
`decimal` is correctly rounded, so moving its result one step outwards bounds the true value. If both ends have the same
floor, this is the floor of the true value; otherwise the precision is raised. This terminates: for a rational x > 0,
e^-x and 1/(1 + e^x) are irrational (Lindemann), so 2^bits · c is never an integer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DivisionByZero, InvalidOperation
from fractions import Fraction

from monitor.errors import PrivacyError

_GUARD_DIGITS = 20


def floor_exp(x: Fraction, bits: int) -> int:
    """Return floor(2^bits · e^-x) for a rational x ≥ 0; 2^bits at x = 0. Raise PrivacyError for x < 0 or bits < 1."""
    _check(x, bits)
    if x == 0:
        return 1 << bits
    return _floor(x, bits, lambda _, y: y)


def floor_odds(x: Fraction, bits: int) -> int:
    """Return floor(2^bits · y/(1 + y)) with y = e^-x, for a rational x ≥ 0; 2^(bits - 1) at x = 0.

    y/(1 + y) is the chance that a low binary digit of geometric noise is 1. Raise PrivacyError for x < 0 or bits < 1.
    """
    _check(x, bits)
    if x == 0:
        return 1 << (bits - 1)
    return _floor(x, bits, lambda end, y: end.outwards.divide(y, end.inwards.add(Decimal(1), y)))


@dataclass(frozen=True, slots=True)
class _End:
    """One end of the interval: the contexts that round away from the true value, and towards it (for a divisor)."""

    outwards: Context
    inwards: Context


_Increasing = Callable[[_End, Decimal], Decimal]


def _floor(x: Fraction, bits: int, function: _Increasing) -> int:
    """Return floor(2^bits · f(e^-x)) for an increasing f with f(y) ≤ y that rounds outwards."""
    if x >= bits:
        return 0  # f(y) ≤ y and 2^bits · e^-x ≤ (2/e)^bits < 1. From here on x < bits, so no exponent is large.
    digits = bits // 3 + _GUARD_DIGITS  # 2^bits has at most bits/3 + 1 digits, so it is represented exactly
    while True:
        down, up = _make_context(digits, ROUND_FLOOR), _make_context(digits, ROUND_CEILING)
        low = _scale(x, bits, function, _End(outwards=down, inwards=up))
        high = _scale(x, bits, function, _End(outwards=up, inwards=down))
        if low == high:
            return low
        digits *= 2


def _scale(x: Fraction, bits: int, function: _Increasing, end: _End) -> int:
    exponent = end.outwards.divide(Decimal(-x.numerator), Decimal(x.denominator))
    nearest = end.outwards.exp(exponent)
    is_low = end.outwards.rounding == ROUND_FLOOR
    y = end.outwards.next_minus(nearest) if is_low else end.outwards.next_plus(nearest)
    return int(
        end.outwards.multiply(function(end, y), Decimal(1 << bits))
    )  # the value is positive, so int() is the floor


def _make_context(digits: int, rounding: str) -> Context:
    traps = [InvalidOperation, DivisionByZero]
    return Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)


def _check(x: Fraction, bits: int) -> None:
    if x < 0 or bits < 1:
        raise PrivacyError(
            f"x is {x}, bits is {bits}: expected x ≥ 0 and bits ≥ 1, so that the threshold is in [0, 2^bits]."
        )
