"""Decisions about designated times: what is counted, drawn, published and repeated, with one and several answers."""

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
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.fields import make_decoder
from monitor.ticks.collect_answers import Decider, Decision
from monitor.time.instants import parse_instant
from tests.builders import replace_monitors, select
from tests.ticks.deciding import decide_complete, list_keys, read, value_of

Make = Callable[..., Parameters]
MakeAt = Callable[..., AtTimes]
NOON = "2026-01-01T12:30:00Z"
ABOUT = "noon", parse_instant(NOON)
HALF = "1/2"
People = Sequence[tuple[int, int]]
"""The location and the stamp of each person."""


class TestAtTimes:
    @pytest.fixture
    def parameters(self, make_parameters: Make, make_at_times: MakeAt) -> Parameters:
        """One designated time within slot 12, evaluated at ticks 12 and 13 (horizon 2 h)."""
        return make_parameters(watched={}, at_times=(make_at_times("noon", NOON),))

    def test_time_is_answered_until_its_horizon(self, parameters: Parameters, noise: Any) -> None:
        """
        A time is answered from its slot's end to its horizon, and the last answer is final: τ = 12:30, horizon 2 h.

            tick      11  12  13  14
            value          x   x!           "!" is final, unknown or not
        """
        decider, state = Decider(parameters, [0], noise), LedgerState()
        value = {tick: decide_complete(decider, tick, state).records for tick in (11, 12, 13, 14)}
        assert [len(records) for records in value.values()] == [0, 1, 1, 0]
        assert [value_of(value[tick][0])["final"] for tick in (12, 13)] == [False, True]
        unknown = decider.decide(13, Evidence({}), LedgerState()).records[0]
        assert (value_of(unknown)["status"], value_of(unknown)["final"]) == ("unknown", True)

    @pytest.mark.promise(2)
    @pytest.mark.parametrize(
        ("known", "status"),
        [
            ({"complete_from": 12}, "complete"),
            ({"complete_from": 13}, "unknown"),
            ({"evicted_before": 13}, "complete"),
            ({"times_evicted_until": parse_instant(NOON) - 1}, "complete"),
            ({"times_evicted_until": parse_instant(NOON)}, "unknown"),
            ({"input_since": 12}, "complete"),
            ({"input_since": 13}, "unknown"),
        ],
    )
    def test_incomplete_time_is_unknown(
        self, known: dict[str, int], status: str, parameters: Parameters, noise: Any
    ) -> None:
        """A time is unknown if its slot is before `complete_from` or a replaced input, or if it was evicted.

        `evicted_before` limits windows only.
        """
        state = LedgerState(OwnerTerms("town", 1, input_since=known.get("input_since")))
        read = {name: limit for name, limit in known.items() if name != "input_since"}
        decision = decide_complete(Decider(parameters, [0], noise), 12, state, **read)
        assert [value_of(record)["status"] for record in decision.records] == [status]

    @pytest.mark.promise(32)
    def test_time_before_lost_ledger_is_unknown(self, parameters: Parameters, noise: Any) -> None:
        """A time before the loss of a ledger stays unknown, because its marked locations are not known.

        A time at or after the loss is answered.
        """
        noon = parse_instant(NOON)
        lost, kept = (LedgerState(terms=OwnerTerms("town", 1, lost_at=at)) for at in (noon + 1, noon))
        decider = Decider(parameters, [0], noise)
        for tick in (12, 13):
            assert value_of(decide_complete(decider, tick, lost, present=[5, 5, 5]).records[0])["status"] == "unknown"
            assert value_of(decide_complete(decider, tick, kept, present=[0, 0, 0]).records[0])["status"] == "complete"
        assert lost.times.noisy == {("noon", noon): {}}
        assert [len(gaps) for gaps in noise.gaps] == [3, 3]

    @pytest.mark.promise(12, 18)
    def test_noisy_locations_stay_listed(self, parameters: Parameters, noise: Any) -> None:
        """place-1 is drawn at tick 12; at tick 13 only the other two are drawn, although its count has changed.

        Every other location is drawn at each tick, also at count 0 (docs/rules.md, rule 3).
        """
        decider, state = Decider(parameters, [0], noise), LedgerState()
        first = value_of(decide_complete(decider, 12, state, present=[0, 2, 1]).records[0])
        assert first["noisy_counts"] == {"place-1": {"tick": 12, "noisy_count": 2}}
        second = value_of(decide_complete(decider, 13, state, present=[2, 7, 1]).records[0])
        assert second["noisy_counts"] == {
            "place-0": {"tick": 13, "noisy_count": 2},
            "place-1": {"tick": 12, "noisy_count": 2},
        }
        assert noise.gaps == [[2, 0, 1], [0, 1]]

    def test_snapshots_have_public_order(self, make_parameters: Make, make_at_times: MakeAt, noise: Any) -> None:
        """Snapshots are ordered by monitor, time and shard, and the noisy counts within one by registry."""
        late, early = "2026-01-01T12:45:00Z", "2026-01-01T12:15:00Z"
        monitors = (make_at_times("zoo", late, early), make_at_times("alley", early))
        parameters = make_parameters(places=6, shards=2, watched={}, at_times=monitors)
        decider = Decider(parameters, [0, 1], noise)
        questions = decider.build_questions(12, LedgerState())
        sizes = [len(rows) for rows in parameters.registry.by_shard]
        readings = {
            shard: read({shard: question}, present=[9] * sizes[shard])[shard] for shard, question in questions.items()
        }
        decision = decider.decide(12, Evidence(readings), LedgerState())
        expected = [(name, at) for name, at in (("zoo", early), ("zoo", late), ("alley", early))]
        assert list_keys(decision) == [f"{name}/{at}/{shard}" for name, at in expected for shard in (0, 1)]
        for record in decision.records:
            value = value_of(record)
            rows = [parameters.registry.rows[location] for location in value["noisy_counts"]]
            assert rows == parameters.registry.by_shard[value["shard"]].tolist()

    def test_removed_location_stays_marked(self, parameters: Parameters, noise: Any) -> None:
        """A location that left the registry is not listed but stays marked, in case it returns."""
        noon = parse_instant(NOON)
        state = LedgerState(times=TimeAnswers(noisy={("noon", noon): {"place-9": (TimeNumber(12, 4, None),)}}))
        assert value_of(decide_complete(Decider(parameters, [0], noise), 13, state).records[0])["noisy_counts"] == {}
        assert state.times.noisy["noon", noon] == {"place-9": (TimeNumber(12, 4, None),)}


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
    bounds, stated = [], set()
    for tick, noisy in enumerate(expected, 12):
        decision = decide(decider, tick, state, PEOPLE)
        assert list_noisy_counts(decision) == {"place-0": noisy}
        stated.add(value_of(decision.records[0])["epsilon"])
        snapshot = make_decoder(AtTimesSnapshot)(decision.records[0].value)
        bounds.append((snapshot.find_upper_bound("place-0"), snapshot.find_upper_bound("place-1")))
    assert bounds == [(3, 1), (4, 1), (4, 1), (6, 1), (None, 1)]
    assert noise.gaps == [[0, 2, 2], [1, 1, 2], [1, 1, 2], [0, 1, 2], [1, 2]]
    assert (stated, {epsilon for epsilon, _ in noise.drawn}) == ({"1"}, {Fraction(1, 2)})


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
