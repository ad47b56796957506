"""Dwell times: the number of visits in all places together, and their mean length, by the paired mechanism.

The visits are those that cover a designated time. A person has at most m of them *for this statistic* (`per_person`),
each with a length from 0 to `longest` seconds; longer visits count as `longest`. Both bounds are public. A person's
visit at a location is one value: the longest of its reports, so repeated reports change nothing.

The noise is two-sided, and the promise is ordinary differential privacy, so nothing here is certain, and "safe" is
never derived from it (docs/rules.md, rule 14).

Claim. The two totals of one designated time cost at most ε for *any* change of one person's visits: some or all are
removed, added or replaced. Proof. `monitor.privacy.sum_and_count` shows that removing or adding all values of a person
costs the ε of its rule, which is ε/2 here. Any other change is a removal of all values and an addition of the new ones:
2·ε/2. With m = 1 this can be reached: if the first of a person's two visits is removed, the second one counts instead,
and its length may differ by `longest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from operator import itemgetter

from monitor.privacy.epsilon import parse_epsilon
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.sum_and_count import SumAndCount, SumAndCountRule

Stay = tuple[bytes, int, int]
"""A visit that covers the designated time: the person (keyed hash), the row of the location, the length in seconds."""


@dataclass(frozen=True, slots=True)
class DwellRule:
    """The public rule: ε per designated time, the longest length in seconds, and the visits per person that count."""

    epsilon: Fraction
    longest: int
    per_person: int = 1

    def __post_init__(self) -> None:
        """Raise EpsilonError, BoundsError, ExactnessError or PrivacyError if noise cannot be drawn by this rule."""
        parse_epsilon(self.epsilon)
        self.to_sum_and_count()

    def to_sum_and_count(self) -> SumAndCountRule:
        """Return the rule of the two totals. It costs ε/2 to add or remove a person."""
        return SumAndCountRule(self.epsilon / 2, 0, self.longest, self.per_person)


def step(rule: DwellRule, stays: Iterable[Stay], noise: Noise) -> SumAndCount:
    """Draw the totals of one designated time once. Input without visits is valid, and gets the same noise.

    Raises:
        ExactnessError: a length is not an integer.
    """
    return rule.to_sum_and_count().release(_group_by_person(stays), noise)


def _group_by_person(stays: Iterable[Stay]) -> Iterator[list[int]]:
    """Yield the lengths of each person's visits, by row, so that the first m depend only on that person's visits.

    Several visits at one location are one value, the longest length.
    """
    for _person, own in groupby(sorted(stays), key=itemgetter(0)):
        yield list({row: length for _, row, length in own}.values())  # sorted, so the longest is the last
