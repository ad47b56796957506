"""The worst loss of upper bounds, from the bytes of records to the published numbers, over all streams of one place.

A person has at most two visits, with every first and last slot and every moment of the report: late, early, and so far
ahead that the visit is cut or refused. Each stream is driven through the service's decoding, windows and decisions. The
adversary chooses at which ends of buckets the input is incomplete. Only the noise is given: its draws 0, 1, and 2 or
more have exact chances, so the law of everything that is published is a law of exact fractions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Reading
from monitor.kinds.parameters import Parameters
from monitor.kinds.upper_bound.keys_and_parameters import UpperBound
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.upper_bound import BucketRule, compute_most_numbers
from monitor.ticks.collect_answers import Decider
from tests.builders import build_parameters
from tests.kit.recount import Counted, Rules
from tests.privacy_service.cells import Visit, encode_record, stamp_ms
from tests.privacy_service.driving import read_ticks

pytestmark = pytest.mark.long

Q, MORE = Fraction(1, 2), 2
SLOTS = range(3)
MOMENTS = range(-1, 2 * len(SLOTS) - 1)
SHAPES = [(60 * first + 10, 60 * last + 50) for first in SLOTS for last in SLOTS if first <= last]
GROUNDS = [(1, 1, 0), (1, 2, 0), (1, 2, 1), (2, 2, 1), (2, 4, 1)]
"""b, W and F."""

Stream = tuple[Visit, ...]


@dataclass
class Noise:
    """Noise whose next draws are given."""

    script: list[int] = field(default_factory=list)
    secure: bool = True

    def geometric(self, _epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Return the next draws, exactly as many as there are."""
        assert size == len(self.script)
        return np.array(self.script, np.int64)

    def reaches(self, _epsilon: Fraction, _gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Raise an error, because upper bounds have no threshold."""
        raise NotImplementedError


@cache
def build(rule: BucketRule) -> Parameters:
    parameters = build_parameters(["inn", "mill"], max_lead=rule.max_lead)
    return replace(parameters, monitors=(UpperBound("curve", (0,), (rule,)),))


def list_ends(rule: BucketRule) -> list[int]:
    """Return the ticks that end a bucket, from the first report on until all visits are out of the window."""
    return [tick for tick in range(-1, SLOTS.stop + rule.lifetime + rule.bucket) if rule.ends_bucket(tick)]


def drive(rule: BucketRule, visits: Stream) -> list[Reading]:
    """Return the readings of all undrawn buckets at the ends of buckets, after the real decoding and windows."""
    records = {
        tick: [(stamp_ms(visit.moment), encode_record([visit])) for visit in visits if visit.first_read == tick]
        for tick in range(-1, list_ends(rule)[-1] + 1)
    }
    readings = read_ticks(build(rule), Decider(build(rule), [0], Noise()), records)
    return [reading for tick, reading in zip(records, readings, strict=True) if rule.ends_bucket(tick)]


def accept(rule: BucketRule, visit: Visit) -> Counted | None:
    """Return the accepted visit by a recount that shares no code with the service."""
    return Rules(0, 60, 15, rule.max_lead, rule.max_lead).accept(visit.arrived, visit.left, 30 * visit.moment)


def recount(rule: BucketRule, visits: Stream) -> dict[int, int]:
    """Return, by the last slot of a bucket, whether the person is counted there, from the definitions."""
    counted = [one for visit in visits if (one := accept(rule, visit)) is not None]
    return {
        last: int(any(last - rule.bucket < one.stamp and one.in_window(last, rule.window) for one in counted))
        for last in list_ends(rule)
    }


def list_streams() -> Iterator[Stream]:
    """Yield each set of at most two visits of a person."""
    visits = [Visit("ann", "inn", *shape, moment) for shape in SHAPES for moment in MOMENTS]
    yield from ((), *((visit,) for visit in visits), *combinations_with_replacement(visits, 2))


@cache
def find_counts(rule: BucketRule, visits: Stream) -> tuple[int, ...]:
    """Return the count of each bucket, from the service; it equals the recount, also when it is read late."""
    expected = recount(rule, visits)
    for tick, reading in zip(list_ends(rule), drive(rule, visits), strict=True):
        for asked, count in reading.buckets.items():
            assert count == (expected.get(asked.last, 0) if asked.last <= tick else 0), (visits, asked)
    return tuple(expected.values())


@cache
def find_law(
    rule: BucketRule, counts: tuple[int, ...], missing: tuple[bool, ...], explored: tuple[int, ...]
) -> dict[Any, Fraction]:
    """Return the law of all records of the decisions, if the input is incomplete at some ends of buckets.

    `explored`: the last slots of the buckets whose draws are enumerated. Each bucket has a draw of its own, so the law
    given that the other draws are 0 has the same ratios.
    """
    law: dict[Any, Fraction] = {}
    for script in product(range(MORE + 1), repeat=len(explored)):
        draws = dict(zip(explored, script, strict=True))
        outcome = publish(rule, dict(zip(list_ends(rule), counts, strict=True)), missing, draws)
        drawn = {last for _, _, *numbers in outcome for last, _ in numbers}
        if any(draws[last] for last in explored if last not in drawn):
            continue
        chance = Fraction(1)
        for last in drawn & draws.keys():
            chance *= Q ** draws[last] * (1 if draws[last] == MORE else 1 - Q)
        law[outcome] = law.get(outcome, Fraction(0)) + chance
    assert sum(law.values()) == 1
    return law


def publish(
    rule: BucketRule, counts: dict[int, int], missing: tuple[bool, ...], draws: dict[int, int]
) -> tuple[Any, ...]:
    """Return what the records of all ticks say, by the service's decisions. Each bucket is drawn at most once."""
    noise, state, outcome, drawn = Noise(), LedgerState(), [], set[int]()
    decider = Decider(build(rule), [0], noise)
    for tick, lacks in zip(list_ends(rule), missing, strict=True):
        asked = decider.build_questions(tick, state)[0].buckets
        noise.script = [draws.get(each.last, 0) for each in asked]
        found = {each: counts.get(each.last, 0) for each in asked}
        reading = Reading({}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, (), {}, buckets=found)
        (record,) = decider.decide(tick, Evidence({} if lacks else {0: reading}), state).records
        if not lacks:
            assert drawn.isdisjoint(each.last for each in asked)
            drawn |= {each.last for each in asked}
        value = json.loads(record.value)
        numbers = [(one["tick"], min(one["noisy_count"], MORE)) for one in value["numbers"]]
        outcome.append((tick, value["status"], *numbers))
    return tuple(outcome)


def find_ratio(rule: BucketRule, full: tuple[int, ...], kept: tuple[int, ...]) -> Fraction:
    """Return the worst ratio of everything that is published, over all choices of incomplete input."""
    explored = tuple(last for last, *both in zip(list_ends(rule), full, kept, strict=True) if both[0] != both[1])
    worst = Fraction(1)
    for missing in list_missing(rule):
        law, other = (find_law(rule, counts, missing, explored) for counts in (full, kept))
        worst = max([worst, *(chance / other[outcome] for outcome, chance in law.items())])
    return worst


def list_missing(rule: BucketRule) -> list[tuple[bool, ...]]:
    """Return the choices of incomplete input: none, each one end of a bucket, and every second one."""
    ends = len(list_ends(rule))
    single = [tuple(at == one for at in range(ends)) for one in range(-1, ends)]
    return [*single, tuple(at % 2 == 0 for at in range(ends))]


@pytest.mark.promise(46)
@pytest.mark.parametrize(("bucket", "window", "max_lead"), GROUNDS)
def test_worst_loss_of_numbers(bucket: int, window: int, max_lead: int) -> None:
    """For every D and D', one record costs ε_l/B at most, and all records of a person the formula; both are reached."""
    rule = BucketRule(Fraction(1), bucket, window, max_lead)
    pairs: dict[tuple[Any, Any, int], int] = {}
    streams = 0
    for visits in list_streams():
        streams += 1
        full = find_counts(rule, visits)
        for kept in {visits[:-1], visits[1:], ()} - {visits}:
            gone = [one for visit in visits if visit not in kept if (one := accept(rule, visit)) is not None]
            slots = max(one.last for one in gone) - min(one.last for one in gone) + 1 if gone else 0
            most = min(len(visits) - len(kept), compute_most_numbers(bucket, window, max_lead, slots)) if gone else 0
            key = full, find_counts(rule, kept), most
            pairs[key] = pairs.get(key, 0) + 1
    assert streams == 703
    worst: dict[int, Fraction] = {}
    for full, kept, most in pairs:
        ratio = find_ratio(rule, full, kept)
        assert ratio <= Q**-most
        worst[most] = max(worst.get(most, Fraction(0)), ratio)
    assert worst == {most: Q**-most for most in worst}
    assert set(worst) == {0, 1, 2}
