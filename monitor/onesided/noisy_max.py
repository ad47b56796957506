"""Algorithm 1: asymmetric report noisy max with values ([ADP], section 5.2.1).

Of n decreasing counts that change by at most 1, the k with the highest noisy counts are published, with these noisy
counts, for ε in all. Every public item takes part, also those that nobody has.

Proof (Theorem 12, as an alignment of noise). Let D' be a P-neighbour of D, and z an outcome under D: items j_1 … j_k
with noisy counts z_1 ≥ … ≥ z_k. Under D' give each selected item the noise that makes the same z_i, and leave the
others' as it was: these counts, which only fall, stay where they lost, ties included, as those go by the public order.
So the outcome is the same. A selected item whose count fell needs one more noise, which is e^(ε_noise) times less
likely; the others cost nothing. At most min(k, m) selected counts fall, where one person is in at most m counts, so
ε_noise = ε/min(k, m) makes at most e^ε. Nobody in more than one (all locations at one instant): m = 1, and k is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.errors import SelectionError
from monitor.onesided.counts import as_counts
from monitor.privacy.epsilon import parse_epsilon, require_drawable
from monitor.privacy.noise import Noise


@dataclass(frozen=True, slots=True)
class NoisyMaxRule:
    """What decides the answer, all of it public: ε in all, how many items k, and in how many counts one person may be.

    `memberships` None means in any number of them: the noise is then drawn at ε/k, as in the paper.
    """

    epsilon: Fraction
    k: int
    memberships: int | None = None

    def __post_init__(self) -> None:
        """Raise EpsilonError or SelectionError for what the algorithm is not defined for."""
        parse_epsilon(self.epsilon)
        for name, value in (("k", self.k), ("memberships", self.memberships)):
            if value is not None and value < 1:
                raise SelectionError(f"{name} is {value}: expected at least 1; raise it.")
        require_drawable(self.noise_epsilon, "ε of one count's noise")

    @property
    def noise_epsilon(self) -> Fraction:
        """The ε that each count's noise is drawn at: ε/min(k, memberships)."""
        return self.epsilon / (self.k if self.memberships is None else min(self.k, self.memberships))


def select(
    rule: NoisyMaxRule, counts: Sequence[int] | NDArray[np.int64], noise: Noise
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the k items with the highest noisy counts, highest first, and these noisy counts.

    `counts` has one entry for each public item, in public order, which decides ties. A noisy count is a certain upper
    bound: f ≤ z, of those not selected f ≤ z_k.

    Raises:
        SelectionError: k is more than there are items.
        CountsError, ExactnessError: as `monitor.onesided.counts.as_counts`.
    """
    exact = as_counts(counts)
    if rule.k > exact.size:
        raise SelectionError(
            f"k is {rule.k}, but there are {exact.size} items: expected at most as many; lower k or add public items."
        )
    noisy = exact + noise.geometric(rule.noise_epsilon, exact.size)
    least = np.partition(noisy, exact.size - rule.k)[exact.size - rule.k]
    candidates = np.flatnonzero(noisy >= least)
    chosen = candidates[np.argsort(-noisy[candidates], kind="stable")[: rule.k]]
    return chosen, noisy[chosen]
