"""Durations, percentages, amounts and e^ε as reports print them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final

from monitor.time.instants import DAY, HOUR, MINUTE, SECOND, format_duration

_THREE_DIGITS: Final = Context(prec=3, rounding=ROUND_CEILING)
_SIX_DIGITS: Final = Context(prec=6, rounding=ROUND_CEILING)
_WHOLE_FROM: Final = 100

PEOPLE: Final = "reported infected people"
"""What the people are called who are counted."""


def spell_duration(duration: int) -> str:
    """Format a duration in words: `14 days 1 hour`."""
    parts = []
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second")):
        amount, duration = divmod(duration, unit)
        if amount:
            parts.append(f"{amount} {name}" if amount == 1 else f"{amount} {name}s")
    if duration or not parts:
        parts.append(format_duration(duration))
    return " ".join(parts)


def format_percent(chance: float) -> str:
    """Format a chance as a percentage: `30.1 %`, `0.0045 %`, `> 99.9 %`."""
    percent = 100 * chance
    if percent > 99.9:  # noqa: PLR2004  # such a chance would be rounded to 100 %
        return "> 99.9 %"
    if percent >= 10:  # noqa: PLR2004  # from here on, one decimal is enough
        return f"{percent:.1f} %"
    if percent < 1e-4:  # noqa: PLR2004  # one in a million
        return "< 0.0001 %"
    return f"{percent:.{1 - math.floor(math.log10(percent))}f}".rstrip("0").rstrip(".") + " %"


def format_share(share: Fraction) -> str:
    """Format a share as a percentage. Unlike a chance, it can be all or nothing."""
    return f"{100 * share} %" if share in {0, 1} else format_percent(float(share))


def format_amount(amount: float) -> str:
    """Format a number of people, visits or locations for reading: `140`, `5.2`, `< 0.01`; never as a power of ten."""
    if amount >= 9.95:  # noqa: PLR2004  # from here on, whole numbers are enough
        return f"{amount:,.0f}"
    return f"{amount:.2g}" if amount >= 0.01 or amount == 0 else "< 0.01"  # noqa: PLR2004  # fewer digits say nothing


def format_factor(epsilon: Fraction) -> str:
    """Format e^ε with three digits, such as "2.72", or as a whole number from 100 on. A limit is rounded up."""
    factor = Decimal(math.exp(epsilon))
    if factor >= _WHOLE_FROM:
        return f"{math.ceil(factor):,}"
    return f"{float(_THREE_DIGITS.create_decimal(factor)):g}"


def format_power(epsilon: Fraction) -> str:
    """Format e^ε as a power, such as "e^17"; the exponent has up to six digits, rounded up."""
    return f"e^{float(_SIX_DIGITS.divide(epsilon.numerator, epsilon.denominator)):g}"


def explain_factor(epsilon: Fraction) -> str:
    """Format e^ε as a power, with its value unless that is too large to be meaningful."""
    if epsilon > 20:  # noqa: PLR2004  # more than half a billion
        return format_power(epsilon)
    return f"{format_power(epsilon)} = {format_factor(epsilon)}"


def spell_rhythm(duration: int) -> str:
    """Format the time between two answers in words: `every hour`, `every 15 minutes`."""
    return f"every {spell_duration(duration).removeprefix('1 ')}"
