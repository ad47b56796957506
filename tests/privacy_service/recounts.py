"""Sets of visits of one person, and a recount of their accepted visits that shares no code with the service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any

SLOTS = range(4)
MOMENTS = range(-1, 2 * len(SLOTS) - 1)  # from the slot before the first one on, where F = 1 accepts it
SHAPES = [(60 * first + 10, 60 * last + 50) for first in SLOTS for last in SLOTS if first <= last]
SHORT = [(60 * slot + 20, 60 * slot + 40) for slot in SLOTS]
EDGES: list[tuple[int, int | None]] = [
    (90, 91),  # arrives at a designated time
    (70, 90),  # leaves at it
    (90, 90),  # is there for no time at all
    (80, None),  # stays as long as is assumed, over it
    (60, 120),  # leaves at a slot's end
    (10, 10**6),  # stays for years: cut
    (130, 70),  # left before it arrived
]

NAMES = ["inn", "mill", "farm", "nowhere"]
Stream = Sequence[Sequence[Any]]
Counts = tuple[int, ...]
Adds = frozenset[tuple[Any, Counts]]
"""What a person adds to the readings: by cell, 0 or 1 at each tick; cells without any are left out."""


def at_place(visit: Callable[..., Any], person: str, place: str, shapes: Sequence[Any] = SHAPES) -> list[Any]:
    return [visit(person, place, *shape, moment) for shape in shapes for moment in MOMENTS]


def fate(town: Any, visit: Any) -> tuple[int, int] | None:
    """The last slot and the departure (in minutes) after the cut; None for a dead letter. Of docs/interface.md, section 1."""
    left = visit.arrived + 15 if visit.left is None else visit.left
    furthest = visit.moment // 2 + town.max_lead
    refused = left < visit.arrived or visit.place == "nowhere" or visit.arrived // 60 > furthest
    if refused:
        return None
    last = max(visit.arrived // 60, -(-left // 60) - 1)
    return min(last, furthest), min(left, 60 * (furthest + 1))


def recount(town: Any, visits: Sequence[Any]) -> Adds:
    """What one person's visits add to the readings, from the definitions, slot by slot."""
    ticks: dict[Any, set[int]] = {}
    for visit in visits:
        if (accepted := fate(town, visit)) is None:
            continue
        last, left = accepted
        row = NAMES.index(visit.place)
        for tick in town.ticks:
            if tick < visit.first_tick:
                continue
            if row < 2 and tick - town.window < last:
                ticks.setdefault((row, None), set()).add(tick)
            for time in town.times:
                if visit.arrived <= time < left and time < 60 * (tick + 1) <= time + 60 * town.horizon:
                    ticks.setdefault((row, time), set()).add(tick)
    return frozenset((cell, tuple(int(tick in held) for tick in town.ticks)) for cell, held in ticks.items())


def read(town: Any, stream: Stream, **how: bool) -> dict[Any, Counts]:
    """What the service reads, without the cells that hold nobody; every refused visit is one dead letter."""
    found, letters = town.read(stream, **how)
    assert letters == sum(fate(town, visit) is None for record in stream for visit in record)
    return {(cell.row, cell.time): counts for cell, counts in found.items() if any(counts)}


def grouped(visits: Sequence[Any]) -> Stream:
    """One record for each moment, as a person reports a trajectory."""
    records: dict[int, list[Any]] = {}
    for visit in visits:
        records.setdefault(visit.moment, []).append(visit)
    return list(records.values())


def sets(visit: Callable[..., Any], person: str) -> Iterator[tuple[Any, ...]]:
    """All sets of at most two visits at the three locations; and those of one at the inn and one that is odd."""
    visits = [one for place in NAMES[:3] for one in at_place(visit, person, place)]
    odd = [*at_place(visit, person, "inn", EDGES), *at_place(visit, person, "nowhere", SHORT)]
    yield from ((one,) for one in (*visits, *odd))
    yield from combinations_with_replacement(visits, 2)
    yield from product(at_place(visit, person, "inn"), odd)


@dataclass
class Universe:
    """What the sets of one person add to the readings, and how they may be taken away."""

    adds: dict[Adds, tuple[Any, ...]]
    removals: dict[tuple[Adds, Adds], list[tuple[Any, ...]]]
    driven: int


@cache
def universe(town: Any, visit: Callable[..., Any]) -> Universe:
    """Drive every set of one person through the service, and note what each removal changes."""
    found = Universe({}, {}, 0)
    for visits in sets(visit, "ann"):
        adds = recount(town, visits)
        assert read(town, grouped(visits)) == dict(adds)
        found.driven += 1
        found.adds.setdefault(adds, visits)
        for kept in {(), *(((visits[0],), (visits[1],)) if len(visits) > 1 else ())}:
            gone = tuple(visit for visit in visits if visit not in kept) or visits[1:]
            found.removals.setdefault((adds, recount(town, kept)), []).append(gone)
    return found
