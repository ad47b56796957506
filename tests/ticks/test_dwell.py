"""Dwell times: drawn once, at the final tick, from complete readings of all shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.dwell.keys_and_parameters import Dwell
from monitor.kinds.dwell.record import DwellSnapshot
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Question, Reading
from monitor.kinds.parameters import Parameters
from monitor.ledger.compute_payment import declare_charges
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.dwell import DwellRule
from monitor.records.fields import make_decoder
from monitor.ticks.collect_answers import Decider, Decision
from monitor.ticks.rollout import compute_version
from monitor.time.instants import HOUR
from monitor.time.schedule import Schedule
from tests.builders import replace_monitors, select

Make = Callable[..., Parameters]
Stays = Mapping[int, Sequence[tuple[bytes, int, int]]]
ANN, BOB = b"a" * 16, b"b" * 16
STAYS: Stays = {0: [(ANN, 0, 1_200)], 2: [(BOB, 5, 9_000), (ANN, 5, 60)]}
"""Visits by shard. Ann's second visit does not count: she has one visit per time."""


def scheme_with(make_parameters: Make, horizon: int = 2, **rule: Any) -> Parameters:
    """Return parameters with dwell times of 6 places in 3 shards, at the middle of slot 10: R = 1 h, m = 1."""
    parameters = make_parameters(places=6, shards=3, watched={})
    noon = Schedule((parameters.grid.start(10) + HOUR // 2,))
    stated = DwellRule(**({"epsilon": Fraction(1, 2), "longest": 3_600} | rule))
    return replace_monitors(parameters, dwell=(Dwell("lengths", noon, stated, horizon * HOUR),))


def read(questions: Mapping[int, Question], stays: Stays, complete_from: int) -> dict[int, Reading]:
    return {
        shard: Reading(
            progress={},
            complete_from=complete_from,
            evicted_before=COMPLETE_FROM_START,
            times_evicted_until=NEVER,
            time=0,
            counts=[np.zeros(len(rows), np.int64) for _, rows in question.windows],
            present=dict.fromkeys(question.times, np.zeros(2, np.int64)),
            stays=dict.fromkeys(question.stays, stays.get(shard, ())),
        )
        for shard, question in questions.items()
    }


def decide(
    parameters: Parameters, tick: int, noise: Any, state: LedgerState | None = None, complete_from: int | None = None
) -> Decision:
    decider = Decider(parameters, [], noise, select(parameters, Dwell))
    known = COMPLETE_FROM_START if complete_from is None else complete_from
    readings = read(decider.build_questions(tick, LedgerState()), STAYS, known)
    return decider.decide(tick, Evidence(readings), LedgerState() if state is None else state)


@pytest.mark.promise(44)
def test_final_tick_has_the_totals(make_parameters: Make, noise: Any) -> None:
    """
    Only the final tick answers. A = 1,200 + 3,600 and B = 2,400 + 0, plus the noise 5 - 2 and 0 - 7.

        tick      10  11  12
                   -   x   -
    """
    parameters = scheme_with(make_parameters)
    assert decide(parameters, 10, noise).records == []
    noise.script[:] = [5, 0, 2, 7]
    (record,) = decide(parameters, 11, noise).records
    value = make_decoder(DwellSnapshot)(record.value)
    assert (value.visit_seconds, value.spare_seconds) == (4_803, 2_393)
    assert value.visits == 7_196 / 3_600
    assert value.mean_seconds == pytest.approx(3_600 * 4_803 / 7_196)
    assert (value.noise, value.epsilon, value.longest_visit_seconds) == ("two_sided", Fraction(1, 2), 3_600)
    assert noise.drawn == [(Fraction(1, 2) / 7_200, 2)] * 2
    assert record.key.decode() == f"lengths/{value.time}"
    assert decide(parameters, 12, noise).records == []


@pytest.mark.promise(5, 44)
def test_incomplete_input_is_unknown(make_parameters: Make, noise: Any) -> None:
    """Incomplete input, also of one shard only, makes the answer unknown, without numbers and without a draw."""
    parameters = scheme_with(make_parameters)
    (record,) = decide(parameters, 11, noise, complete_from=11).records
    value = json.loads(record.value)
    assert (value["status"], value["visits"], value["visit_seconds"]) == ("unknown", None, None)
    decider = Decider(parameters, [], noise, select(parameters, Dwell))
    readings = read(decider.build_questions(11, LedgerState()), STAYS, COMPLETE_FROM_START)
    del readings[1]
    assert decider.decide(11, Evidence(readings), LedgerState()).answers == {("lengths", "unknown"): 1}
    assert noise.drawn == []


@pytest.mark.promise(44)
def test_longer_horizon_does_not_draw_again(make_parameters: Make, noise: Any) -> None:
    """Dwell times that were drawn at tick 11 are not drawn again at tick 12, the final tick of a longer horizon."""
    parameters = scheme_with(make_parameters)
    (record,) = decide(parameters, 11, noise).records
    state = LedgerState()
    state.fold(record, parameters.grid)
    assert decide(scheme_with(make_parameters, horizon=3), 12, noise, state).records == []
    (at,) = select(parameters, Dwell)[0].times.instants
    assert state.charged == {("dwell", "lengths", at): Fraction(1, 2)}


@pytest.mark.promise(15, 39)
def test_charges_and_version_have_the_rule(make_parameters: Make) -> None:
    """The charges declare the ε of dwell times, and the version changes with each part of the rule."""
    parameters = scheme_with(make_parameters)
    (declared,) = declare_charges(parameters).times or ()
    assert (declared.kind, declared.epsilon) == ("dwell", Fraction(1, 2))
    changed = ({"epsilon": Fraction(1)}, {"longest": 60}, {"per_person": 2})
    versions = {compute_version(scheme_with(make_parameters, **rule), "f") for rule in ({}, *changed)}
    assert len(versions) == 4


def test_slots_are_not_opened_early(make_parameters: Make) -> None:
    """At the final tick, the owners of other shards do not open the next slot, as with hot spots."""
    parameters = scheme_with(make_parameters)
    assert [parameters.reads_all_shards(tick) for tick in (10, 11, 12)] == [False, True, False]


def test_dwell_times_have_a_largest_record(make_parameters: Make) -> None:
    """Dwell times alone have a largest record, from which the limit of the output topic follows."""
    assert scheme_with(make_parameters).largest_record > 0
