"""Marks of the earlier build, which counted visits reported after the tick, under the present rule, by enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any

import pytest

from monitor.privacy.over_time import Mark, OverTimeRule, step

Law = Mapping[Hashable, tuple[Fraction, Any]]
Pairs = list[tuple[Any, Any]]
WorstRatio = Callable[[Callable[..., Law], Hashable, Sequence[Pairs]], Fraction | float]
OneSided = Callable[[Fraction, int], tuple[tuple[int, Fraction], ...]]
Stream = tuple[int, list[Pairs]]
"""From which tick on the present build decides, and the pairs of counts at each tick."""

Q = Fraction(1, 2)
CAP = 3
TICKS = 7
RULES = ((1, 0), (1, 1), (2, 1))  # W, F: W + F = 1, 2, 3
CHANGES = list(product(RULES, RULES, (1, 2)))  # W and F before and after, k

VISITS = [(change, stamped) for change in (1, 2, 3) for stamped in range(change + 2)]
"""From which tick on the present build decides, and the slot in which a visit is stamped."""


def rule_of(shape: tuple[int, int], answers: int) -> OverTimeRule:
    return OverTimeRule(Fraction(1), answers, 1, *shape)


def counting_ticks(stamped: int, change: int, before: OverTimeRule, after: OverTimeRule) -> list[int]:
    """Return the ticks that count a visit: from the tick before its slot on (earlier build), or from its slot on."""
    return [
        tick
        for tick in range(TICKS)
        if (
            stamped - 1 <= tick < stamped + before.window + before.max_lead
            if tick < change
            else stamped <= tick < stamped + after.window + after.max_lead
        )
    ]


def pairs_at(inside: bool) -> Pairs:
    """Return the count pairs (under D, D') of another person, the person's other visits and the removed ones.

    The adversary may also choose "unknown".
    """
    people = product((0, 1), (0, 1), (0, 1) if inside else (0,))
    return [*sorted({(o + max(r, i), o + r) for o, r, i in people}), (None, None)]


def streams(before: OverTimeRule, after: OverTimeRule) -> Iterator[Stream]:
    for change, stamped in VISITS:
        ticks = counting_ticks(stamped, change, before, after)
        yield change, [pairs_at(tick in ticks) for tick in range(TICKS)]


def decisions_of(change: int, before: OverTimeRule, after: OverTimeRule, one_sided: OneSided, *, flagged: bool) -> Any:
    """Return the decisions of both builds; `flagged`: whether the present build knows the earlier build's marks."""
    earlier = replace(before, max_lead=before.max_lead + 1)  # its marks ran one tick longer: W + F + 1

    def law(marks: tuple[Mark, ...], tick: int, count: int | None) -> Law:
        outcomes: dict[Hashable, tuple[Fraction, Any]] = {}
        rule = earlier if tick < change else after
        known = tuple(replace(mark, counted_after=flagged and mark.tick < change <= tick) for mark in marks)
        for draw, chance in one_sided(Q, CAP):
            answer = step(rule, known, tick, count, draw)
            noisy_count = None if answer.noisy_count is None else min(answer.noisy_count, CAP)
            new = tuple(replace(mark, noisy_count=0) for mark in answer.marks if mark.tick == tick)
            outcome = answer.status, noisy_count, answer.resumes_at
            outcomes[outcome] = outcomes.get(outcome, (Fraction(0), None))[0] + chance, (*marks, *new)
        return outcomes

    return law


def worst_of(
    before: OverTimeRule, after: OverTimeRule, worst_ratio: WorstRatio, one_sided: OneSided, *, flagged: bool
) -> Fraction | float:
    decisions = cache(partial(decisions_of, before=before, after=after, one_sided=one_sided, flagged=flagged))
    return max(worst_ratio(decisions(change), (), choices) for change, choices in streams(before, after))


def most_counts(before: OverTimeRule, after: OverTimeRule) -> int:
    return max(len(counting_ticks(stamped, change, before, after)) for change, stamped in VISITS)


@pytest.mark.promise(33)
@pytest.mark.parametrize(("before", "after", "answers"), CHANGES)
def test_visit_costs_epsilon_across_the_upgrade(
    before: tuple[int, int], after: tuple[int, int], answers: int, worst_ratio: WorstRatio, one_sided: OneSided
) -> None:
    """
    A visit is charged for exactly k answers of ε_l/k for all changes of W and F, with "unknown" at any ticks.

        W + F = 1, then 2 from tick 1 on. A visit stamped in slot 1:

            tick      0  1  2
            counted   x  x  x
            answer    z  -  -
    """
    old, new = rule_of(before, answers), rule_of(after, answers)
    assert worst_of(old, new, worst_ratio, one_sided, flagged=True) == Q ** -min(answers, most_counts(old, new))


@pytest.mark.promise(33)
@pytest.mark.parametrize(("before", "after", "answers"), CHANGES)
def test_pause_one_tick_short_is_caught(
    before: tuple[int, int], after: tuple[int, int], answers: int, worst_ratio: WorstRatio, one_sided: OneSided
) -> None:
    """If the marks run for only W + F ticks, the loss is 2ε where W + F has grown."""
    old, new = rule_of(before, answers), rule_of(after, answers)
    spent = answers + 1 if sum(after) > sum(before) else answers
    assert worst_of(old, new, worst_ratio, one_sided, flagged=False) == Q ** -min(spent, most_counts(old, new))


def test_stream_count_matches_theory_page(stated_streams: Callable[[str], int]) -> None:
    """The number of streams over all changes of W and F, and all k, is the one in docs/theory.md."""
    number = sum(
        math.prod(map(len, choices))
        for before, after, answers in CHANGES
        for _, choices in streams(rule_of(before, answers), rule_of(after, answers))
    )
    print(f"Algorithm 3 across builds: {number} streams")
    assert number == stated_streams("Algorithm 3, one visit and marks of the earlier build")
