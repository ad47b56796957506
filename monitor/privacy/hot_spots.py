"""Hot spots: the k locations with the most people at a designated time, with their noisy counts, for a total of ε.

Algorithm 1 of the paper (report noisy max with values) draws its noise at ε/k, because all counts may change when one
person is removed. Here only one count changes: a person is at one location at a time τ, so in a P-neighbour one count
is lower by one.

Claim. With noise drawn at ε, the vector of all noisy counts f + G is (P, ε)-ADP. So are its k highest, for any k.
Proof. Let D' be D without some visits of one person. At most one of these visits covers τ, at location l. Then
f(D') = f(D), except f_l(D') ≥ f_l(D) - 1. For an outcome z of the whole vector with z_l ≥ f_l(D), the chances under D
and D' differ in one factor, (1 - q) q^(z_l - f_l), by a ratio of at most 1/q = e^ε. An outcome with z_l < f_l(D) has
chance 0 under D. The selection of the highest, with ties in registry order, uses only the noisy counts, so it is
post-processing.

A person reported at n places at τ lowers n counts and pays n·ε. docs/rules.md, section 1, states the assumption that a
person is reported at one place at a time.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.errors import PrivacyError
from monitor.privacy.one_sided_noise import Noise


def step(
    epsilon: Fraction, top: int, counts: NDArray[np.int64], noise: Noise
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw the hot spots once: return the rows of the `top` highest noisy counts, highest first, and these counts.

    `counts` (distinct people, ≥ 0) has one entry for each location, in registry order. Every location draws fresh
    noise, even at count 0. If there are fewer locations than `top`, all are returned.

    Raises:
        PrivacyError: `top` is below 1, or a count is negative.
        EpsilonError: noise cannot be drawn at this ε.
    """
    if top < 1:
        raise PrivacyError(f"top is {top} locations: expected at least 1; raise it.")
    if counts.size and int(counts.min()) < 0:
        raise PrivacyError("A count is negative: expected 0 or more distinct people at every location.")
    noisy = counts + noise.geometric(epsilon, counts.size)
    rows = np.argsort(-noisy, kind="stable")[:top]
    return rows, noisy[rows]
