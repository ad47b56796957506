"""The worst privacy loss of the whole service, including ingest, over every stream of a small town.

The town has three locations in the registry (two are watched) and one outside it, four slots and two designated times.
Two people have at most two visits each. The streams have every first and last slot, every moment of the report (late,
early, and so far ahead that the visit is cut or refused), times on the edges, the same visit twice, two places at once,
and one or several records.

Each set of visits of a person is driven through the service's decoding and windows. The counts of every tick are
compared with a recount that shares no code with them. The recount is a sum over people, and so are the counts, which
is also checked on streams of two people. So the pairs of what sets add to the counts cover all pairs of sets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import pytest

from monitor.privacy.payment_of_one_person import compute_most_answers
from tests.privacy_service.cells import Cell, Ratio, Visit
from tests.privacy_service.recounts import (
    EDGES,
    MOMENTS,
    NAMES,
    SHORT,
    Adds,
    Counts,
    Universe,
    at_place,
    fate,
    group_by_moment,
    read,
    recount,
    universe,
)
from tests.privacy_service.town import Town

pytestmark = pytest.mark.long

Q = Fraction(1, 2)
GROUNDS = [
    (1, 0),
    (2, 1),
    pytest.param(1, 1, marks=pytest.mark.soak),
    pytest.param(2, 0, marks=pytest.mark.soak),
    pytest.param(3, 0, marks=pytest.mark.soak),
    pytest.param(3, 1, marks=pytest.mark.soak),
]
"""W and F."""

SWEPT = [pytest.param(1, 0, marks=pytest.mark.soak), *GROUNDS[1:]]
"""W and F for which all sets are driven."""


@pytest.mark.promise(1, 9)
@pytest.mark.parametrize(("window", "max_lead"), SWEPT)
def test_every_tick_matches_a_recount(window: int, max_lead: int, stated_streams: Callable[[str], int]) -> None:
    """For all sets of at most two visits of one person, every count equals the recount."""
    town = Town(window, max_lead, 1, 1)
    person_sets = universe(town)
    print(
        f"W = {window}, F = {max_lead}: {person_sets.driven} streams driven, {len(person_sets.adds)} ways to be counted"
    )
    assert person_sets.driven == stated_streams("The service, visits of one person")
    assert len(person_sets.adds) > 200
    assert any(not adds for adds in person_sets.adds)


@pytest.mark.promise(24, 27)
def test_duplicates_and_splits_change_nothing() -> None:
    """One record, one record per visit, the same record twice, and a second write by a zombie give the same counts."""
    town = Town(2, 1, 1, 1)
    pairs = [*product(at_place("ann", "inn", SHORT), at_place("ann", "nowhere", SHORT[:2]))]
    pairs += combinations_with_replacement(at_place("ann", "inn", SHORT), 2)
    for visits in pairs:
        expected = dict(recount(town, visits))
        assert read(town, [[report] for report in visits], twice=True) == expected
        assert read(town, [*group_by_moment(visits), *group_by_moment(visits)]) == expected


@pytest.mark.promise(9, 24)
def test_counts_of_two_people_are_sums(stated_streams: Callable[[str], int]) -> None:
    """Removing one person's visits changes no other person's counts, and no count rises (docs/rules.md, rule 7)."""
    town = Town(2, 1, 1, 1)
    streams = [*product(at_place("ann", "inn"), at_place("bob", "inn"))]
    of_ann = list(universe(town).adds.values())[::9]
    of_bob = [[report._replace(person="bob") for report in visits] for visits in of_ann]
    streams += [(*first, *second) for first, second in product(of_ann, of_bob)]
    for visits in streams:
        ann, bob = (
            dict(recount(town, [report for report in visits if report.person == name])) for name in ("ann", "bob")
        )
        assert read(town, group_by_moment(visits)) == {
            cell: sum_counts(cell, ann, bob) for cell in ann.keys() | bob.keys()
        }
    print(f"{len(streams)} streams of two people driven")
    assert len(streams) == stated_streams("The service, visits of two people")


def sum_counts(cell: Any, *added: Mapping[Any, Counts]) -> Counts:
    return tuple(map(sum, zip(*(counts[cell] for counts in added if cell in counts), strict=True)))


@cache
def find_spans(town: Any, gone: Sequence[Any]) -> tuple[dict[int, tuple[int, int]], Counter[tuple[int, int]]]:
    """Return how many slots these visits span, and their number, by location; and how many cover each cell.

    Dead letters are left out.
    """
    slots: dict[int, tuple[int, int]] = {}
    covered: Counter[tuple[int, int]] = Counter()
    for row, place in enumerate(NAMES):
        fates = [(visit, fated) for visit in gone if visit.place == place and (fated := fate(town, visit))]
        lasts = [fated.last for _, fated in fates]
        if lasts:
            slots[row] = max(lasts) - min(lasts) + 1, len(lasts)
        covered.update(
            (row, time) for visit, fated in fates for time in town.times if visit.arrived <= time < fated.left
        )
    return slots, covered


def most(town: Any, cell: Any, gone: Sequence[Any]) -> int:
    """Return how many answers these visits may pay at a cell (docs/rules.md, section 6)."""
    row, time = cell
    slots, covered = find_spans(town, tuple(gone))
    if time is not None:
        answers: int = town.answers_per_time
        return min(answers, covered[cell])
    return most_of_slots(town, *slots[row]) if row in slots else 0


def most_of_slots(town: Any, slots: int, visits: int) -> int:
    """Return how many answers some visits in `slots` slots may pay: by the formula, and at most one for each visit."""
    formula: int = compute_most_answers(town.answers, town.window, town.max_lead, slots)
    return min(formula, visits)


@dataclass
class Losses:
    """The worst ratios by kind of cell and span of the removed visits (0: a single one), and over whole streams."""

    by_span: dict[tuple[str, int], Fraction]
    whole: dict[int, Fraction]
    pairs: int


def enumerate_losses(town: Any, accepts: Any, person_sets: Universe) -> Losses:
    """Check over all D and D' that no cell costs more than its bound, with any others; return the worst losses.

    Most pairs of D and D' have equal bounds and equal ratios; each such case is compared once. `accepts` is a town with
    the same fates of visits.
    """
    nobody = (0,) * len(town.ticks)
    others: dict[Any, set[Counts]] = {}
    for adds in person_sets.adds:
        for cell, counts in adds:
            others.setdefault(cell, {nobody}).add(counts)
    numbers: dict[Fraction, int] = {}

    @cache
    def ratios(cell: Any, full: Counts, kept: Counts) -> tuple[Fraction, int]:
        """Return the worst ratio with nobody else present, and the number of the worst ratio with any others."""
        all_ratios = [town.worst(Cell(*cell), add(full, rest), add(kept, rest)) for rest in (nobody, *others[cell])]
        return all_ratios[0], numbers.setdefault(max(all_ratios), len(numbers))

    by_cell: set[tuple[str, int, int, int]] = set()
    whole: set[tuple[int, Fraction]] = set()
    for (adds, kept), removals in person_sets.removals.items():
        after = dict(kept)
        worst = [(cell, *ratios(cell, counts, after.get(cell, nobody))) for cell, counts in adds]
        sums = set()
        for gone in removals:
            slots, _ = find_spans(accepts, gone)
            total = 0
            for cell, _, number in worst:
                row, time = cell
                spanned, visits = slots.get(row, (0, 0))
                bound = most(town, cell, gone)
                total += bound
                by_cell.add(("window" if time is None else "time", spanned if visits > 1 else 0, bound, number))
            sums.add(total)
        product_alone = math.prod((alone for _, alone, _ in worst), start=Fraction(1))
        whole |= {(total, product_alone) for total in sums}
    return compare(by_cell, whole, [*numbers], sum(map(len, person_sets.removals.values())) * len(person_sets.adds))


def compare(
    by_cell: set[tuple[str, int, int, int]], whole: set[tuple[int, Fraction]], ratios: Sequence[Fraction], pairs: int
) -> Losses:
    """Check each case (kind of cell, span, bound, number of the ratio), and return the worst losses."""
    losses = Losses({}, {}, pairs)
    for kind, spanned, bound, number in by_cell:
        ratio = ratios[number]
        assert ratio <= Q**-bound
        losses.by_span[kind, spanned] = max(losses.by_span.get((kind, spanned), Fraction(0)), ratio)
    for bound, ratio in whole:
        losses.whole[bound] = max(losses.whole.get(bound, Fraction(0)), ratio)
    return losses


@pytest.mark.promise(10)
@pytest.mark.parametrize(("answers", "threshold"), [(1, 1), (1, 2), (2, 2), (1, 3), (2, 1)])
@pytest.mark.parametrize(("window", "max_lead"), SWEPT)
def test_worst_loss_is_as_stated(
    window: int, max_lead: int, answers: int, threshold: int, stated_streams: Callable[[str], int]
) -> None:
    """
    For every D and D', each cell and each whole stream stays within its bound, and some reach it.

        W = 2, F = 0, k = 1: two visits that span H = 4 slots are in the counts of N = 5 ticks, which have three answers

            tick      0  1  2  3  4
            counted   #  #  #  #  #
            answer    z  -  z  -  z
    """
    town = Town(window, max_lead, answers, threshold)
    accepts = Town(window, max_lead, answers, 1)
    losses = enumerate_losses(town, accepts, universe(accepts))
    print(f"{losses.pairs} pairs of D and D', worst ratios by what is removed: {losses.by_span}")
    name = f"The service, W = {window}, F = {max_lead}, k = {answers}, by composition"
    assert losses.pairs == stated_streams(name.replace(", k = 1", ""))
    for (kind, slots), worst in losses.by_span.items():
        stated = 1 if kind == "time" else most_of_slots(town, max(slots, 1), 2 if slots else 1)
        assert worst <= Q**-stated
        # Between two visits that are further apart there are ticks that count neither.
        assert worst == Q**-stated or slots > town.mark_lifetime + 1
    assert losses.whole == {stated: Q**-stated for stated in losses.whole}
    assert max(losses.whole) > 2


@pytest.mark.promise(12)
@pytest.mark.parametrize(
    ("answers", "threshold"), [(2, 1), (2, 2), pytest.param(3, 1, marks=pytest.mark.soak), pytest.param(1, 1)]
)
def test_each_visit_about_a_time_pays_one_number(
    answers: int, threshold: int, stated_streams: Callable[[str], int]
) -> None:
    """
    For every D and D' with k numbers of a time, n visits of a person about it pay at most min(n, k)·ε/k, and reach it.

        k = 2: τ = 01:30, a horizon of four ticks, and a visit that is reported in slots 1 and 2

            tick      1  2  3  4
            answer    z  z  -  -       each number counts one of the two records
    """
    town = Town(1, 0, 1, threshold, horizon=4, until=5, answers_per_time=answers)
    accepts = replace(town, threshold=1)
    losses = enumerate_losses(town, accepts, universe(accepts))
    print(f"{losses.pairs} pairs of D and D', worst ratios by what is removed: {losses.by_span}")
    assert losses.pairs == stated_streams(f"The service, k = {answers} about a time, by composition")
    of_times = {slots: worst for (kind, slots), worst in losses.by_span.items() if kind == "time"}
    assert of_times[0] == 1 / Q
    assert max(of_times.values()) == Q ** -min(answers, 2)


@pytest.mark.promise(13)
def test_hot_spots_cost_epsilon_per_place(stated_streams: Callable[[str], int]) -> None:
    """
    For every D and D', with any others present, the two busiest of three places cost a total of ε.

        τ = 01:30, read at the two ticks of its horizon, drawn at the second; unknown there is final

            tick       1  2
            counted    x  x
            hot spots     z
    """
    town = Town(2, 1, 1, 1)
    person_sets = universe(town)
    worst: dict[int, Fraction] = {}
    streams = 0
    for time in town.times:
        others = {count_present(town, adds, time) for adds in person_sets.adds}
        for (adds, kept), removals in person_sets.removals.items():
            full, less = count_present(town, adds, time), count_present(town, kept, time)
            ratio = max(ranked_ratio(town, time, add(full, rest), add(less, rest)) for rest in others)
            for gone in removals:
                streams += 1
                places = sum(most(town, (row, time), gone) for row in range(3))
                assert ratio <= Q**-places
                worst[places] = max(worst.get(places, Fraction(0)), ratio)
        assert list(town.ranked_law(time, None).values()) == [1]
    print(f"{streams} D and D' of hot spots, each with {len(others)} others; worst by places: {worst}")
    assert worst == {0: 1, 1: 1 / Q, 2: 1 / Q**2}
    assert streams == stated_streams("The service, hot spots")


def count_present(town: Any, adds: Adds, time: int) -> Counts:
    """Return what a person adds to each location at the last tick of a designated time."""
    tick = town.final(time) - town.ticks.start
    held = dict(adds)
    return tuple(held[row, time][tick] if (row, time) in held else 0 for row in range(3))


def add(first: Counts, second: Counts) -> Counts:
    return tuple(map(sum, zip(first, second, strict=True)))


@cache
def ranked_ratio(town: Any, time: int, counts: Counts, neighbours: Counts) -> Fraction:
    law = ranked_law(town, time, neighbours)
    return max(chance / law[outcome] for outcome, chance in ranked_law(town, time, counts).items())


@cache
def ranked_law(town: Any, time: int, counts: Counts) -> dict[Any, Fraction]:
    law: dict[Any, Fraction] = town.ranked_law(time, counts)
    return law


@pytest.mark.promise(11)
@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize(("window", "max_lead"), GROUNDS)
def test_repeated_visits_pay_the_formula(window: int, max_lead: int, answers: int) -> None:
    """Visits in each or some of H slots, reported at any moment, pay at most the formula, and reach it."""
    town = Town(window, max_lead, answers, 1, times=())
    worst: dict[int, Ratio] = {}
    nobody = (0,) * len(town.ticks)
    choices = [[None, *at_place("ann", "inn", [shape])] for shape in SHORT]
    for chosen in product(*choices):
        visits = [report for report in chosen if report is not None]
        lasts = [fated.last for report in visits if (fated := fate(town, report)) is not None]
        if len(lasts) < len(visits) or not lasts:
            continue
        assert read(town, group_by_moment(visits)) == dict(recount(town, visits))
        counts = dict(recount(town, visits)).get((0, None), nobody)
        slots = max(lasts) - min(lasts) + 1
        worst[slots] = max(worst.get(slots, Fraction(0)), town.worst(Cell(0), counts, nobody))
    stated = {slots: Q ** -most_of_slots(town, slots, slots) for slots in (1, 2, 3, 4)}
    assert worst == stated


@pytest.mark.promise(11)
@pytest.mark.parametrize(("window", "max_lead"), [(1, 1), (2, 1), (3, 0)])
def test_deliveries_reach_the_formula(window: int, max_lead: int) -> None:
    """A visit in one slot that is delivered in several slots pays two answers with k = 2, and never three."""
    town = Town(window, max_lead, 2, 1, times=())
    nobody, worst = (0,) * len(town.ticks), Fraction(0)
    for moments in combinations(MOMENTS, 3):
        records = [[Visit("ann", "inn", *SHORT[1], moment)] for moment in moments]
        assert read(town, records) == dict(recount(town, [visit for (visit,) in records]))
        counts = dict(recount(town, [visit for (visit,) in records])).get((0, None), nobody)
        ratio = town.worst(Cell(0), counts, nobody)
        assert isinstance(ratio, Fraction)
        worst = max(worst, ratio)
    assert worst == Q**-2


@pytest.mark.promise(10, 14, 24)
@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize(("window", "max_lead"), [(1, 0), (2, 1)])
def test_one_visit_pays_as_stated(window: int, max_lead: int, answers: int) -> None:
    """A visit pays ε_l/k where it is watched and ε per designated time that it covers; this is also the worst loss."""
    town = Town(window, max_lead, answers, 2)
    nobody = (0,) * len(town.ticks)
    reached: dict[int, Ratio] = {}
    for report in [*at_place("ann", "inn"), *at_place("ann", "inn", EDGES), *at_place("a", "nowhere")]:
        read_counts = read(town, [[report]])
        assert read_counts == dict(recount(town, [report]))
        for rest in (nobody, (1,) * len(town.ticks)):
            ratio: Ratio = Fraction(1)
            for cell, counts in read_counts.items():
                ratio *= town.worst(Cell(*cell), sum_counts(0, {0: counts}, {0: rest}), rest)
            stated = sum(most(town, cell, [report]) for cell in read_counts)
            assert ratio <= Q**-stated
            reached[stated] = max(reached.get(stated, Fraction(0)), ratio)
    assert reached == {stated: Q**-stated for stated in reached}
    assert max(reached) == 1 + len(town.times)


@pytest.mark.promise(9, 10, 11)
@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("window", [1, 2, 3])
def test_check_in_counts_whole(window: int, ahead: int) -> None:
    """A check-in without departure counts for its whole stay, and pays ε_l once, although it ends after accept_ahead.

    F is accept_ahead and one slot for the default stay of 15 minutes. With accept_ahead = 0, reported at arrival:

    slot 1                        2
    ├───────── arrived [50 ──────┼── 65) left, covers the designated time 120
    """
    town = Town(window, ahead + 1, 1, 1, times=(120,), accept_ahead=ahead)
    nobody, most_ticks = (0,) * len(town.ticks), 0
    for arrived, moment in product(range(65, 180, 5), MOMENTS):
        report = Visit("ann", "inn", arrived, None, moment)
        counts = read(town, [[report]])
        assert counts == dict(recount(town, [report]))
        if (fated := fate(town, report)) is None:
            assert arrived // 60 > moment // 2 + ahead
            continue
        assert (fated.last, fated.left) == (max(arrived // 60, -(-(arrived + 15) // 60) - 1), arrived + 15)
        assert ((0, 120) in counts) == (arrived <= 120 < arrived + 15 and moment // 2 <= 3)
        held = counts.get((0, None), nobody)
        most_ticks = max(most_ticks, sum(held))
        assert town.worst(Cell(0), held, nobody) <= 1 / Q
    assert most_ticks == town.mark_lifetime


@pytest.mark.promise(16)
def test_two_places_at_once_pay_twice() -> None:
    """Both visits are counted, and the loss is their sum: 2·ε_l, and 2·ε for each designated time."""
    town = Town(2, 1, 1, 2)
    visits = [Visit("ann", place, 70, 170, 2) for place in ("inn", "mill")]
    read_counts = read(town, group_by_moment(visits))
    nobody = (0,) * len(town.ticks)
    ratios = {cell: town.worst(Cell(*cell), counts, nobody) for cell, counts in read_counts.items()}
    assert ratios == dict.fromkeys(product((0, 1), (None, 90, 150)), 1 / Q)
