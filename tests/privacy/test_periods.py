"""What one person may pay within a period across a change, against every schedule of answers that the rules allow."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import pytest

from monitor.privacy.over_time import Mark, OverTimeRule, may_answer
from monitor.privacy.payments import over_time_payment
from monitor.privacy.periods import Bound, PaidAnswer, Place, most_paid

NOW = 8


def a_rule(numbers: random.Random, max_lead: int = 0) -> OverTimeRule:
    answers, window = numbers.randint(1, 3), numbers.randint(1, 4)
    return OverTimeRule(Fraction(numbers.choice([6, 3, 2, 4]), 12), answers, 3, window, max_lead)


def answered(numbers: random.Random, rule: OverTimeRule, until: int = NOW) -> tuple[Mark, ...]:
    """Marks that a rule allows, some of them not given."""
    marks: tuple[Mark, ...] = ()
    for tick in range(until):
        if numbers.random() < 0.8 and may_answer(rule, marks, tick):
            marks = (*marks, Mark(tick, 3, rule.answer_epsilon, tick + rule.mark_lifetime - 1))
    return marks


def schedules(
    rules: Sequence[OverTimeRule], marks: tuple[Mark, ...], tick: int, end: int
) -> Iterator[tuple[Mark, ...]]:
    """Every way to answer from a tick up to an end, each time by one of the rules."""
    if tick == end:
        yield marks
        return
    yield from schedules(rules, marks, tick + 1, end)
    for rule in rules:
        if may_answer(rule, marks, tick):
            mark = Mark(tick, 3, rule.answer_epsilon, tick + rule.mark_lifetime - 1)
            yield from schedules(rules, (*marks, mark), tick + 1, end)


def charged(marks: Sequence[tuple[Mark, int, int]], start: int, slots: int) -> Fraction:
    """What the answers charge that may have counted a visit of a period; each with its W and F."""
    return sum(
        (
            mark.epsilon
            for mark, window, max_lead in marks
            if mark.tick - window + 1 <= start + slots - 1 and mark.tick + max_lead >= start
        ),
        Fraction(0),
    )


def most_of_all(
    rules: Sequence[OverTimeRule], old: OverTimeRule | None, marks: tuple[Mark, ...], slots: int, oldest: int
) -> Fraction:
    """The most that any schedule pays in any period that holds a visit of slot `oldest` or later."""
    window, max_lead = max(rule.window for rule in rules), max(rule.max_lead for rule in rules)
    before = old or rules[0]
    most = Fraction(0)
    for all_marks in schedules(rules, marks, NOW, NOW + slots + window):
        seen = [
            (mark, before.window, before.max_lead) if mark.tick < NOW else (mark, window, max_lead)
            for mark in all_marks
        ]
        for start in range(oldest - slots + 1, NOW + max_lead + 2):
            most = max(most, charged(seen, start, slots))
    return most


def place(rules: Sequence[OverTimeRule], marks: tuple[Mark, ...], max_lead: int) -> Place:
    bound = Bound.of(rules[0])
    for rule in rules[1:]:
        bound = bound.combine(Bound.of(rule))
    return Place(tuple(PaidAnswer.of(mark, max_lead, bound.mark_lifetime) for mark in marks), bound, NOW)


@pytest.mark.parametrize("seed", range(60))
def test_across_a_change_it_is_at_least_what_any_schedule_pays(seed: int) -> None:
    """And no more than that where the shares of before are whole answers of now."""
    numbers = random.Random(seed)
    max_lead = numbers.randint(0, 1)
    old, new, slots = a_rule(numbers, max_lead), a_rule(numbers, max_lead), numbers.randint(1, 3)
    marks = answered(numbers, old)
    oldest = NOW - new.window + 1
    found = most_paid([place([new], marks, max_lead)], slots, oldest)
    paid = most_of_all([new], old, marks, slots, oldest)
    assert found >= paid
    if old.answer_epsilon == new.answer_epsilon:
        assert found == max(paid, Bound.of(new).steady(slots))


@pytest.mark.parametrize("seed", range(60))
def test_a_configuration_that_did_not_change_never_pays_more_than_its_worst_case(seed: int) -> None:
    """Else it could not start again."""
    numbers = random.Random(seed)
    places, worst = [], Fraction(0)
    slots = numbers.randint(1, 12)
    for _ in range(3):
        rule = a_rule(numbers, numbers.randint(0, 2))
        places.append(place([rule], answered(numbers, rule), rule.max_lead))
        worst += over_time_payment(rule.epsilon, rule.answers, rule.window, rule.max_lead, slots)
    assert most_paid(places, slots, NOW - 5) <= worst


@pytest.mark.parametrize("seed", range(200))
def test_marks_of_the_earlier_build_never_exceed_the_worst_case_of_an_unchanged_configuration(seed: int) -> None:
    """They ran a tick longer, and counted visits of a slot more: a new build can start over them."""
    numbers = random.Random(seed)
    rule, slots = a_rule(numbers, numbers.randint(0, 3)), numbers.randint(1, 14)
    marks: tuple[Mark, ...] = ()
    for tick in range(numbers.randint(5, 25)):
        until = tick + rule.window + rule.max_lead
        if numbers.random() < 0.8 and sum(mark.until >= tick for mark in marks) < rule.answers:
            marks = (*marks, Mark(tick, 3, rule.answer_epsilon, until, counted_after=True))
    now = tick + 1
    bound = Bound.of(rule)
    paid = tuple(PaidAnswer.of(mark, rule.max_lead, rule.mark_lifetime) for mark in marks)
    assert most_paid([Place(paid, bound, now)], slots, now - rule.window - 1) <= bound.steady(slots)


@pytest.mark.parametrize("seed", range(25))
def test_two_rules_that_take_turns_pay_no_more_than_the_larger_of_both(seed: int) -> None:
    """In any order, tick by tick, over what the earlier one answered."""
    numbers = random.Random(seed)
    old, new, slots = a_rule(numbers), a_rule(numbers), numbers.randint(1, 2)
    marks = answered(numbers, old)
    oldest = NOW - max(old.window, new.window) + 1
    assert most_paid([place([old, new], marks, 0)], slots, oldest) >= most_of_all([old, new], old, marks, slots, oldest)


def test_two_places_and_a_third_one_make_four_thirds() -> None:
    """
    At half ε each two places were answered; with a third one each may be answered at a third.

        tick      7   8  …
        X, Y      1/2 each, their pauses run
        Z             1/3
    """
    old, new = (OverTimeRule(epsilon, 1, 3, 4, 0) for epsilon in (Fraction(1, 2), Fraction(1, 3)))
    mark = Mark(7, 3, Fraction(1, 2), 7 + old.mark_lifetime - 1)
    places = [place([new], (mark,), 0), place([new], (mark,), 0), place([new], (), 0)]
    assert most_paid(places, 1, NOW - 3) == Fraction(4, 3)


def test_what_has_run_out_counts_while_a_period_holds_it() -> None:
    """
    A place with a day's window at ε = 1; after two weeks another one instead, at ε = 7 and with a window of 14 days.

        day         0 1 2 … 13 | 14 15 … 28
        X           1 1 1    1 |                  its answers have all run out
        Y                      | 7         7      the first one counts visits of days 1 to 14 as well
        period          #    #    #  #            days 2 to 15: 12 + 14
    """
    marks = tuple(Mark(day, 3, Fraction(1), day) for day in range(14))
    bound = Bound(Fraction(7), Fraction(7), 14, 0, 14)
    places = [Place(tuple(PaidAnswer.of(mark, 0) for mark in marks), None, 14), Place((), bound, 14)]
    assert most_paid(places, 14, oldest=1) == 26
    for now, most in ((26, 21), (32, 15), (33, 14)):
        assert most_paid([each.later(now) for each in places], 14, oldest=now - 13) == most


def test_many_digits_are_added_exactly() -> None:
    """Shares by weights have denominators beyond 64 bits."""
    share = Fraction(3333333333333333, 10**16) * 123457 / 9999998
    bound = Bound(share, share, 4, 0, 4)
    mark = Mark(7, 3, share, 10)
    places = [
        Place((PaidAnswer.of(mark, 0, 4),), bound, NOW),
        Place((), Bound(Fraction(1, 7), Fraction(1, 7), 4, 0, 4), NOW),
    ]
    assert most_paid(places, 1, NOW - 3) == share + Fraction(1, 7)


def test_thousands_of_places_with_answers_are_added_in_a_moment() -> None:
    """Slots of a minute, windows of 14 days, a period as long, each place with other answers."""
    bound = Bound(Fraction(1, 1000), Fraction(1, 1000), 20_160, 1, 20_161)
    places = []
    for number in range(1_000):
        marks = [Mark(tick, 3, Fraction(1, 900), tick + 20_160) for tick in (number * 7, 20_161 + number * 11)]
        places.append(Place(tuple(PaidAnswer.of(mark, 1, 20_161) for mark in marks), bound, 40_000))
    assert Fraction(2) < most_paid(places, 20_161, 40_000 - 20_160) < Fraction(4)
