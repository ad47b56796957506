"""Two-sided geometric noise, exact: P[X = k] = (1 - q)/(1 + q) · q^|k|, q = e^-ε, for all integers k.

This is the discrete Laplace distribution, the noise of ordinary differential privacy. It is the difference of two
independent one-sided geometric draws, which `monitor.privacy.one_sided_noise` draws exactly. Proof, for k ≥ 0 (k < 0
is the mirror image): P[G - G' = k] = Σ_j (1 - q) q^(j + k) · (1 - q) q^j = (1 - q)² q^k / (1 - q²)
= (1 - q)/(1 + q) · q^k.

For an integer query that changes by at most Δ in either direction, noise at ε/Δ costs ε: |k| and |k ± Δ| differ by at
most Δ, so the chances of any published number differ by at most the factor q^-Δ with q = e^(-ε/Δ), which is e^ε. For
several queries with independent noise the factors multiply, so Δ is the sum of the changes (the L1 sensitivity).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.privacy.one_sided_noise import Noise


def draw_two_sided(noise: Noise, epsilon: Fraction, size: int) -> NDArray[np.int64]:
    """Draw `size` independent integers, P[X = k] = (1 - q)/(1 + q) · q^|k| with q = e^-ε, exactly.

    A draw fits in 64 bits, because each of its two parts is below 2^63 and neither is negative.

    Raises:
        EpsilonError: ε is below 10^-12.
        InsecureNoiseError: the source of bytes is broken.
    """
    return noise.geometric(epsilon, size) - noise.geometric(epsilon, size)
