"""Composition: exact sums, one policy, a budget that is never exceeded, and Theorem 6 by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import cast

import pytest

from monitor.errors import BudgetError, EpsilonError, MixedPoliciesError, PrivacyError, UnknownEventError
from monitor.onesided.composition import (
    Accountant,
    Event,
    Parallel,
    PostProcessed,
    Released,
    Repeated,
    Sequential,
)
from monitor.onesided.policies import VISITED, Policy, RecordPolicy

PLACES = RecordPolicy.uniform(VISITED, 2)
THIRD = Released(PLACES, Fraction(1, 3))
HALF = Released(PLACES, Fraction(1, 2))


def accountant(budget: Fraction = Fraction(1)) -> Accountant:
    return Accountant(PLACES, budget)


@pytest.mark.parametrize(
    ("event", "cost"),
    [
        (HALF, Fraction(1, 2)),
        (Sequential((HALF, THIRD)), Fraction(5, 6)),
        (Sequential(()), Fraction(0)),
        (Repeated(THIRD, 3), Fraction(1)),
        (Parallel((), ()), Fraction(0)),
        (PostProcessed(PostProcessed(THIRD)), Fraction(1, 3)),
        (Parallel(("wards", "offices"), (HALF, THIRD)), Fraction(1, 2)),
        (Sequential((Parallel(("a", "b"), (Repeated(THIRD, 2), HALF)), THIRD)), Fraction(1)),
    ],
)
def test_costs_are_exact(event: Event, cost: Fraction) -> None:
    """A sequence costs the sum, parallel events cost the maximum, and post-processing is free."""
    assert accountant().compose(event).spent == cost
    assert accountant().compose(event).remaining == 1 - cost


def test_budget_is_never_exceeded() -> None:
    """The error has the requested and remaining ε, the difference and the remedy; a refused event spends nothing."""
    account = accountant().compose(Repeated(THIRD, 2))
    with pytest.raises(BudgetError, match=r"requested is 1/2, remaining is 1/3: .* 1/6 less\. Request fewer") as caught:
        account.compose(HALF)
    assert (caught.value.requested, caught.value.remaining, caught.value.difference) == (
        Fraction(1, 2),
        Fraction(1, 3),
        Fraction(1, 6),
    )
    assert account.compose(THIRD).remaining == 0


def test_wider_policy_covers_narrower() -> None:
    """A differentially private event is valid under every policy, but not the reverse.

    Theorem 5(2) of [ADP] (docs/literature.md).
    """
    symmetric = RecordPolicy.uniform(Policy.symmetric((0, 1)), 2)
    assert accountant().cost(Released(symmetric, Fraction(1))) == 1
    with pytest.raises(MixedPoliciesError, match="another policy"):
        Accountant(symmetric, Fraction(1)).compose(HALF)
    with pytest.raises(MixedPoliciesError, match="same attributes"):
        Accountant(RecordPolicy.uniform(VISITED, 3), Fraction(1)).compose(Sequential((HALF,)))


def test_unknown_event_is_refused() -> None:
    """An unknown event is refused, also within a known event."""

    @dataclass(frozen=True, slots=True)
    class Gaussian(Event):
        sigma: int

    with pytest.raises(UnknownEventError, match="Gaussian"):
        accountant().compose(Sequential((HALF, Gaussian(3))))


def test_parallel_events_need_disjoint_people() -> None:
    """The same people twice are refused, because these events are a sequence."""
    with pytest.raises(PrivacyError, match="compose events on the same people in sequence"):
        Parallel(("wards", "wards"), (HALF, THIRD))
    with pytest.raises(PrivacyError, match="1 different groups"):
        Parallel(("wards",), (HALF, THIRD))


@pytest.mark.parametrize("epsilon", [0.5, Fraction(0), Fraction(-1), float("inf"), float("nan"), True])
def test_invalid_epsilon_is_refused(epsilon: object) -> None:
    """An ε that is not an exact rational above 0 is refused in events and budgets."""
    with pytest.raises(EpsilonError, match="ε is"):
        Released(PLACES, cast("Fraction", epsilon))
    with pytest.raises(EpsilonError, match="ε is"):
        Accountant(PLACES, cast("Fraction", epsilon))


def test_zero_repetitions_are_refused() -> None:
    """An event repeated zero times is refused, because it could hide a use of the data."""
    with pytest.raises(PrivacyError, match="times is 0"):
        Repeated(HALF, 0)
    assert accountant().compose(Repeated(HALF, 1)).spent == Fraction(1, 2)


def test_theorem_6_is_tight() -> None:
    """Two geometric answers at q, the second about another place if the first is high, have the worst ratio q^-2."""
    q, most = Fraction(1, 2), 4

    def law(counts: tuple[int, ...]) -> dict[tuple[int, int], Fraction]:
        chances = {}
        for first, second in product(range(most), repeat=2):
            count = counts[1] if first > 2 else counts[0]
            gaps = (first - counts[0], second - count)
            chances[first, second] = (1 - q) ** 2 * q ** sum(gaps) if min(gaps) >= 0 else Fraction(0)
        return chances

    ratios = [
        law(before)[outcome] / law(after)[outcome]
        for before, after in product(product((0, 1), repeat=2), repeat=2)
        if before != after and all(a >= b for a, b in zip(before, after, strict=True))
        for outcome in law(before)
        if law(before)[outcome]
    ]
    assert max(ratios) == q**-2
