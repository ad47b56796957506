"""Sets of visits of one person, and their recount."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations_with_replacement, product
from typing import Any

from tests.kit.recount import Counted, Rules
from tests.privacy_service.cells import BASE, Visit, find_digit

SLOTS = range(4)
MOMENTS = range(-1, 2 * len(SLOTS) - 1)  # the first report is in the slot before the first one, which F = 1 accepts
SHAPES = [(60 * first + 10, 60 * last + 50) for first in SLOTS for last in SLOTS if first <= last]
SHORT = [(60 * slot + 20, 60 * slot + 40) for slot in SLOTS]
EDGES: list[tuple[int, int | None]] = [
    (90, 91),  # arrives at a designated time
    (70, 90),  # leaves at a designated time
    (90, 90),  # has no duration
    (80, None),  # has no departure, and covers a designated time with the default stay
    (60, 120),  # leaves at the end of a slot
    (10, 10**6),  # lasts for years, so it is cut
    (130, 70),  # left before it arrived
]

NAMES = ["inn", "mill", "farm", "nowhere"]
Stream = Sequence[Sequence[Any]]
Counts = tuple[int, ...]
Adds = frozenset[tuple[Any, Counts]]
"""What a person adds to the counts: by cell, 0 or 1 in each digit at each tick; cells with only 0 are left out."""


def at_place(person: str, place: str, shapes: Sequence[Any] = SHAPES) -> list[Any]:
    return [Visit(person, place, arrived, left, moment) for arrived, left in shapes for moment in MOMENTS]


@cache
def fate(town: Any, visit: Any) -> Counted | None:
    """Return the accepted visit, in minutes; None for a dead letter."""
    ahead = town.max_lead if town.accept_ahead is None else town.accept_ahead
    rules = Rules(0, 60, 15, ahead, town.max_lead)
    return None if visit.place == "nowhere" else rules.accept(visit.arrived, visit.left, 30 * visit.moment)


def recount(town: Any, visits: Sequence[Any]) -> Adds:
    """Return what the visits of one person add to the counts, from the definitions, slot by slot.

    A count since a tick contains the visits of the cell whose record was stamped after the tick's slot.
    """
    digits: dict[Any, dict[int, set[int]]] = {}

    def add(cell: Any, tick: int, stamp: int, *, afresh: bool) -> None:
        starts = range(town.ticks.start, min(tick, stamp)) if afresh else ()
        digits.setdefault(cell, {}).setdefault(tick, set()).update((find_digit(None), *map(find_digit, starts)))

    for visit in visits:
        if (counted := fate(town, visit)) is None:
            continue
        row = NAMES.index(visit.place)
        for tick in town.ticks:
            if row < 2 and counted.in_window(tick, town.window):
                add((row, None), tick, counted.stamp, afresh=town.answers > 1)
            for time in town.times:
                if counted.covers(time, tick, 60 * town.horizon):
                    add((row, time), tick, counted.stamp, afresh=town.answers_per_time > 1)
    return frozenset(
        (cell, tuple(sum(BASE**digit for digit in held.get(tick, ())) for tick in town.ticks))
        for cell, held in digits.items()
    )


def read(town: Any, stream: Stream, **how: bool) -> dict[Any, Counts]:
    """Return the counts of the service, without empty cells; check that every refused visit is one dead letter."""
    by_cell, letters = town.read(stream, **how)
    assert letters == sum(fate(town, visit) is None for record in stream for visit in record)
    return {(cell.row, cell.time): counts for cell, counts in by_cell.items() if any(counts)}


def group_by_moment(visits: Sequence[Any]) -> Stream:
    """Return one record for each moment, in the way a person reports a trajectory."""
    records: dict[int, list[Any]] = {}
    for visit in visits:
        records.setdefault(visit.moment, []).append(visit)
    return list(records.values())


def all_sets(person: str) -> Iterator[tuple[Any, ...]]:
    """Return all sets of at most two visits at the three locations, and pairs of a visit at the inn and an odd one."""
    visits = [report for place in NAMES[:3] for report in at_place(person, place)]
    odd = [*at_place(person, "inn", EDGES), *at_place(person, "nowhere", SHORT)]
    yield from ((report,) for report in (*visits, *odd))
    yield from combinations_with_replacement(visits, 2)
    yield from product(at_place(person, "inn"), odd)


@dataclass
class Universe:
    """What the sets of one person add to the counts, and how visits may be removed."""

    adds: dict[Adds, tuple[Any, ...]]
    removals: dict[tuple[Adds, Adds], list[tuple[Any, ...]]]
    driven: int


@cache
def universe(town: Any) -> Universe:
    """Drive every set of one person through the service, and record the change by each removal.

    Ticks with the same store and the same records are run once. All of each 64th stream is run, from its bytes, which
    checks that earlier streams change no later one.
    """
    result = Universe({}, {}, 0)
    recount_kept = cache(partial(recount, town))
    for number, visits in enumerate(all_sets("ann")):
        adds = recount(town, visits)
        assert read(town, group_by_moment(visits), known=number % 64 != 0) == dict(adds)
        result.driven += 1
        result.adds.setdefault(adds, visits)
        for kept in {(), *(((visits[0],), (visits[1],)) if len(visits) > 1 else ())}:
            gone = tuple(visit for visit in visits if visit not in kept) or visits[1:]
            result.removals.setdefault((adds, recount_kept(kept)), []).append(gone)
    return result
