"""Exact laws of the OSDP mechanisms at a rational q = e^-ε, from the real code and every outcome of the noise."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from monitor.onesided.osdp.exclusion import Law
from monitor.onesided.osdp.mechanisms import OneSidedHistogram, TruthfulSample
from monitor.onesided.osdp.policies import OneSidedPolicy, Record, Records

ONE = Fraction(1)
HALF = Fraction(1, 2)
LOWEST = -2
"""Counts below this are not enumerated. All counts from here up have their exact chance."""


class Decided:
    """Noise that a test has chosen: the answers of `reaches`, or the draws of `geometric`."""

    secure = False

    def __init__(self, chosen: tuple[int, ...]) -> None:
        self._chosen = np.array(chosen, dtype=np.int64)

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        assert (epsilon, size) == (ONE, self._chosen.size)
        return self._chosen

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert (epsilon, gaps.tolist()) == (ONE, [1] * self._chosen.size)
        return self._chosen.astype(np.bool_)


def add(law: dict[Hashable, Fraction], outcome: Hashable, chance: Fraction) -> None:
    law[outcome] = law.get(outcome, Fraction(0)) + chance


def sample_law(policy: OneSidedPolicy, q: Fraction) -> Callable[[Records], Law]:
    """Return the law of OsdpRR: each record is dropped with chance q."""

    def law_of(dataset: Records) -> Law:
        law: dict[Hashable, Fraction] = {}
        for dropped in product((0, 1), repeat=len(dataset)):
            chance = q ** sum(dropped) * (1 - q) ** (len(dropped) - sum(dropped))
            add(law, tuple(TruthfulSample(ONE).release(dataset, policy, Decided(dropped))), chance)
        return law

    return law_of


def count_non_sensitive(policy: OneSidedPolicy, dataset: Records, bins: tuple[Record, ...]) -> tuple[int, ...]:
    return tuple(sum(record == each and policy(record) == 1 for record in dataset) for each in bins)


def histogram_law(policy: OneSidedPolicy, q: Fraction, bins: tuple[Record, ...]) -> Callable[[Records], Law]:
    """Return the law of OsdpLaplace in integers, for outcomes of which no count is below LOWEST."""

    def law_of(dataset: Records) -> Law:
        counts = count_non_sensitive(policy, dataset, bins)
        law: dict[Hashable, Fraction] = {}
        for drawn in product(*(range(count - LOWEST + 1) for count in counts)):
            chance = (1 - q) ** len(drawn) * q ** sum(drawn)
            add(law, tuple(OneSidedHistogram(ONE).release(counts, Decided(drawn)).tolist()), chance)
        return law

    return law_of


def two_sided_law(counts: tuple[int, ...], q: Fraction) -> Law:
    """Return the law of counts with two-sided noise at q, for published counts of LOWEST to 4."""
    window = range(LOWEST, 5)
    law: dict[Hashable, Fraction] = {}
    for outcome in product(window, repeat=len(counts)):
        chance = ONE
        for published, count in zip(outcome, counts, strict=True):
            chance *= (1 - q) / (1 + q) * q ** abs(published - count)
        law[outcome] = chance
    return law


def suppress_law(policy: OneSidedPolicy, q: Fraction | None, bins: tuple[Record, ...]) -> Callable[[Records], Law]:
    """Return the law of Suppress with q = e^-τ, or without noise (None)."""

    def law_of(dataset: Records) -> Law:
        counts = count_non_sensitive(policy, dataset, bins)
        return {counts: ONE} if q is None else two_sided_law(counts, q)

    return law_of


def joint_law(*laws_of: Callable[[Records], Law]) -> Callable[[Records], Law]:
    """Return the law of several mechanisms with independent noise on the same data."""

    def law_of(dataset: Records) -> Law:
        law: dict[Hashable, Fraction] = {}
        for outcomes in product(*(each(dataset).items() for each in laws_of)):
            chance = ONE
            for _, part in outcomes:
                chance *= part
            add(law, tuple(outcome for outcome, _ in outcomes), chance)
        return law

    return law_of
