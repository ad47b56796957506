"""The maximum payment of one person, and the check of the period."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from monitor.errors import PrivacyError
from monitor.privacy.over_time import OverTimeRule
from monitor.privacy.payment_of_one_person import (
    compute_at_times_payment,
    compute_most_answers,
    compute_over_time_payment,
)

ONE = Fraction(1)


def test_two_weeks_of_presence_cost_twice() -> None:
    """W = 336, F = 1, H = 337 (two weeks, not aligned): N = 673 ticks, and W + F = 337 of them have one answer."""
    assert compute_over_time_payment(ONE, answers=1, window=336, max_lead=1, slots=337) == 2


def test_single_visit_pays_epsilon() -> None:
    """With H = 1, N = W + F, so k answers of ε_l/k are charged."""
    for window, max_lead, answers in product((3, 14), (0, 2), (1, 2, 3)):
        assert compute_over_time_payment(Fraction(1, 3), answers, window, max_lead, slots=1) == Fraction(1, 3)


@pytest.mark.promise(11)
@pytest.mark.parametrize(("window", "max_lead", "answers"), list(product((1, 2, 3), (0, 1), (1, 2, 3))))
def test_formula_is_the_greedy_schedule(window: int, max_lead: int, answers: int) -> None:
    """Answering whenever W + F ticks have fewer than k answers gives as many answers as the formula, for k ≤ W + F."""
    mark_lifetime = OverTimeRule(ONE, answers, 1, window, max_lead).mark_lifetime
    for slots in range(1, 12) if answers <= mark_lifetime else ():
        given: list[int] = []
        for tick in range(slots + mark_lifetime - 1):
            if sum(tick - earlier < mark_lifetime for earlier in given) < answers:
                given.append(tick)
        assert compute_most_answers(answers, window, max_lead, slots) == len(given)


def test_designated_times_cost_epsilon_each() -> None:
    """15 evenings at ε = 1/2 cost 15/2."""
    assert compute_at_times_payment(Fraction(1, 2), 15) == Fraction(15, 2)


@pytest.mark.parametrize("wrong", [(0, 3, 0, 1), (1, 0, 0, 1), (1, 3, -1, 1), (1, 3, 0, 0)])
def test_invalid_arguments_are_refused(wrong: tuple[int, int, int, int]) -> None:
    """Zero answers, an empty window, a negative F and zero slots are refused."""
    with pytest.raises(PrivacyError, match="expected at least"):
        compute_most_answers(*wrong)
