"""Algorithm 2: the asymmetric sparse vector technique with values (Takagi et al. [ADP], section 5.2.2).

Queries come in sequence and may depend on earlier answers. For a decreasing count, z = f + G. If z < T the answer is
"below", which is free and certainly true. Otherwise z is published and charged. After c charged answers the sequence
ends. docs/literature.md defines [ADP].

Proof (Theorem 13, as an alignment of noise). Under a P-neighbour D', give each charged answer the noise that results in
the same z, and keep the noise of each "below": f can only fall, so the answer is still "below". A charged answer whose
count fell by 1 is e^(ε_noise) times less likely. If one person is in the counts of at most m charged answers, at most
min(c, m) of them fall, so with ε_noise = ε/min(c, m) the factor is at most e^ε. The number of charged answers, and
therefore the end, is a function of the answers.

For increasing counts, everything is mirrored: z = f - G. If z ≥ T the answer is "above", which is free and certainly
true; z < T is published and charged. "Below" is not free in this case, because counts may rise to the threshold towards
D'.

The paper's loop ends when more than c answers are above, so it gives c + 1 answers; this code gives c. Algorithm 4 is
the instance with m = 1 and one charged answer per location. Algorithm 3 is the instance with c = k answers per window.
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
from monitor.privacy.one_sided_noise import Noise

FREE: Final = None
"""The free answer: certainly below the threshold (decreasing counts), or certainly not below it (increasing)."""


@dataclass(frozen=True, slots=True)
class SparseVectorRule:
    """The public rule: the total ε, the number of charged answers (c), and how many of them may count one person (m).

    `memberships` is m; None means all charged answers.
    """

    epsilon: Fraction
    answers: int
    memberships: int | None = None
    direction: Monotone = "decreasing"

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, SelectionError if a number is below 1."""
        parse_epsilon(self.epsilon)
        for name, value in (("answers", self.answers), ("memberships", self.memberships)):
            if value is not None and value < 1:
                raise SelectionError(f"{name} is {value}: expected at least 1; raise it.")
        require_drawable(self.noise_epsilon, "ε of one charged answer")

    @property
    def noise_epsilon(self) -> Fraction:
        """The ε of the noise of each answer: ε/min(c, memberships)."""
        return self.epsilon / (self.answers if self.memberships is None else min(self.answers, self.memberships))


@dataclass(frozen=True, slots=True)
class SparseVectorAnswer:
    """One answer: the noisy count if it is charged, otherwise FREE.

    `charged` is the number of charged answers so far, including this one. This is the only state that a step needs.
    """

    noisy_count: int | None
    charged: int


def step(rule: SparseVectorRule, charged: int, threshold: int, count: int, drawn: int) -> SparseVectorAnswer:
    """Answer one query, after `charged` charged answers; `drawn` is fresh geometric noise at `rule.noise_epsilon`.

    Raises:
        BudgetError: c charged answers were already given.
        CountsError: the count or the noise is negative. The message does not contain the count.
    """
    if charged >= rule.answers:
        raise BudgetError(
            rule.noise_epsilon, Fraction(0), f"All {rule.answers} charged answers have been given: stop the queries."
        )
    if count < 0 or drawn < 0:
        raise CountsError("A count or its noise is negative: expected 0 or more; pass a count and one-sided noise.")
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
    """Answer queries in their public order, each with FREE or a noisy count, up to the c-th charged answer.

    The result is shorter than `counts` if the c-th charged answer comes before the last query. Thresholds are integers.

    Raises:
        CountsError, ExactnessError: as `monitor.onesided.counts.as_counts`, or the thresholds do not match
            the counts.
    """
    exact, limits = as_counts(counts), np.asarray(thresholds)
    if limits.shape != exact.shape:
        raise CountsError(
            f"There are {exact.size} counts and {limits.size} thresholds: expected one threshold per count."
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
