"""Hot spots: drawn once, at the final tick, from complete readings of all shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Question, Reading
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.hot_spots.record import HotSpotsSnapshot
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.records.fields import make_decoder
from monitor.ticks.collect_answers import Decider, Decision
from monitor.time.schedule import Schedule
from tests.builders import replace_monitors, select

HOUR = 3_600_000_000
Make = Callable[..., Parameters]
HUGE = Fraction(50)  # a draw is above 0 with a chance of e^-50


def scheme_with(make_parameters: Make, horizon: int = 2, **more: Any) -> Parameters:
    """Return parameters with one monitor: the two busiest of 6 places in 3 shards, at the middle of slot 10."""
    parameters = make_parameters(places=6, shards=3, watched={}, **more)
    noon = parameters.grid.start(10) + HOUR // 2
    return replace_monitors(parameters, hot_spots=(HotSpots("busiest", Schedule((noon,)), HUGE, 2, horizon * HOUR),))


def read(
    parameters: Parameters, questions: Mapping[int, Question], people: Mapping[int, int], complete_from: int
) -> dict[int, Reading]:
    readings = {}
    for shard, question in questions.items():
        counts = np.array([people.get(int(row), 0) for row in parameters.registry.by_shard[shard]], np.int64)
        present = dict.fromkeys(question.times, counts)
        readings[shard] = Reading({}, complete_from, COMPLETE_FROM_START, NEVER, 0, (), present)
    return readings


def decide_complete(
    parameters: Parameters,
    tick: int,
    state: LedgerState,
    people: Mapping[int, int],
    *,
    complete_from: int = COMPLETE_FROM_START,
) -> Decision:
    """Decide a tick by the partition that gives the answer. It has no shards here."""
    decider = Decider(parameters, [], OneSidedNoise(SeededEntropy(3)), select(parameters, HotSpots))
    readings = read(parameters, decider.build_questions(tick, LedgerState()), people, complete_from)
    return decider.decide(tick, Evidence(readings), state)


def test_final_tick_names_the_busiest_locations(make_parameters: Make) -> None:
    """
    The final tick names the busiest locations of all shards: as_of(11) ≤ τ + horizon < as_of(12).

        slot      10     11     12
                   τ
        tick      10     11     12
                   -    named    -
    """
    parameters = scheme_with(make_parameters)
    people = {0: 1, 3: 7, 5: 4}
    assert decide_complete(parameters, 10, LedgerState(), people).records == []
    (record,) = decide_complete(parameters, 11, LedgerState(), people).records
    value = make_decoder(HotSpotsSnapshot)(record.value)
    assert [(spot.location_id, spot.noisy_count) for spot in value.hot_spots] == [("place-3", 7), ("place-5", 4)]
    assert (value.status, value.final, value.epsilon, value.locations) == ("complete", True, Fraction(50), 6)
    assert record.key.decode() == f"busiest/{value.time}"
    assert decide_complete(parameters, 12, LedgerState(), people).records == []


def test_final_tick_asks_about_live_times(make_parameters: Make) -> None:
    """At the final tick of hot spots, the question also has the times that an `at_times` monitor answers there."""
    parameters = scheme_with(make_parameters)
    noon, later = (parameters.grid.start(slot) + HOUR // 2 for slot in (10, 11))
    moments = AtTimes("moments", Schedule((later,)), HUGE, 2, 2 * HOUR)
    parameters = replace_monitors(parameters, at_times=(moments,))
    decider = Decider(parameters, [0], OneSidedNoise(SeededEntropy(3)), select(parameters, HotSpots))
    assert [decider.build_questions(11, LedgerState())[shard].times for shard in range(3)] == [
        (noon, later),
        (noon,),
        (noon,),
    ]
    readings = read(parameters, decider.build_questions(11, LedgerState()), {3: 7}, COMPLETE_FROM_START)
    values = [json.loads(record.value) for record in decider.decide(11, Evidence(readings), LedgerState()).records]
    assert [(value["kind"], value["status"]) for value in values] == [
        ("at_times", "complete"),
        ("hot_spots", "complete"),
    ]


def test_incomplete_input_is_unknown(make_parameters: Make) -> None:
    """Incomplete input makes the answer unknown, and names no location. A longer horizon may still draw it."""
    parameters, state = scheme_with(make_parameters), LedgerState()
    (record,) = decide_complete(parameters, 11, state, {3: 7}, complete_from=11).records
    value = json.loads(record.value)
    assert (value["status"], value["hot_spots"], state.times.drawn) == ("unknown", [], set())


@pytest.mark.promise(13)
def test_one_late_shard_means_unknown(make_parameters: Make) -> None:
    """One shard without a reading makes the whole answer unknown."""
    parameters = scheme_with(make_parameters)
    decider = Decider(parameters, [], OneSidedNoise(SeededEntropy(3)), select(parameters, HotSpots))
    readings = read(parameters, decider.build_questions(11, LedgerState()), {3: 7}, COMPLETE_FROM_START)
    decision = decider.decide(11, Evidence({0: readings[0], 2: readings[2]}), LedgerState())
    assert decision.answers == {("busiest", "unknown"): 1}


def test_lost_ledger_means_unknown(make_parameters: Make) -> None:
    """Hot spots of a time before a lost ledger are unknown, because they may have been drawn."""
    parameters = scheme_with(make_parameters)
    state = LedgerState(terms=OwnerTerms("town", 1, lost_at=parameters.grid.start(11)))
    (record,) = decide_complete(parameters, 11, state, {3: 7}).records
    assert json.loads(record.value)["status"] == "unknown"


@pytest.mark.promise(13)
def test_longer_horizon_does_not_draw_again(
    make_parameters: Make,
) -> None:
    """
    Hot spots that were drawn at tick 11 are not drawn again at tick 12, the final tick of a longer horizon.

        tick      10     11     12
        before     -    named    -
        after      -      -      -
    """
    parameters = scheme_with(make_parameters)
    (record,) = decide_complete(parameters, 11, LedgerState(), {3: 7}).records
    state = LedgerState()
    state.fold(record, parameters.grid)
    assert state.last_tick == 11
    assert decide_complete(scheme_with(make_parameters, horizon=3), 12, state, {3: 7}).records == []


def test_other_partitions_read_only_their_shards(make_parameters: Make) -> None:
    """A partition that does not give the hot spots answer reads only its own shards."""
    parameters = scheme_with(make_parameters)
    assert set(Decider(parameters, [1], OneSidedNoise(SeededEntropy(3))).build_questions(11, LedgerState())) == {1}
    assert set(
        Decider(parameters, [1], OneSidedNoise(SeededEntropy(3)), select(parameters, HotSpots)).build_questions(
            11, LedgerState()
        )
    ) == {
        0,
        1,
        2,
    }
