"""Lower bounds: at least how many people were at each location at a designated time (docs/rules.md, rule 13).

The bound of a location is max(n - G, 0). Here n is the number of distinct people with a visit *with consent* there at
τ, and G is fresh one-sided geometric noise at ε_c. This is OsdpLaplace ([OSDP], Definition 5.2; keys as in
docs/literature.md) in exact integers. G is never negative, so the bound is at most n, which is at most the number f of
all people there.

Claim 1: the bounds do not reveal that a person did not consent. Let a visit be sensitive if it has no consent. Then the
bounds of one τ are (P, ε_c)-OSDP ([OSDP], Definition 3.3), so the odds that a visit has no consent, against any other
visit that it might have been, rise by a factor of at most e^ε_c (freedom from exclusion attacks, Theorem 3.1).
Proof. A visit without consent is in no n. Any visit that replaces it raises at most one n, by at most 1. Let q =
e^(-ε_c). For v ≥ 1, Pr[max(n - G, 0) = v] is (1 - q)·q^(n - v) if v ≤ n, else 0. Pr[max(n - G, 0) = 0] is q^n. With
n + 1 in place of n, each positive chance is multiplied by q. So the ratio of D to D' is 1/q = e^ε_c where an outcome is
possible under D, and 0 for the outcome n + 1. The noise of the locations is independent, and only one n has changed.

Claim 2: composition with noisy counts. A *consent neighbour* D' of D is D in which some visits without consent of one
person have been removed, and others have been given consent. At each time and location, the noisy counts (ε) depend
only on f, and the bound (ε_c) only on n. Their noise is independent. f falls by at most 1 at each tick and never rises,
and n rises by at most 1 and never falls. So the loss is at most ε + ε_c. If the person has one visit there, it is at
most max(ε, ε_c): a removed visit changes f only, and a visit that gets consent changes n only. With two visits the sum
is reached: the earlier one is removed, which lowers f until the other is reported, and the other gets consent.

What does not hold:

* A visit *with* consent is not protected in the bounds. Without it n falls by 1, so the bound n becomes impossible: the
  loss is unbounded. The person agreed to this publication. In the noisy counts the visit pays ε like any other.
* OSDP lets any visit replace a sensitive one, also at another location. The noisy counts do not satisfy this: a visit
  elsewhere raises another f, and absence is not protected (docs/rules.md, section 1). So the joint promise is about
  consent neighbours.
* An exact n would be the algorithm Suppress of [OSDP], section 3.4: its loss is unbounded.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.errors import PrivacyError
from monitor.privacy.one_sided_noise import Noise


def step(epsilon: Fraction, counts: NDArray[np.int64], noise: Noise) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw the lower bounds once: return the rows with a bound of at least 1, ascending, and these bounds.

    `counts` (distinct people who consented, ≥ 0) has one entry for each location, in registry order. Every location
    draws fresh noise, even at count 0 (docs/rules.md, rule 3). A bound of 0 has no information and is left out.

    Raises:
        PrivacyError: a count is negative.
        EpsilonError: noise cannot be drawn at this ε.
    """
    if counts.size and int(counts.min()) < 0:
        raise PrivacyError("A count is negative: expected 0 or more distinct people at every location.")
    bounds = counts - noise.geometric(epsilon, counts.size)
    rows = np.flatnonzero(bounds >= 1)
    return rows, bounds[rows]
