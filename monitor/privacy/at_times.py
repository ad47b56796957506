"""Algorithm 4: decide all locations at a designated time together (docs/rules.md, section 4).

Each person is at no more than one place at the designated time, so every location is decided at the full ε. A location
has at most k noisy counts for that time, each at ε/k. After the last one it is marked permanently. Every unmarked
location is evaluated at every tick.

After a noisy count, a tick counts only what was reported after the tick of the latest one. So a record is in at most
one noisy count, and pays for it once. Whether a location is marked, and where its count begins, depends only on
published numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.errors import PrivacyError
from monitor.privacy.epsilon import require_drawable
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.published_numbers import TimeNumber


@dataclass(frozen=True, slots=True)
class AtTimesRule:
    """The rule of one designated time. It is public.

    `epsilon` is ε, `threshold` a number of people (T), and `answers` the noisy counts of a location about the time (k).
    """

    epsilon: Fraction
    threshold: int
    answers: int = 1

    def __post_init__(self) -> None:
        """Raise PrivacyError if a number is below 1, EpsilonError if noise cannot be drawn at the ε of one answer."""
        if self.answers < 1:
            raise PrivacyError(f"answers_per_time is {self.answers}: expected at least 1; raise it.")
        require_drawable(self.answer_epsilon, "ε of a designated time" if self.answers == 1 else "ε of one answer")
        if self.threshold < 1:
            raise PrivacyError(f"threshold is {self.threshold} people: expected at least 1; raise it.")

    @property
    def answer_epsilon(self) -> Fraction:
        """The ε of one noisy count: its noise is drawn at ε/k, and it costs ε/k."""
        return self.epsilon / self.answers


def may_answer(rule: AtTimesRule, numbers: Sequence[TimeNumber], tick: int) -> bool:
    """Return whether the ε of a location's numbers plus that of the next one is at most ε. If not, it is marked.

    The result is False at the tick of a number and before it, because nothing was reported since.
    """
    spent = rule.answer_epsilon
    for number in numbers:
        if number.epsilon is None or number.tick >= tick:
            return False
        spent += number.epsilon
    return spent <= rule.epsilon


def find_count_start(numbers: Sequence[TimeNumber]) -> int | None:
    """Return the tick of a location's latest number; None if it has none.

    The tick that is decided then counts the people who were reported after that tick's slot, also those whom a number
    has counted by an earlier record.
    """
    return max((number.tick for number in numbers), default=None)


def step(
    rule: AtTimesRule, marked: NDArray[np.bool_], counts: NDArray[np.int64], noise: Noise
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decide one tick of one designated time: return the rows with new noisy counts, ascending, and these counts.

    `marked` (not `may_answer`) and `counts` (distinct people since `find_count_start`, ≥ 0) have one entry for each
    location, in registry order. Every unmarked location is evaluated with fresh noise, even at count 0 (docs/rules.md,
    rule 3). The results have the distribution of z = f + G, where z is published if z ≥ T. G is memoryless, so a
    published z can be drawn as max(f, T) + G' with a fresh G' (docs/proof/AtTimes.v, `draw`).

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
    noisy = unmarked[noise.reaches(rule.answer_epsilon, gaps)]
    return noisy, np.maximum(counts[noisy], rule.threshold) + noise.geometric(rule.answer_epsilon, noisy.size)
