"""Algorithm 2: the asymmetric sparse vector technique with values ([ADP], section 5.2.2).

Queries come one after another, chosen perhaps by earlier answers. A decreasing count: z = f + G; z < T answers "below",
free and certainly true; otherwise z is published and charged. After c charged answers there are no more.

Proof (Theorem 13, as an alignment of noise). Under a P-neighbour D' give each charged answer the noise that makes the
same z, and leave the noise of "below" as it was: f only falls, so it stays below. A charged answer whose count fell by
1 is e^(ε_noise) times less likely; at most min(c, m) of them count one person if only m charged answers may, so
ε_noise = ε/min(c, m) makes e^ε at most. The number of charged answers, and so the end, is a function of the answers.

For increasing counts everything is mirrored: z = f - G; z ≥ T answers "above", free and certainly true, and z < T is
what is published and charged. ("Below" is not free there: towards D' counts rise over the threshold.)

The paper's loop ends when more than c answers are above, so it gives c + 1; here it is c. Algorithm 4 is the instance
with m = 1 and one charged answer for each location, Algorithm 3 that with c = k answers a window for those in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import BudgetError, CountsError, ExactnessError, SelectionError
from monitor.onesided.counts import as_counts
from monitor.onesided.mechanisms import Monotone
from monitor.privacy.epsilon import parse_epsilon, require_drawable
from monitor.privacy.noise import Noise

FREE: Final = None
"""The free answer: certainly below the threshold (decreasing counts), or certainly not below it (increasing ones)."""


@dataclass(frozen=True, slots=True)
class SparseVectorRule:
    """What decides the answers, all of it public: ε in all, how many are charged (c), and how many of them per person.

    `memberships` is the most charged answers that can count one person; None means all.
    """

    epsilon: Fraction
    answers: int
    memberships: int | None = None
    direction: Monotone = "decreasing"

    def __post_init__(self) -> None:
        """Raise EpsilonError or SelectionError for what the algorithm is not defined for."""
        parse_epsilon(self.epsilon)
        for name, value in (("answers", self.answers), ("memberships", self.memberships)):
            if value is not None and value < 1:
                raise SelectionError(f"{name} is {value}: expected at least 1; raise it.")
        require_drawable(self.noise_epsilon, "ε of one charged answer")

    @property
    def noise_epsilon(self) -> Fraction:
        """The ε that each answer's noise is drawn at: ε/min(c, memberships)."""
        return self.epsilon / (self.answers if self.memberships is None else min(self.answers, self.memberships))


@dataclass(frozen=True, slots=True)
class SparseVectorAnswer:
    """One answer: the noisy count if it is charged, FREE if not; and the charged answers up to now, this one included.

    `charged` is all that the next step needs to know.
    """

    noisy_count: int | None
    charged: int


def step(rule: SparseVectorRule, charged: int, threshold: int, count: int, drawn: int) -> SparseVectorAnswer:
    """Answer one query, after `charged` charged answers; `drawn` is fresh geometric noise at `rule.noise_epsilon`.

    Raises:
        BudgetError: c charged answers have been given.
        CountsError: the count or the noise is negative; the message does not say the count.
    """
    if charged >= rule.answers:
        raise BudgetError(
            rule.noise_epsilon, Fraction(0), f"All {rule.answers} charged answers have been given: ask no more queries."
        )
    if count < 0 or drawn < 0:
        raise CountsError("A count or its noise is negative: expected 0 or more; pass people and one-sided noise.")
    noisy = count + drawn if rule.direction == "decreasing" else count - drawn
    if (noisy < threshold) == (rule.direction == "decreasing"):
        return SparseVectorAnswer(FREE, charged)
    return SparseVectorAnswer(noisy, charged + 1)


def answer_all(
    rule: SparseVectorRule,
    counts: Sequence[int] | NDArray[np.int64],
    thresholds: Sequence[int] | NDArray[np.int64],
    noise: Noise,
) -> tuple[int | None, ...]:
    """Answer queries in their public order until they or the charged answers end: FREE or a noisy count for each.

    Shorter than `counts` if the c-th charged answer came before the last query. Thresholds are whole numbers.

    Raises:
        CountsError, ExactnessError: as `monitor.onesided.counts.as_counts`, or there is not one threshold for each.
    """
    exact, limits = as_counts(counts), np.asarray(thresholds)
    if limits.shape != exact.shape:
        raise CountsError(
            f"There are {exact.size} counts and {limits.size} thresholds: expected one for each; repeat a common one."
        )
    if not np.issubdtype(limits.dtype, np.integer):
        raise ExactnessError(f"Thresholds are of type {limits.dtype}: expected integers; round them up.")
    answers: list[int | None] = []
    charged = 0
    drawn = noise.geometric(rule.noise_epsilon, exact.size)
    for threshold, count, draw in zip(limits.tolist(), exact.tolist(), drawn.tolist(), strict=True):
        if charged == rule.answers:
            break
        answer = step(rule, charged, threshold, count, draw)
        charged = answer.charged
        answers.append(answer.noisy_count)
    return tuple(answers)
