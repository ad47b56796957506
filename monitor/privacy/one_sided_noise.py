"""One-sided geometric noise, exact: P[G = k] = (1 - e^-ε) e^(-εk), k = 0, 1, 2, … (docs/rules.md, section 2).

The method is inversion by table. Let u be a uniform real in [0, 1), of which only the first bits are drawn. G is the
number of k ≥ 1 with u < e^(-εk). The first bits of u, as an integer, are compared with floor(2^bits · e^(-εk)), which
`monitor.privacy.exact_thresholds` computes exactly. If the integer is less than the floor, u is less than e^(-εk); if
it is greater, u is greater. If they are equal, more bits of both are computed until they differ. So the distribution is
exact, however many bits are drawn first. Sixteen bits and one table look-up decide nearly all draws. The other draws
are extended to 64 bits, and by another 64 bits after each tie. The bits of u are fair and independent, so drawing them
only on demand does not change the distribution.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import InsecureNoiseError, PrivacyError
from monitor.privacy.epsilon import require_drawable
from monitor.privacy.exact_thresholds import floor_exp, floor_odds

Floor = Callable[[int], int]
"""A real number c in (0, 1), given as bits ↦ floor(2^bits · c)."""

_FIRST_BITS: Final = 16
_FIRST_CELLS: Final = 1 << _FIRST_BITS
_UNDECIDED: Final = -1

_TABLE_REACH: Final = 44
"""A table ends at K with ε·K ≥ 44, so at most one draw in e^44 ≈ 2^63 restarts."""

_COARSE: Final = Fraction(1, 32)
"""The smallest ε for which one table is enough (K ≤ 1408). Below it, the low binary digits are drawn separately."""

_MOST_RESTARTS: Final = 64
"""Only a broken source needs more restarts: with real entropy the chance is e^(-44·64) < 10^-1200 per draw."""

_DENSE_GAPS: Final = 4096  # the cuts of smaller gaps are in an array, which is indexed by the gap


class Entropy(Protocol):
    """A source of uniform, independent bytes."""

    @property
    def secure(self) -> bool:
        """Whether the bytes are unpredictable. This is required wherever answers are published."""

    def bytes(self, count: int) -> bytes:
        """Return the next `count` bytes."""


class SystemEntropy:
    """The operating system's generator."""

    secure = True

    def bytes(self, count: int) -> bytes:
        """Return the next `count` bytes of `os.urandom`."""
        return os.urandom(count)


class SeededEntropy:
    """SHAKE-256 of a seed and a counter: repeatable, therefore only for simulation and tests."""

    secure = False

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._calls = 0

    def bytes(self, count: int) -> bytes:
        """Return the next `count` bytes. The same seed and the same earlier calls give the same bytes."""
        self._calls += 1
        return hashlib.shake_256(f"{self._seed}/{self._calls}".encode()).digest(count)


class Noise(Protocol):
    """A source of noise for decisions. Tests inject an implementation that enumerates every outcome."""

    @property
    def secure(self) -> bool:
        """Whether the noise is unpredictable."""

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Draw `size` independent values of G, P[G = k] = (1 - e^-ε) e^(-εk)."""

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each gap ≥ 0, independently, whether a fresh G reaches it: True with chance e^(-ε·gap)."""


class OneSidedNoise:
    """Exact one-sided geometric noise from a source of random bytes. Caches the tables of each ε. Thread-safe.

    A draw is at most 64 · (44/ε + 2^j), where 2^j ≤ 1/(16 ε). At the smallest ε allowed, 10^-12, this fits in 63 bits
    even after any count is added. A smaller ε raises EpsilonError. If 64 draws in a row are beyond the table, the
    source is broken, and InsecureNoiseError is raised.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._laws: dict[Fraction, _Law] = {}
        self._lock = threading.Lock()

    @property
    def secure(self) -> bool:
        """Whether the source of bytes is secure, so that the noise is unpredictable."""
        return self._entropy.secure

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Draw `size` independent values of G, P[G = k] = (1 - e^-ε) e^(-εk), exactly.

        For an ε below 1/32, G = 2^j·H + Σ 2^i·B_i with independent parts: H is geometric at 2^j·ε, and B_i = 1 with
        chance y_i/(1 + y_i), y_i = e^(-2^i·ε). Proof: with q = e^-ε and g = 2^j·h + Σ 2^i·b_i,
        q^g = (q^(2^j))^h · Π y_i^(b_i). The product (1 - q)(1 + q)(1 + q²)… telescopes, so
        (1 - q)·Π (1 + y_i) = 1 - q^(2^j). Hence P[G = g] is the product
        (1 - q^(2^j)) (q^(2^j))^h · Π y_i^(b_i)/(1 + y_i) of the chances of the parts.

        Raises:
            EpsilonError: ε is below 10^-12.
            InsecureNoiseError: the source is broken.
        """
        with self._lock:
            law = self._find_law(epsilon)
            drawn = self._draw_with_restarts(law.high, size)
            drawn <<= len(law.low)
            for bit, digit in enumerate(law.low):
                drawn |= digit.count_cuts(self._entropy, size) << bit
            return drawn

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each gap, independently, whether a fresh G is at least the gap: P = e^(-ε·gap), exactly.

        Raises:
            PrivacyError: a gap is negative.
            EpsilonError: ε is below 10^-12.
        """
        with self._lock:
            law = self._find_law(epsilon)
            if gaps.size == 0:
                return np.zeros(0, dtype=np.bool_)
            if int(gaps.min()) < 0:
                raise PrivacyError("A gap is negative: expected 0 or more; pass max(threshold - count, 0).")
            cuts = law.find_cuts(gaps)
            drawn = _draw_first_bits(self._entropy, gaps.size)
            reached: NDArray[np.bool_] = drawn < cuts
            for index in np.flatnonzero(drawn == cuts).tolist():
                floor = partial(floor_exp, epsilon * int(gaps[index]))
                reached[index] = _settle(self._entropy, int(drawn[index]), _FIRST_BITS, (floor,)) == 1
            return reached

    def _find_law(self, epsilon: Fraction) -> _Law:
        law = self._laws.get(epsilon)
        if law is None:
            require_drawable(epsilon, "ε of noise")
            law = self._laws[epsilon] = _Law(epsilon)
        return law

    def _draw_with_restarts(self, table: _Table, size: int) -> NDArray[np.int64]:
        """Draw from the whole distribution. It is memoryless, so a draw beyond the table's end K is K plus another."""
        drawn = table.count_cuts(self._entropy, size)
        beyond = np.flatnonzero(drawn == table.length)
        for _ in range(_MOST_RESTARTS):
            if beyond.size == 0:
                return drawn
            more = table.count_cuts(self._entropy, beyond.size)
            drawn[beyond] += more
            beyond = beyond[more == table.length]
        raise InsecureNoiseError(
            f"The entropy source gave {_MOST_RESTARTS} draws in a row that each have a chance below 10^-19: expected "
            "uniform bytes; use the operating system's generator, and check the one of this machine."
        )


class _Law:
    """The tables of one ε: one for the high part, one for each low binary digit, and the cuts by gap."""

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

    def find_cuts(self, gaps: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return floor(2^16 · e^(-ε·gap)) for each gap. Few different gaps (T - count) occur, so cuts are cached."""
        largest = int(gaps.max())
        if largest >= _DENSE_GAPS:
            distinct, indexes = np.unique(gaps, return_inverse=True)
            return self._compute_cuts(distinct.tolist())[indexes]
        if largest >= self._dense.size:
            self._dense = np.concatenate([self._dense, self._compute_cuts(range(self._dense.size, largest + 1))])
        return self._dense[gaps]

    def _compute_cuts(self, gaps: Sequence[int]) -> NDArray[np.uint32]:
        return np.array([floor_exp(self._epsilon * gap, _FIRST_BITS) for gap in gaps], dtype=np.uint32)


class _Table:
    """Decreasing cuts c_1 > c_2 > … > c_K in (0, 1). A draw is the number of cuts above a fresh uniform u."""

    def __init__(self, floors: Sequence[Floor]) -> None:
        self.length = len(floors)
        self._floors = tuple(floors)
        descending = [floor(64) for floor in self._floors]
        self._ascending = np.array(descending[::-1], dtype=np.uint64)
        cells = np.array([cut >> (64 - _FIRST_BITS) for cut in descending[::-1]], dtype=np.int64)
        firsts = np.arange(_FIRST_CELLS)
        counts = (self.length - np.searchsorted(cells, firsts, side="right")).astype(np.int16)
        counts[cells] = _UNDECIDED  # the cell contains a cut, so 16 bits do not decide
        self._first_level = counts

    def count_cuts(self, entropy: Entropy, size: int) -> NDArray[np.int64]:
        """Draw `size` fresh uniforms, and return for each the number of cuts above it, 0 to `length`."""
        first = _draw_first_bits(entropy, size)
        counts = self._first_level[first].astype(np.int64)
        undecided = np.flatnonzero(counts == _UNDECIDED)
        if undecided.size:
            counts[undecided] = self._count_by_64_bits(entropy, first[undecided])
        return counts

    def _count_by_64_bits(self, entropy: Entropy, first: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Return the number of cuts above each uniform, given its first 16 bits, by extending it to 64 bits."""
        more = np.frombuffer(entropy.bytes(8 * first.size), dtype="<u8").astype(np.uint64)
        drawn = (first.astype(np.uint64) << np.uint64(64 - _FIRST_BITS)) | (more >> np.uint64(_FIRST_BITS))
        below = self.length - np.searchsorted(self._ascending, drawn, side="right")
        below_or_tied = self.length - np.searchsorted(self._ascending, drawn, side="left")
        for index in np.flatnonzero(below != below_or_tied).tolist():
            below[index] = _settle(entropy, int(drawn[index]), 64, self._floors)
        return below


def _draw_first_bits(entropy: Entropy, size: int) -> NDArray[np.uint16]:
    return np.frombuffer(entropy.bytes(size * _FIRST_BITS // 8), dtype="<u2")


def _settle(entropy: Entropy, drawn: int, bits: int, floors: Sequence[Floor]) -> int:
    """Return the number of cuts above a uniform, given its first `bits` bits. Add bits until no tie is left."""
    while True:
        cuts = [floor(bits) for floor in floors]
        if drawn not in cuts:
            return sum(drawn < cut for cut in cuts)
        drawn = drawn << 64 | int.from_bytes(entropy.bytes(8), "little")
        bits += 64
