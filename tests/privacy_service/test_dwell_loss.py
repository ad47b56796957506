"""The worst privacy loss of dwell times, through the whole service.

Ann has at most two visits about one designated time, of several lengths, at two places and reported in two slots. Each
of her sets is driven through the service's decoding and windows, and the lengths that the final tick reads are compared
with a recount. Their totals then bound the loss: two-sided noise at ε/(2·m·R) costs ε per 2·m·R of distance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Final, NamedTuple

import pytest

from monitor.kinds.dwell.keys_and_parameters import Dwell
from monitor.kinds.parameters import Parameters
from monitor.privacy.dwell import DwellRule
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.sum_and_count import SumAndCount
from monitor.ticks.collect_answers import Decider
from monitor.time.instants import HOUR, MINUTE, format_instant
from monitor.time.schedule import Schedule
from tests.builders import ORIGIN, build_parameters, replace_monitors, select
from tests.kit.recount import Rules
from tests.privacy_service.cells import stamp_ms
from tests.privacy_service.driving import read_ticks

pytestmark = pytest.mark.long

PLACES: Final = ("inn", "mill")
TIME: Final = 30
"""The designated time, in minutes: the middle of slot 0, final at tick 1."""
LONGEST: Final = 40
"""In minutes. A visit is also cut at the end of the slot in which it is reported (F = 0)."""


RULES: Final = Rules(0, 60, 15, 0, 0)
"""In minutes."""


class Reported(NamedTuple):
    """One visit about the designated time, in minutes, reported in slot `slot`."""

    place: str
    arrived: int
    left: int
    slot: int


VISITS: Final = [
    Reported(place, arrived, left, slot)
    for place, (arrived, left), slot in product(PLACES, ((25, 35), (0, 35), (25, 90), (0, 30)), (0, 1))
]
Set = tuple[Reported, ...]
SETS: Final[list[Set]] = [(), *((visit,) for visit in VISITS), *combinations_with_replacement(VISITS, 2)]
OTHER: Final[Set] = (Reported("inn", 20, 50, 0),)


@cache
def parameters(per_person: int) -> Parameters:
    rule = DwellRule(Fraction(1), LONGEST * 60, per_person)
    lengths = Dwell("lengths", Schedule((ORIGIN + TIME * MINUTE,)), rule, 2 * HOUR)
    return replace_monitors(build_parameters(PLACES), dwell=(lengths,))


def drive(people: Mapping[str, Set], per_person: int) -> SumAndCount:
    """Return the exact totals of the service at the final tick, with each visit in its own record."""
    town = parameters(per_person)
    decider = Decider(town, [0], OneSidedNoise(SeededEntropy(1)), select(town, Dwell))
    by_tick = {
        tick: [
            (stamp_ms(2 * tick + 1), encode(person, visit))
            for person, visits in people.items()
            for visit in visits
            if visit.slot == tick
        ]
        for tick in (0, 1)
    }
    reading = read_ticks(town, decider, by_tick)[-1]
    by_person: dict[bytes, dict[int, int]] = {}
    for own, row, length in sorted(next(iter(reading.stays.values()))):
        by_person.setdefault(own, {})[row] = length
    return (
        select(town, Dwell)[0]
        .rule.to_sum_and_count()
        .add_up([list(lengths.values()) for lengths in by_person.values()])
    )


def encode(person: str, visit: Reported) -> bytes:
    times = {
        name: format_instant(ORIGIN + minutes * MINUTE)
        for name, minutes in (("arrived_at", visit.arrived), ("left_at", visit.left))
    }
    return json.dumps({"person_id": person, "location_id": visit.place, **times}).encode()


def recount(people: Mapping[str, Set], per_person: int) -> tuple[int, int]:
    """Return the totals by their definition, in seconds."""
    above = below = 0
    for visits in people.values():
        lengths: dict[str, int] = {}
        for visit in visits:
            accepted = RULES.accept(visit.arrived, visit.left, 60 * visit.slot)
            if accepted is not None and accepted.covers(TIME, 1, 120):
                lengths[visit.place] = max(lengths.get(visit.place, 0), accepted.left - visit.arrived)
        counted = [min(lengths[place], LONGEST) for place in PLACES if place in lengths][:per_person]
        above += 60 * sum(counted)
        below += 60 * sum(LONGEST - length for length in counted)
    return above, below


def list_smaller(visits: Set) -> Iterator[Set]:
    """Yield the sets without some or all of the visits."""
    yield ()
    if len(visits) == 2:
        yield from ((visits[0],), (visits[1],))


@pytest.mark.promise(27, 44)
@pytest.mark.parametrize("per_person", [1, 2])
def test_loss_of_any_removal(per_person: int, stated_streams: Callable[[str], int]) -> None:
    """
    For every D and D', in both directions, the loss is at most ε; for a person with one visit at most ε/2.

        m = 1: without the visit to the inn (10 minutes), the visit to the mill (40 minutes) takes its place
    """
    totals = {}
    for visits in SETS:
        for others in ((), OTHER):
            people = {"ann": visits, "bob": others}
            driven = drive(people, per_person)
            totals[visits, others] = recount(people, per_person)
            assert (driven.above_low, driven.below_high) == totals[visits, others]
    unit = 2 * per_person * LONGEST * 60
    worst: dict[int, Fraction] = {}
    pairs = 0
    for visits in SETS:
        for less, others in product(list_smaller(visits), ((), OTHER)):
            pairs += 1
            before, after = totals[visits, others], totals[less, others]
            loss = Fraction(abs(before[0] - after[0]) + abs(before[1] - after[1]), unit)
            worst[len(visits)] = max(worst.get(len(visits), Fraction(0)), loss)
    print(f"m = {per_person}: {pairs} pairs of D and D', worst losses by visits: {worst}")
    assert worst[1] == Fraction(1, 2 * per_person)
    assert Fraction(1, 2) <= worst[2] <= 1
    assert pairs == stated_streams("The service, lengths of visits")


def test_removal_may_cost_more_than_half() -> None:
    """With m = 1, losing the first visit lets another one count, so more than ε/2 is paid: ε is charged."""
    visits = (Reported("inn", 25, 35, 0), Reported("mill", 0, 35, 0))
    before, after = recount({"ann": visits}, 1), recount({"ann": visits[1:]}, 1)
    assert abs(before[0] - after[0]) + abs(before[1] - after[1]) == 2 * 25 * 60
    assert LONGEST < 2 * 25
