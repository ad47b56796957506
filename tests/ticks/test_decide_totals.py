"""Answers about all shards, hot spots and dwell times: drawn once, at the final tick, from complete readings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.dwell.keys_and_parameters import Dwell
from monitor.kinds.dwell.record import DwellSnapshot
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, Question, Reading
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.hot_spots.record import HotSpotsSnapshot
from monitor.kinds.parameters import Parameters
from monitor.ledger.compute_payment import declare_charges
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.privacy.dwell import DwellRule
from monitor.records.fields import make_decoder
from monitor.ticks.collect_answers import Decider, Decision
from monitor.ticks.rollout import compute_version
from monitor.time.instants import HOUR
from monitor.time.schedule import Schedule
from tests.builders import replace_monitors, select
from tests.ticks.deciding import read, value_of

Make = Callable[..., Parameters]
HALF = Fraction(1, 2)
ANN, BOB = b"a" * 16, b"b" * 16
PEOPLE = {0: 1, 3: 7, 5: 4}
STAYS = {0: [(ANN, 0, 1_200)], 2: [(BOB, 5, 9_000), (ANN, 5, 60)]}
"""Visits by shard. Ann's second visit does not count: she has one visit per time."""
NOTHING: dict[str, dict[str, Any]] = {
    "busiest": {"hot_spots": []},
    "lengths": {"visits": None, "visit_seconds": None},
}

both_kinds = pytest.mark.parametrize("name", NOTHING)


def scheme_with(make_parameters: Make, name: str, horizon: int = 2, **rule: Any) -> Parameters:
    """Return parameters with one monitor of 6 places in 3 shards, at the middle of slot 10.

    `busiest` names the two busiest places. `lengths` has R = 1 h and m = 1.
    """
    parameters = make_parameters(places=6, shards=3, watched={})
    noon = Schedule((parameters.grid.start(10) + HOUR // 2,))
    if name == "busiest":
        return replace_monitors(parameters, hot_spots=(HotSpots(name, noon, HALF, 2, horizon * HOUR),))
    stated = DwellRule(**({"epsilon": HALF, "longest": 3_600} | rule))
    return replace_monitors(parameters, dwell=(Dwell(name, noon, stated, horizon * HOUR),))


def read_all(parameters: Parameters, questions: Mapping[int, Question], complete_from: int) -> dict[int, Reading]:
    """Return complete readings with `PEOPLE` and `STAYS`."""
    return {
        shard: replace(
            reading,
            present=dict.fromkeys(
                questions[shard].times,
                np.array([PEOPLE.get(int(row), 0) for row in parameters.registry.by_shard[shard]], np.int64),
            ),
            stays=dict.fromkeys(questions[shard].stays, STAYS.get(shard, ())),
        )
        for shard, reading in read(questions, complete_from=complete_from).items()
    }


def decide(
    parameters: Parameters,
    tick: int,
    noise: Any,
    state: LedgerState | None = None,
    lacking: Collection[int] = (),
    complete_from: int = COMPLETE_FROM_START,
) -> Decision:
    """Decide a tick by the partition that gives the answer, and has no shards here. `lacking`: shards not read."""
    decider = Decider(parameters, [], noise, [*select(parameters, HotSpots), *select(parameters, Dwell)])
    readings = read_all(parameters, decider.build_questions(tick, LedgerState()), complete_from)
    evidence = Evidence({shard: reading for shard, reading in readings.items() if shard not in lacking})
    return decider.decide(tick, evidence, LedgerState() if state is None else state)


def test_final_tick_names_the_busiest_locations(make_parameters: Make, noise: Any) -> None:
    """
    Only the final tick names the busiest locations of all shards: as_of(11) ≤ τ + horizon < as_of(12).

        slot      10     11     12
                   τ
        tick      10     11     12
                   -    named    -
    """
    parameters = scheme_with(make_parameters, "busiest")
    assert [len(decide(parameters, tick, noise).records) for tick in (10, 11, 12)] == [0, 1, 0]
    (record,) = decide(parameters, 11, noise).records
    value = make_decoder(HotSpotsSnapshot)(record.value)
    assert [(spot.location_id, spot.noisy_count) for spot in value.hot_spots] == [("place-3", 7), ("place-5", 4)]
    assert (value.status, value.final, value.epsilon, value.locations) == ("complete", True, HALF, 6)
    assert record.key.decode() == f"busiest/{value.time}"


@pytest.mark.promise(44)
def test_final_tick_has_the_totals(make_parameters: Make, noise: Any) -> None:
    """Only the final tick has the totals. A = 1,200 + 3,600 and B = 2,400 + 0, plus the noise 5 - 2 and 0 - 7."""
    parameters = scheme_with(make_parameters, "lengths")
    assert decide(parameters, 10, noise).records == []
    noise.script[:] = [5, 0, 2, 7]
    (record,) = decide(parameters, 11, noise).records
    value = make_decoder(DwellSnapshot)(record.value)
    assert (value.visit_seconds, value.spare_seconds) == (4_803, 2_393)
    assert value.visits == 7_196 / 3_600
    assert value.mean_seconds == pytest.approx(3_600 * 4_803 / 7_196)
    assert (value.noise, value.epsilon, value.longest_visit_seconds) == ("two_sided", HALF, 3_600)
    assert noise.drawn == [(HALF / 7_200, 2)] * 2
    assert record.key.decode() == f"lengths/{value.time}"
    assert decide(parameters, 12, noise).records == []


@pytest.mark.promise(5, 13, 44)
@both_kinds
def test_incomplete_input_is_unknown(name: str, make_parameters: Make, noise: Any) -> None:
    """Incomplete input, also of one shard only, makes the answer unknown, without contents and without a draw.

    The same holds for a time before a lost ledger, because its answer may have been drawn.
    """
    parameters = scheme_with(make_parameters, name)
    lost = OwnerTerms("town", 1, lost_at=parameters.grid.start(11))
    cases: list[dict[str, Any]] = [{"complete_from": 11}, {"lacking": [1]}, {"state": LedgerState(terms=lost)}]
    for how in cases:
        state = LedgerState()
        (record,) = decide(parameters, 11, noise, **({"state": state} | how)).records
        assert value_of(record)["status"] == "unknown"
        assert value_of(record).items() >= NOTHING[name].items()
        assert state.times.drawn == set(), "a longer horizon may still draw it"
    assert noise.drawn == []


@pytest.mark.promise(13, 44)
@both_kinds
def test_longer_horizon_does_not_draw_again(name: str, make_parameters: Make, noise: Any) -> None:
    """
    An answer that was drawn at tick 11 is not drawn again at tick 12, the final tick of a longer horizon.

        tick      10     11     12
        before     -    drawn    -
        after      -      -      -
    """
    parameters, state = scheme_with(make_parameters, name), LedgerState()
    (record,) = decide(parameters, 11, noise).records
    state.fold(record, parameters.grid)
    assert state.last_tick == 11
    assert decide(scheme_with(make_parameters, name, horizon=3), 12, noise, state).records == []
    assert set(state.charged.values()) == {HALF}


def test_final_tick_asks_about_live_times(make_parameters: Make, noise: Any) -> None:
    """At the final tick of hot spots, the question also has the times that an `at_times` monitor answers there."""
    parameters = scheme_with(make_parameters, "busiest")
    noon, later = (parameters.grid.start(slot) + HOUR // 2 for slot in (10, 11))
    moments = AtTimes("moments", Schedule((later,)), HALF, 2, 2 * HOUR)
    parameters = replace_monitors(parameters, at_times=(moments,))
    decider = Decider(parameters, [0], noise, select(parameters, HotSpots))
    questions = decider.build_questions(11, LedgerState())
    assert [questions[shard].times for shard in range(3)] == [(noon, later), (noon,), (noon,)]
    records = decider.decide(11, Evidence(read_all(parameters, questions, COMPLETE_FROM_START)), LedgerState()).records
    values = [value_of(record) for record in records]
    assert [(value["kind"], value["status"]) for value in values] == [
        ("at_times", "complete"),
        ("hot_spots", "complete"),
    ]


@both_kinds
def test_other_partitions_read_only_their_shards(name: str, make_parameters: Make, noise: Any) -> None:
    """A partition that does not give the answer reads only its own shards, and leaves the next slot closed for it."""
    parameters = scheme_with(make_parameters, name)
    assert set(Decider(parameters, [1], noise).build_questions(11, LedgerState())) == {1}
    giving = Decider(parameters, [1], noise, parameters.monitors)
    assert set(giving.build_questions(11, LedgerState())) == {0, 1, 2}
    assert [parameters.reads_all_shards(tick) for tick in (10, 11, 12)] == [False, True, False]


@pytest.mark.promise(15, 39)
def test_charges_and_version_have_the_rule(make_parameters: Make) -> None:
    """The charges declare the ε of dwell times, and the version changes with each part of the rule."""
    parameters = scheme_with(make_parameters, "lengths")
    (declared,) = declare_charges(parameters).times or ()
    assert (declared.kind, declared.epsilon) == ("dwell", HALF)
    changed = ({"epsilon": Fraction(1)}, {"longest": 60}, {"per_person": 2})
    versions = {compute_version(scheme_with(make_parameters, "lengths", **rule), "f") for rule in ({}, *changed)}
    assert len(versions) == 4
    assert parameters.largest_record > 0, "the limit of the output topic follows from it"
