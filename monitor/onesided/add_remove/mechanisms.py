"""Addition-only and removal-only privacy, and one-sided geometric noise for them ([OSN]; docs/literature.md).

Let x be x' with one more record. A mechanism M is (ε, δ)-private *for addition* if Pr[M(x) in T] ≤ e^ε·Pr[M(x') in T] +
δ for every set T of outcomes, and *for removal* if Pr[M(x') in T] ≤ e^ε·Pr[M(x) in T] + δ. Both together are ordinary
differential privacy under addition and removal ([OSN], Definitions 1 and 2).

Privacy for addition bounds the evidence that a person is in the data, privacy for removal the evidence that a person is
not. So the first is the direction of ADP with the policy "a record may look like no record"
(`monitor.onesided.policies`, decreasing counts), and the second the reverse (increasing counts).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from monitor.errors import PrivacyError
from monitor.onesided.mechanisms import AsymmetricGeometric
from monitor.onesided.osdp.mechanisms import Counts
from monitor.privacy.one_sided_noise import Noise

Side = Literal["addition", "removal"]


@dataclass(frozen=True, slots=True)
class OneSidedCounts:
    """Counts of records with geometric noise upwards (for addition) or downwards (for removal), (ε, 0)-private.

    Each record is in at most one of the counts, as in a histogram. Proof for addition ([OSN], Proposition 3, with the
    geometric distribution): the record's count falls by 1 from x to x', so the outcome z ≥ q(x) has the chance
    (1 - e^-ε) e^(-ε(z - q(x))) under x, and e^-ε times that under x'. For removal everything is mirrored
    (Proposition 4). The sum of both noises is two-sided noise, which is private for addition and removal.

    Unbiased forms: `monitor.onesided.estimates.unbiased` subtracts or adds the mean noise 1/(e^ε - 1), which is
    public.
    """

    epsilon: Fraction
    side: Side

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε."""
        self._make_mechanism()

    def release(self, counts: Counts, noise: Noise) -> NDArray[np.int64]:
        """Return the noisy counts; for removal they may be negative. Raise the errors of `as_counts`."""
        return self._make_mechanism().release(counts, noise)

    def release_histogram(self, counts: Counts, noise: Noise) -> NDArray[np.int64]:
        """Return noisy counts of 0 or more. For removal, a count of 0 is always published as 0.

        For addition, nearly every count of 0 is published as a positive number. Raise the errors of `as_counts`.
        """
        return np.maximum(self.release(counts, noise), 0)

    def _make_mechanism(self) -> AsymmetricGeometric:
        return AsymmetricGeometric(self.epsilon, 1, "decreasing" if self.side == "addition" else "increasing")


def removal_as_addition(q: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Return (factor, δ'): (ε, δ)-privacy for removal implies Pr[M(x) in T] ≤ factor·Pr[M(x') in T] + δ'. q is e^-ε.

    The factor is q and δ' = 1 - q + q·δ: privacy for removal is privacy for addition at -ε. Proof ([OSN]): apply the
    definition to the complement of T, so 1 - Pr[M(x') in T] ≤ (1 - Pr[M(x) in T])/q + δ, and solve for Pr[M(x) in T].
    The same holds with both directions exchanged.

    Raise PrivacyError if q is not in (0, 1] or δ not in [0, 1].
    """
    if not 0 < q <= 1 or not 0 <= delta <= 1:
        raise PrivacyError(f"q is {q}, delta is {delta}: expected q above 0 and at most 1, and delta from 0 to 1.")
    return q, 1 - q + q * delta
