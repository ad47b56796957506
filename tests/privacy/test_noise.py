"""The sampler against its law: exactly, on every value of its first bits and on forced ties, and statistically."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import EpsilonError, InsecureNoiseError, PrivacyError
from monitor.privacy.exact import floor_exp, floor_odds
from monitor.privacy.noise import OneSidedNoise, SeededEntropy, SystemEntropy

ONE = Fraction(1)
ALL_FIRST_BITS = np.arange(65536, dtype="<u2").tobytes()


class Scripted:
    """Entropy that gives out what a test wrote, in order, then a constant byte."""

    secure = False

    def __init__(self, *parts: bytes, then: int = 0) -> None:
        self._parts = list(parts)
        self._then = bytes([then])

    def bytes(self, count: int) -> bytes:
        if not self._parts:
            return self._then * count
        part = self._parts.pop(0)
        assert len(part) == count
        return part

    def is_used_up(self) -> bool:
        return not self._parts


def first_bits(uniform: int) -> bytes:
    """The first 16 of 64 bits, as the sampler reads them."""
    return (uniform >> 48).to_bytes(2, "little")


def further_bits(uniform: int) -> bytes:
    """The other 48 of 64 bits, as the sampler reads them: at the upper end of 8 bytes."""
    return ((uniform & (2**48 - 1)) << 16).to_bytes(8, "little")


def by_inversion(epsilon: Fraction, uniform: int, bits: int) -> int:
    """How many k ≥ 1 have floor(2^bits · e^(-εk)) above a uniform integer."""
    k = 1
    while floor_exp(epsilon * k, bits) > uniform:
        k += 1
    return k - 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), ONE, Fraction(2), Fraction(1, 32), Fraction(7, 5)])
@pytest.mark.parametrize("filled", [0, 255])
def test_first_bits_are_inverted_exactly(epsilon: Fraction, filled: int) -> None:
    """The least and the greatest 64-bit uniform of each of the 65,536 cells; cell 0's least one is beyond the table."""
    cells = np.arange(1, 65536, dtype="<u2")
    drawn = OneSidedNoise(Scripted(cells.tobytes(), then=filled)).geometric(epsilon, cells.size)
    rest = 2**48 - 1 if filled else 0
    thresholds = [floor_exp(epsilon * k, 64) for k in range(1, 1500)]
    expected: list[int] = []
    above = len(thresholds)
    for cell in cells.tolist():
        while above and thresholds[above - 1] <= (cell << 48 | rest):
            above -= 1
        expected.append(above)
    assert drawn.tolist() == expected


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), ONE, Fraction(2)])
@pytest.mark.parametrize("k", [1, 2, 7, 20])
@pytest.mark.parametrize("offset", [-1, 1])
def test_near_a_threshold_64_bits_decide(epsilon: Fraction, k: int, offset: int) -> None:
    """One below the floor is below e^(-εk), one above is above it; no further bits are asked for."""
    uniform = floor_exp(epsilon * k, 64) + offset
    entropy = Scripted(first_bits(uniform), further_bits(uniform))
    assert OneSidedNoise(entropy).geometric(epsilon, 1).tolist() == [k if offset < 0 else k - 1]


@pytest.mark.parametrize("k", [1, 7, 20])
@pytest.mark.parametrize("ties", [1, 2, 3])
@pytest.mark.parametrize("offset", [-1, 1])
def test_ties_are_extended_until_decided(k: int, ties: int, offset: int) -> None:
    """
    The uniform agrees with e^-k in its first 64·ties bits, then differs by one unit.

        64 bits      64 more      …   the last 64
        = floor      = floor          floor ± 1
    """
    bits = 64 * (ties + 1)
    uniform = floor_exp(Fraction(k), bits) + offset
    more = [((uniform >> shift) & (2**64 - 1)).to_bytes(8, "little") for shift in range(bits - 128, -1, -64)]
    start = uniform >> (bits - 64)
    entropy = Scripted(first_bits(start), further_bits(start), *more)
    assert OneSidedNoise(entropy).geometric(ONE, 1).tolist() == [k if offset < 0 else k - 1]
    assert entropy.is_used_up()


@pytest.mark.parametrize("offset", [-1, 1])
def test_low_digits_have_exact_odds(offset: int) -> None:
    """ε = 1/64: G = 2·H + B, B = 1 with chance y/(1 + y), y = e^(-1/64), here with a tie of 64 bits."""
    uniform = floor_odds(Fraction(1, 64), 128) + offset
    start, rest = uniform >> 64, uniform & (2**64 - 1)
    three = floor_exp(Fraction(3, 32), 64) - 1
    entropy = Scripted(
        first_bits(three), further_bits(three), first_bits(start), further_bits(start), rest.to_bytes(8, "little")
    )
    assert OneSidedNoise(entropy).geometric(Fraction(1, 64), 1).tolist() == [2 * 3 + (offset < 0)]


def test_low_and_high_digits_form_the_law() -> None:
    """(1 - q) q^g is the product of the parts' laws, in exact fractions for three digits and q = 2/3."""
    q, digits = Fraction(2, 3), 3
    for g in range(64):
        product = (1 - q**8) * (q**8) ** (g >> digits)
        for place in range(digits):
            y = q ** (2**place)
            product *= (y if g >> place & 1 else 1) / (1 + y)
        assert product == (1 - q) * q**g


@pytest.mark.parametrize(
    ("epsilon", "table_end"), [(ONE, 44), (Fraction(1, 2), 88), (Fraction(50), 1), (Fraction(1000), 1)]
)
def test_draws_beyond_the_table_restart(epsilon: Fraction, table_end: int) -> None:
    """The law is memoryless: twice a uniform of 0, then one in the cell above e^-ε. Also where 64 bits say nothing."""
    ends = [b"\x00\x00", b"\x00" * 8] * 2
    bits, extensions = 64, []
    while floor_exp(epsilon * table_end, bits) == 0:
        bits += 64
        extensions.append(b"\x00" * 8)
    parts = [*(ends[:2] + extensions), *(ends[:2] + extensions), b"\xff\xff"]
    entropy = Scripted(*parts)
    assert OneSidedNoise(entropy).geometric(epsilon, 1).tolist() == [2 * table_end]
    assert entropy.is_used_up()


def test_only_draws_beyond_restart() -> None:
    """Three draws: 0, beyond the table (then 2), 1."""
    two, one = (floor_exp(Fraction(k), 64) - 1 for k in (2, 1))
    entropy = Scripted(
        b"\xff\xff\x00\x00" + first_bits(one),
        bytes(8) + further_bits(one),
        first_bits(two),
        further_bits(two),
    )
    assert OneSidedNoise(entropy).geometric(ONE, 3).tolist() == [0, 44 + 2, 1]


@pytest.mark.parametrize("epsilon", [ONE, Fraction(1, 10**12), Fraction(50)])
def test_repeating_source_is_refused(epsilon: Fraction) -> None:
    """Zeros for ever: noise without end, or a draw beyond 64 bits, are not given out."""
    with pytest.raises(InsecureNoiseError, match="entropy source"):
        OneSidedNoise(Scripted()).geometric(epsilon, 1)


def test_smallest_epsilon_fits_int64() -> None:
    """At 10^-12 the mean is 10^12; below, the error states the smallest ε."""
    noise = OneSidedNoise(SeededEntropy(3))
    drawn = noise.geometric(Fraction(1, 10**12), 10_000)
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(1e12, rel=0.06)  # six standard errors
    for refused in (Fraction(1, 10**12 + 1), Fraction(0), Fraction(-1)):
        with pytest.raises(EpsilonError, match="at least 1/1000000000000"):
            noise.geometric(refused, 1)
        with pytest.raises(EpsilonError, match="at least 1/1000000000000"):
            noise.reaches(refused, np.array([1]))


def chi_square_chance(observed: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """P[χ² ≥ statistic]; in closed form, as the number of cells is odd: e^(-x/2) Σ (x/2)^i / i!, i < dof/2."""
    assert observed.size % 2 == 1
    expected = chances * observed.sum()
    assert expected.min() > 20
    half = float(((observed - expected) ** 2 / expected).sum()) / 2
    term, total = math.exp(-half), 0.0
    for i in range(observed.size // 2):
        total += term
        term *= half / (i + 1)
    return total


def cells_of(epsilon: float, draws: int) -> list[int]:
    """Starts of an odd number of cells of the law at ε: single values, or equal shares where it is flat."""
    if epsilon > 0.1:
        most = int(math.log(draws * (1 - math.exp(-epsilon)) / 100) / epsilon)
        return list(range(most - 1 + most % 2))
    return [math.ceil(-math.log1p(-share / 51) / epsilon) for share in range(51)]


def histogram(drawn: NDArray[np.int64], starts: list[int]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(np.array(starts), drawn, side="right") - 1, minlength=len(starts))


def chances_of(epsilon: float, starts: list[int]) -> NDArray[np.float64]:
    beyond = [math.exp(-epsilon * start) for start in starts] + [0.0]
    return -np.diff(np.array(beyond))


@pytest.mark.parametrize(
    "epsilon",
    [Fraction(*ratio) for ratio in ((1, 3), (1, 2), (1, 1), (2, 1), (3, 1), (1, 100), (1, 10**6), (1, 10**12))],
)
def test_million_draws_follow_the_law(epsilon: Fraction) -> None:
    """Seeded; for a random seed the first assertion would fail with chance 10^-9. 2 % more ε are told apart."""
    drawn = OneSidedNoise(SeededEntropy(11)).geometric(epsilon, 10**6)
    starts = cells_of(float(epsilon), 10**6)
    observed = histogram(drawn, starts)
    assert chi_square_chance(observed, chances_of(float(epsilon), starts)) > 1e-9
    assert chi_square_chance(observed, chances_of(float(epsilon) * 1.02, starts)) < 1e-9


def test_small_epsilon_draws_follow_the_law() -> None:
    """G mod 8 at ε = 1/50 has chances ∝ e^(-εr); seeded, 10^-9 for a random seed. Residues 6 and 7 are one cell."""
    drawn = OneSidedNoise(SeededEntropy(12)).geometric(Fraction(1, 50), 10**6)
    chances = np.exp(-np.arange(8) / 50)
    chances /= chances.sum()
    observed = np.bincount(np.minimum(drawn & 7, 6), minlength=7)
    assert chi_square_chance(observed, np.append(chances[:6], chances[6:].sum())) > 1e-9


@pytest.mark.parametrize(("epsilon", "least", "most"), [(5, 6_238, 7_238), (8, 215, 456), (16, 0, 9), (1000, 0, 0)])
def test_large_epsilon_draws_are_mostly_zero(epsilon: int, least: int, most: int) -> None:
    """Of a million draws e^-ε are above zero: 6738, 335, 0.11 and none expected. Fails with a chance below 10^-8."""
    above = OneSidedNoise(SystemEntropy()).geometric(Fraction(epsilon), 10**6) > 0
    assert least <= np.count_nonzero(above) <= most


def test_epsilon_50_draws_zero() -> None:
    """A single 1 among 100,000 has the chance 10^-16."""
    assert not OneSidedNoise(SystemEntropy()).geometric(Fraction(50), 100_000).any()


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), ONE, Fraction(1, 10**6), Fraction(50)])
def test_gap_is_reached_with_its_chance(epsilon: Fraction) -> None:
    """P = e^(-ε·gap), for gaps side by side; seeded, and within 6.5 standard errors: 10^-10 for a random seed."""
    unit = max(1, int(1 / epsilon) // 2)
    distinct = np.arange(8, dtype=np.int64) * unit
    reached = OneSidedNoise(SeededEntropy(13)).reaches(epsilon, np.tile(distinct, 100_000)).reshape(-1, 8)
    chances = np.exp(-float(epsilon) * distinct)
    errors = np.sqrt(chances * (1 - chances) / reached.shape[0])
    assert np.all(np.abs(reached.mean(axis=0) - chances) <= 6.5 * errors + 1e-12)


@pytest.mark.parametrize(("epsilon", "gap"), [(ONE, 1), (ONE, 20), (Fraction(1, 3), 5000), (Fraction(1, 10**6), 10**7)])
def test_first_bits_decide_gaps_exactly(epsilon: Fraction, gap: int) -> None:
    """True below floor(2^16 e^(-ε·gap)), False above it, more bits at it: also for gaps that no table holds."""
    gaps = np.full(65536, gap, dtype=np.int64)
    floor = floor_exp(epsilon * gap, 16)
    for tie, follows in ((0, True), (255, False)):
        reached = OneSidedNoise(Scripted(ALL_FIRST_BITS, then=tie)).reaches(epsilon, gaps)
        assert reached[:floor].all()
        assert not reached[floor + 1 :].any()
        assert reached[floor] == follows


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_gap_ties_are_extended(offset: int) -> None:
    """16 bits tie, 64 more are one below, equal (then 64 more: zeros, hence below) or one above."""
    cut = floor_exp(Fraction(3), 80)
    more = ((cut + offset) & (2**64 - 1)).to_bytes(8, "little")
    entropy = Scripted((cut >> 64).to_bytes(2, "little"), more)
    assert OneSidedNoise(entropy).reaches(ONE, np.array([3])).tolist() == [offset <= 0]


def test_larger_gaps_keep_smaller_cuts() -> None:
    """The cuts of gaps are kept, and more are added as larger gaps come: each decides by its own all the same."""
    for offset in (-1, 1):
        gaps = (2, 5, 3, 9, 5, 40)
        parts = [(floor_exp(Fraction(gap, 7), 16) + offset).to_bytes(2, "little") for gap in gaps]
        noise = OneSidedNoise(Scripted(*parts))
        reached = [noise.reaches(Fraction(1, 7), np.array([gap])).item() for gap in gaps]
        assert reached == [offset < 0] * len(gaps)


def test_zero_gap_and_no_gaps() -> None:
    """Whatever the bits; and no bits are drawn for no gaps."""
    noise = OneSidedNoise(Scripted(ALL_FIRST_BITS))
    assert noise.reaches(ONE, np.zeros(65536, dtype=np.int64)).all()
    nothing = noise.reaches(ONE, np.zeros(0, dtype=np.int64))
    assert nothing.tolist() == []
    assert nothing.dtype == np.dtype(np.bool_)  # it chooses rows: a float array of none would be refused
    assert noise.geometric(ONE, 0).size == 0


def test_negative_gap_is_refused() -> None:
    """It would index a table from its end."""
    with pytest.raises(PrivacyError, match="gap is negative"):
        OneSidedNoise(SeededEntropy(1)).reaches(ONE, np.array([3, -1]))


def test_decisions_agree_with_draws() -> None:
    """P[G ≥ gap] by `geometric` equals that by `reaches`, on the same 16 first bits."""
    for gap in (1, 2, 3):
        drawn = OneSidedNoise(Scripted(ALL_FIRST_BITS, then=255)).geometric(ONE, 65536)
        reached = OneSidedNoise(Scripted(ALL_FIRST_BITS, then=255)).reaches(ONE, np.full(65536, gap))
        assert ((drawn >= gap) == reached).all()


def test_only_system_entropy_is_secure() -> None:
    """The service asks this before it starts."""
    assert OneSidedNoise(SystemEntropy()).secure
    assert not OneSidedNoise(SeededEntropy(1)).secure
    assert len(SystemEntropy().bytes(33)) == 33
    assert SystemEntropy().bytes(16) != SystemEntropy().bytes(16)  # fails with chance 2^-128


def test_seeded_entropy_is_repeatable() -> None:
    """Two sources of one seed agree at every call; a call never repeats an earlier one."""
    one, same, other = SeededEntropy(5), SeededEntropy(5), SeededEntropy(6)
    first, second = one.bytes(32), one.bytes(32)
    assert (same.bytes(32), same.bytes(32)) == (first, second)
    assert len({first, second, other.bytes(32)}) == 3
