"""Validation of counts: integers, not negative, at least one. No message contains a count (docs/rules.md, rule 10)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CountsError, ExactnessError

_LARGEST = 1 << 53
"""More than any number of people. The sum with the largest draw of noise still fits in 63 bits."""


def as_counts(values: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return counts from 0 to 2^53 as a one-dimensional array of 64-bit integers.

    Raises:
        ExactnessError: the values are not integers (floats, booleans).
        CountsError: there is no count, there is more than one axis, or a count is out of range.
    """
    counts = np.asarray(values)
    if counts.ndim != 1 or counts.size == 0:
        raise CountsError(
            f"Counts have the shape {counts.shape}: expected one axis with at least one entry; pass every public item, "
            "also items with count 0."
        )
    if not np.issubdtype(counts.dtype, np.integer):
        raise ExactnessError(f"Counts are of type {counts.dtype}: expected integers; count people, without weights.")
    if int(counts.min()) < 0 or int(counts.max()) > _LARGEST:
        raise CountsError("A count is negative or above 2^53: expected a number of people; correct the query.")
    return counts.astype(np.int64)
