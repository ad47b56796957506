"""OsdpRR, OsdpLaplace, OsdpLaplaceL1 and the hybrid in exact integers, and Suppress ([OSDP], sections 3.4, 4 to 6).

Real-valued noise is replaced by geometric noise: the floats that can occur as a sum would reveal the count ([Mironov]).
docs/literature.md defines [OSDP] and [Mironov].

These mechanisms accept input in which all records or no records are sensitive: an error would reveal this. A policy
under which all or none of the *possible* records are sensitive is refused when it is created.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CountsError
from monitor.onesided.counts import as_counts
from monitor.onesided.estimates import margin
from monitor.privacy.epsilon import parse_epsilon, require_drawable
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.two_sided_noise import draw_two_sided

R = TypeVar("R", bound=Hashable)
Counts = Sequence[int] | NDArray[np.int64]

_HALF = Fraction(1, 2)
_AT_ONCE = 1 << 20
"""Decisions per draw, which bounds the memory for histograms of many millions of records."""


@dataclass(frozen=True, slots=True)
class TruthfulSample:
    """OsdpRR: each non-sensitive record is published with chance 1 - e^-ε, a sensitive one never ([OSDP], Algorithm 1).

    Proof ([OSDP], Theorem 4.1). Records are treated independently, so consider the one that differs. A sensitive record
    is never published. Its replacement is not published either with chance 1 (if it is sensitive) or e^-ε, so "not
    published" is at most e^ε times as likely with the sensitive record.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε."""
        require_drawable(parse_epsilon(self.epsilon), "ε of a sample")

    def release(self, records: Sequence[R], policy: Callable[[R], int], noise: Noise) -> list[R]:
        """Return the published records, in the order of the input. `policy` returns 0 for a sensitive record."""
        dropped = noise.reaches(self.epsilon, np.ones(len(records), np.int64))
        return [r for r, drop in zip(records, dropped.tolist(), strict=True) if policy(r) == 1 and not drop]

    def release_histogram(self, non_sensitive: Counts, noise: Noise) -> NDArray[np.int64]:
        """Return the histogram of the published records, given that of the non-sensitive records.

        The counts are not divided by 1 - e^-ε. Raise the errors of `monitor.onesided.counts.as_counts`.
        """
        exact = as_counts(non_sensitive)
        return np.array([self._thin(count, noise) for count in exact.tolist()], dtype=np.int64)

    def _thin(self, count: int, noise: Noise) -> int:
        kept = 0
        for start in range(0, count, _AT_ONCE):
            size = min(_AT_ONCE, count - start)
            kept += size - int(noise.reaches(self.epsilon, np.ones(size, np.int64)).sum())
        return kept


@dataclass(frozen=True, slots=True)
class OneSidedHistogram:
    """OsdpLaplace in integers: the counts of the non-sensitive records, minus geometric noise ([OSDP], Definition 5.2).

    Proof ([OSDP], Theorem 5.2). Towards a one-sided neighbour a sensitive record becomes non-sensitive or stays
    sensitive, so at most one count rises, by 1, and none falls. Noise that only subtracts then costs ε
    (`monitor.onesided.mechanisms`, increasing counts): a published z ≤ x_i has the chance (1 - q) q^(x_i - z),
    and x_i rises by at most 1. Each published count is certainly not above the true count of all records.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε."""
        require_drawable(parse_epsilon(self.epsilon), "ε of the noise")

    def release(self, non_sensitive: Counts, noise: Noise) -> NDArray[np.int64]:
        """Return the noisy counts, which may be negative.

        Raises:
            CountsError, ExactnessError: as `monitor.onesided.counts.as_counts`.
        """
        exact = as_counts(non_sensitive)
        return exact - noise.geometric(self.epsilon, exact.size)


@dataclass(frozen=True, slots=True)
class ClampedHistogram:
    """OsdpLaplaceL1 in integers: `OneSidedHistogram`, then negative counts become 0, others rise by the median noise.

    The steps after the noise are post-processing, so the guarantee is the same ([OSDP], Algorithm 2). A bin without
    non-sensitive records is always published as 0. The median is the least m with P[G ≤ m] ≥ 1/2. Because the median is
    added back, a published count may be above the true count.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε."""
        require_drawable(parse_epsilon(self.epsilon), "ε of the noise")

    @property
    def median(self) -> int:
        """The median of the noise."""
        return margin(self.epsilon, _HALF)

    def release(self, non_sensitive: Counts, noise: Noise) -> NDArray[np.int64]:
        """Return the estimates, 0 or more. Raise the errors of `monitor.onesided.counts.as_counts`."""
        noisy = OneSidedHistogram(self.epsilon).release(non_sensitive, noise)
        return np.where(noisy > 0, noisy + self.median, 0)


@dataclass(frozen=True, slots=True)
class HybridHistogram:
    """For policies by value: two-sided noise where records are sensitive, noise that only subtracts elsewhere.

    `sensitive` marks the bins whose records are all sensitive. The other bins have no sensitive records. So all records
    are counted ([OSDP], section 6.3.3, in the results for TIPPERS). All noise is drawn at ε/2.

    Proof. Towards a one-sided neighbour a sensitive record leaves its bin, so that a count falls by 1, and a count of
    any bin rises by 1. Counts of other bins than the marked ones never fall. Two-sided noise at ε/2 costs ε/2 for each
    change by 1, and noise that only subtracts costs ε/2 for a rise by 1. The paper composes both parts in sequence: if
    each has half of ε, the noise of the marked bins is drawn at ε/4.
    """

    epsilon: Fraction
    sensitive: tuple[bool, ...]

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε."""
        require_drawable(parse_epsilon(self.epsilon) / 2, "ε of the noise")

    def release(self, counts: Counts, noise: Noise) -> NDArray[np.int64]:
        """Return the noisy counts, which may be negative.

        Raise CountsError unless each count has a mark, and the errors of `monitor.onesided.counts.as_counts`.
        """
        exact, marked = as_counts(counts), np.array(self.sensitive, np.bool_)
        if marked.shape != exact.shape:
            raise CountsError(f"{marked.size} bins are marked: expected {exact.size}, one mark for each count.")
        exact[marked] += draw_two_sided(noise, self.epsilon / 2, int(marked.sum()))
        exact[~marked] -= noise.geometric(self.epsilon / 2, int((~marked).sum()))
        return exact


@dataclass(frozen=True, slots=True)
class Suppress:
    """A counterexample: drop the sensitive records, publish the rest with two-sided noise at τ ([OSDP], section 3.4).

    `tau` is the ε of the noise of each count. An open record costs τ if it is added or removed, and 2τ if it is
    replaced by another open one. For the paper's histograms, in which records are replaced, a computation at τ is
    therefore `Suppress` at τ/2.

    The OSDP loss is exactly τ, because a sensitive record that becomes open changes one count. It is unbounded without
    noise (`tau` None): a record that is missing from the result must be sensitive, which is an exclusion attack. Do not
    publish with it unless ε = τ is meant.
    """

    tau: Fraction | None

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad τ."""
        if self.tau is not None:
            require_drawable(parse_epsilon(self.tau), "τ")

    def release(self, non_sensitive: Counts, noise: Noise) -> NDArray[np.int64]:
        """Return the noisy counts of the non-sensitive records. Raise the errors of `as_counts`."""
        exact = as_counts(non_sensitive)
        return exact if self.tau is None else exact + draw_two_sided(noise, self.tau, exact.size)
