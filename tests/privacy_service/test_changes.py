"""The payment of one person when the configuration changes: ε, k, T, W, F, the horizon, or the watched places.

A changed service reads the whole input again under the new rules, and folds the whole ledger. The ticks before the
change were decided under the old rules. Ratios are counted in units of ε: one unit is a ratio of 1/Q.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, permutations, product
from typing import Any, NamedTuple

import pytest

from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.over_time import Mark
from monitor.privacy.payment_across_changes import Bound, PaidAnswer, Place
from monitor.privacy.payment_across_changes import compute_most_paid as bound_of
from monitor.ticks.collect_answers import Decider
from tests.builders import select
from tests.privacy.laws import Given
from tests.privacy_service.cells import Cell, Visit, read_digit
from tests.privacy_service.town import Pairs, Stages, Town, begin_at, drop_equal_end, find_town, find_worst

pytestmark = pytest.mark.long

Q = Fraction(1, 2)
UNIT = Fraction(1, 6)
LAST = 6
NOBODY = (0,) * (LAST + 1)
SHAPES = [(60 * first + 10, 60 * last + 50) for first in range(4) for last in range(first, 4)]


@cache
def read(town: Any, visit: Any) -> dict[Any, tuple[int, ...]]:
    counts: dict[Any, tuple[int, ...]] = town.read([[visit]])[0]
    return counts


def loss(stages: Stages, cell: Any, visit: Any, company: int) -> Fraction:
    """Return the worst ratio of a cell without this visit, if `company` others are always present."""
    pairs = []
    for place, tick in enumerate(range(-1, LAST)):
        counts = read(find_town(stages, tick), visit).get(cell)
        pairs.append((company + (counts[place] if counts else 0), company))
    ratio = find_worst(stages, cell, -1, tuple(pairs))
    assert isinstance(ratio, Fraction)
    return ratio


def make_changing_towns() -> list[Any]:
    """Return four towns that differ in W, F, k, T, ε and the horizon."""
    rules = [(1, 0, 1, 1, Fraction(1), 2), (2, 1, 2, 1, Fraction(1), 3), (3, 0, 1, 2, Fraction(1, 2), 1)]
    rules.append((1, 1, 3, 1, Fraction(1), 2))
    return [
        Town(window, max_lead, answers, threshold, (90,), 4, horizon, epsilon, (0,), UNIT, LAST, remembers=True)
        for window, max_lead, answers, threshold, epsilon, horizon in rules
    ]


@pytest.mark.promise(33)
def test_one_visit_pays_the_largest_epsilon(stated_streams: Callable[[str], int]) -> None:
    """
    For each visit and each change between four rules, the payment is max(ε_l/k before, after), and 1·ε per time.

        W + F         1  1  1  3  3  3     a visit of slot 1 is in the counts of one tick more
        tick         -1  0  1  2  3  4
        counted             #  #
        answer              z  -  -        the mark that ended at tick 1 is lengthened to tick 3
    """
    towns = make_changing_towns()
    visits = [Visit("ann", "inn", *shape, moment) for shape, moment in product(SHAPES, range(8))]
    reached: dict[Fraction, Fraction] = {}
    streams = 0
    for (before, after), change in product(permutations(towns, 2), range(5)):
        stages = ((-1, before), (change, after))
        most = max(before.answer_epsilon, after.answer_epsilon)
        for report, company in product(visits, (0, 1)):
            streams += 1
            ratio = loss(stages, Cell(0), report, company)
            assert ratio <= Q ** -int(most / UNIT)
            assert loss(stages, Cell(0, 90), report, company) <= 1 / Q
            reached[most] = max(reached.get(most, Fraction(0)), ratio)
    print(f"{streams} streams with a change in their midst")
    assert streams == stated_streams("The service, one visit and a change of rules")
    assert reached == {most: Q ** -int(most / UNIT) for most in reached}


@pytest.mark.promise(33)
def test_added_location_exceeds_shares_as_checked() -> None:
    """Two places answered at ε/2, then with a third place each at ε/3: a person at all of them pays 4/3·ε."""
    two = Town(2, 0, 1, 1, (), 4, 2, Fraction(1, 2), (0, 1), UNIT, LAST, remembers=True)
    three = Town(2, 0, 1, 1, (), 4, 2, Fraction(1, 3), (0, 1, 2), UNIT, LAST, remembers=True)
    worst_of_all = Fraction(0)
    for change, shape, moment in product(range(5), SHAPES, range(8)):
        ratio = Fraction(1)
        for row, place in enumerate(("inn", "mill", "farm")):
            report = Visit("ann", place, *shape, moment)
            ratio *= loss(((-1, two), (change, three)), Cell(row), report, 0)
        worst_of_all = max(worst_of_all, ratio)
    (rule,) = {rule for monitor in select(three.parameters, OverTime) for rule in monitor.rules}
    answered = (PaidAnswer.of(Mark(0, 1, Fraction(1, 2), 1), 0, rule.mark_lifetime),)
    places = [Place(paid, Bound.of(rule), 1) for paid in (answered, answered, ())]
    assert bound_of(places, 1, 0) == Fraction(4, 3)
    assert worst_of_all == Q ** -int(Fraction(4, 3) / UNIT)


@pytest.mark.promise(15)
def test_alternating_configurations_pay_the_larger() -> None:
    """
    Places are in separate partitions, whose owners may change at any tick: all courses of three changes at each.

        tick    -1  0  1  2  3  4       ε/2 at X and Y under the old one, ε/3 at X, Y and Z under the new one
        X        old …
        Z        -  new  old  new …     4/3·ε for a person at all three, as the check after each takeover computes
    """
    old = Town(2, 0, 1, 1, (), 4, 2, Fraction(1, 2), (0, 1), UNIT, LAST, remembers=True)
    new = Town(2, 0, 1, 1, (), 4, 2, Fraction(1, 3), (0, 1, 2), UNIT, LAST, remembers=True)
    courses = {
        ((-1, first), *((tick, (old, new)[(number + (first is old)) % 2]) for number, tick in enumerate(changes)))
        for first in (old, new)
        for count in range(4)
        for changes in combinations(range(4), count)
    }
    total, places = Fraction(1), []
    for row, place in enumerate(("inn", "mill", "farm")):
        visits = [Visit("ann", place, *shape, moment) for shape, moment in product(SHAPES, range(8))]
        total *= max(loss(stages, Cell(row), report, 0) for stages in courses for report in visits)
        bounds = [Bound.of(select(town.parameters, OverTime)[0].rules[0]) for town in (old, new) if row in town.watched]
        places.append(Place((), bounds[0] if len(bounds) == 1 else bounds[0].combine(bounds[1]), -1))
    assert bound_of(places, 1, -1) == Fraction(4, 3)
    assert total == Q ** -int(Fraction(4, 3) / UNIT)


@pytest.mark.promise(33)
def test_rewatched_location_keeps_its_marks() -> None:
    """
    A location that is not watched for some ticks has no answers then, and keeps its marks in the ledger.

        watched   x  x  .  x  x  x
        answer    z  -     -
    """
    town = Town(3, 0, 1, 1, (), 4, 2, Fraction(1), (0, 1), UNIT, LAST, remembers=True)
    without = Town(3, 0, 1, 1, (), 4, 2, Fraction(1), (1,), UNIT, LAST, remembers=True)
    ratios = []
    for (gone, back), shape, moment in product([(0, 1), (1, 2), (1, 3), (2, 4)], SHAPES, range(8)):
        stages = ((-1, town), (gone, without), (back, town))
        ratios.append(loss(stages, Cell(0), Visit("ann", "inn", *shape, moment), 0))
    assert max(ratios) == Q ** -int(1 / UNIT)


SLOTS = [(60 * slot + 20, 60 * slot + 40) for slot in range(4)]
LONG = (10, 230)


@cache
def read_all(town: Any, visits: tuple[Any, ...]) -> dict[Any, tuple[int, ...]]:
    """Return the counts of each tick for these visits; the visits of one moment are in one record."""
    moments = sorted({visit.moment for visit in visits})
    records = [[visit for visit in visits if visit.moment == moment] for moment in moments]
    counts: dict[Any, tuple[int, ...]] = town.read(records)[0]
    return counts


class Spent(NamedTuple):
    """An earlier answer: its tick, the tick after its mark, and its ε in units."""

    at: int
    end: int
    units: int

    def lengthen(self, town: Town, tick: int) -> Spent:
        """Return the answer at a tick of a town: a longer rule lengthens the mark, and a shorter one does not."""
        longer = self.at + town.mark_lifetime
        return self._replace(end=max(self.end, longer)) if longer > tick else self


@cache
def count_units(town: Town) -> tuple[int, int]:
    """Return in units what an answer costs, and what all whose marks run may cost together."""
    return int(town.answer_epsilon / UNIT), int(town.epsilon / UNIT)


def find_most_paid(stages: Stages, pairs: Pairs) -> Fraction:
    """Return the most ε of answers whose counts differ between D and D', over all sequences that the rules allow.

    While a mark runs, a tick counts what was reported since the latest one. So an answer whose count does not differ
    costs nothing, but a later count begins after it.
    """
    return UNIT * _find_most_units(begin_at(stages, -1), drop_equal_end(pairs), ())


@cache
def _find_most_units(stages: Stages, pairs: Pairs, earlier: tuple[Spent, ...]) -> int:
    if not pairs:
        return 0
    tick, town = stages[0]
    answered = tuple(spent.lengthen(town, tick) for spent in earlier)
    later, rest = begin_at(stages, tick + 1), pairs[1:]
    without = _find_most_units(later, rest, answered)
    running = [spent for spent in answered if spent.end > tick]
    units, most = count_units(town)
    if not town.answers_about(Cell(0), tick) or sum(spent.units for spent in running) + units > most:
        return without
    since = max((spent.at for spent in running), default=None)
    full, kept = (read_digit(count, since) for count in pairs[0])
    answer = Spent(tick, tick + town.mark_lifetime, units)
    return max(without, (units if full != kept else 0) + _find_most_units(later, rest, (*answered, answer)))


def list_counted(pairs: Pairs) -> tuple[int, ...]:
    """Return the ticks at which any count differs between D and D'."""
    return tuple(tick for tick, (full, kept) in zip(range(-1, LAST), pairs, strict=True) if full != kept)


def allow(town: Town, ticks: int) -> Fraction:
    """Return (ε/k)·(k·⌊N/(W + F)⌋ + min(k, N mod (W + F))) for the rule of a town and N ticks."""
    answers = town.answers * (ticks // town.mark_lifetime) + min(town.answers, ticks % town.mark_lifetime)
    return town.answer_epsilon * answers


def count_ticks(stages: Stages, counted: tuple[int, ...]) -> list[int]:
    """Return for each stretch under one rule its number of ticks from the first to the last of these ticks."""
    ends = [begins for begins, _ in stages[1:]] + [counted[-1] + 1]
    bounds = zip(stages, ends, strict=True)
    return [len(range(max(begins, counted[0]), min(end, counted[-1] + 1))) for (begins, _), end in bounds]


@cache
def sum_allowed(stages: Stages, counted: tuple[int, ...]) -> Fraction:
    """Return the sum of the formula over the stretches under one rule."""
    numbers = count_ticks(stages, counted) if counted else [0] * len(stages)
    return sum((allow(town, ticks) for (_, town), ticks in zip(stages, numbers, strict=True)), Fraction(0))


def sum_by_rule(stages: Stages, counted: tuple[int, ...]) -> Fraction:
    """Return the sum of the formula over the rules, with all ticks of a rule together."""
    ticks: dict[Town, int] = {}
    for (_, town), number in zip(stages, count_ticks(stages, counted), strict=True):
        ticks[town] = ticks.get(town, 0) + number
    return sum((allow(town, number) for town, number in ticks.items()), Fraction(0))


@cache
def list_removals() -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return all sets of two visits of one person at the inn, of one slot or of all four, with each possible rest."""
    visits = [Visit("ann", "inn", *shape, moment) for shape, moment in product([*SLOTS, LONG], range(8))]
    return [(both, kept) for both in combinations(visits, 2) for kept in ((), both[:1], both[1:])]


@cache
def list_pairs(town: Town, cell: Any) -> list[Pairs]:
    """Return the counts of a cell with and without the removed visits, for each of the removals."""
    reads = ((read_all(town, full), read_all(town, kept)) for full, kept in list_removals())
    return [tuple(zip(full.get(cell, NOBODY), kept.get(cell, NOBODY), strict=True)) for full, kept in reads]


@cache
def list_different_pairs(towns: tuple[Town, ...], cell: Any) -> set[tuple[tuple[Pairs, ...], int]]:
    """Return the different counts of a cell in some towns with and without the visits, and how many D' lacks."""
    lacks = [len(full) - len(kept) for full, kept in list_removals()]
    in_each = zip(*(list_pairs(town, cell) for town in towns), strict=True)
    return set(zip(in_each, lacks, strict=True))


def find_losses(stages: Stages, cell: Any) -> Iterator[tuple[Fraction, int, Pairs]]:
    """Return for each different D and D': the worst loss in ε, how many visits D' lacks, and the counts of both."""
    places = [*(begins + 1 for begins, _ in stages), LAST + 1]
    known = {
        (tuple(pair for pairs, at in zip(in_each, pairwise(places), strict=True) for pair in pairs[slice(*at)]), lacks)
        for in_each, lacks in list_different_pairs(tuple(town for _, town in stages), cell)
    }
    for pairs, lacks in known:
        for company in (0, 1):
            given = tuple((full + company, kept + company) for full, kept in pairs)
            ratio = find_worst(stages, cell, -1, given)
            assert isinstance(ratio, Fraction)
            yield UNIT * (ratio.numerator.bit_length() - 1), lacks, pairs
            assert ratio == 2 ** (ratio.numerator.bit_length() - 1)


@pytest.mark.promise(33)
def test_two_visits_across_a_change(stated_streams: Callable[[str], int]) -> None:
    """
    The loss equals the best schedule within the rules, is at most the formula of each stretch, and mostly reaches it.

        W + F       1  1  1  3  3  3  3
        tick       -1  0  1  2  3  4  5
        counted           #  #  #  #        two visits, of slot 1 and of slot 3
        answer            z  -  -  z        the mark of tick 1 is lengthened to tick 3
    """
    towns = make_changing_towns()
    reached = dict.fromkeys(permutations(range(len(towns)), 2), False)
    for (first, second), change in product(reached, range(5)):
        before, after = towns[first], towns[second]
        stages = ((-1, before), (change, after))
        for paid, lacks, pairs in find_losses(stages, Cell(0)):
            counted = list_counted(pairs)
            assert paid == find_most_paid(stages, pairs) <= sum_allowed(stages, counted)
            assert paid <= lacks * max(before.answer_epsilon, after.answer_epsilon)
            across = bool(counted) and counted[0] < change <= counted[-1]
            reached[first, second] |= across and paid == sum_allowed(stages, counted)
        assert all(paid <= 3 * UNIT for paid, _, _ in find_losses(stages, Cell(0, 90)))
    streams = len(reached) * 5 * len(list_removals()) * 2
    print(f"{streams} streams of two visits with a change in their midst")
    assert streams == stated_streams("The service, two visits and a change of rules")
    # For these changes, earlier answers always prevent a part of the later ones.
    assert {pair for pair, met in reached.items() if not met} == {(0, 1), (0, 3), (1, 0), (3, 0)}


@pytest.mark.promise(33)
def test_two_visits_across_a_rollback(stated_streams: Callable[[str], int]) -> None:
    """
    After a change and its rollback the loss is at most the formula of each of the three stretches.

        tick       -1  0  1  2  3  4  5
        rule        A  A  B  A  A  A  A      A: W = 3, k = 1, ε_l = 1/2; B: an answer costs 1/3
        counted        #  #  #  #
        answer         z  -  -  z            pays 1; three ticks under A and one under B in sum allow 5/6
    """
    towns = make_changing_towns()
    courses = [(0, 2), (1, 2), (1, 3), (2, 4)]
    exceeds = set()
    for (first, second), (change, back) in product(permutations(range(len(towns)), 2), courses):
        stages = ((-1, towns[first]), (change, towns[second]), (back, towns[first]))
        for paid, _, pairs in find_losses(stages, Cell(0)):
            counted = list_counted(pairs)
            assert paid == find_most_paid(stages, pairs) <= sum_allowed(stages, counted)
            if counted and paid > sum_by_rule(stages, counted):
                exceeds.add((first, second))
    streams = 12 * len(courses) * len(list_removals()) * 2
    print(f"{streams} streams of two visits with a change and its rollback")
    assert streams == stated_streams("The service, two visits, a change and its rollback")
    assert exceeds == {(2, 3)}


@pytest.mark.promise(33, 15)
@pytest.mark.parametrize(("turns", "paid"), [("ABBA", 2), ("ABBABBABBA", 4)])
def test_rule_in_turns_pays_each_time(turns: str, paid: int) -> None:
    """
    A person with a visit in each slot pays ε_l of A at each return to A; the period's check charges it.

        tick     0  1  2  3  …       A: W = 3, k = 1, ε_l = 1; B: the same with ε_l = 1/6
        rule     A  B  B  A
        answer   z  -  -  z          in one stretch, two ticks under A would allow one number
    """
    rules = {
        name: Town(3, 0, 1, 1, (), 4, 2, epsilon, (0,), UNIT, len(turns), remembers=True)
        for name, epsilon in (("A", Fraction(1)), ("B", UNIT))
    }
    stages = tuple((tick, rules[name]) for tick, name in enumerate(turns))
    ticks = tuple(range(len(turns)))
    assert find_worst(stages, Cell(0), 0, ((1, 0),) * len(turns)) == Q ** -int(paid / UNIT)
    assert sum_by_rule(stages, ticks) < paid <= sum_allowed(stages, ticks)
    bounds = [Bound.of(select(town.parameters, OverTime)[0].rules[0]) for town in rules.values()]
    assert bound_of([Place((), bounds[0].combine(bounds[1]), 0)], len(turns), 0) == paid


@pytest.mark.promise(33)
def test_two_visits_at_a_rewatched_location(stated_streams: Callable[[str], int]) -> None:
    """The marks of before continue while the location is not watched, and it has no answers in between."""
    streams, most = 0, Fraction(0)
    for window, answers, (gone, back) in product((1, 2), (1, 2), [(0, 1), (1, 2), (1, 3), (2, 4)]):
        town = Town(window, 0, answers, 1, (), 4, 2, Fraction(1), (0, 1), UNIT, LAST, remembers=True)
        without = Town(window, 0, answers, 1, (), 4, 2, Fraction(1), (1,), UNIT, LAST, remembers=True)
        stages = ((-1, town), (gone, without), (back, town))
        for paid, lacks, pairs in find_losses(stages, Cell(0)):
            counted = list_counted(pairs)
            assert paid == find_most_paid(stages, pairs) <= sum_allowed(((-1, town),), counted)
            assert paid <= lacks * town.answer_epsilon
            most = max(most, paid)
        streams += len(list_removals()) * 2
    print(f"{streams} streams of two visits at a location that is left out for some ticks")
    assert streams == stated_streams("The service, two visits and a location watched again")
    assert most == 2


def test_expired_answers_count_as_spent() -> None:
    """
    The records below tick 4 have expired, and the window is longer: W + F = 9.

        tick    4  5  6  …  13  14
        answer     p  p     p   s       an earlier build's answer at tick 4 may count a visit stamped in slot 5
    """
    town = Town(9, 0, 1, 2, times=(), until=20)
    state = LedgerState(expired_until=town.parameters.grid.as_of(4))
    decider, letters = Decider(town.parameters, [0], Given(*[0] * 24)), []
    for tick in range(5, 17):
        records = decider.decide(tick, town.evidence(tick, {Cell(0): 0}), state).records
        letters.append(json.loads(records[0].value)["status"])
    assert letters == [*["paused"] * 9, "safe", "safe", "safe"]
