"""Read and write ε as an exact rational (docs/rules.md, section 2; docs/interface.md, section 3)."""

from __future__ import annotations

import re
from fractions import Fraction
from numbers import Number
from typing import Final

from monitor.errors import EpsilonError

SMALLEST: Final = Fraction(1, 10**12)
"""The smallest ε at which noise is drawn. Every draw then fits in 64 bits (`monitor.privacy.one_sided_noise`)."""

LARGEST: Final = Fraction(10**12)
"""The largest ε. It is far above any useful value, so a larger value must be a typing error."""

_LONGEST: Final = 40  # characters of a configured ε
_LONGEST_WRITTEN: Final = 400  # an ε of 40 characters, divided by weights and answers of up to 13 digits each
_WRITTEN = re.compile(r"(?P<whole>[0-9]+)(?:\.(?P<decimals>[0-9]+)|/(?P<denominator>[0-9]+))?")
_RECORDED = re.compile(r"[1-9][0-9]*(?:/[1-9][0-9]*)?", re.ASCII)
_HOW = 'write an integer (1) or a quoted decimal or fraction ("0.5", "1/2")'


def parse_epsilon(value: int | str | Fraction) -> Fraction:
    """Read an ε exactly: an integer, a fraction, or a string such as "3", "0.5" or "1/2" in ASCII.

    A binary float is refused because it is not exactly the number that the operator wrote. An exponent is refused
    because it hides how large the number is.

    Raises:
        EpsilonError: the value has another form, or is not in SMALLEST to LARGEST.
    """
    if isinstance(value, bool) or not isinstance(value, int | str | Fraction):
        raise EpsilonError(f"ε is {_show_other(value)}: expected an exact number; {_HOW}.")
    exact = _read(value) if isinstance(value, str) else Fraction(value)
    if not SMALLEST <= exact <= LARGEST:
        raise EpsilonError(
            f"ε is {_show(value)}: expected a number above 0, from 1/{SMALLEST.denominator} to {LARGEST}; {_HOW}."
        )
    return exact


def require_drawable(epsilon: Fraction, meaning: str) -> None:
    """Raise EpsilonError if ε is below SMALLEST, so that noise cannot be drawn at it; `meaning` names this ε."""
    if epsilon < SMALLEST:
        raise EpsilonError(
            f"{meaning} is {_show(epsilon)}: expected at least 1/{SMALLEST.denominator}, so that every draw of noise "
            "fits in 64 bits; raise ε, or share it among fewer locations or answers."
        )


def format_epsilon(epsilon: Fraction) -> str:
    """Write an ε in the form used in records: reduced, "1/2" or "3". `parse_recorded` reads it back."""
    return str(epsilon)


def parse_recorded(text: str) -> Fraction:
    """Read an ε from a record, in the form that `format_epsilon` writes.

    The text may be longer than a configured ε, because a share by weights has the digits of all weights.

    Raises:
        EpsilonError: the text has another form, or the ε is out of range.
    """
    if len(text) > _LONGEST_WRITTEN or _RECORDED.fullmatch(text) is None:
        raise EpsilonError(f"ε is {_show(text)}: expected a whole number or a fraction of whole numbers above 0.")
    exact = Fraction(text)
    if not SMALLEST <= exact <= LARGEST:
        raise EpsilonError(f"ε is {_show(text)}: expected a number from 1/{SMALLEST.denominator} to {LARGEST}.")
    return exact


def _read(text: str) -> Fraction:
    match = _WRITTEN.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise EpsilonError(f"ε is {_show(text)}: expected plain ASCII digits without sign, space or exponent; {_HOW}.")
    denominator = match["denominator"]
    if denominator is not None and int(denominator) == 0:
        raise EpsilonError(f"ε is {_show(text)}: expected a denominator above 0; {_HOW}.")
    return Fraction(text)


def _show_other(value: object) -> str:
    """Describe a value of another type: a number by its value and type, anything else only by its type."""
    kind = type(value).__name__
    return f"{value} (a {kind})" if isinstance(value, Number) else f"a {kind}"


def _show(value: int | str | Fraction) -> str:
    if isinstance(value, str):
        return repr(value[:_LONGEST]) + (f" ({len(value)} characters)" if len(value) > _LONGEST else "")
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > 4 * _LONGEST:
        return "a number of very many digits"  # Python refuses to print the longest integers
    return str(value)
