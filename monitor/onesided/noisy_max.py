"""Algorithm 1: asymmetric report noisy max with values (Takagi et al. [ADP], section 5.2.1; docs/literature.md).

Of n decreasing counts that change by at most 1, the k highest noisy counts are published with their items, for a total
of ε. Every public item takes part, even with count 0.

Proof (Theorem 12, as an alignment of noise). Let D' be a P-neighbour of D, and z an outcome under D: items j_1 … j_k
with noisy counts z_1 ≥ … ≥ z_k. Under D', give each selected item the noise that results in the same z_i, and keep the
noise of the others. The other counts can only fall, so they are still not selected. This includes ties, which the
public order decides. So the outcome is the same. A selected item whose count fell by 1 needs noise greater by 1, which
is e^(ε_noise) times less likely; the other items cost nothing. If one person is in at most m counts, at most min(k, m)
selected counts fall, so with ε_noise = ε/min(k, m) the factor is at most e^ε. If the counts are of all locations at one
instant, m = 1, so the cost does not depend on k.
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
from monitor.privacy.one_sided_noise import Noise


@dataclass(frozen=True, slots=True)
class NoisyMaxRule:
    """The public rule: the total ε, the number of items k, and in how many counts one person may be.

    If `memberships` is None, a person may be in any number of counts, and the noise is drawn at ε/k, as in the paper.
    """

    epsilon: Fraction
    k: int
    memberships: int | None = None

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, SelectionError if a number is below 1."""
        parse_epsilon(self.epsilon)
        for name, value in (("k", self.k), ("memberships", self.memberships)):
            if value is not None and value < 1:
                raise SelectionError(f"{name} is {value}: expected at least 1; raise it.")
        require_drawable(self.noise_epsilon, "ε of one count's noise")

    @property
    def noise_epsilon(self) -> Fraction:
        """The ε of the noise of each count: ε/min(k, memberships)."""
        return self.epsilon / (self.k if self.memberships is None else min(self.k, self.memberships))


def select(
    rule: NoisyMaxRule, counts: Sequence[int] | NDArray[np.int64], noise: Noise
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the k items with the highest noisy counts, highest first, and these noisy counts.

    `counts` has one entry for each public item. Their public order decides ties. A noisy count is a certain upper
    bound: f ≤ z, and f ≤ z_k for the items that are not selected.

    Raises:
        SelectionError: k is greater than the number of items.
        CountsError, ExactnessError: as `monitor.onesided.counts.as_counts`.
    """
    exact = as_counts(counts)
    if rule.k > exact.size:
        raise SelectionError(
            f"k is {rule.k}, but there are {exact.size} items: expected no more than that; lower k or add public items."
        )
    noisy = exact + noise.geometric(rule.noise_epsilon, exact.size)
    least = np.partition(noisy, exact.size - rule.k)[exact.size - rule.k]
    candidates = np.flatnonzero(noisy >= least)
    chosen = candidates[np.argsort(-noisy[candidates], kind="stable")[: rule.k]]
    return chosen, noisy[chosen]
