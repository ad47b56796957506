"""The worst privacy loss of the whole service, over every stream of a tiny town, ingest included.

Three locations of the registry (two are watched) and one outside it, four slots, two designated times, two people of
at most two visits each; every first and last slot, every moment of the report (late, early, so far ahead that it is cut
or refused), times on the edges, the same visit twice, two places at once, one record or several.

Each of a person's sets of visits is driven through the service's reader and windows, and what every tick reads is
compared with a recount that shares no code with them. As the recount is a sum over people, so are the readings (checked
on streams of two people, too): all pairs of sets are covered by the pairs of what they add to the readings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from monitor.privacy.payments import most_answers
from tests.privacy_service.recounts import (
    EDGES,
    NAMES,
    SHORT,
    Adds,
    Counts,
    Universe,
    at_place,
    fate,
    grouped,
    read,
    recount,
    universe,
)

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
"""Those of which all sets are driven."""


@pytest.mark.parametrize(("window", "max_lead"), SWEPT)
def test_every_tick_matches_a_recount(
    window: int,
    max_lead: int,
    make_town: Callable[..., Any],
    visit: Callable[..., Any],
    stated_streams: Callable[[str], int],
) -> None:
    """One person's visits, all sets of at most two: no undercount, no visit that counts for what it isn't."""
    town = make_town(window, max_lead, 1, 1)
    found = universe(town, visit)
    print(f"W = {window}, F = {max_lead}: {found.driven} streams driven, {len(found.adds)} ways to be counted")
    assert found.driven == stated_streams("The service, visits of one person")
    assert len(found.adds) > 200
    assert any(not adds for adds in found.adds)


def test_duplicates_and_splits_change_nothing(make_town: Callable[..., Any], visit: Callable[..., Any]) -> None:
    """Each set as one record, as a record for each visit, as the same record twice, and written twice by a zombie."""
    town = make_town(2, 1, 1, 1)
    pairs = [*product(at_place(visit, "ann", "inn", SHORT), at_place(visit, "ann", "nowhere", SHORT[:2]))]
    pairs += combinations_with_replacement(at_place(visit, "ann", "inn", SHORT), 2)
    for visits in pairs:
        expected = dict(recount(town, visits))
        assert read(town, [[one] for one in visits], twice=True) == expected
        assert read(town, [*grouped(visits), *grouped(visits)]) == expected


def test_counts_of_two_people_are_sums(
    make_town: Callable[..., Any], visit: Callable[..., Any], stated_streams: Callable[[str], int]
) -> None:
    """So taking one person's visits away changes nobody else's, and no count rises (docs/rules.md, rule 7)."""
    town = make_town(2, 1, 1, 1)
    streams = [*product(at_place(visit, "ann", "inn"), at_place(visit, "bob", "inn"))]
    found = list(universe(town, visit).adds.values())
    others = [[one._replace(person="bob") for one in visits] for visits in found[::9]]
    streams += [(*one, *other) for one, other in product(found[::9], others)]
    for visits in streams:
        each = [dict(recount(town, [one for one in visits if one.person == name])) for name in ("ann", "bob")]
        assert read(town, grouped(visits)) == {cell: summed(cell, *each) for cell in each[0].keys() | each[1].keys()}
    print(f"{len(streams)} streams of two people driven")
    assert len(streams) == stated_streams("The service, visits of two people")


def summed(cell: Any, *added: Mapping[Any, Counts]) -> Counts:
    return tuple(map(sum, zip(*(one[cell] for one in added if cell in one), strict=True)))


def most(town: Any, cell: Any, gone: Sequence[Any]) -> int:
    """How many answers these visits may pay at a cell (docs/rules.md, section 6)."""
    row, time = cell
    paying = [one for one in gone if NAMES.index(one.place) == row and fate(town, one)]
    if time is not None:
        return int(any(one.arrived <= time < (fate(town, one) or (0, 0))[1] for one in paying))
    lasts = [(fate(town, one) or (0, 0))[0] for one in paying]
    return most_of_slots(town, max(lasts) - min(lasts) + 1) if lasts else 0


def most_of_slots(town: Any, slots: int) -> int:
    """How many answers visits in so many slots may pay at a location: by the formula, and one for each of N ticks."""
    formula: int = most_answers(town.answers, town.window, town.max_lead, slots)
    return min(formula, slots + int(town.window) + int(town.max_lead) - 1)


@dataclass
class Losses:
    """The worst ratios found: by cell kind and span of the removed visits (0: a single one), and over whole streams."""

    by_span: dict[tuple[str, int], Fraction]
    whole: dict[int, Fraction]
    pairs: int


def enumerate_losses(town: Any, found: Universe, cell_of: Callable[..., Any]) -> Losses:
    """Over all D and D': no cell costs more than its bound, with anyone else there; and how much it costs at worst."""
    nobody = (0,) * len(town.ticks)
    others: dict[Any, set[Counts]] = {}
    for adds in found.adds:
        for cell, counts in adds:
            others.setdefault(cell, {nobody}).add(counts)

    @cache
    def ratios(cell: Any, one: Counts, other: Counts) -> tuple[Fraction, Fraction]:
        """The worst ratio with nobody else there, and with anyone."""
        found = [town.worst(cell_of(*cell), added(one, rest), added(other, rest)) for rest in (nobody, *others[cell])]
        return found[0], max(found)

    losses = Losses({}, {}, 0)
    for (adds, kept), removals in found.removals.items():
        before, after = dict(adds), dict(kept)
        worst = {cell: ratios(cell, one, after.get(cell, nobody)) for cell, one in before.items()}
        product_alone = math.prod((alone for alone, _ in worst.values()), start=Fraction(1))
        for gone in removals:
            bounds = {cell: most(town, cell, gone) for cell in before}
            for cell, (_, ratio) in worst.items():
                assert ratio <= Q ** -bounds[cell]
                key = ("time" if cell[1] else "window", span(town, cell, gone))
                losses.by_span[key] = max(losses.by_span.get(key, Fraction(0)), ratio)
            bound = sum(bounds.values())
            losses.whole[bound] = max(losses.whole.get(bound, Fraction(0)), product_alone)
    losses.pairs = sum(map(len, found.removals.values())) * len(found.adds)
    return losses


def span(town: Any, cell: Any, gone: Sequence[Any]) -> int:
    """How many slots the removed visits at a watched location span, 0 for a single one of all."""
    lasts = [fated[0] for one in gone if one.place == NAMES[cell[0]] and (fated := fate(town, one))]
    return 0 if len(gone) == 1 else max(lasts, default=0) - min(lasts, default=0) + 1


@pytest.mark.parametrize(("answers", "threshold"), [(1, 1), (1, 2), (2, 2), (1, 3), (2, 1)])
@pytest.mark.parametrize(("window", "max_lead"), SWEPT)
def test_worst_loss_is_as_stated(
    window: int,
    max_lead: int,
    answers: int,
    threshold: int,
    make_town: Callable[..., Any],
    visit: Callable[..., Any],
    cell_of: Callable[..., Any],
    stated_streams: Callable[[str], int],
) -> None:
    """
    For every D and D', cell by cell and over whole streams: met by all, reached by some.

        W = 2, F = 0, k = 1: two visits that span H = 4 slots are in the counts of N = 5 ticks, which hold three answers

            tick      0  1  2  3  4
            counted   #  #  #  #  #
            answer    z  -  z  -  z
    """
    town = make_town(window, max_lead, answers, threshold)
    losses = enumerate_losses(town, universe(make_town(window, max_lead, 1, 1), visit), cell_of)
    print(f"{losses.pairs} pairs of D and D', worst ratios by what is removed: {losses.by_span}")
    assert losses.pairs == stated_streams(f"The service, W = {window}, F = {max_lead}, by composition")
    for (kind, slots), worst in losses.by_span.items():
        stated = 1 if kind == "time" else most_of_slots(town, max(slots, 1))
        assert worst <= Q**-stated
        # Two visits further apart than this leave ticks between them that hold neither.
        assert worst == Q**-stated or slots > town.mark_lifetime + 1
    assert losses.whole == {stated: Q**-stated for stated in losses.whole}
    assert max(losses.whole) > 2 * min(answers, town.mark_lifetime)


def test_hot_spots_cost_epsilon_per_place(
    make_town: Callable[..., Any], visit: Callable[..., Any], stated_streams: Callable[[str], int]
) -> None:
    """
    For every D and D', with anyone else there: named together, the two busiest of three places cost ε in all.

        τ = 01:30, read at the two ticks of its horizon, drawn at the second; unknown there, for good

            tick       1  2
            counted    x  x
            hot spots     z
    """
    town = make_town(2, 1, 1, 1)
    found = universe(town, visit)
    worst: dict[int, Fraction] = {}
    streams = 0
    for time in town.times:
        others = {present(town, adds, time) for adds in found.adds}
        for (adds, kept), removals in found.removals.items():
            full, less = present(town, adds, time), present(town, kept, time)
            ratio = max(ranked_ratio(town, time, added(full, rest), added(less, rest)) for rest in others)
            for gone in removals:
                streams += 1
                places = sum(most(town, (row, time), gone) for row in range(3))
                assert ratio <= Q**-places
                worst[places] = max(worst.get(places, Fraction(0)), ratio)
        assert list(town.ranked_law(time, None).values()) == [1]
    print(f"{streams} D and D' of hot spots, each with {len(others)} others; worst by places: {worst}")
    assert worst == {0: 1, 1: 1 / Q, 2: 1 / Q**2}
    assert streams == stated_streams("The service, hot spots")


def present(town: Any, adds: Adds, time: int) -> Counts:
    """What a person adds to each location at a designated time's last tick."""
    tick = town.final(time) - town.ticks.start
    held = dict(adds)
    return tuple(held[row, time][tick] if (row, time) in held else 0 for row in range(3))


def added(one: Counts, other: Counts) -> Counts:
    return tuple(map(sum, zip(one, other, strict=True)))


@cache
def ranked_ratio(town: Any, time: int, counts: Counts, neighbours: Counts) -> Fraction:
    law = ranked_law(town, time, neighbours)
    return max(chance / law[outcome] for outcome, chance in ranked_law(town, time, counts).items())


@cache
def ranked_law(town: Any, time: int, counts: Counts) -> dict[Any, Fraction]:
    law: dict[Any, Fraction] = town.ranked_law(time, counts)
    return law


@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize(("window", "max_lead"), GROUNDS)
def test_repeated_visits_pay_the_formula(
    window: int,
    max_lead: int,
    answers: int,
    make_town: Callable[..., Any],
    visit: Callable[..., Any],
    cell_of: Callable[..., Any],
) -> None:
    """A visit in each of H slots, or in some of them, each reported at any moment: the formula is met and reached."""
    town = make_town(window, max_lead, answers, 1, times=())
    worst: dict[int, Fraction] = {}
    nobody = (0,) * len(town.ticks)
    choices = [[None, *at_place(visit, "ann", "inn", [shape])] for shape in SHORT]
    for chosen in product(*choices):
        visits = [one for one in chosen if one is not None]
        lasts = [fated[0] for one in visits if (fated := fate(town, one)) is not None]
        if len(lasts) < len(visits) or not lasts:
            continue
        assert read(town, grouped(visits)) == dict(recount(town, visits))
        counts = dict(recount(town, visits)).get((0, None), nobody)
        slots = max(lasts) - min(lasts) + 1
        worst[slots] = max(worst.get(slots, Fraction(0)), town.worst(cell_of(0), counts, nobody))
    stated = {slots: Q ** -most_of_slots(town, slots) for slots in (1, 2, 3, 4)}
    assert worst == stated


@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize(("window", "max_lead"), [(1, 0), (2, 1)])
def test_one_visit_pays_as_stated(
    window: int,
    max_lead: int,
    answers: int,
    make_town: Callable[..., Any],
    visit: Callable[..., Any],
    cell_of: Callable[..., Any],
) -> None:
    """ε_l where it is watched and ε for each designated time that it covers, at most and at worst; others' are safe."""
    town = make_town(window, max_lead, answers, 2)
    nobody = (0,) * len(town.ticks)
    reached: dict[int, Fraction] = {}
    for one in [
        *at_place(visit, "ann", "inn"),
        *at_place(visit, "ann", "inn", EDGES),
        *at_place(visit, "a", "nowhere"),
    ]:
        found = read(town, [[one]])
        assert found == dict(recount(town, [one]))
        for rest in (nobody, (1,) * len(town.ticks)):
            ratio = Fraction(1)
            for cell, counts in found.items():
                ratio *= town.worst(cell_of(*cell), summed(0, {0: counts}, {0: rest}), rest)
            stated = sum(most(town, cell, [one]) for cell in found)
            assert ratio <= Q**-stated
            reached[stated] = max(reached.get(stated, Fraction(0)), ratio)
    assert reached == {stated: Q**-stated for stated in reached}
    assert max(reached) == min(answers, town.mark_lifetime) + len(town.times)


def test_two_places_at_once_pay_twice(
    make_town: Callable[..., Any], visit: Callable[..., Any], cell_of: Callable[..., Any]
) -> None:
    """Both visits count (no undercount), and the loss is the sum: 2·ε_l, and 2·ε for each designated time."""
    town = make_town(2, 1, 1, 2)
    visits = [visit("ann", place, 70, 170, 2) for place in ("inn", "mill")]
    found = read(town, grouped(visits))
    nobody = (0,) * len(town.ticks)
    ratios = {cell: town.worst(cell_of(*cell), counts, nobody) for cell, counts in found.items()}
    assert ratios == dict.fromkeys(product((0, 1), (None, 90, 150)), 1 / Q)
