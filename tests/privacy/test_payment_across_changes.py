"""The maximum payment in a period across a change, compared with every schedule that the rules allow."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import pytest

from monitor.privacy.over_time import Mark, OverTimeRule, may_answer
from monitor.privacy.payment_across_changes import Bound, PaidAnswer, Place, compute_most_paid
from monitor.privacy.payment_of_one_person import compute_over_time_payment

NOW = 8


def draw_rule(numbers: random.Random, max_lead: int = 0) -> OverTimeRule:
    answers, window = numbers.randint(1, 3), numbers.randint(1, 4)
    return OverTimeRule(Fraction(numbers.choice([6, 3, 2, 4]), 12), answers, 3, window, max_lead)


def draw_answered(numbers: random.Random, rule: OverTimeRule, until: int = NOW) -> tuple[Mark, ...]:
    """Return marks that a rule allows, with some omitted."""
    marks: tuple[Mark, ...] = ()
    for tick in range(until):
        if numbers.random() < 0.8 and may_answer(rule, marks, tick):
            marks = (*marks, Mark(tick, 3, rule.answer_epsilon, tick + rule.mark_lifetime - 1))
    return marks


def list_schedules(
    rules: Sequence[OverTimeRule], marks: tuple[Mark, ...], tick: int, end: int
) -> Iterator[tuple[Mark, ...]]:
    """Return every way to answer from a tick up to an end, each time by one of the rules."""
    if tick == end:
        yield marks
        return
    yield from list_schedules(rules, marks, tick + 1, end)
    for rule in rules:
        if may_answer(rule, marks, tick):
            mark = Mark(tick, 3, rule.answer_epsilon, tick + rule.mark_lifetime - 1)
            yield from list_schedules(rules, (*marks, mark), tick + 1, end)


def sum_charged(marks: Sequence[tuple[Mark, int, int]], start: int, slots: int) -> Fraction:
    """Return the charge of the answers that may have counted a visit of a period; each comes with its W and F."""
    return sum(
        (
            mark.epsilon
            for mark, window, max_lead in marks
            if mark.tick - window + 1 <= start + slots - 1 and mark.tick + max_lead >= start
        ),
        Fraction(0),
    )


def find_most(
    rules: Sequence[OverTimeRule], old: OverTimeRule | None, marks: tuple[Mark, ...], slots: int, oldest: int
) -> Fraction:
    """Return the most that any schedule pays in any period with a visit of slot `oldest` or later."""
    window, max_lead = max(rule.window for rule in rules), max(rule.max_lead for rule in rules)
    before = old or rules[0]
    most = Fraction(0)
    for all_marks in list_schedules(rules, marks, NOW, NOW + slots + window):
        seen = [
            (mark, before.window, before.max_lead) if mark.tick < NOW else (mark, window, max_lead)
            for mark in all_marks
        ]
        for start in range(oldest - slots + 1, NOW + max_lead + 2):
            most = max(most, sum_charged(seen, start, slots))
    return most


def make_place(rules: Sequence[OverTimeRule], marks: tuple[Mark, ...], max_lead: int) -> Place:
    bound = Bound.of(rules[0])
    for rule in rules[1:]:
        bound = bound.combine(Bound.of(rule))
    return Place(tuple(PaidAnswer.of(mark, max_lead, bound.mark_lifetime) for mark in marks), bound, NOW)


@pytest.mark.promise(15)
@pytest.mark.parametrize("seed", range(60))
def test_bound_covers_every_schedule(seed: int) -> None:
    """The bound is at least every schedule's payment, and equal if the past shares are whole present answers."""
    numbers = random.Random(seed)
    max_lead = numbers.randint(0, 1)
    old, new, slots = draw_rule(numbers, max_lead), draw_rule(numbers, max_lead), numbers.randint(1, 3)
    marks = draw_answered(numbers, old)
    oldest = NOW - new.window + 1
    bound = compute_most_paid([make_place([new], marks, max_lead)], slots, oldest)
    paid = find_most([new], old, marks, slots, oldest)
    assert bound >= paid
    if old.answer_epsilon == new.answer_epsilon:
        assert bound == max(paid, Bound.of(new).compute_most_in_slots(slots))


@pytest.mark.parametrize("seed", range(60))
def test_unchanged_configuration_keeps_its_worst_case(seed: int) -> None:
    """Without a change the bound is at most the worst case; otherwise the service could not restart."""
    numbers = random.Random(seed)
    places, worst = [], Fraction(0)
    slots = numbers.randint(1, 12)
    for _ in range(3):
        rule = draw_rule(numbers, numbers.randint(0, 2))
        places.append(make_place([rule], draw_answered(numbers, rule), rule.max_lead))
        worst += compute_over_time_payment(rule.epsilon, rule.answers, rule.window, rule.max_lead, slots)
    assert compute_most_paid(places, slots, NOW - 5) <= worst


@pytest.mark.promise(15)
@pytest.mark.parametrize("seed", range(25))
def test_alternating_rules_pay_the_larger(seed: int) -> None:
    """Two rules that alternate in any order pay at most the larger of both, including answers of the earlier one."""
    numbers = random.Random(seed)
    old, new, slots = draw_rule(numbers), draw_rule(numbers), numbers.randint(1, 2)
    marks = draw_answered(numbers, old)
    oldest = NOW - max(old.window, new.window) + 1
    assert compute_most_paid([make_place([old, new], marks, 0)], slots, oldest) >= find_most(
        [old, new], old, marks, slots, oldest
    )


@pytest.mark.promise(15)
def test_ended_answers_count_within_the_period() -> None:
    """
    A place has a window of one day and ε = 1; after two weeks another place has 14 days and ε = 7.

        day         0 1 2 … 13 | 14 15 … 28
        X           1 1 1    1 |                  its marks have all ended
        Y                      | 7         7      the first one counts visits of days 1 to 14
        period          #    #    #  #            days 2 to 15: 12 + 14
    """
    marks = tuple(Mark(day, 3, Fraction(1), day) for day in range(14))
    bound = Bound(Fraction(7), Fraction(7), 14, 0, 14)
    places = [Place(tuple(PaidAnswer.of(mark, 0) for mark in marks), None, 14), Place((), bound, 14)]
    assert compute_most_paid(places, 14, oldest=1) == 26
    for now, most in ((26, 21), (32, 15), (33, 14)):
        assert compute_most_paid([place.without_answers_before(now) for place in places], 14, oldest=now - 13) == most


def test_example_of_the_rules_page() -> None:
    """The example of the page of rules is right: 4 at tick 126 and 147, 3 from tick 148 on (docs/rules.md, section 6).

    slot      77 … 100 | 101 … 124 | 126 … 148     one period is slots 100 to 148
    station   answer 1   answer 2
    clinic                           answers from tick 126 or 148 on
    """
    rule = OverTimeRule(Fraction(1), 1, 10, 24, 0)
    marks = [Mark(tick, 12, Fraction(1), tick + 23) for tick in (100, 124)]
    station = Place(tuple(PaidAnswer.of(mark, 0) for mark in marks), None, 125)
    clinic = Place((), Bound.of(rule), 126)
    assert Bound.of(rule).compute_most_in_slots(49) == 3
    for now, most in ((126, 4), (147, 4), (148, 3)):
        assert compute_most_paid([station, clinic.without_answers_before(now)], 49, oldest=now + 1 - 24) == most


def test_many_digits_are_added_exactly() -> None:
    """Shares by weights have denominators beyond 64 bits and are added exactly."""
    share = Fraction(3333333333333333, 10**16) * 123457 / 9999998
    bound = Bound(share, share, 4, 0, 4)
    mark = Mark(7, 3, share, 10)
    places = [
        Place((PaidAnswer.of(mark, 0, 4),), bound, NOW),
        Place((), Bound(Fraction(1, 7), Fraction(1, 7), 4, 0, 4), NOW),
    ]
    assert compute_most_paid(places, 1, NOW - 3) == share + Fraction(1, 7)


def test_thousands_of_places_are_fast() -> None:
    """Slots of a minute, windows and period of 14 days, and different answers at each place are added quickly."""
    bound = Bound(Fraction(1, 1000), Fraction(1, 1000), 20_160, 1, 20_161)
    places = []
    for number in range(1_000):
        marks = [Mark(tick, 3, Fraction(1, 900), tick + 20_160) for tick in (number * 7, 20_161 + number * 11)]
        places.append(Place(tuple(PaidAnswer.of(mark, 1, 20_161) for mark in marks), bound, 40_000))
    assert Fraction(2) < compute_most_paid(places, 20_161, 40_000 - 20_160) < Fraction(4)
