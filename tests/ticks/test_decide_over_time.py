"""The fast decision of all places of a monitor equals the plain decision of each place alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from monitor.contracts.alerts import make_over_time_record
from monitor.contracts.parameters import OverTime, Parameters
from monitor.privacy import over_time
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.ticks.decide import Decider, Evidence
from monitor.ticks.ledger import EncodedRecord
from monitor.ticks.state import LedgerState, OwnerTerms
from tests.ticks.deciding import read

Make = Callable[..., Parameters]
PLACES = 7


def decide_one_by_one(
    parameters: Parameters, monitor: OverTime, tick: int, counts: dict[int, int | None], state: LedgerState, noise: Any
) -> list[EncodedRecord]:
    """Decide a tick place by place from the ledger's marks, with nothing kept: the oracle."""
    lost_tick = None if state.lost_at is None else parameters.grid.find_slot(state.lost_at)
    drawn: dict[int, int] = {}
    for epsilon in dict.fromkeys(rule.answer_epsilon for rule in monitor.rules):
        places = [n for n, rule in enumerate(monitor.rules) if rule.answer_epsilon == epsilon]
        drawn |= dict(zip(places, noise.geometric(epsilon, len(places)).tolist(), strict=True))
    records = []
    for n, (row, rule) in enumerate(zip(monitor.rows, monitor.rules, strict=True)):
        location = parameters.registry.ids[row]
        marks = state.find_marks(monitor.name, location)
        answer = over_time.step(rule, marks, tick, counts[row], drawn[n], lost_tick=lost_tick)
        state.spend(monitor.name, location, answer.marks)
        as_of = parameters.grid.as_of(tick)
        key, value, headers = make_over_time_record(
            source=parameters.name,
            monitor=monitor.name,
            location_id=location,
            rule=rule,
            tick=tick,
            as_of=as_of,
            window_start=parameters.grid.start(tick - rule.window + 1),
            answer=answer,
            resumes_at=None if answer.resumes_at is None else parameters.grid.as_of(answer.resumes_at),
        )
        records.append(EncodedRecord(key, value, tuple(headers), as_of // 1_000))
    state.last_tick = tick
    return records


class Drawn:
    """Noise from a seed: small draws, so that noisy counts, pauses and "safe" alternate."""

    secure = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def geometric(self, epsilon: Fraction, size: int) -> Any:  # noqa: ARG002  # the law does not matter here
        return self._rng.integers(0, 3, size).astype(np.int64)

    def reaches(self, epsilon: Fraction, gaps: Any) -> Any:
        raise NotImplementedError


def make_monitor(parameters: Parameters, rng: Random) -> Parameters:
    """Return the parameters with places of three rules, and ids that JSON escapes."""
    window, lead = rng.randrange(1, 5), rng.randrange(3)
    rules = [
        OverTimeRule(epsilon, answers, threshold, window, lead)
        for epsilon, answers, threshold in ((Fraction(1), 2, 3), (Fraction(1, 3), 1, 2), (Fraction(1), 3, 2))
    ]
    registry = replace(parameters.registry, ids=tuple(f'pläce "{n}"\\/' for n in range(PLACES)))
    chosen = tuple(rng.choice(rules) for _ in range(PLACES))
    return replace(parameters, registry=registry, over_time=(OverTime("stations", tuple(range(PLACES)), chosen),))


def advance(rng: Random, tick: int, states: tuple[LedgerState, LedgerState], parameters: Parameters) -> int:
    """Change both states in the same way, as rare events do, and return the next tick."""
    if rng.random() < 0.1:  # marks of an earlier configuration, read from the ledger
        mark = Mark(tick, 9, Fraction(1, rng.randrange(1, 4)), tick + rng.randrange(-2, 9))
        for state in states:
            state.spend("stations", parameters.registry.ids[rng.randrange(1)], (mark,))
    if rng.random() < 0.05:
        for state in states:
            state.terms = OwnerTerms("town", 1, lost_at=parameters.grid.start(tick))
    for state in states:
        state.forget(tick, parameters.mark_lifetime, 0, 50)
    return tick + rng.choice((1, 1, 1, 1, 2, 9, -1))


@pytest.mark.parametrize("seed", range(60))
def test_decision_equals_each_place_alone(seed: int, make_parameters: Make) -> None:
    """Over 60 ticks with pauses, losses, skipped ticks and a clock set back, all records and marks are the same."""
    rng = Random(seed)
    parameters = make_monitor(make_parameters(places=PLACES, shards=2), rng)
    noise, states, tick = (Drawn(seed), Drawn(seed)), (LedgerState(), LedgerState()), 0
    decider = Decider(parameters, [0, 1], noise[0])
    for _ in range(60):
        people = {row: rng.randrange(3) for row in range(PLACES)}
        readings = read(decider.build_questions(tick), people)
        unknown = {shard for shard in readings if rng.random() < 0.1}
        known = {shard: reading for shard, reading in readings.items() if shard not in unknown}
        counts = {row: None if int(parameters.registry.shard[row]) in unknown else people[row] for row in people}
        records = decider.decide(tick, Evidence(known), states[0]).records
        assert list(records) == decide_one_by_one(
            parameters, parameters.over_time[0], tick, counts, states[1], noise[1]
        )
        assert records == list(records), "records can be built again"
        tick = advance(rng, tick, states, parameters)
        assert states[0].summarize_spent() == states[1].summarize_spent()


def test_standing_is_right_until_its_end() -> None:
    """A `Standing` gives the same answers at each tick of its range as one that is found at that tick."""
    rng = Random(5)
    for _ in range(400):
        rule = OverTimeRule(Fraction(1), rng.randrange(1, 5), 3, rng.randrange(1, 9), rng.randrange(3))
        lost = rng.choice((None, None, rng.randrange(12)))
        marks = tuple(
            Mark(at, 5, rule.answer_epsilon, at + rule.mark_lifetime - 1)
            for at in sorted(rng.sample(range(12), rng.randrange(5)))
        )
        first = rng.randrange(14)
        standing = over_time.find_standing(rule, marks, first, lost)
        for tick in range(first, min(standing.until, first + 40) + 1):
            for count in (None, 0, 3):
                assert over_time.decide_answer(rule, standing, tick, count, 1) == over_time.step(
                    rule, marks, tick, count, 1, lost_tick=lost
                )
