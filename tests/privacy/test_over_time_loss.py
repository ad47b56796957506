"""The worst privacy loss of Algorithm 3, by enumeration with the real decision code, and its mutants."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import Any

import pytest

from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule, extend_marks, select_running_marks, step
from monitor.privacy.payment_of_one_person import compute_most_answers, compute_over_time_payment
from tests.privacy.exact_loss import Law, Mechanism, one_sided, worst_ratio
from tests.privacy.laws import Draws

pytestmark = pytest.mark.long

Pairs = list[tuple[Any, Any]]

PEOPLE = 2
TICKS = 6
SHAPES = list(product((1, 2, 3), (0, 1, 2), (1, 2, 3), (1, 2, 3)))  # W, F, k, T
TIGHT = [shape for shape in product((1, 2, 3), (0, 1, 2), (1, 2)) if shape[2] < shape[0] + shape[1]]  # W, F, k < W + F
H_SLOTS = (1, 2, 3, 4)


def rule_of(window: int, max_lead: int, answers: int, threshold: int) -> OverTimeRule:
    return OverTimeRule(Fraction(1), answers, threshold, window, max_lead)


def cap_of(threshold: int) -> int:
    return max(threshold, PEOPLE) + 1


def public_part(answer: OverTimeAnswer, cap: int) -> Hashable:
    """Return the public part of an answer; noisy counts from the cap on are one outcome."""
    noisy_count = None if answer.noisy_count is None else min(answer.noisy_count, cap)
    return answer.status, noisy_count, answer.resumes_at, tuple((mark.tick, mark.until) for mark in answer.marks)


def collect(outcomes: Iterable[tuple[Hashable, Fraction, Any]]) -> Law:
    law: dict[Hashable, tuple[Fraction, Any]] = {}
    for outcome, chance, after in outcomes:
        before, known = law.get(outcome, (Fraction(0), after))
        assert known == after, "the state must follow from the published answers alone"
        law[outcome] = (before + chance, after)
    return law


def without_counts(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """Return a state without the noisy counts; `collect` and a test below assert that nothing depends on them."""
    return tuple(replace(mark, noisy_count=0) for mark in marks)


@lru_cache(maxsize=1)
def decisions_of(rule: OverTimeRule, cap: int) -> Callable[[tuple[Mark, ...], int, int | None, int], Any]:
    """Return the real `step` as a function of marks, tick, count and draw; it returns the public part and the state."""

    @cache
    def decide(marks: tuple[Mark, ...], tick: int, count: int | None, draw: int) -> tuple[Hashable, tuple[Mark, ...]]:
        answer = step(rule, marks, tick, count, draw)
        return public_part(answer, cap), without_counts(answer.marks)

    return decide


@lru_cache(maxsize=1)
def mechanism_of(rule: OverTimeRule, draws: Draws, cap: int) -> Mechanism:
    """Return the real `step` with injected draws; a negative draw (two-sided mutant) lowers the count.

    Tests that follow each other use the same mechanism, so that they share what is enumerated.
    """
    decide = decisions_of(rule, cap)

    def law(marks: tuple[Mark, ...], tick: int, count: int | None) -> Law:
        outcomes = []
        for draw, chance in draws:
            given = count if count is None or draw >= 0 else max(count + draw, 0)
            public, after = decide(marks, tick, given, max(draw, 0))
            outcomes.append((public, chance, after))
        return collect(outcomes)

    return law


def pairs_at(tick: int, counted: range) -> Pairs:
    """Return the count pairs (under D, D') at a tick: another person o, the person's other visits r, removed ones i.

    All combinations occur, because a visit may be reported late. The adversary may also choose "unknown".
    """
    inside = (0, 1) if tick in counted else (0,)
    people = product((0, 1), (0, 1), inside)
    return [*sorted({(o + max(r, i), o + r) for o, r, i in people}), (None, None)]


def streams(counted: range, ticks: int) -> list[Pairs]:
    return [pairs_at(tick, counted) for tick in range(ticks)]


def visit_ranges(mark_lifetime: int, ticks: int) -> list[range]:
    """Return the ticks that count one visit: W + F in a row, fewer if it is reported late or the stream ends."""
    return [
        range(first, last) for first in range(ticks) for last in range(first + 1, min(first + mark_lifetime, ticks) + 1)
    ]


def presence_ticks(rule: OverTimeRule, slots: int) -> range:
    """Return the ticks that count the visits of a person who visits in each of `slots` slots: N = H + W + F - 1."""
    return range(1, slots + rule.mark_lifetime)


@pytest.mark.promise(10)
@pytest.mark.parametrize(("window", "max_lead", "answers", "threshold"), SHAPES)
def test_worst_loss_of_visit_is_epsilon(window: int, max_lead: int, answers: int, threshold: int) -> None:
    """Over all streams of six ticks the worst ratio is e^(ε_l): k answers of ε_l/k, or fewer if W + F < k.

    docs/proof proves for every ε that it is at most this.
    """
    q, rule = Fraction(1, 2), rule_of(window, max_lead, answers, threshold)
    mechanism = mechanism_of(rule, one_sided(q, cap_of(threshold)), cap_of(threshold))
    ranges = visit_ranges(rule.mark_lifetime, TICKS)
    worst = max(worst_ratio(mechanism, (), streams(counted, TICKS)) for counted in ranges)
    assert worst == q ** -min(answers, rule.mark_lifetime)


def count_streams(choices: Iterable[Sequence[Pairs]]) -> int:
    return sum(math.prod(map(len, pairs)) for pairs in choices)


def test_stream_count_matches_theory_page(stated_streams: Callable[[str], int]) -> None:
    """The number of streams over all W, F, k and T is the one in tests/enumeration_sizes.txt."""
    rules = [rule_of(*shape) for shape in SHAPES]
    single = count_streams(
        streams(counted, TICKS) for rule in rules for counted in visit_ranges(rule.mark_lifetime, TICKS)
    )
    many = count_streams(
        streams(counted, counted.stop + 1)
        for rule in rules
        for slots in H_SLOTS
        for counted in (presence_ticks(rule, slots),)
    )
    print(f"Algorithm 3: {single} streams without one visit, {many} without the visits of several slots")
    assert single == stated_streams("Algorithm 3, one visit")
    assert many == stated_streams("Algorithm 3, visits in H = 1..4 slots")


@pytest.mark.promise(11)
@pytest.mark.parametrize("slots", H_SLOTS)
@pytest.mark.parametrize(("window", "max_lead", "answers", "threshold"), SHAPES)
def test_repeated_visits_pay_the_formula(slots: int, window: int, max_lead: int, answers: int, threshold: int) -> None:
    """
    H slots of visits are in the counts of N = H + W + F - 1 ticks; for k ≤ W + F the formula is reached.

        W = 2, F = 0, k = 3, H = 1: three answers per window are allowed, but only two ticks count the visit

            tick      0  1  2
            counted      x  x
            answer    .  z  z      2/3·ε_l, where the formula states ε_l
    """
    q = Fraction(1, 2)
    rule = rule_of(window, max_lead, answers, threshold)
    mechanism = mechanism_of(rule, one_sided(q, cap_of(threshold)), cap_of(threshold))
    counted = presence_ticks(rule, slots)
    worst = worst_ratio(mechanism, (), streams(counted, counted.stop + 1))
    most = compute_most_answers(answers, window, max_lead, slots)
    assert worst == q ** -min(most, len(counted))
    assert (most <= len(counted)) == (answers <= rule.mark_lifetime)
    assert compute_over_time_payment(rule.epsilon, answers, window, max_lead, slots) == most * rule.answer_epsilon


@pytest.mark.promise(10, 32)
@pytest.mark.parametrize(("window", "max_lead", "answers"), list(product((1, 2), (0, 1, 2), (1, 2))))
def test_lost_ledger_refunds_nothing(window: int, max_lead: int, answers: int) -> None:
    """
    The worst loss of one visit is the same if the adversary loses the ledger before any ticks.

        W = 2, F = 1: the marks are gone, so every place pauses for W + F ticks from the loss on

            tick      0  1  2  3  4
            counted   #  #  #
            lost         x
            answer    z  p  p  p  .
    """
    q, rule = Fraction(1, 2), rule_of(window, max_lead, answers, 1)
    draws = one_sided(q, cap_of(1))

    @cache
    def decide(marks: tuple[Mark, ...], lost_tick: int | None, tick: int, count: int | None) -> Law:
        answers = [(step(rule, marks, tick, count, draw, lost_tick=lost_tick), chance) for draw, chance in draws]
        return collect(
            (public_part(answer, cap_of(1)), chance, (without_counts(answer.marks), lost_tick))
            for answer, chance in answers
        )

    def law(state: tuple[Any, ...], tick: int, choice: tuple[int | None, bool]) -> Law:
        count, lost = choice
        marks, lost_tick = ((), tick) if lost else state or ((), None)
        return decide(marks, lost_tick, tick, count)

    def with_losses(counted: range) -> list[Pairs]:
        both = (False, True)
        return [[((d, lost), (e, lost)) for d, e in pairs for lost in both] for pairs in streams(counted, TICKS - 1)]

    ranges = visit_ranges(rule.mark_lifetime, TICKS - 1)
    worst = max(worst_ratio(law, (), with_losses(counted)) for counted in ranges)
    assert worst == q ** -min(answers, rule.mark_lifetime)


@pytest.mark.promise(19)
@pytest.mark.parametrize(("window", "max_lead", "answers", "threshold"), SHAPES)
def test_decisions_ignore_earlier_noisy_counts(window: int, max_lead: int, answers: int, threshold: int) -> None:
    """Marks that differ only in their noisy counts give the same status, count and end of the pause."""
    rule = rule_of(window, max_lead, answers, threshold)
    for tick, count, draw in product(range(TICKS), (None, 0, 1, 2), range(3)):
        low, high = (
            step(rule, (Mark(1, noisy, rule.answer_epsilon, rule.mark_lifetime),), tick, count, draw)
            for noisy in (threshold, 99)
        )
        assert low._replace(marks=without_counts(low.marks)) == high._replace(marks=without_counts(high.marks))


@pytest.mark.promise(1)
@pytest.mark.parametrize(("window", "max_lead", "answers", "threshold"), SHAPES)
def test_safe_is_always_true(window: int, max_lead: int, answers: int, threshold: int) -> None:
    """One-sided noise never lowers a count, so a location at the threshold is never "safe"."""
    rule = rule_of(window, max_lead, answers, threshold)
    law = mechanism_of(rule, one_sided(Fraction(1, 2), cap_of(threshold)), cap_of(threshold))((), 0, threshold)
    assert not any(chance for outcome, (chance, _) in law.items() if "safe" in str(outcome))


class TestMutants:
    """Small changes of the real decision that the enumeration must detect."""

    q = Fraction(1, 2)

    def worst(self, mechanism: Mechanism, mark_lifetime: int) -> Fraction | float:
        return max(
            worst_ratio(mechanism, (), streams(counted, TICKS)) for counted in visit_ranges(mark_lifetime, TICKS)
        )

    @pytest.mark.promise(10)
    @pytest.mark.parametrize(("window", "max_lead", "answers"), [shape for shape in TIGHT if shape[0] > 1])
    def test_pause_one_tick_short(self, window: int, max_lead: int, answers: int) -> None:
        """
        W = 3, F = 0, k = 1: a visit is counted at three ticks, and the pause ends before the third.

            tick      0  1  2
            counted   x  x  x
            answer    z  -  z
        """
        true_reach = rule_of(window, max_lead, answers, 1).mark_lifetime
        short = mechanism_of(rule_of(window - 1, max_lead, answers, 1), one_sided(self.q, 3), 3)
        assert self.worst(short, true_reach) == self.q ** -(answers + 1)

    @pytest.mark.promise(18)
    def test_skipping_unchanged_locations(self) -> None:
        """If an unchanged count repeats "safe" without a draw, a noisy answer proves a visit."""
        real = mechanism_of(rule_of(2, 0, 1, 2), one_sided(self.q, 3), 3)
        safe = ("safe", None, None, ())

        def skipping(state: tuple[Any, ...], tick: int, count: int | None) -> Law:
            marks, last, outcome = state or ((), None, None)
            if outcome == safe and count == last:
                return {safe: (Fraction(1), state)}
            law = real(marks, tick, count)
            return {outcome: (chance, (after, count, outcome)) for outcome, (chance, after) in law.items()}

        assert self.worst(skipping, 3) == math.inf

    @pytest.mark.promise(19)
    def test_marks_on_visits(self) -> None:
        """
        T = 2, W = 3, two people with a visit each. The pause lasts while a marked visit is in the window.

            tick           0  1  2  3  4
            person's       x  x  x            removed in D'
            another's         x  x  x
        """
        draws = one_sided(self.q, 3)

        def on_visits(marked: frozenset[str] | tuple[()], tick: int, visits: frozenset[str]) -> Law:
            if visits & frozenset(marked):
                return {"paused": (Fraction(1), marked)}
            outcomes = []
            for draw, chance in draws:
                noisy_count = len(visits) + draw
                answer = ("safe", (), chance) if noisy_count < 2 else (min(noisy_count, 3), visits, chance)
                outcomes.append((answer[0], answer[2], frozenset(answer[1])))
            return collect(outcomes)

        losses = []
        for first, second in product(range(TICKS), repeat=2):
            days: list[Pairs] = []
            for tick in range(TICKS):
                rest = frozenset({"another's"} if second <= tick < second + 3 else ())
                own = frozenset({"person's"} if first <= tick < first + 3 else ())
                days.append([(rest | own, rest)])
            losses.append(worst_ratio(on_visits, (), days))
        assert max(losses) == math.inf


class TestChangedRules:
    """ε, k, W and F change during the stream, at ticks chosen by the adversary."""

    unit = Fraction(1, 6)
    rules = (
        OverTimeRule(Fraction(1), answers=1, threshold=1, window=1, max_lead=1),
        OverTimeRule(Fraction(1), answers=2, threshold=1, window=2, max_lead=2),
        OverTimeRule(Fraction(1, 2), answers=1, threshold=2, window=3, max_lead=1),
        OverTimeRule(Fraction(1), answers=3, threshold=1, window=1, max_lead=2),
    )

    def choices(self, first: int) -> list[Pairs]:
        """Return the choices at each tick: any rule, and the counts of a visit stamped in the first tick's slot."""
        return [
            [
                ((index, count), (index, neighbour))
                for index, rule in enumerate(self.rules)
                for count, neighbour in pairs_at(tick, range(first, first + rule.mark_lifetime))
            ]
            for tick in range(TICKS)
        ]

    def law(self, marks: tuple[Mark, ...], tick: int, given: tuple[int, int | None]) -> Law:
        """Return the law whose state is the whole ledger; a changed rule reads back as far as its mark lifetime."""
        rule, count = self.rules[given[0]], given[1]
        outcomes = []
        for draw, chance in one_sided(Fraction(1, 2) ** int(rule.answer_epsilon / self.unit), 3):
            answer = step(rule, marks, tick, count, draw)
            if answer.status == "noisy_count":
                spent = sum(mark.epsilon for mark in select_running_marks(extend_marks(rule, marks), tick))
                assert spent + rule.answer_epsilon <= rule.epsilon
                assert sum(mark.epsilon for mark in answer.marks) <= rule.epsilon
            new = tuple(mark for mark in answer.marks if mark.tick == tick)
            outcomes.append(((given[0], public_part(answer, 3)), chance, without_counts((*marks, *new))))
        return collect(outcomes)

    @pytest.mark.promise(33)
    def test_visit_pays_the_largest_epsilon(self) -> None:
        """
        A visit stamped in slot 0 is in the counts of the W + F ticks of each rule.

            tick              0  1  2  3  4
            W + F = 2         x  x
            W + F = 4         x  x  x  x
            W + F = 3         x  x  x
        """
        for choices in map(self.choices, (0, 1)):
            worst = worst_ratio(self.law, (), choices)
            assert worst == 2 ** int(max(rule.epsilon for rule in self.rules) / self.unit)

    def test_stream_count_matches_theory_page(self, stated_streams: Callable[[str], int]) -> None:
        """The number of streams with changed rules is the one in tests/enumeration_sizes.txt."""
        assert count_streams(map(self.choices, (0, 1))) == stated_streams("Algorithm 3, one visit and changes of rules")

    def test_dropping_ended_marks_is_caught(self) -> None:
        """
        A mark that ended under W + F = 2 runs again under W + F = 4; without it there is one answer too many.

            tick      0  1  2  3
            W + F     2  2  2  4
            answer    z  -  .  z      "." drops the mark, which ended at tick 1
        """

        def forgetful(marks: tuple[Mark, ...], tick: int, given: tuple[int, int | None]) -> Law:
            law = self.law(marks, tick, given)
            return {outcome: (chance, select_running_marks(after, tick)) for outcome, (chance, after) in law.items()}

        rules = [0, 0, 0, 1]
        choices = [
            [((index, count), (index, less)) for count, less in pairs_at(tick, range(self.rules[index].mark_lifetime))]
            for tick, index in enumerate(rules)
        ]
        assert worst_ratio(forgetful, (), choices) > 2**6
