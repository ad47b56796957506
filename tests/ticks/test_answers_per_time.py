"""Several noisy counts of a location about a designated time: what is counted, published and repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from monitor.kinds.answer_state import TimeAnswers
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import AtTimesSnapshot
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import Stamps
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.fields import make_decoder
from monitor.ticks.collect_answers import Decider, Decision
from monitor.time.instants import parse_instant
from tests.builders import replace_monitors, select
from tests.ticks.deciding import read, value_of

NOON = "2026-01-01T12:30:00Z"
ABOUT = "noon", parse_instant(NOON)
HALF = "1/2"
People = Sequence[tuple[int, int]]
"""The location and the stamp of each person."""


@pytest.fixture
def parameters(make_parameters: Callable[..., Parameters], make_at_times: Callable[..., AtTimes]) -> Parameters:
    """One designated time within slot 12, evaluated at ticks 12 to 17, with ε = 1, T = 2 and two answers."""
    noon = replace(make_at_times("noon", NOON, horizon=6), epsilon=Fraction(1), answers=2)
    built: Parameters = make_parameters(watched={}, at_times=(noon,))
    return built


def decide(decider: Decider, tick: int, state: LedgerState, people: People) -> Decision:
    """Decide a tick with complete input: the people whose record was stamped up to its slot."""
    places, stamps = (np.array(of, np.int64) for of in zip(*(one for one in people if one[1] <= tick), strict=True))
    readings = {
        shard: replace(
            reading,
            present=dict.fromkeys(reading.present, np.bincount(places, minlength=3)),
            stamps=dict.fromkeys(reading.present, Stamps(places, stamps)),
        )
        for shard, reading in read(decider.build_questions(tick, state)).items()
    }
    return decider.decide(tick, Evidence(readings), state)


def list_noisy_counts(decision: Decision) -> dict[str, Any]:
    counts: dict[str, Any] = value_of(decision.records[0])["noisy_counts"]
    return counts


PEOPLE: People = ((0, 12), (0, 12), (0, 12), (0, 13), (0, 15), (0, 15), (0, 16), (0, 16), (1, 13))


@pytest.mark.promise(12)
def test_number_counts_what_was_reported_since(parameters: Parameters, noise: Any) -> None:
    """
    After a number, a count has the people reported since. After the second one, the location is marked (T = 2).

        tick           12  13  14  15  16
        reported        3   1   0   2   2
        counted         3   1   1   3   -
        number          3           3
    """
    decider, state = Decider(parameters, [0], noise), LedgerState()
    first = {"tick": 12, "noisy_count": 3, "epsilon": HALF}
    second = {"tick": 15, "noisy_count": 3, "epsilon": HALF}
    since = {"counted_since": "2026-01-01T13:00:00Z"}
    expected = [first, first | since, first | since, first | {"later": [second]} | since, first | {"later": [second]}]
    bounds = []
    for tick, noisy in enumerate(expected, 12):
        decision = decide(decider, tick, state, PEOPLE)
        assert list_noisy_counts(decision) == {"place-0": noisy}
        snapshot = make_decoder(AtTimesSnapshot)(decision.records[0].value)
        bounds.append((snapshot.find_upper_bound("place-0"), snapshot.find_upper_bound("place-1")))
    assert bounds == [(3, 1), (4, 1), (4, 1), (6, 1), (None, 1)]
    assert noise.gaps == [[0, 2, 2], [1, 1, 2], [1, 1, 2], [0, 1, 2], [1, 2]]


def test_noise_is_drawn_at_a_share(parameters: Parameters, noise: Any) -> None:
    """Noise is drawn at ε/k, and the snapshot states ε."""
    record = decide(Decider(parameters, [0], noise), 12, LedgerState(), PEOPLE).records[0]
    assert value_of(record)["epsilon"] == "1"
    assert {epsilon for epsilon, _ in noise.drawn} == {Fraction(1, 2)}


@pytest.mark.promise(31)
def test_takeover_goes_on(parameters: Parameters, noise: Any) -> None:
    """An owner that has read the records of the ledger decides each tick as the one before it."""
    decider, state, taken = Decider(parameters, [0], noise), LedgerState(), LedgerState()
    for tick in range(12, 18):
        decision = decide(decider, tick, state, PEOPLE)
        again = decide(Decider(parameters, [0], noise), tick, taken, PEOPLE)
        assert [record.value for record in again.records] == [record.value for record in decision.records]
        taken = LedgerState()
        for record in decision.records:
            taken.fold(record, parameters.grid)
        assert taken.times.noisy == state.times.noisy


def test_unknown_snapshot_repeats_the_numbers(parameters: Parameters, noise: Any) -> None:
    """An unknown snapshot repeats the numbers without `counted_since`. The next tick counts from the latest number."""
    decider, state = Decider(parameters, [0], noise), LedgerState()
    first = {"tick": 12, "noisy_count": 3, "epsilon": HALF}
    decide(decider, 12, state, PEOPLE)
    assert list_noisy_counts(decider.decide(15, Evidence({}), state)) == {"place-0": first}
    later = list_noisy_counts(decide(decider, 16, state, PEOPLE))["place-0"]
    assert later["later"] == [{"tick": 16, "noisy_count": 5, "epsilon": HALF}]


@pytest.mark.promise(33)
@pytest.mark.parametrize(("answers", "epsilon"), [(2, None), (1, Fraction(1, 2)), (3, Fraction(3, 4))])
def test_earlier_number_marks_its_location(
    answers: int, epsilon: Fraction | None, parameters: Parameters, noise: Any
) -> None:
    """A number without its ε, as of an old ledger, and one after which less than ε/k is left, mark their location."""
    (noon,) = select(parameters, AtTimes)
    parameters = replace_monitors(parameters, at_times=(replace(noon, answers=answers),))
    number = TimeNumber(12, 4, epsilon)
    state = LedgerState(times=TimeAnswers(noisy={ABOUT: {"place-0": (number,)}}))
    decision = decide(Decider(parameters, [0], noise), 16, state, PEOPLE)
    shown = {"tick": 12, "noisy_count": 4} | ({} if epsilon is None else {"epsilon": str(epsilon)})
    assert list_noisy_counts(decision) == {"place-0": shown}
    assert [len(gaps) for gaps in noise.gaps] == [2]


def test_number_of_this_tick_marks_its_location(parameters: Parameters, noise: Any) -> None:
    """A location with a number of this tick or a later one, as after a change of partitions, is not evaluated."""
    for tick in (14, 15):
        number = TimeNumber(tick, 4, Fraction(1, 2))
        state = LedgerState(times=TimeAnswers(noisy={ABOUT: {"place-0": (number,)}}))
        decision = decide(Decider(parameters, [0], noise), 14, state, PEOPLE)
        assert list_noisy_counts(decision)["place-0"] == {"tick": tick, "noisy_count": 4, "epsilon": HALF}
    assert [len(gaps) for gaps in noise.gaps] == [2, 2]
