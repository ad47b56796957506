"""Errors and regret, as the OSDP paper measures them ([OSDP], Theorem 5.1 and section 6; docs/literature.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulators.continuous_noise import Floats

LEAST: Final = 1.0
"""The δ of the relative error: smaller counts are compared as if they were δ."""


def relative_errors(counts: NDArray[np.int64], estimates: Floats) -> Floats:
    """Return |x_i - estimate|/max(x_i, δ) for each bin. Its mean is MRE, its 95th percentile Rel95."""
    return np.abs(counts - estimates) / np.maximum(counts, LEAST)


def regret(errors: Mapping[str, float]) -> dict[str, float]:
    """Return each algorithm's error divided by the least error of all. If the least is 0, others are infinite."""
    least = min(errors.values())
    return {name: 1.0 if error == least else (error / least if least else math.inf) for name, error in errors.items()}


def sample_is_worse(records: int, bins: int, epsilon: float) -> bool:
    """Return whether n·ε > 2d·e^ε ([OSDP], Theorem 5.1).

    Then OsdpRR has a greater expected L1 error than the Laplace mechanism, even if all records are non-sensitive: it
    drops n·e^-ε records, and the Laplace mechanism's error is 2d/ε.
    """
    return records * epsilon > 2 * bins * math.exp(epsilon)
