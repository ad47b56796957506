"""The exact loss of counts that begin after the latest number, over all tiny sets of records, and its mutants.

A world is a set of records, each of one person, with the slot of the visit and the slot of the stamp. The real decision
code chooses where a count begins; the records are counted here, from the definition. The adversary chooses the records
that are removed, and the ticks at which the input is incomplete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import pytest

from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule, find_count_start, step
from monitor.privacy.payment_of_one_person import compute_most_answers
from tests.privacy.exact_loss import Law, one_sided, worst_ratio
from tests.privacy.test_over_time_loss import collect, public_part, without_counts

pytestmark = pytest.mark.long

Q = Fraction(1, 2)
STAMPS = range(3)
SHAPES = list(product((1, 2, 3), (0, 1), (2, 3), (1, 2)))  # W, F, k, T
CAP = 4


class Record(NamedTuple):
    """A record: the person, the last slot of the visit, and the slot of the stamp."""

    person: str
    slot: int
    stamp: int


World = frozenset[Record]
Count = Callable[[World, OverTimeRule, int, int | None], int]


def rule_of(window: int, max_lead: int, answers: int, threshold: int) -> OverTimeRule:
    return OverTimeRule(Fraction(1), answers, threshold, window, max_lead)


def count_people(world: World, rule: OverTimeRule, tick: int, since: int | None) -> int:
    """Return the people in the window of a tick, by the records stamped after `since` (None: all records).

    A visit that ends more than F slots after its stamp is cut.
    """
    after = -math.inf if since is None else since
    cut = {(who, min(slot, stamp + rule.max_lead), stamp) for who, slot, stamp in world}
    return len({who for who, slot, stamp in cut if after < stamp <= tick and slot > tick - rule.window})


def list_ticks(rule: OverTimeRule) -> range:
    return range(STAMPS.stop + rule.mark_lifetime)


def list_records(rule: OverTimeRule, person: str) -> list[Record]:
    """Return every record that any tick counts."""
    leads = range(1 - rule.window, rule.max_lead + 1)
    return [Record(person, stamp + lead, stamp) for stamp in STAMPS for lead in leads]


@cache
def law_of(rule: OverTimeRule) -> Callable[[Any, int, Any], Law]:
    """Return the law of a tick, given (count, by start) or None if the input is incomplete."""
    draws = one_sided(Q, CAP)

    @cache
    def law(marks: tuple[Mark, ...], tick: int, counts: tuple[int, ...] | None) -> Law:
        since = find_count_start(rule, marks, tick)
        count = None if counts is None else counts[0 if since is None else since + 1]
        answers = [(step(rule, marks, tick, count, draw), chance) for draw, chance in draws]
        return collect((public(answer), chance, without_counts(answer.marks)) for answer, chance in answers)

    return law


def public(answer: OverTimeAnswer) -> Any:
    return public_part(answer, CAP), answer.counted_since


def find_loss(rule: OverTimeRule, worlds: tuple[World, World], count: Count = count_people) -> Fraction | float:
    """Return the worst ratio of a world and its neighbour."""
    ticks = list_ticks(rule)
    choices = []
    for tick in ticks:
        full, less = (tuple(count(world, rule, tick, since) for since in (None, *ticks[:tick])) for world in worlds)
        assert all(few <= many <= few + 1 for few, many in zip(less, full, strict=True)) or count is not count_people
        choices.append([(full, less), (None, None)])
    return worst_ratio(law_of(rule), (), choices)


def list_worlds(rule: OverTimeRule) -> Iterator[tuple[World, World]]:
    """Yield (records of ann, record of another person): one or two records of ann, at most one of the other."""
    own, others = list_records(rule, "ann"), [(), *((other,) for other in list_records(rule, "bob"))]
    for mine in (some for size in (1, 2) for some in combinations(own, size)):
        for other in others:
            yield frozenset(mine), frozenset(other)


def find_worst_records(rule: OverTimeRule, count: Count = count_people) -> Fraction | float:
    """Return the worst loss by the removal of one record, over all worlds."""
    return max(
        find_loss(rule, (mine | other, (mine | other) - {gone}), count)
        for mine, other in list_worlds(rule)
        for gone in mine
    )


@pytest.mark.promise(10)
@pytest.mark.parametrize(("window", "max_lead", "answers", "threshold"), SHAPES)
def test_record_pays_one_answer(window: int, max_lead: int, answers: int, threshold: int) -> None:
    """
    Over all worlds, the removal of one record costs exactly ε_l/k, also if the person has another record.

        W = 3, F = 0, k = 2: a record stamped in slot 0

            tick      0  1  2
            window    x  x  x
            answer    z  s  s      after the number, the record is not counted again
    """
    assert find_worst_records(rule_of(window, max_lead, answers, threshold)) == 1 / Q


def span(records: Iterable[Record]) -> int:
    slots = [record.slot for record in records]
    return max(slots) - min(slots) + 1


@pytest.mark.promise(11)
@pytest.mark.parametrize(("window", "max_lead", "answers", "threshold"), SHAPES)
def test_person_pays_the_formula(window: int, max_lead: int, answers: int, threshold: int) -> None:
    """Over all worlds, the removal of any records of a person in H slots costs at most the formula of promise 11."""
    rule = rule_of(window, max_lead, answers, threshold)
    own = list_records(rule, "ann")
    for mine in (frozenset(some) for size in (2, 3) for some in combinations(own, size)):
        stated = compute_most_answers(answers, window, max_lead, span(mine))
        assert find_loss(rule, (mine, frozenset())) <= Q ** -min(stated, len(mine))


@pytest.mark.promise(11)
@pytest.mark.parametrize(("window", "max_lead", "answers"), [(1, 1, 2), (2, 0, 2), (2, 1, 2), (3, 0, 2), (3, 0, 3)])
def test_repeated_records_reach_the_formula(window: int, max_lead: int, answers: int) -> None:
    """
    A visit that is delivered in every slot in which it is accepted pays k answers, and not more.

        W = 3, F = 0, k = 2: a visit in slot 0, delivered in slots 0, 1 and 2

            tick      0  1  2  3
            window    x  x  x
            stamped   x  x  x
            answer    z  z  -  .      at tick 3 the visit has left the window
    """
    rule = rule_of(window, max_lead, answers, 1)
    slot = max_lead
    mine = frozenset(record for record in list_records(rule, "ann") if record.slot == slot)
    mine |= {Record("ann", slot, stamp) for stamp in range(rule.mark_lifetime)}
    assert find_loss(rule, (mine, frozenset())) == Q**-answers


class TestMutants:
    """Small changes of the definition, each of which costs more."""

    rule = rule_of(3, 0, 2, 1)

    def test_window_of_the_stamp(self) -> None:
        """
        If a visit counts as long as it was in the window of its stamp, a person pays more than the formula.

            W = 3, F = 0, k = 2: a visit in slot 0, delivered in slots 0, 1 and 2

                tick      0  1  2  3
                answer    z  z  -  z      at tick 3 the record of slot 2 is counted
        """

        def of_stamp(world: World, rule: OverTimeRule, tick: int, since: int | None) -> int:
            if since is None:
                return count_people(world, rule, tick, None)
            inside = {who for who, slot, stamp in world if since < stamp <= tick and slot > stamp - rule.window}
            return len(inside)

        mine = frozenset(Record("ann", 0, stamp) for stamp in range(3))
        assert find_loss(self.rule, (mine, frozenset()), count=of_stamp) == Q**-3
        assert find_loss(self.rule, (mine, frozenset())) == Q**-2

    def test_counted_people_are_left_out(self) -> None:
        """
        If people that a number has counted are left out of the next count, a removal raises this count.

            tick           0  1
            ann            x  x      the record of slot 0 is removed in D'
            count (D)      1  0      ann was counted at tick 0
            count (D')     0  1
        """

        def new_people(world: World, rule: OverTimeRule, tick: int, since: int | None) -> int:
            known = set() if since is None else {who for who, _, stamp in world if stamp <= since}
            now = {who for who, slot, stamp in world if stamp <= tick and slot > tick - rule.window}
            return len(now - known)

        assert find_worst_records(rule_of(2, 0, 2, 2), count=new_people) == math.inf


class TestChangedRules:
    """W, F, k and ε change at ticks that the adversary chooses, while marks run."""

    rules = (rule_of(3, 0, 2, 1), rule_of(1, 0, 2, 1), replace(rule_of(2, 1, 4, 2), epsilon=Fraction(2)))
    ticks = range(6)

    def law(self, marks: tuple[Mark, ...], tick: int, given: tuple[int, tuple[int, ...]]) -> Law:
        """Return the law of a tick whose state is the whole ledger."""
        rule, outcomes = self.rules[given[0]], []
        since = find_count_start(rule, marks, tick)
        for draw, chance in one_sided(Q, CAP):
            answer = step(rule, marks, tick, given[1][0 if since is None else since + 1], draw)
            new = tuple(mark for mark in answer.marks if mark.tick == tick)
            outcomes.append((public(answer), chance, without_counts((*marks, *new))))
        return collect(outcomes)

    def list_choices(self, worlds: tuple[World, World]) -> list[list[Any]]:
        def count(world: World, index: int, tick: int) -> tuple[int, tuple[int, ...]]:
            starts = (None, *self.ticks[:tick])
            return index, tuple(count_people(world, self.rules[index], tick, since) for since in starts)

        return [[tuple(count(w, index, tick) for w in worlds) for index in range(3)] for tick in self.ticks]

    @pytest.mark.promise(33)
    @pytest.mark.parametrize("stamp", range(3))
    def test_record_pays_one_answer(self, stamp: int) -> None:
        """
        A record pays once in every order of the rules: a mark that has ended is older than the window.

            tick        0  1  2  3  4
            W           3  1  1  1  3
            first       x  x  x            the count of tick 2 begins after tick 0,
            second         x  .  .         but no record of tick 1 is in its window
        """
        assert all(rule.answer_epsilon == Fraction(1, 2) for rule in self.rules)
        for lead in range(-2, 2):
            own, other = Record("ann", stamp + lead, stamp), Record("ann", stamp + 1, stamp + 1)
            for rest in (frozenset[Record](), frozenset({other}), frozenset({other._replace(person="bob")})):
                assert worst_ratio(self.law, (), self.list_choices((rest | {own}, rest))) == 1 / Q
