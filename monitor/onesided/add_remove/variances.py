"""Where subsampling beats two-sided noise: the exercise that [OSN] leaves to the reader. For display (binary floats).

Both publish a count of n records with ε under addition and removal. Let E = e^ε.

* Subsampled ([OSN], Equation 3): z = Binomial(n, p) + noise, p = 1 - 1/E. The unbiased estimate is (z - mean)/p.
* Two-sided: n + noise, which is unbiased.

**In integers.** The noise of z has the ratio 1/(1 + E), the mean 1/E and the variance (1 + E)/E². So the estimate has
the variance n(1 - p)/p + (1 + E)/(E²p²) = (n(E - 1) + E + 1)/(E - 1)². Two-sided geometric noise has 2E/(E - 1)². The
difference is (n - 1)/(E - 1). So the subsampled estimate has the smaller variance only for n = 0, the same for n = 1,
and a greater one for n ≥ 2, at every ε.

**With real-valued noise.** The variances are n/(E - 1) + (λ/p)², λ = 1/ln(1 + E), and 2/ε². The subsampled estimate is
better if and only if n < (E - 1)(2/ε² - (λ/p)²) (`break_even`). For small ε, λ/p is near 1/(ε ln 2), whose square is
2.08/ε², so the bound is negative. It is above 0 from ε = 0.092 (`least_epsilon`), above 1 from ε = 1.19, above 10 from
ε = 5.84, and grows as e^ε/ε². It gains nothing over integer noise: for large ε, real-valued Laplace noise is far
from the best noise for counts.

**The published number itself**, which estimates p·n, has the variance n(1 - p)p + λ². It is below 2/ε² for n up to
about 2/ε³ for small ε (`raw_break_even`). But its bias is n/E.

A smaller p never helps: with the noise that Theorem 6 then allows, r = p/(p + E - 1), both terms of the variance fall
as p rises to 1 - 1/E.

docs/literature.md defines [OSN].
"""

from __future__ import annotations

import math
from typing import Final

from monitor.errors import EpsilonError
from monitor.onesided.add_remove.subsampling import require_records

_BISECTIONS: Final = 200


def two_sided_variance(epsilon: float) -> float:
    """Return 2E/(E - 1)², the variance of two-sided geometric noise. Raise EpsilonError if ε is not above 0."""
    _require_positive(epsilon)
    return 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def laplace_variance(epsilon: float) -> float:
    """Return 2/ε², the variance of Laplace noise for a count. Raise EpsilonError if ε is not above 0."""
    _require_positive(epsilon)
    return 2 / epsilon**2


def subsampled_estimate(epsilon: float, published: int) -> float:
    """Return the unbiased estimate of n from the number that `SubsampledCount` publishes: (z - 1/E)/(1 - 1/E).

    Raise EpsilonError if ε is not above 0.
    """
    _require_positive(epsilon)
    return (published - math.exp(-epsilon)) / -math.expm1(-epsilon)


def subsampled_variance(epsilon: float, records: int) -> float:
    """Return the variance of `subsampled_estimate` for n records: (n(E - 1) + E + 1)/(E - 1)².

    Raise EpsilonError if ε is not above 0, CountsError if n is negative.
    """
    _require_positive(epsilon)
    require_records(records)
    return two_sided_variance(epsilon) + (records - 1) / math.expm1(epsilon)


def subsampled_variance_continuous(epsilon: float, records: int) -> float:
    """Return the variance of the unbiased estimate with exponential noise: n/(E - 1) + (λ/p)².

    Raise EpsilonError if ε is not above 0, CountsError if n is negative.
    """
    _require_positive(epsilon)
    require_records(records)
    return records / math.expm1(epsilon) + (sampling_noise_mean(epsilon) / -math.expm1(-epsilon)) ** 2


def sampling_noise_mean(epsilon: float) -> float:
    """Return λ = 1/ln(1 + E), the mean of the exponential noise in [OSN], Equation 3."""
    return 1 / (epsilon + math.log1p(math.exp(-epsilon)))


def break_even(epsilon: float) -> float:
    """Return the n at which the subsampled estimate with exponential noise has the variance of Laplace noise.

    For smaller n, the subsampled estimate is better. The result is negative if it is better for no n.

    Raise EpsilonError if ε is not above 0.
    """
    _require_positive(epsilon)
    return math.expm1(epsilon) * (laplace_variance(epsilon) - subsampled_variance_continuous(epsilon, 0))


def raw_break_even(epsilon: float) -> float:
    """Return the n below which the published number has a variance below 2/ε². Its bias n/E is not included.

    Raise EpsilonError if ε is not above 0.
    """
    _require_positive(epsilon)
    kept = -math.expm1(-epsilon)
    return (laplace_variance(epsilon) - sampling_noise_mean(epsilon) ** 2) / (kept * math.exp(-epsilon))


def least_epsilon(records: int) -> float:
    """Return the ε from which `break_even` is above n: from there the subsampled estimate is better for n records.

    Raise CountsError if n is negative.
    """
    require_records(records)
    low, high = 1e-3, 1.0
    while break_even(high) <= records:
        high *= 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if break_even(middle) <= records else (low, middle)
    return high


def _require_positive(epsilon: float) -> None:
    if not epsilon > 0:
        raise EpsilonError(f"ε is {epsilon}: expected a number above 0.")
