"""Decisions about designated times: snapshots of locations and hot spots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from monitor.kinds.answer_state import TimeAnswers
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.privacy.published_numbers import TimeNumber
from monitor.ticks.collect_answers import Decider
from monitor.time.instants import parse_instant
from tests.ticks.deciding import decide_complete, list_keys, read, value_of

Make = Callable[..., Parameters]
MakeAt = Callable[..., AtTimes]
NOON = "2026-01-01T12:30:00Z"


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
        ],
    )
    def test_incomplete_time_is_unknown(
        self, known: dict[str, int], status: str, parameters: Parameters, noise: Any
    ) -> None:
        """A time is unknown if its slot is before `complete_from`, or if it was evicted.

        `evicted_before` limits windows only.
        """
        decision = decide_complete(Decider(parameters, [0], noise), 12, LedgerState(), **known)
        assert [value_of(record)["status"] for record in decision.records] == [status]

    def test_time_before_replaced_input_is_unknown(self, parameters: Parameters, noise: Any) -> None:
        """A time before `input_since` is unknown: 13 > slot 12."""
        for complete_from, status in ((12, "complete"), (13, "unknown")):
            state = LedgerState(terms=OwnerTerms("town", 1, input_since=complete_from))
            assert value_of(decide_complete(Decider(parameters, [0], noise), 12, state).records[0])["status"] == status

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

    @pytest.mark.promise(12)
    def test_noisy_locations_stay_listed(self, parameters: Parameters, noise: Any) -> None:
        """place-1 is drawn at tick 12; at tick 13 only the other two are drawn, although its count has changed."""
        decider, state = Decider(parameters, [0], noise), LedgerState()
        first = value_of(decide_complete(decider, 12, state, present=[0, 2, 1]).records[0])
        assert first["noisy_counts"] == {"place-1": {"tick": 12, "noisy_count": 2}}
        second = value_of(decide_complete(decider, 13, state, present=[2, 7, 1]).records[0])
        assert second["noisy_counts"] == {
            "place-0": {"tick": 13, "noisy_count": 2},
            "place-1": {"tick": 12, "noisy_count": 2},
        }
        assert noise.gaps == [[2, 0, 1], [0, 1]]

    @pytest.mark.promise(18)
    def test_unmarked_locations_are_drawn(self, parameters: Parameters, noise: Any) -> None:
        """Every unmarked location is drawn at each tick, also at count 0 (docs/rules.md, rule 3)."""
        decider, state = Decider(parameters, [0], noise), LedgerState()
        for tick in (12, 13):
            decide_complete(decider, tick, state)
        assert noise.gaps == [[2, 2, 2], [2, 2, 2]]

    def test_unknown_snapshot_keeps_noisy_counts(self, parameters: Parameters, noise: Any) -> None:
        """An unknown snapshot lists the noisy counts that were published before."""
        decider, state = Decider(parameters, [0], noise), LedgerState()
        decide_complete(decider, 12, state, present=[0, 2, 0])
        value = value_of(decider.decide(13, Evidence({}), state).records[0])
        assert (value["status"], value["noisy_counts"]) == ("unknown", {"place-1": {"tick": 12, "noisy_count": 2}})

    def test_marks_of_another_owner_are_kept(self, parameters: Parameters, noise: Any) -> None:
        """place-1, marked by another owner's snapshot, is listed with the tick that drew it and is not drawn again."""
        state = LedgerState()
        for record in decide_complete(Decider(parameters, [0], noise), 12, LedgerState(), present=[0, 2, 0]).records:
            state.fold(record, parameters.grid)
        noise.gaps.clear()
        value = value_of(decide_complete(Decider(parameters, [0], noise), 13, state, present=[0, 4, 0]).records[0])
        assert value["noisy_counts"] == {"place-1": {"tick": 12, "noisy_count": 2}}
        assert noise.gaps == [[2, 2]]

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
