"""What one person pays where the configuration changes in mid-stream: ε, k, T, W, F, the horizon, what is watched.

A changed service reads its facts anew from the whole input under the new rules, and folds the whole ledger; the ticks
before the change were decided under the old ones. Ratios are counted in units of ε: one is a ratio of 1/Q.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.privacy.over_time import Mark
from monitor.privacy.periods import Bound, PaidAnswer, Place
from monitor.privacy.periods import most_paid as bounded
from monitor.release.decide import Decider
from monitor.release.state import LedgerState

Q = Fraction(1, 2)
UNIT = Fraction(1, 6)
LAST = 6
NOBODY = (0,) * (LAST + 1)
SHAPES = [(60 * first + 10, 60 * last + 50) for first in range(4) for last in range(first, 4)]
Stages = tuple[tuple[int, Any], ...]
"""By tick from which it holds, the town; in order."""


def town_at(stages: Stages, tick: int) -> Any:
    return next(town for begins, town in reversed(stages) if begins <= tick)


@cache
def worst(stages: Stages, cell: Any, tick: int, pairs: tuple[tuple[int, int], ...], state: Any) -> Fraction:
    """As `Town.worst`, each tick by the law of its town; a cell that is not asked about says nothing."""
    if all(one == other for one, other in pairs):
        return Fraction(1)
    town, rest = town_at(stages, tick), pairs[1:]
    if cell not in town.at(tick):
        return worst(stages, cell, tick + 1, rest, state)
    ratios = []
    for count, neighbour in (pairs[0], (None, None)):
        other = law(town, cell, tick, neighbour, state)
        for outcome, (chance, after) in law(town, cell, tick, count, state).items():
            if chance:
                ratios.append(chance / other[outcome][0] * worst(stages, cell, tick + 1, rest, after))
    return max(ratios)


@cache
def law(town: Any, cell: Any, tick: int, count: int | None, state: Any) -> dict[Any, tuple[Fraction, Any]]:
    found = town.law(tick, {cell: count}, {cell: state}, cell)
    return {outcome: (chance, after[cell]) for outcome, (chance, after) in found.items()}


@cache
def read(town: Any, visit: Any) -> dict[Any, tuple[int, ...]]:
    found: dict[Any, tuple[int, ...]] = town.read([[visit]])[0]
    return found


def loss(stages: Stages, cell: Any, visit: Any, company: int) -> Fraction:
    """The worst ratio of a cell without this visit, with that many others always there."""
    pairs = []
    for place, tick in enumerate(range(-1, LAST)):
        counts = read(town_at(stages, tick), visit).get(cell)
        pairs.append((company + (counts[place] if counts else 0), company))
    return worst(stages, cell, -1, tuple(pairs), () if cell.time is None else None)


def changing_towns(make_town: Callable[..., Any]) -> list[Any]:
    """Four towns that differ in W, F, k, T, ε and the horizon."""
    rules = [(1, 0, 1, 1, Fraction(1), 2), (2, 1, 2, 1, Fraction(1), 3), (3, 0, 1, 2, Fraction(1, 2), 1)]
    rules.append((1, 1, 3, 1, Fraction(1), 2))
    return [
        make_town(window, max_lead, answers, threshold, (90,), 4, horizon, epsilon, (0,), UNIT, LAST, remembers=True)
        for window, max_lead, answers, threshold, epsilon, horizon in rules
    ]


def test_one_visit_pays_the_largest_epsilon_at_most_whatever_changes(
    make_town: Callable[..., Any],
    visit: Callable[..., Any],
    cell_of: Callable[..., Any],
    stated_streams: Callable[[str], int],
) -> None:
    """
    Every visit, every change between four sets of rules, at every tick: max(ε_l before, ε_l after), and 1·ε at a time.

        W + F         1  1  1  3  3  3     a visit of slot 1 is in the counts of one tick more
        tick         -1  0  1  2  3  4
        counted             #  #
        answer              z  -  -        the mark that ended at tick 1 is lengthened to tick 3
    """
    towns = changing_towns(make_town)
    visits = [visit("ann", "inn", *shape, moment) for shape, moment in product(SHAPES, range(8))]
    reached: dict[Fraction, Fraction] = {}
    streams = 0
    for (before, after), change in product(permutations(towns, 2), range(5)):
        stages = ((-1, before), (change, after))
        most = max(before.epsilon, after.epsilon)
        for one, company in product(visits, (0, 1)):
            streams += 1
            ratio = loss(stages, cell_of(0), one, company)
            assert ratio <= Q ** -int(most / UNIT)
            assert loss(stages, cell_of(0, 90), one, company) <= 1 / Q
            reached[most] = max(reached.get(most, Fraction(0)), ratio)
    print(f"{streams} streams with a change in their midst")
    assert streams == stated_streams("The service, one visit and a change of rules")
    assert reached == {most: Q ** -int(most / UNIT) for most in reached}


def test_a_third_location_makes_marks_that_run_exceed_their_shares_by_what_the_check_adds(
    make_town: Callable[..., Any], visit: Callable[..., Any], cell_of: Callable[..., Any]
) -> None:
    """ε/2 was answered at two places; with a third one each may answer at ε/3: 4/3·ε for who was at all of them."""
    two = make_town(2, 0, 1, 1, (), 4, 2, Fraction(1, 2), (0, 1), UNIT, LAST, remembers=True)
    three = make_town(2, 0, 1, 1, (), 4, 2, Fraction(1, 3), (0, 1, 2), UNIT, LAST, remembers=True)
    worst_of_all = Fraction(0)
    for change, shape, moment in product(range(5), SHAPES, range(8)):
        ratio = Fraction(1)
        for row, place in enumerate(("inn", "mill", "farm")):
            one = visit("ann", place, *shape, moment)
            ratio *= loss(((-1, two), (change, three)), cell_of(row), one, 0)
        worst_of_all = max(worst_of_all, ratio)
    (rule,) = {rule for monitor in three.parameters.over_time for rule in monitor.rules}
    held = (PaidAnswer.of(Mark(0, 1, Fraction(1, 2), 1), 0, rule.mark_lifetime),)
    places = [Place(paid, Bound.of(rule), 1) for paid in (held, held, ())]
    assert bounded(places, 1, 0) == Fraction(4, 3)
    assert worst_of_all == Q ** -int(Fraction(4, 3) / UNIT)


def test_two_configurations_that_take_turns_pay_the_larger_of_both_at_each_place(
    make_town: Callable[..., Any], visit: Callable[..., Any], cell_of: Callable[..., Any]
) -> None:
    """
    Places lie in partitions of their own, whose owners change at any tick: every course of three changes at each.

        tick    -1  0  1  2  3  4       ε/2 at X and Y under the old one, ε/3 at X, Y and Z under the new one
        X        old …
        Z        -  new  old  new …     4/3·ε for who was at all three, as the check has it that ends each takeover
    """
    old = make_town(2, 0, 1, 1, (), 4, 2, Fraction(1, 2), (0, 1), UNIT, LAST, remembers=True)
    new = make_town(2, 0, 1, 1, (), 4, 2, Fraction(1, 3), (0, 1, 2), UNIT, LAST, remembers=True)
    courses = {
        ((-1, first), *((tick, (old, new)[(number + (first is old)) % 2]) for number, tick in enumerate(changes)))
        for first in (old, new)
        for count in range(4)
        for changes in combinations(range(4), count)
    }
    total, places = Fraction(1), []
    for row, place in enumerate(("inn", "mill", "farm")):
        visits = [visit("ann", place, *shape, moment) for shape, moment in product(SHAPES, range(8))]
        total *= max(loss(stages, cell_of(row), one, 0) for stages in courses for one in visits)
        bounds = [Bound.of(town.parameters.over_time[0].rules[0]) for town in (old, new) if row in town.watched]
        places.append(Place((), bounds[0] if len(bounds) == 1 else bounds[0].combine(bounds[1]), -1))
    assert bounded(places, 1, -1) == Fraction(4, 3)
    assert total == Q ** -int(Fraction(4, 3) / UNIT)


def test_a_location_that_is_watched_again_still_holds_what_it_answered_before(
    make_town: Callable[..., Any], visit: Callable[..., Any], cell_of: Callable[..., Any]
) -> None:
    """
    For some ticks it is not watched, and nothing is said of it; its marks are in the ledger all the same.

        watched   x  x  .  x  x  x
        answer    z  -     -
    """
    town = make_town(3, 0, 1, 1, (), 4, 2, Fraction(1), (0, 1), UNIT, LAST, remembers=True)
    without = make_town(3, 0, 1, 1, (), 4, 2, Fraction(1), (1,), UNIT, LAST, remembers=True)
    ratios = []
    for (gone, back), shape, moment in product([(0, 1), (1, 2), (1, 3), (2, 4)], SHAPES, range(8)):
        stages = ((-1, town), (gone, without), (back, town))
        ratios.append(loss(stages, cell_of(0), visit("ann", "inn", *shape, moment), 0))
    assert max(ratios) == Q ** -int(1 / UNIT)


SLOTS = [(60 * slot + 20, 60 * slot + 40) for slot in range(4)]
LONG = (10, 230)


@cache
def readings(town: Any, visits: tuple[Any, ...]) -> dict[Any, tuple[int, ...]]:
    """What each tick reads of these visits, those of one moment in one record."""
    moments = sorted({one.moment for one in visits})
    found: dict[Any, tuple[int, ...]] = town.read([[one for one in visits if one.moment == at] for at in moments])[0]
    return found


def spent(stages: Stages, answered: Sequence[int], tick: int) -> Fraction:
    """The ε of the answers before a tick whose marks run at it: under their own rule, or longer by the tick's."""
    mark_lifetime = town_at(stages, tick).mark_lifetime
    held = [at for at in answered if at + max(town_at(stages, at).mark_lifetime, mark_lifetime) > tick]
    return sum((town_at(stages, at).answer_epsilon for at in held), Fraction(0))


def most_paid(stages: Stages, counted: tuple[int, ...]) -> Fraction:
    """The most that answers at some of these ticks cost together, where each is given that the rules allow."""

    def best(place: int, answered: tuple[int, ...]) -> Fraction:
        if place == len(counted):
            return sum((town_at(stages, at).answer_epsilon for at in answered), Fraction(0))
        tick = counted[place]
        town = town_at(stages, tick)
        without = best(place + 1, answered)
        if spent(stages, answered, tick) + town.answer_epsilon > town.epsilon:
            return without
        return max(without, best(place + 1, (*answered, tick)))

    return best(0, ())


def allowed(stages: Stages, counted: tuple[int, ...]) -> Fraction:
    """What each rule allows in the N ticks decided under it, in sum: (ε/k)·(k·⌊N/(W + F)⌋ + min(k, N mod (W + F)))."""
    total = Fraction(0)
    for place, (begins, town) in enumerate(stages):
        ends = stages[place + 1][0] if place + 1 < len(stages) else LAST
        ticks = len(range(max(begins, counted[0]), min(ends, counted[-1] + 1))) if counted else 0
        answers = town.answers * (ticks // town.mark_lifetime) + min(town.answers, ticks % town.mark_lifetime)
        total += town.answer_epsilon * answers
    return total


def changed_pairs(stages: Stages, cell: Any, read_of: tuple[Any, ...]) -> tuple[tuple[int, int], ...]:
    """Counts under D and D' tick by tick; `read_of` has those of both, by the stages' towns in their order."""
    found = []
    for place, tick in enumerate(range(-1, LAST)):
        stage = max(n for n, (begins, _) in enumerate(stages) if begins <= tick)
        full, kept = read_of[stage]
        found.append((full.get(cell, NOBODY)[place], kept.get(cell, NOBODY)[place]))
    return tuple(found)


def removals(visit: Callable[..., Any]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """All sets of two visits of one person at the inn, a slot long or all four, each with what may be left of it."""
    visits = [visit("ann", "inn", *shape, moment) for shape, moment in product([*SLOTS, LONG], range(8))]
    return [(both, kept) for both in combinations(visits, 2) for kept in ((), both[:1], both[1:])]


def losses_of(stages: Stages, cell: Any, changes: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Fraction, int, Any]]:
    """Of each D and D' that are read apart: the worst loss in ε, how many visits D' lacks, and at which ticks."""
    known = set()
    for full, kept in changes:
        read_of = tuple((readings(town, full), readings(town, kept)) for _, town in stages)
        known.add((changed_pairs(stages, cell, read_of), len(full) - len(kept)))
    for pairs, lacks in known:
        counted = tuple(tick for tick, (one, other) in zip(range(-1, LAST), pairs, strict=True) if one != other)
        for company in (0, 1):
            given = tuple((one + company, other + company) for one, other in pairs)
            ratio = worst(stages, cell, -1, given, () if cell.time is None else None)
            yield UNIT * (ratio.numerator.bit_length() - 1), lacks, counted
            assert ratio == 2 ** (ratio.numerator.bit_length() - 1)


def test_two_visits_across_a_change_pay_what_both_rules_allow_in_sum(
    make_town: Callable[..., Any],
    visit: Callable[..., Any],
    cell_of: Callable[..., Any],
    stated_streams: Callable[[str], int],
) -> None:
    """
    Exactly what a schedule within the rules can answer: each rule's formula in sum at most, and most changes meet it.

        W + F       1  1  1  3  3  3  3
        tick       -1  0  1  2  3  4  5
        counted           #  #  #  #        two visits, of slot 1 and of slot 3
        answer            z  -  -  z        the mark of tick 1 is lengthened to tick 3
    """
    towns = changing_towns(make_town)
    changes = removals(visit)
    reached = dict.fromkeys(permutations(range(len(towns)), 2), False)
    for (first, second), change in product(reached, range(5)):
        before, after = towns[first], towns[second]
        stages = ((-1, before), (change, after))
        for paid, lacks, counted in losses_of(stages, cell_of(0), changes):
            assert paid == most_paid(stages, counted) <= allowed(stages, counted)
            assert paid <= lacks * max(before.epsilon, after.epsilon)
            across = bool(counted) and counted[0] < change <= counted[-1]
            reached[first, second] |= across and paid == allowed(stages, counted)
        assert all(paid <= 3 * UNIT for paid, _, _ in losses_of(stages, cell_of(0, 90), changes))
    streams = len(reached) * 5 * len(changes) * 2
    print(f"{streams} streams of two visits with a change in their midst")
    assert streams == stated_streams("The service, two visits and a change of rules")
    # Between these, what was answered before always holds back something of what is allowed after.
    assert {pair for pair, met in reached.items() if not met} == {(0, 1), (0, 3), (1, 0), (3, 0)}


def test_two_visits_at_a_location_that_is_watched_again_pay_what_its_rule_allows(
    make_town: Callable[..., Any],
    visit: Callable[..., Any],
    cell_of: Callable[..., Any],
    stated_streams: Callable[[str], int],
) -> None:
    """Before it is left out, and after: the marks of before hold on, and nothing is said of it in between."""
    changes = removals(visit)
    streams, most = 0, Fraction(0)
    for window, answers, (gone, back) in product((1, 2), (1, 2), [(0, 1), (1, 2), (1, 3), (2, 4)]):
        town = make_town(window, 0, answers, 1, (), 4, 2, Fraction(1), (0, 1), UNIT, LAST, remembers=True)
        without = make_town(window, 0, answers, 1, (), 4, 2, Fraction(1), (1,), UNIT, LAST, remembers=True)
        stages = ((-1, town), (gone, without), (back, town))
        for paid, lacks, counted in losses_of(stages, cell_of(0), changes):
            assert paid == most_paid(stages, counted) <= allowed(((-1, town),), counted)
            assert paid <= lacks
            most = max(most, paid)
        streams += len(changes) * 2
    print(f"{streams} streams of two visits at a location that is left out for some ticks")
    assert streams == stated_streams("The service, two visits and a location watched again")
    assert most == 2


@dataclass
class NoNoise:
    """Draws 0."""

    secure: bool = True

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:  # noqa: ARG002  # it is 0 at any
        return np.zeros(size, np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:  # noqa: ARG002  # as above
        return np.equal(gaps, 0)


def test_answers_that_expired_count_as_spent(make_town: Callable[..., Any], cell_of: Callable[..., Any]) -> None:
    """
    A ledger whose records below tick 4's have expired, under a longer window: W + F = 9.

        tick    4  5  6  …  13  14
        answer     p  p     p   s       an earlier build's answer at tick 4 may hold a visit stamped in slot 5
    """
    town = make_town(9, 0, 1, 2, times=(), until=20)
    state = LedgerState(expired_until=town.parameters.grid.as_of(4))
    decider, said = Decider(town.parameters, [0], NoNoise()), []
    for tick in range(5, 17):
        records = decider.decide(tick, town._evidence(tick, {cell_of(0): 0}), state).records
        said.append(json.loads(records[0].value)["status"])
    assert said == [*["paused"] * 9, "safe", "safe", "safe"]
