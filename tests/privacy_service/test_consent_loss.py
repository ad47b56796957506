"""The worst privacy loss of a designated time with lower bounds, through the whole service.

A town has two places and one designated time, evaluated at two ticks. Ann has at most two visits, each at a place, with
or without consent, and reported before the first or the second tick. Each of her sets is driven through the service's
decoding and windows, and the counts are compared with a recount. Then every snapshot is decided by the service's code,
with every draw enumerated with its exact chance, for every set, each of its consent neighbours (docs/rules.md, rule 13)
and other people with and without consent.

Decisions depend on draws only, never on q = e^-ε. Both ε are 1, so a loss of n·ε is a ratio of q^-n.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pytest

from monitor.kinds.answer_state import TimeAnswers
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Reading
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.published_numbers import TimeNumber
from monitor.ticks.collect_answers import Decider
from monitor.time.instants import HOUR, MINUTE
from monitor.time.schedule import Schedule
from tests.builders import ORIGIN, build_parameters, build_visit
from tests.privacy.laws import Law, laws_of, one_sided
from tests.privacy_service.cells import stamp_ms
from tests.privacy_service.driving import read_ticks

pytestmark = pytest.mark.long

Q: Final = Fraction(1, 2)
PLACES: Final = ("inn", "mill")
TIME: Final = 30
"""The designated time, in minutes: the middle of slot 0, evaluated at ticks 0 and 1."""
TICKS: Final = (0, 1)
CAP: Final = 3
"""Noisy counts from here on are one outcome, because the law is memoryless."""


class ReportedVisit(NamedTuple):
    """One visit that covers the designated time, reported in slot `slot`."""

    place: str
    slot: int
    consent: bool


Set = tuple[ReportedVisit, ...]
Ratio = Fraction | float
Counts = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""People by place at tick 0 and at tick 1, and people who consented by place at tick 1."""

VISITS: Final = [ReportedVisit(*fields) for fields in product(PLACES, TICKS, (False, True))]
SETS: Final[list[Set]] = [(), *((visit,) for visit in VISITS), *combinations_with_replacement(VISITS, 2)]
OTHERS: Final[list[Set]] = [(), *((visit,) for visit in VISITS if visit.place == "inn")]


@cache
def parameters(threshold: int) -> Parameters:
    instant = ORIGIN + TIME * MINUTE
    noon = AtTimes("noon", Schedule((instant,)), Fraction(1), threshold, 2 * HOUR, at_least=Fraction(1))
    return build_parameters(PLACES, at_times=[noon])


def encode(person: str, visit: ReportedVisit) -> bytes:
    consent = {"consent": True} if visit.consent else {}
    return json.dumps(build_visit(person, visit.place, ORIGIN, ORIGIN + HOUR) | consent).encode()


def drive(people: Mapping[str, Set]) -> Counts:
    """Return the counts of the service at both ticks, with each visit in its own record."""
    town = parameters(1)
    by_tick = {
        tick: [
            (stamp_ms(2 * tick + 1), encode(person, visit))
            for person, visits in people.items()
            for visit in visits
            if visit.slot == tick
        ]
        for tick in TICKS
    }
    readings = read_ticks(town, Decider(town, [0], cast("Any", None)), by_tick)
    first, last = (tuple(next(iter(reading.present.values())).tolist()) for reading in readings)
    return first, last, tuple(next(iter(readings[-1].consenting.values())).tolist())


def recount(people: Mapping[str, Set]) -> Counts:
    """Return the counts by their definition."""

    def count(wanted: Callable[[ReportedVisit], bool]) -> tuple[int, ...]:
        return tuple(
            sum(any(visit.place == place and wanted(visit) for visit in visits) for visits in people.values())
            for place in PLACES
        )

    return count(lambda visit: visit.slot == 0), count(lambda _: True), count(lambda visit: visit.consent)


def neighbours(visits: Set) -> Iterator[tuple[Set, int, int]]:
    """Yield every consent neighbour, with the numbers of visits removed and of visits given consent."""
    options = [[visit] if visit.consent else [visit, None, visit._replace(consent=True)] for visit in visits]
    for chosen in product(*options):
        removed = sum(visit is None for visit in chosen)
        consented = sum(after is not None and after != before for before, after in zip(visits, chosen, strict=True))
        if removed or consented:
            yield tuple(visit for visit in chosen if visit is not None), removed, consented


Outcome = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...] | None]
"""The noisy counts and the lower bounds of a snapshot."""


class Given(NamedTuple):
    """What a tick decides on: the counts, the people who consented, and the places that are marked."""

    tick: int
    counts: tuple[int, ...]
    consented: tuple[int, ...]
    marked: frozenset[str]


@cache
def law_of(threshold: int) -> Callable[[Given], Law]:
    """Return the law of one snapshot."""
    town, instant = parameters(threshold), ORIGIN + TIME * MINUTE

    def publish(given: Given, noise: Noise) -> Outcome:
        decider = Decider(town, [0], noise)
        numbers: dict[str, tuple[TimeNumber, ...]] = dict.fromkeys(given.marked, (TimeNumber(0, CAP, None),))
        state = LedgerState(times=TimeAnswers(noisy={("noon", instant): numbers}))
        question = decider.build_questions(given.tick, state)[0]
        present = {instant: np.array(given.counts)}
        reading = Reading({}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, (), present)
        reading = replace(reading, consenting={at: np.array(given.consented) for at in question.consenting})
        (record,) = decider.decide(given.tick, Evidence({0: reading}), state).records
        value = json.loads(record.value)
        noisy = tuple((place, min(noisy["noisy_count"], CAP)) for place, noisy in value["noisy_counts"].items())
        bounds = value.get("counts_at_least")
        return noisy, None if bounds is None else tuple(bounds.items())

    return laws_of(publish, one_sided(CAP), Q)


@cache
def worst(threshold: int, full: Counts, other: Counts) -> Ratio:
    """Return the worst Pr[D]/Pr[D'] over all outcomes of both ticks; inf if D' excludes an outcome."""
    most: Ratio = Fraction(0)
    law, nobody = law_of(threshold), frozenset[str]()
    first = law(Given(0, other[0], other[2], nobody))
    for outcome, chance in law(Given(0, full[0], full[2], nobody)).items():
        if outcome not in first:
            return math.inf
        marked = frozenset(place for place, _ in cast("Outcome", outcome)[0])
        after = law(Given(1, other[1], other[2], marked))
        for final, final_chance in law(Given(1, full[1], full[2], marked)).items():
            if final not in after:
                return math.inf
            most = max(most, chance * final_chance / (first[outcome] * after[final]))
    return most


def add_others(visits: Set, others: Set) -> dict[str, Set]:
    return {"ann": visits, **{f"other-{number}": (visit,) for number, visit in enumerate(others)}}


def sum_stated(visits: Set, other: Set) -> int:
    """Return the most that a person pays, in units of ε: by place, 1 for noisy counts and 1 for lower bounds."""

    def pays(place: str) -> int:
        own, kept = ([visit for visit in chosen if visit.place == place] for chosen in (visits, other))
        removed = len(kept) < len(own)
        consented = any(visit.consent for visit in kept) and not any(visit.consent for visit in own)
        return removed + consented

    return sum(pays(place) for place in PLACES)


@pytest.mark.promise(27, 41, 42)
def test_counts_match_a_recount() -> None:
    """For every set of visits, alone and with another person, the counts of the service equal the recount."""
    for visits, others in product(SETS, OTHERS):
        people = add_others(visits, others)
        assert drive(people) == recount(people)
    print(f"{len(SETS) * len(OTHERS)} streams driven")


@pytest.mark.promise(42)
@pytest.mark.parametrize("threshold", [1, 2])
def test_worst_loss_of_a_consent_neighbour(threshold: int, stated_streams: Callable[[str], int]) -> None:
    """
    For every D and consent neighbour D', each place costs at most ε + ε_c; a single visit costs the larger of the two.

        τ = 00:30, horizon 2 h; a set that pays both: the first visit is removed, the second is given consent

            tick                      0  1
            first visit, removed      x  x
            second visit, agrees         x     f falls at tick 0 (ε), n rises at tick 1 (ε_c)
    """
    by_removed_and_consented: dict[tuple[int, int], Ratio] = {}
    pairs = 0
    for visits in SETS:
        for other, removed, consented in neighbours(visits):
            for others in OTHERS:
                pairs += 1
                ratio = worst(threshold, recount(add_others(visits, others)), recount(add_others(other, others)))
                assert ratio <= Q ** -sum_stated(visits, other)
                key = (removed, consented)
                by_removed_and_consented[key] = max(by_removed_and_consented.get(key, Fraction(0)), ratio)
    print(
        f"T = {threshold}: {pairs} pairs of D and D', worst ratios by (removed, consented): {by_removed_and_consented}"
    )
    once, twice = 1 / Q, 1 / Q**2  # two visits may be at two places
    assert by_removed_and_consented == {(1, 0): once, (0, 1): once, (2, 0): twice, (0, 2): twice, (1, 1): twice}
    assert pairs == stated_streams("The service, consent neighbours")


def test_duplicates_reach_the_sum() -> None:
    """Two visits at one place, of which the earlier is removed and the other is given consent, pay ε + ε_c."""
    visits = (ReportedVisit("inn", 0, consent=False), ReportedVisit("inn", 1, consent=False))
    other = (ReportedVisit("inn", 1, consent=True),)
    assert worst(1, recount({"ann": visits}), recount({"ann": other})) == 1 / Q**2


def test_removal_beside_consent_is_free() -> None:
    """A visit without consent at the time and place of one with consent, reported no earlier, costs nothing."""
    visits = (ReportedVisit("inn", 0, consent=True), ReportedVisit("inn", 0, consent=False))
    for other, _, _ in neighbours(visits):
        assert worst(1, recount({"ann": visits}), recount({"ann": other})) == 1


def test_consenting_visit_is_not_protected() -> None:
    """Without a visit with consent, a lower bound becomes impossible. The person agreed to this."""
    visits = (ReportedVisit("inn", 0, consent=True),)
    assert worst(1, recount({"ann": visits}), recount({"ann": ()})) == math.inf


def test_a_visit_elsewhere_is_not_protected() -> None:
    """A visit that is replaced by one elsewhere lets another noisy count rise: OSDP's neighbours do not fit ADP."""
    here, there = ((ReportedVisit(place, 0, consent=False),) for place in PLACES)
    assert worst(1, recount({"ann": here}), recount({"ann": there})) == math.inf
