"""The dyadic thresholds, compared with an independent computation that uses only integers."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from random import Random

import pytest

from monitor.errors import PrivacyError
from monitor.privacy.exact_thresholds import floor_exp, floor_odds

pytestmark = pytest.mark.long


def exp_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return bounds of e^x from Taylor's series with remainder: x is halved until it is below 1, then squared."""
    halvings = max(0, int(x).bit_length())
    small = x / 2**halvings
    scale = 1 << (bits + 4 * halvings + 64)
    low, term, n = 0, scale, 0
    while term:
        low += term
        n += 1
        term = term * small.numerator // (small.denominator * n)
    lower, upper = Fraction(low, scale), Fraction(low + 3 * n + 3, scale)
    for _ in range(halvings):
        lower = Fraction(int(lower**2 * scale), scale)
        upper = Fraction(int(upper**2 * scale) + 1, scale)
    return lower, upper


def take_both(low: Fraction, high: Fraction) -> int:
    """Return the floor that both bounds share."""
    assert int(low) == int(high), "the bounds are too wide for this check"
    return int(low)


def cases() -> list[tuple[Fraction, int]]:
    rng = Random(20131222)
    drawn = [
        (Fraction(rng.randrange(1, 10**6), rng.randrange(1, 10**5)), rng.choice((16, 64, 128))) for _ in range(150)
    ]
    chosen = [Fraction(1), Fraction(1, 3), Fraction(1, 10**6), Fraction(50), Fraction(44), Fraction(1, 10**12)]
    return [(x, bits) for x, bits in drawn if x < 100] + [(x, bits) for x in chosen for bits in (1, 16, 64, 80, 256)]


@pytest.mark.promise(17)
@pytest.mark.parametrize(("x", "bits"), cases())
def test_floors_match_independent_computation(x: Fraction, bits: int) -> None:
    """The floors of e^-x and of y/(1 + y) = 1/(1 + e^x) match the independent computation."""
    low, high = exp_bounds(x, bits)
    assert floor_exp(x, bits) == take_both(2**bits / high, 2**bits / low)
    assert floor_odds(x, bits) == take_both(2**bits / (1 + high), 2**bits / (1 + low))


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(44)])
def test_floors_match_precise_decimals(x: Fraction) -> None:
    """The floors match decimals of 200 digits, up to 256 bits."""
    context = Context(prec=200)
    y = context.exp(context.divide(Decimal(-x.numerator), Decimal(x.denominator)))
    for bits in (16, 64, 256):
        expected = context.multiply(y, Decimal(2**bits)).to_integral_value(ROUND_FLOOR)
        assert floor_exp(x, bits) == int(expected)


def test_more_bits_only_append() -> None:
    """The first bits of a longer threshold are the shorter threshold, which the extension of ties relies on."""
    for x in (Fraction(1, 3), Fraction(1), Fraction(20), Fraction(60), Fraction(1, 10**9)):
        assert floor_exp(x, 128) >> 64 == floor_exp(x, 64)
        assert floor_odds(x, 128) >> 64 == floor_odds(x, 64)
        assert floor_exp(x, 64) >> 48 == floor_exp(x, 16)


@pytest.mark.parametrize("digits", [*range(20, 31), 60, 150])
def test_precision_rises_until_floor_is_certain(digits: int) -> None:
    """The floor is right if 2^16 · c is within 10^-digits of an integer, around the first precision and beyond."""
    context, near = Context(prec=400), Fraction(1, 10**digits)
    for n in range(1, 2**15, 997):
        share = context.divide(Decimal(n), Decimal(2**16))
        for_exp = Fraction(context.ln(share)) * -1
        for_odds = Fraction(context.ln(context.divide(context.subtract(Decimal(1), share), share)))
        assert (floor_exp(for_exp - near, 16), floor_exp(for_exp + near, 16)) == (n, n - 1)
        assert (floor_odds(for_odds - near, 16), floor_odds(for_odds + near, 16)) == (n, n - 1)


def test_values_near_one_stay_below() -> None:
    """At x = 10^-300 all bits of e^-x are 1, and all bits of y/(1 + y) except the first."""
    tiny = Fraction(1, 10**300)
    assert floor_exp(tiny, 64) == 2**64 - 1
    assert floor_odds(tiny, 64) == 2**63 - 1


def test_zero_and_large_x_are_exact() -> None:
    """At x = 0 the values are 1 and 1/2; for large x they are 0, without a long computation."""
    assert floor_exp(Fraction(0), 64) == 2**64
    assert floor_odds(Fraction(0), 64) == 2**63
    assert floor_exp(Fraction(10**30), 64) == floor_odds(Fraction(10**30), 64) == 0
    assert floor_exp(Fraction(64), 64) == 0
    assert floor_exp(Fraction(44), 64) == 1


@pytest.mark.parametrize("floor", [floor_exp, floor_odds])
def test_invalid_arguments_are_refused(floor: object) -> None:
    """A negative x and fewer than one bit are refused."""
    assert callable(floor)
    for x, bits in ((Fraction(-1), 64), (Fraction(1), 0)):
        with pytest.raises(PrivacyError, match=r"expected x ≥ 0 and bits ≥ 1"):
            floor(x, bits)
