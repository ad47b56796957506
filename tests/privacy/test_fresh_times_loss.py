"""The exact loss of several numbers about one designated time, over all tiny sets of records, and its mutants.

A world is a set of records about the time at one location, each of one person, with the slot of its stamp. The real
decision code chooses whether the location is marked and where its count begins; the records are counted here, from the
definition. The adversary chooses the records that are removed, the ticks at which the input is incomplete, and changes
of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pytest

from monitor.privacy.at_times import AtTimesRule, find_count_start, may_answer, step
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.published_numbers import TimeNumber
from tests.privacy.exact_loss import Law, Mechanism, one_sided, worst_ratio
from tests.privacy.laws import laws_of

Q = Fraction(1, 2)
STAMPS, TICKS = range(4), range(6)
SHAPES = list(product((1, 2, 3), (1, 2, 3)))  # k, T
CAP = 4
UNKNOWN, MARKED = "unknown", "marked"


class Record(NamedTuple):
    """A record about the designated time: the person, and the slot of the stamp."""

    person: str
    stamp: int


World = frozenset[Record]
Numbers = tuple[TimeNumber, ...]
Counts = tuple[int, ...]
"""The count of a tick without a number, and after a number of each earlier tick."""
Given = tuple[AtTimesRule, Counts | None]


def count_people(world: World, tick: int, since: int | None) -> int:
    """Return the people whose record was stamped after the slot `since` (None: in any slot), up to the tick."""
    return len({who for who, stamp in world if stamp <= tick and (since is None or stamp > since)})


def list_counts(world: World, tick: int) -> Counts:
    return tuple(count_people(world, tick, since) for since in (None, *TICKS[:tick]))


@cache
def mechanism_of(unit: Fraction) -> Mechanism:
    """Return the real decision of a location at a tick, given the rule and the counts; `unit` costs a factor of 1/Q.

    The state is the location's numbers. Noisy counts from the cap on are one outcome.
    """

    def publish(given: tuple[AtTimesRule, int], noise: Noise) -> int | None:
        rule, count = given
        rows, noisy = step(rule, np.array([False]), np.array([count], dtype=np.int64), noise)
        return min(int(noisy[0]), CAP) if rows.size else None

    law_of = laws_of(publish, lambda q: one_sided(q, CAP), Q, unit)

    def law(numbers: Numbers, tick: int, given: Given) -> Law:
        rule, counts = given
        if counts is None:
            return {UNKNOWN: (Fraction(1), numbers)}
        if not may_answer(rule, numbers, tick):
            return {MARKED: (Fraction(1), numbers)}
        since = find_count_start(numbers)
        count, epsilon = counts[0 if since is None else since + 1], rule.answer_epsilon
        return {
            z: (chance, numbers if z is None else (*numbers, TimeNumber(tick, 0, epsilon)))
            for z, chance in law_of((rule, count)).items()
        }

    return law


def rule_of(answers: int, threshold: int) -> AtTimesRule:
    """Return a rule whose numbers cost one unit each."""
    return AtTimesRule(Fraction(answers), threshold, answers)


def find_loss(rule: AtTimesRule, worlds: tuple[World, World]) -> Fraction | float:
    """Return the worst ratio of a world and its neighbour, in units of 1/Q."""
    choices: list[Sequence[Any]] = []
    for tick in TICKS:
        full, less = (list_counts(world, tick) for world in worlds)
        assert all(few <= many <= few + 1 for few, many in zip(less, full, strict=True))
        choices.append([((rule, full), (rule, less)), ((rule, None), (rule, None))])
    return worst_ratio(mechanism_of(Fraction(1)), (), choices)


def list_subsets(person: str, least: int) -> Iterator[World]:
    """Yield all sets of at least so many records of a person."""
    own = [Record(person, stamp) for stamp in STAMPS]
    return (frozenset(some) for size in range(least, len(own) + 1) for some in combinations(own, size))


@pytest.mark.promise(12)
@pytest.mark.parametrize(("answers", "threshold"), SHAPES)
def test_each_record_pays_one_number(answers: int, threshold: int) -> None:
    """
    Over all worlds, the removal of n records of a person costs exactly min(n, k)·ε/k.

        k = 2: a record stamped in slot 0

            tick      0  1  2
            answer    z  s  s      after the number, the record is not counted again
    """
    rule, worst = rule_of(answers, threshold), dict[int, Fraction | float]()
    for mine, other in product(list_subsets("ann", 1), list_subsets("bob", 0)):
        for size in range(1, len(mine) + 1):
            for gone in map(frozenset, combinations(sorted(mine), size)):
                loss = find_loss(rule, (mine | other, (mine | other) - gone))
                worst[size] = max(loss, worst.get(size, loss))
    assert worst == {size: Q ** -min(size, answers) for size in range(1, len(STAMPS) + 1)}


class TestChangedRules:
    """ε, k and T change at ticks that the adversary chooses."""

    unit = Fraction(1, 2)
    rules = (AtTimesRule(Fraction(1), 1, 2), AtTimesRule(Fraction(1), 2), AtTimesRule(Fraction(3, 2), 1, 3))

    def find_worst(self, list_gone: Callable[[World], Iterator[World]]) -> Fraction | float:
        """Return the worst loss over all worlds of one person and the removals that are given for each."""
        mechanism = mechanism_of(self.unit)
        return max(
            worst_ratio(mechanism, (), [self.list_choices(mine, mine - gone, tick) for tick in TICKS])
            for mine in list_subsets("ann", 1)
            for gone in list_gone(mine)
        )

    def list_choices(self, full: World, less: World, tick: int) -> list[Any]:
        return [((rule, list_counts(full, tick)), (rule, list_counts(less, tick))) for rule in self.rules]

    @pytest.mark.promise(33)
    def test_record_pays_the_largest_number(self) -> None:
        """In every order of rules, a record pays the largest ε of one number."""
        assert self.find_worst(lambda mine: (frozenset({one}) for one in mine)) == Q ** -int(Fraction(1) / self.unit)

    @pytest.mark.promise(33)
    def test_person_pays_the_largest_epsilon(self) -> None:
        """In every order of rules, a person pays the largest ε."""
        assert self.find_worst(lambda mine: iter((mine,))) == Q ** -int(Fraction(3, 2) / self.unit)


def test_marked_locations() -> None:
    """A location is marked up to the tick of a number, by a number without its ε, and when less than ε/k is left."""
    half, rule = Fraction(1, 2), AtTimesRule(Fraction(1), 1, 2)
    first, second = TimeNumber(3, 9, half), TimeNumber(5, 4, half)
    assert [may_answer(rule, (first,), tick) for tick in (2, 3, 4)] == [False, False, True]
    assert not may_answer(rule, (first, second), 9)
    assert not may_answer(rule, (TimeNumber(3, 9, None),), 9)
    assert not may_answer(AtTimesRule(Fraction(1), 1), (first,), 9)
    assert may_answer(AtTimesRule(Fraction(3, 2), 1, 3), (first, second), 9)
    assert find_count_start((second, first)) == 5
    assert find_count_start(()) is None
