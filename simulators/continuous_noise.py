"""Continuous noise in binary floats, for simulation only.

NOT for publishing: floats reveal counts (Mironov), and the generators are predictable. The service uses the noise of
`monitor.privacy.one_sided_noise`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Law = Callable[[np.random.Generator, tuple[int, ...]], Floats]
"""A distribution of noise: draws independent values of a shape."""


def make_exponential(mean: float) -> Law:
    """Return one-sided exponential noise, 0 or above."""
    return lambda rng, shape: rng.exponential(mean, shape)


def make_laplace(scale: float) -> Law:
    """Return two-sided Laplace noise around 0."""
    return lambda rng, shape: rng.laplace(0.0, scale, shape)


def make_laplace_difference(query: float, threshold: float) -> Law:
    """Return Laplace noise of a query minus that of a threshold, with the scales of both."""
    return lambda rng, shape: rng.laplace(0.0, query, shape) - rng.laplace(0.0, threshold, shape)
