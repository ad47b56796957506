"""Random numbers as a function of person, day and purpose, so that any day of any person can be recomputed.

This is a counter-based generator: the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
number generators", 2014) is applied to the person's key plus a salt for the day and the purpose. It is for simulated
people only: the numbers are predictable.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Indices = NDArray[np.int32]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

LIFE: Final = -1
"""The `day` of numbers that a person keeps for life."""

_GOLDEN: Final = 0x9E3779B97F4A7C15
_WORD: Final = 2**64
_STREAMS: Final = 1024
_QUANTILE_BITS: Final = 12


def derive_keys(seed: int, domain: int, indices: Ints) -> Keys:
    """Return one key per index. Keys of different domains (people, households, places) are unrelated."""
    base = int(_mix(np.array([(seed * _GOLDEN + domain) % _WORD], np.uint64))[0])
    return _mix(indices.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(base))


def draw_uniform(keys: Keys, day: int, stream: int) -> Floats:
    """Return uniform numbers in [0, 1), one per key, independent across days and streams (0 ≤ stream < 1024)."""
    return (_draw_bits(keys, day, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def draw_normal(keys: Keys, day: int, stream: int) -> Floats:
    """Return standard normal numbers (4,096 quantiles, |z| < 3.7), one per key."""
    drawn: Floats = _compute_quantiles()[_draw_bits(keys, day, stream) >> np.uint64(64 - _QUANTILE_BITS)]
    return drawn


def _draw_bits(keys: Keys, day: int, stream: int) -> Keys:
    salt = ((day + 1) * _STREAMS + stream + 1) * _GOLDEN % _WORD
    return _mix(keys + np.uint64(salt))


def _mix(words: Keys) -> Keys:
    """Apply the finalizer of SplitMix64 in place."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


@cache
def _compute_quantiles() -> Floats:
    law = NormalDist()
    cells = 2**_QUANTILE_BITS
    return np.array([law.inv_cdf((cell + 0.5) / cells) for cell in range(cells)], np.float64)
