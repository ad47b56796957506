"""Algorithm 4: decide all locations at a designated time together (docs/rules.md, section 4).

Each person is at no more than one place at the designated time, so every location is decided at the full ε. A noisy
count permanently marks its location for that time. Every unmarked location is evaluated at every tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.errors import PrivacyError
from monitor.privacy.epsilon import require_drawable
from monitor.privacy.noise import Noise


@dataclass(frozen=True, slots=True)
class AtTimesRule:
    """The rule of one designated time: its ε and the threshold T (people). Both are public."""

    epsilon: Fraction
    threshold: int

    def __post_init__(self) -> None:
        """Raise PrivacyError if the threshold is below 1, EpsilonError if noise cannot be drawn at ε."""
        require_drawable(self.epsilon, "ε of a designated time")
        if self.threshold < 1:
            raise PrivacyError(f"threshold is {self.threshold} people: expected at least 1; raise it.")


def step(
    rule: AtTimesRule, marked: NDArray[np.bool_], counts: NDArray[np.int64], noise: Noise
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decide one tick of one designated time: return the rows with new noisy counts, ascending, and these counts.

    `marked` and `counts` (distinct people, ≥ 0) have one entry for each location, in registry order. Every unmarked
    location is evaluated with fresh noise, even at count 0 (docs/rules.md, rule 3). The results have the distribution
    of z = f + G, where z is published if z ≥ T. G is memoryless, so a published z can be drawn as max(f, T) + G' with a
    fresh G' (docs/proof/AtTimes.v, `draw`).

    Raises:
        PrivacyError: the arrays differ in shape, or a count is negative.
    """
    if marked.shape != counts.shape or counts.ndim != 1:
        raise PrivacyError(
            f"marked has shape {marked.shape} and counts {counts.shape}: expected one entry for each location in both."
        )
    if counts.size and int(counts.min()) < 0:
        raise PrivacyError("A count is negative: expected 0 or more distinct people at every location.")
    unmarked = np.flatnonzero(~marked)
    gaps = np.maximum(rule.threshold - counts[unmarked], 0)
    noisy = unmarked[noise.reaches(rule.epsilon, gaps)]
    return noisy, np.maximum(counts[noisy], rule.threshold) + noise.geometric(rule.epsilon, noisy.size)
