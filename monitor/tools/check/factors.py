"""e^ε as text, rounded up because it is stated as a limit."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final

_THREE_DIGITS: Final = Context(prec=3, rounding=ROUND_CEILING)
_SIX_DIGITS: Final = Context(prec=6, rounding=ROUND_CEILING)
_WHOLE_FROM: Final = 100


def format_factor(epsilon: Fraction) -> str:
    """Return e^ε with three digits, such as "2.72", or as a whole number from 100 on."""
    factor = Decimal(math.exp(epsilon))
    if factor >= _WHOLE_FROM:
        return f"{math.ceil(factor):,}"
    return f"{float(_THREE_DIGITS.create_decimal(factor)):g}"


def format_power(epsilon: Fraction) -> str:
    """Return e^ε as a power, such as "e^17"; the exponent has up to six digits."""
    return f"e^{float(_SIX_DIGITS.divide(epsilon.numerator, epsilon.denominator)):g}"
