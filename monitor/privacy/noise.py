"""One-sided geometric noise, exact: P[G = k] = (1 - e^-ε) e^(-εk), k = 0, 1, 2, … (docs/rules.md, section 2).

Inversion by table. A uniform real u in [0, 1) is known by its first bits; G is the number of k ≥ 1 with
u < e^(-εk). The first bits of u, as an integer, are compared with floor(2^bits · e^(-εk)), computed exactly
(`monitor.privacy.exact`): less than the floor means below, more means above, and a tie is extended by more bits of both
until it is decided. So the law is exact, however many bits come first. Sixteen bits decide nearly all draws by one
look-up; the few others get 64, and ties beyond that 64 more at a time. (The bits of u are fair and independent, so
drawing them only when they are needed changes nothing.)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import InsecureNoiseError, PrivacyError
from monitor.privacy.epsilon import require_drawable
from monitor.privacy.exact import floor_exp, floor_odds

Floor = Callable[[int], int]
"""A real number c in (0, 1), given as bits ↦ floor(2^bits · c)."""

_FIRST_BITS: Final = 16
_FIRST_CELLS: Final = 1 << _FIRST_BITS
_UNDECIDED: Final = -1

_TABLE_REACH: Final = 44
"""A table ends at K with ε·K ≥ 44: one draw in e^44 ≈ 2^63 restarts."""

_COARSE: Final = Fraction(1, 32)
"""The smallest ε that has a table of its own (K ≤ 1408); smaller ones draw their low binary digits apart."""

_MOST_RESTARTS: Final = 64
"""True entropy gets there with a chance of e^(-44·64) < 10^-1200 a draw; a source that repeats itself does."""

_DENSE_GAPS: Final = 4096


class Entropy(Protocol):
    """A source of uniform, independent bytes."""

    @property
    def secure(self) -> bool:
        """Whether nobody can predict the bytes: needed wherever answers are published."""

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes."""


class SystemEntropy:
    """The operating system's generator."""

    secure = True

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes of `os.urandom`."""
        return os.urandom(count)


class SeededEntropy:
    """SHAKE-256 of a seed and a counter: repeatable, so for simulation and tests only."""

    secure = False

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._calls = 0

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes; the same for the same seed and the same calls before."""
        self._calls += 1
        return hashlib.shake_256(f"{self._seed}/{self._calls}".encode()).digest(count)


class Noise(Protocol):
    """What the decisions need of noise; tests inject one that enumerates every outcome."""

    @property
    def secure(self) -> bool:
        """Whether nobody can predict the noise."""

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """`size` independent draws of G, P[G = k] = (1 - e^-ε) e^(-εk)."""

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each gap ≥ 0, independently, whether a fresh G reaches it: True with chance e^(-ε·gap)."""


class OneSidedNoise:
    """Exact one-sided geometric noise from a source of bytes. For one thread; tables are kept per ε.

    A draw is at most 64 · (44/ε + 2^j), 2^j ≤ 1/(16 ε), which fits 63 bits with room for any count at the smallest ε
    allowed, 10^-12; a smaller one is refused with EpsilonError. A source that is plainly broken (every draw in a row
    beyond the table) is refused with InsecureNoiseError.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._laws: dict[Fraction, _Law] = {}

    @property
    def secure(self) -> bool:
        """Whether the source is the operating system's, so that nobody can predict the noise."""
        return self._entropy.secure

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """`size` independent draws of G, P[G = k] = (1 - e^-ε) e^(-εk), exactly.

        For an ε below 1/32, G = 2^j·H + Σ 2^i·B_i with independent parts: H geometric at 2^j·ε, and B_i = 1 with chance
        y_i/(1 + y_i), y_i = e^(-2^i·ε). Proof: with q = e^-ε and g = 2^j·h + Σ 2^i·b_i,
        q^g = (q^(2^j))^h · Π y_i^(b_i), and (1 - q)·Π (1 + y_i) = 1 - q^(2^j), as (1 - q)(1 + q)(1 + q²)… telescopes.
        So P[G = g] is the product (1 - q^(2^j)) (q^(2^j))^h · Π y_i^(b_i)/(1 + y_i) of the parts' laws.

        Raises EpsilonError for an ε below 10^-12, InsecureNoiseError for a broken source.
        """
        law = self._law(epsilon)
        drawn = self._restarted(law.high, size)
        drawn <<= len(law.low)
        for place, digit in enumerate(law.low):
            drawn |= digit.below(self._entropy, size) << place
        return drawn

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each gap, independently, whether a fresh G is at least the gap: P = e^(-ε·gap), exactly.

        `gaps` has any length and no negative entry (PrivacyError). Raises EpsilonError for an ε below 10^-12.
        """
        law = self._law(epsilon)
        if gaps.size == 0:
            return np.zeros(0, dtype=np.bool_)
        if int(gaps.min()) < 0:
            raise PrivacyError("A gap is negative: expected 0 or more; pass max(threshold - count, 0).")
        cuts = law.cuts(gaps)
        drawn = _first_bits(self._entropy, gaps.size)
        reached: NDArray[np.bool_] = drawn < cuts
        for place in np.flatnonzero(drawn == cuts).tolist():
            floor = partial(floor_exp, epsilon * int(gaps[place]))
            reached[place] = _settled(self._entropy, int(drawn[place]), _FIRST_BITS, (floor,)) == 1
        return reached

    def _law(self, epsilon: Fraction) -> _Law:
        law = self._laws.get(epsilon)
        if law is None:
            require_drawable(epsilon, "ε of noise")
            law = self._laws[epsilon] = _Law(epsilon)
        return law

    def _restarted(self, table: _Table, size: int) -> NDArray[np.int64]:
        """Draws of the whole law: one beyond the table's end K is K + a fresh draw, as the law is memoryless."""
        drawn = table.below(self._entropy, size)
        beyond = np.flatnonzero(drawn == table.length)
        for _ in range(_MOST_RESTARTS):
            if beyond.size == 0:
                return drawn
            more = table.below(self._entropy, beyond.size)
            drawn[beyond] += more
            beyond = beyond[more == table.length]
        raise InsecureNoiseError(
            f"The entropy source gave {_MOST_RESTARTS} draws in a row that each have a chance below 10^-19: expected "
            "uniform bytes; use the operating system's generator and check this machine's."
        )


class _Law:
    """What noise at one ε is drawn from: the high part's table, the low binary digits' tables, and cuts by gap."""

    def __init__(self, epsilon: Fraction) -> None:
        self._epsilon = epsilon
        self._dense = np.zeros(0, dtype=np.uint32)
        coarse = epsilon
        digits: list[_Table] = []
        while coarse < _COARSE:
            digits.append(_Table((partial(floor_odds, coarse),)))
            coarse *= 2
        self.low: tuple[_Table, ...] = tuple(digits)
        length = max(1, -(-_TABLE_REACH * coarse.denominator // coarse.numerator))
        self.high = _Table([partial(floor_exp, coarse * k) for k in range(1, length + 1)])

    def cuts(self, gaps: NDArray[np.int64]) -> NDArray[np.uint32]:
        """floor(2^16 · e^(-ε·gap)) for each gap. Gaps are few and recur (threshold minus count), so they are kept."""
        largest = int(gaps.max())
        if largest >= _DENSE_GAPS:
            distinct, places = np.unique(gaps, return_inverse=True)
            return self._cuts_of(distinct.tolist())[places]
        if largest >= self._dense.size:
            self._dense = np.concatenate([self._dense, self._cuts_of(range(self._dense.size, largest + 1))])
        return self._dense[gaps]

    def _cuts_of(self, gaps: Sequence[int]) -> NDArray[np.uint32]:
        return np.array([floor_exp(self._epsilon * gap, _FIRST_BITS) for gap in gaps], dtype=np.uint32)


class _Table:
    """Decreasing cuts c_1 > c_2 > … > c_K in (0, 1); draws how many of them lie above a fresh uniform u."""

    def __init__(self, floors: Sequence[Floor]) -> None:
        self.length = len(floors)
        self._floors = tuple(floors)
        descending = [floor(64) for floor in self._floors]
        self._ascending = np.array(descending[::-1], dtype=np.uint64)
        cells = np.array([cut >> (64 - _FIRST_BITS) for cut in descending[::-1]], dtype=np.int64)
        firsts = np.arange(_FIRST_CELLS)
        counts = (self.length - np.searchsorted(cells, firsts, side="right")).astype(np.int16)
        counts[cells] = _UNDECIDED  # a cut lies within the cell, so sixteen bits don't tell
        self._first_level = counts

    def below(self, entropy: Entropy, size: int) -> NDArray[np.int64]:
        """For `size` fresh uniforms, the number of cuts that each is below: 0 to `length`."""
        first = _first_bits(entropy, size)
        counts = self._first_level[first].astype(np.int64)
        undecided = np.flatnonzero(counts == _UNDECIDED)
        if undecided.size:
            counts[undecided] = self._by_64_bits(entropy, first[undecided])
        return counts

    def _by_64_bits(self, entropy: Entropy, first: NDArray[np.uint16]) -> NDArray[np.int64]:
        """The same for uniforms of which the first bits are known already."""
        more = np.frombuffer(entropy.bytes(8 * first.size), dtype="<u8").astype(np.uint64)
        drawn = (first.astype(np.uint64) << np.uint64(64 - _FIRST_BITS)) | (more >> np.uint64(_FIRST_BITS))
        below = self.length - np.searchsorted(self._ascending, drawn, side="right")
        below_or_tied = self.length - np.searchsorted(self._ascending, drawn, side="left")
        for place in np.flatnonzero(below != below_or_tied).tolist():
            below[place] = _settled(entropy, int(drawn[place]), 64, self._floors)
        return below


def _first_bits(entropy: Entropy, size: int) -> NDArray[np.uint16]:
    return np.frombuffer(entropy.bytes(size * _FIRST_BITS // 8), dtype="<u2")


def _settled(entropy: Entropy, drawn: int, bits: int, floors: Sequence[Floor]) -> int:
    """How many cuts a uniform is below of which `bits` bits are known: more bits of both until no tie is left."""
    while True:
        cuts = [floor(bits) for floor in floors]
        if drawn not in cuts:
            return sum(drawn < cut for cut in cuts)
        drawn = drawn << 64 | int.from_bytes(entropy.bytes(8), "little")
        bits += 64
