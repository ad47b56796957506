"""Subsampling is private for removal; after it, a mechanism for addition is private for both ([OSN]).

Equation 3 of [OSN] keeps each record with chance p = 1 - e^-ε and adds exponential noise with the mean 1/ln(1 + e^ε).
In integers this noise is geometric with the ratio 1/(1 + e^ε), which is the chance that a geometric draw at ε is odd:
Σ_k (1 - y) y^(2k + 1) = y/(1 + y) with y = e^-ε. So `SubsampledCount` is exact, although ln(1 + e^ε) is irrational.
docs/literature.md defines [OSN].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np

from monitor.errors import CountsError, PrivacyError
from monitor.onesided.counts import as_counts
from monitor.onesided.osdp.mechanisms import TruthfulSample
from monitor.privacy.epsilon import parse_epsilon, require_drawable
from monitor.privacy.one_sided_noise import Noise

R = TypeVar("R")

_ZERO: Final = Fraction(0)


@dataclass(frozen=True, slots=True)
class Subsample:
    """Poisson subsampling with p = 1 - e^-ε, (ε, 0)-private for removal alone ([OSN], Theorem 5).

    Proof: let x be x' with one more record r. With chance 1 - p, r is not kept, and then the sample of x has the law of
    the sample of x'. So Pr[S(x) in T] ≥ (1 - p)·Pr[S(x') in T]. For addition there is no bound: a sample with r is
    impossible under x'.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε."""
        require_drawable(parse_epsilon(self.epsilon), "ε of a sample")

    def release(self, records: Sequence[R], noise: Noise) -> list[R]:
        """Return the kept records, in the order of the input."""
        dropped = noise.reaches(self.epsilon, np.ones(len(records), np.int64))
        return [record for record, drop in zip(records, dropped.tolist(), strict=True) if not drop]


def amplify(y: Fraction, kept: Fraction, delta: Fraction = _ZERO) -> tuple[Fraction, Fraction]:
    """Return (e^-ε', δ') of a mechanism for addition at e^-ε = y and δ on a Poisson sample with chance `kept` (p).

    e^ε' = 1 + p(e^ε - 1) and δ' = p·δ ([OSN], section on subsampling). Proof: Pr[M(S(x)) in T] is p times the chance
    with the record plus 1 - p times the chance without it, and the first is at most e^ε times the second plus δ.

    Raise PrivacyError if y is not in (0, 1), or p or δ not in [0, 1].
    """
    if not 0 < y < 1 or not 0 <= kept <= 1 or not 0 <= delta <= 1:
        raise PrivacyError(
            f"y is {y}, kept is {kept}, delta is {delta}: expected y between 0 and 1, and the others from 0 to 1."
        )
    return 1 / (1 + kept * (1 / y - 1)), kept * delta


def two_sided_loss(y: Fraction, kept: Fraction, delta: Fraction = _ZERO) -> tuple[Fraction, Fraction]:
    """Return (e^-ε', δ') of M(S_p(x)) for addition and removal, if M is (ε, δ)-private for addition, y = e^-ε.

    e^ε' = max(1/(1 - p), 1 + p(e^ε - 1)) and δ' = p·δ ([OSN], Theorem 6). Proof: for removal, M is post-processing of
    the sample (Theorem 5); for addition, `amplify`. Raise PrivacyError if y is not in (0, 1), p not in [0, 1) or δ not
    in [0, 1].
    """
    if kept == 1:
        raise PrivacyError("kept is 1: expected less than 1, because without sampling nothing is private for removal.")
    amplified, other = amplify(y, kept, delta)
    return min(1 - kept, amplified), other


@dataclass(frozen=True, slots=True)
class SubsampledCount:
    """A count under ordinary differential privacy, from a sample and noise that only adds ([OSN], Equation 3).

    p = 1 - e^-ε, and the noise has the ratio r = 1/(1 + e^ε). By Theorem 6 the loss is max(1/(1 - p), 1 + p(1/r - 1)) =
    e^ε on both sides. The published number z estimates p·n + e^-ε. `monitor.onesided.add_remove.variances` has
    the unbiased estimate of n, and compares it with two-sided noise.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε."""
        require_drawable(parse_epsilon(self.epsilon), "ε of a sample")

    def release(self, count: int, noise: Noise) -> int:
        """Return the noisy number of kept records. Raise the errors of `as_counts`."""
        exact = as_counts([count])
        return int(TruthfulSample(self.epsilon).release_histogram(exact, noise)[0]) + self.draw_noise(noise)

    def draw_noise(self, noise: Noise) -> int:
        """Draw the number of odd geometric draws before the first even one: P[k] = (1 - r) r^k, r = 1/(1 + e^ε)."""
        drawn = 0
        while int(noise.geometric(self.epsilon, 1)[0]) % 2:
            drawn += 1
        return drawn


def require_records(count: int) -> None:
    """Raise CountsError if a number of records is negative."""
    if count < 0:
        raise CountsError("A number of records is negative: expected 0 or more; correct the query.")
