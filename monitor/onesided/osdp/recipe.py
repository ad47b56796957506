"""The recipes that turn a two-phase DP algorithm into an OSDP one: DAWAz, and the naive extension of DAWA.

DAWAz is Algorithm 3 of [OSDP], section 5.2. `NaiveDawa` is described in the same section.

A share ρ of ε publishes a histogram of the non-sensitive records with an OSDP primitive; its empty bins are Z. The rest
of ε runs a DP algorithm that partitions the bins and publishes totals. Then the bins of Z become 0, and the total of
each bucket is shared by its other bins.

Proof ([OSDP], Theorem 5.3): the first step is (P, ρ·ε)-OSDP, the second is (1 - ρ)·ε-DP for replaced records and so
(P, (1 - ρ)·ε)-OSDP; the sum is (P, ε)-OSDP (`monitor.onesided.osdp.composition`), and the rest is
post-processing.

The paper prints the factor |B|/|Z ∩ B| for the remaining bins. It must be |B|/(|B| - |Z ∩ B|), so that the bucket keeps
its total (docs/osdp.md). docs/literature.md defines [OSDP].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CountsError
from monitor.onesided.counts import as_counts
from monitor.onesided.osdp.dawa import Buckets, Dawa, measure_costs, require_share, sum_buckets
from monitor.onesided.osdp.mechanisms import Counts, OneSidedHistogram, TruthfulSample
from monitor.privacy.epsilon import parse_epsilon
from monitor.privacy.one_sided_noise import Noise

Primitive = Callable[[Fraction, NDArray[np.int64], Noise], NDArray[np.int64]]
"""A function that returns an OSDP histogram of the non-sensitive records at an ε."""

TwoPhase = Callable[[Fraction, NDArray[np.int64], Noise], Buckets]
"""A function that returns a DP histogram in buckets, for replaced records, at an ε."""


def sample_histogram(epsilon: Fraction, non_sensitive: NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
    """Return the histogram of OsdpRR, the primitive that the paper uses for DAWAz."""
    return TruthfulSample(epsilon).release_histogram(non_sensitive, noise)


def run_dawa(epsilon: Fraction, counts: NDArray[np.int64], noise: Noise) -> Buckets:
    """Return the buckets of DAWA for replaced records."""
    return Dawa(epsilon).release(counts, noise)


@dataclass(frozen=True, slots=True)
class ZeroAware:
    """The public rule: the total ε, the share ρ of the OSDP primitive, and both algorithms. The default is DAWAz."""

    epsilon: Fraction
    share: Fraction = Fraction(1, 10)
    primitive: Primitive = sample_histogram
    algorithm: TwoPhase = run_dawa

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, ExactnessError or PrivacyError for a bad share."""
        parse_epsilon(self.epsilon)
        require_share("share", self.share)

    def release(self, counts: Counts, non_sensitive: Counts, noise: Noise) -> tuple[Fraction, ...]:
        """Return an estimate for each bin from the counts of all records and of the non-sensitive records.

        Raises:
            CountsError: the histograms differ in length, or a bin has more non-sensitive records than records.
            ExactnessError: as `monitor.onesided.counts.as_counts`.
        """
        exact, open_counts = as_counts(counts), as_counts(non_sensitive)
        if exact.shape != open_counts.shape or bool((open_counts > exact).any()):
            raise CountsError(
                f"The histograms have {exact.size} and {open_counts.size} bins, or a bin has more non-sensitive "
                "records than records: expected the same bins, and the non-sensitive records among all records."
            )
        published = self.primitive(self.epsilon * self.share, open_counts, noise)
        buckets = self.algorithm(self.epsilon * (1 - self.share), exact, noise)
        return buckets.estimate(published <= 0)


@dataclass(frozen=True, slots=True)
class NaiveDawa:
    """DAWA on the non-sensitive records, with noise that only subtracts on its totals ([OSDP], section 5.2).

    ε is the total, and `partition_share` the share of ε1. The error is large if the non-sensitive records are unlike
    all records.

    Proof. Towards a one-sided neighbour, at most one count of non-sensitive records rises, by 1, and none falls
    (`OneSidedHistogram`). So the partition costs ε1 with the noise of `Dawa` for an added record, at most one total
    rises, by 1, and noise that only subtracts costs ε2.
    """

    epsilon: Fraction
    partition_share: Fraction = Fraction(1, 4)

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, ExactnessError or PrivacyError for a bad share."""
        self._make_dawa()

    def release(self, non_sensitive: Counts, noise: Noise) -> Buckets:
        """Return a private partition with noisy totals, which may be negative. Raise the errors of `Dawa.release`."""
        exact, dawa = as_counts(non_sensitive), self._make_dawa()
        lengths = dawa.choose(measure_costs(exact), exact.size, noise)
        totals = OneSidedHistogram(dawa.total_epsilon).release(sum_buckets(exact, lengths), noise)
        return Buckets(lengths, tuple(totals.tolist()))

    def _make_dawa(self) -> Dawa:
        return Dawa(self.epsilon, self.partition_share, "added or removed")
