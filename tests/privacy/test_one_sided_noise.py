"""The sampler and its law: exactly, for every value of the first bits and for forced ties, and statistically."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import EpsilonError, InsecureNoiseError, PrivacyError
from monitor.privacy.exact_thresholds import floor_exp, floor_odds
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy, SystemEntropy

pytestmark = pytest.mark.long

ONE = Fraction(1)
ALL_FIRST_BITS = np.arange(65536, dtype="<u2").tobytes()


class Scripted:
    """Entropy that returns bytes given by a test, in order, then a constant byte."""

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
    """Return the first 16 of 64 bits, as the sampler reads them."""
    return (uniform >> 48).to_bytes(2, "little")


def further_bits(uniform: int) -> bytes:
    """Return the other 48 of 64 bits, as the sampler reads them: at the upper end of 8 bytes."""
    return ((uniform & (2**48 - 1)) << 16).to_bytes(8, "little")


@pytest.mark.promise(3, 17)
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), ONE, Fraction(2), Fraction(1, 32), Fraction(7, 5)])
@pytest.mark.parametrize("filled", [0, 255])
def test_first_bits_are_inverted_exactly(epsilon: Fraction, filled: int) -> None:
    """The least and greatest 64-bit uniform of each of the 65,536 cells have the right draw; cell 0 restarts."""
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
    """One below the floor is below e^(-εk), one above is above it, and no further bits are drawn."""
    uniform = floor_exp(epsilon * k, 64) + offset
    entropy = Scripted(first_bits(uniform), further_bits(uniform))
    assert OneSidedNoise(entropy).geometric(epsilon, 1).tolist() == [k if offset < 0 else k - 1]


@pytest.mark.promise(17)
@pytest.mark.parametrize("k", [1, 7, 20])
@pytest.mark.parametrize("ties", [1, 2, 3])
@pytest.mark.parametrize("offset", [-1, 1])
def test_ties_are_extended_until_decided(k: int, ties: int, offset: int) -> None:
    """
    A uniform that agrees with e^-k in its first 64·ties bits is decided by the next bits.

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
    """At ε = 1/64, G = 2·H + B and B = 1 with chance y/(1 + y), y = e^(-1/64), also for a tie of 64 bits."""
    uniform = floor_odds(Fraction(1, 64), 128) + offset
    start, rest = uniform >> 64, uniform & (2**64 - 1)
    three = floor_exp(Fraction(3, 32), 64) - 1
    entropy = Scripted(
        first_bits(three), further_bits(three), first_bits(start), further_bits(start), rest.to_bytes(8, "little")
    )
    assert OneSidedNoise(entropy).geometric(Fraction(1, 64), 1).tolist() == [2 * 3 + (offset < 0)]


@pytest.mark.promise(17)
def test_digits_of_draws_form_the_law() -> None:
    """(1 - q) q^g is the product of the laws of the parts, in exact fractions for three digits and q = 2/3."""
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
    """Two uniforms of 0 restart twice, and then a uniform in the cell above e^-ε ends the draw."""
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
    """Of three draws (0, beyond the table, 1) only the second is drawn again."""
    below_second, below_first = (floor_exp(Fraction(k), 64) - 1 for k in (2, 1))
    entropy = Scripted(
        b"\xff\xff\x00\x00" + first_bits(below_first),
        bytes(8) + further_bits(below_first),
        first_bits(below_second),
        further_bits(below_second),
    )
    assert OneSidedNoise(entropy).geometric(ONE, 3).tolist() == [0, 44 + 2, 1]


@pytest.mark.parametrize("epsilon", [ONE, Fraction(1, 10**12), Fraction(50)])
def test_repeating_source_is_refused(epsilon: Fraction) -> None:
    """A source of zeros is refused, so it gives neither endless restarts nor a draw beyond 64 bits."""
    with pytest.raises(InsecureNoiseError, match="entropy source"):
        OneSidedNoise(Scripted()).geometric(epsilon, 1)


def test_smallest_epsilon_fits_int64() -> None:
    """At ε = 10^-12 the mean draw is 10^12; a smaller ε is refused with the smallest ε."""
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
    """Return P[χ² ≥ statistic] for an odd number of cells: e^(-x/2) Σ (x/2)^i / i!, i < dof/2."""
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
    """Return the starts of an odd number of cells of the law at ε: single values, or equal shares where it is flat."""
    if epsilon > 0.1:
        most = int(math.log(draws * (1 - math.exp(-epsilon)) / 100) / epsilon)
        return list(range(most - 1 + most % 2))
    return [math.ceil(-math.log1p(-share / 51) / epsilon) for share in range(51)]


def histogram(drawn: NDArray[np.int64], starts: list[int]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(np.array(starts), drawn, side="right") - 1, minlength=len(starts))


def chances_of(epsilon: float, starts: list[int]) -> NDArray[np.float64]:
    beyond = [math.exp(-epsilon * start) for start in starts] + [0.0]
    return -np.diff(np.array(beyond))


@pytest.mark.promise(17)
@pytest.mark.parametrize(
    "epsilon",
    [Fraction(*ratio) for ratio in ((1, 3), (1, 2), (1, 1), (2, 1), (3, 1), (1, 100), (1, 10**6), (1, 10**12))],
)
def test_million_draws_follow_the_law(epsilon: Fraction) -> None:
    """A χ² test accepts ε and rejects 1.02·ε. For a random seed it fails with chance 10^-9."""
    drawn = OneSidedNoise(SeededEntropy(11)).geometric(epsilon, 10**6)
    starts = cells_of(float(epsilon), 10**6)
    observed = histogram(drawn, starts)
    assert chi_square_chance(observed, chances_of(float(epsilon), starts)) > 1e-9
    assert chi_square_chance(observed, chances_of(float(epsilon) * 1.02, starts)) < 1e-9


def test_small_epsilon_draws_follow_the_law() -> None:
    """G mod 8 at ε = 1/50 has chances ∝ e^(-εr).

    For a random seed the test fails with chance 10^-9; residues 6 and 7 are one cell.
    """
    drawn = OneSidedNoise(SeededEntropy(12)).geometric(Fraction(1, 50), 10**6)
    chances = np.exp(-np.arange(8) / 50)
    chances /= chances.sum()
    observed = np.bincount(np.minimum(drawn & 7, 6), minlength=7)
    assert chi_square_chance(observed, np.append(chances[:6], chances[6:].sum())) > 1e-9


@pytest.mark.parametrize(("epsilon", "least", "most"), [(5, 6_238, 7_238), (8, 215, 456), (16, 0, 9), (1000, 0, 0)])
def test_large_epsilon_draws_are_mostly_zero(epsilon: int, least: int, most: int) -> None:
    """Of a million draws e^-ε are above zero: 6738, 335, 0.11 and 0 expected. The chance to fail is below 10^-8."""
    above = OneSidedNoise(SystemEntropy()).geometric(Fraction(epsilon), 10**6) > 0
    assert least <= np.count_nonzero(above) <= most


def test_epsilon_50_draws_zero() -> None:
    """All of 100,000 draws are 0; a single 1 has the chance 10^-16."""
    assert not OneSidedNoise(SystemEntropy()).geometric(Fraction(50), 100_000).any()


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), ONE, Fraction(1, 10**6), Fraction(50)])
def test_gap_is_reached_with_its_chance(epsilon: Fraction) -> None:
    """P = e^(-ε·gap) for several gaps, within 6.5 standard errors. For a random seed it fails with chance 10^-10."""
    unit = max(1, int(1 / epsilon) // 2)
    distinct = np.arange(8, dtype=np.int64) * unit
    reached = OneSidedNoise(SeededEntropy(13)).reaches(epsilon, np.tile(distinct, 100_000)).reshape(-1, 8)
    chances = np.exp(-float(epsilon) * distinct)
    errors = np.sqrt(chances * (1 - chances) / reached.shape[0])
    assert np.all(np.abs(reached.mean(axis=0) - chances) <= 6.5 * errors + 1e-12)


@pytest.mark.parametrize(("epsilon", "gap"), [(ONE, 1), (ONE, 20), (Fraction(1, 3), 5000), (Fraction(1, 10**6), 10**7)])
def test_first_bits_decide_gaps_exactly(epsilon: Fraction, gap: int) -> None:
    """A gap is reached below floor(2^16 e^(-ε·gap)) and not above it; at it more bits decide, also beyond the table."""
    gaps = np.full(65536, gap, dtype=np.int64)
    floor = floor_exp(epsilon * gap, 16)
    for tie, follows in ((0, True), (255, False)):
        reached = OneSidedNoise(Scripted(ALL_FIRST_BITS, then=tie)).reaches(epsilon, gaps)
        assert reached[:floor].all()
        assert not reached[floor + 1 :].any()
        assert reached[floor] == follows


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_gap_ties_are_extended(offset: int) -> None:
    """After a tie of 16 bits, 64 more are one below, equal (then 64 zeros, so below) or one above."""
    cut = floor_exp(Fraction(3), 80)
    more = ((cut + offset) & (2**64 - 1)).to_bytes(8, "little")
    entropy = Scripted((cut >> 64).to_bytes(2, "little"), more)
    assert OneSidedNoise(entropy).reaches(ONE, np.array([3])).tolist() == [offset <= 0]


def test_larger_gaps_keep_smaller_cuts() -> None:
    """Cuts are kept when larger gaps add more, and each gap is still decided by its own cut."""
    for offset in (-1, 1):
        gaps = (2, 5, 3, 9, 5, 40)
        parts = [(floor_exp(Fraction(gap, 7), 16) + offset).to_bytes(2, "little") for gap in gaps]
        noise = OneSidedNoise(Scripted(*parts))
        reached = [noise.reaches(Fraction(1, 7), np.array([gap])).item() for gap in gaps]
        assert reached == [offset < 0] * len(gaps)


def test_zero_gap_and_no_gaps() -> None:
    """A gap of 0 is reached for any bits, and no bits are drawn for an empty array of gaps."""
    noise = OneSidedNoise(Scripted(ALL_FIRST_BITS))
    assert noise.reaches(ONE, np.zeros(65536, dtype=np.int64)).all()
    nothing = noise.reaches(ONE, np.zeros(0, dtype=np.int64))
    assert nothing.tolist() == []
    assert nothing.dtype == np.dtype(np.bool_)  # it selects rows, so an empty float array would be refused
    assert noise.geometric(ONE, 0).size == 0


def test_negative_gap_is_refused() -> None:
    """A negative gap is refused, because it would index a table from its end."""
    with pytest.raises(PrivacyError, match="gap is negative"):
        OneSidedNoise(SeededEntropy(1)).reaches(ONE, np.array([3, -1]))


def test_decisions_agree_with_draws() -> None:
    """P[G ≥ gap] by `geometric` equals that by `reaches`, on the same 16 first bits."""
    for gap in (1, 2, 3):
        drawn = OneSidedNoise(Scripted(ALL_FIRST_BITS, then=255)).geometric(ONE, 65536)
        reached = OneSidedNoise(Scripted(ALL_FIRST_BITS, then=255)).reaches(ONE, np.full(65536, gap))
        assert ((drawn >= gap) == reached).all()


@pytest.mark.promise(17)
def test_only_system_entropy_is_secure() -> None:
    """Only the operating system's entropy is secure, which the service checks at the start."""
    assert OneSidedNoise(SystemEntropy()).secure
    assert not OneSidedNoise(SeededEntropy(1)).secure
    assert len(SystemEntropy().bytes(33)) == 33
    assert SystemEntropy().bytes(16) != SystemEntropy().bytes(16)  # fails with chance 2^-128


def test_seeded_entropy_is_repeatable() -> None:
    """Two sources with one seed agree at every call, and a call never repeats an earlier one."""
    seeded, same_seed, other_seed = SeededEntropy(5), SeededEntropy(5), SeededEntropy(6)
    first, second = seeded.bytes(32), seeded.bytes(32)
    assert (same_seed.bytes(32), same_seed.bytes(32)) == (first, second)
    assert len({first, second, other_seed.bytes(32)}) == 3
