"""What one tick says, from readings, marks and given noise; windows are drawn with "#" for visits that count."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from monitor.contracts.alerts import owner_record
from monitor.privacy.over_time import Mark
from monitor.public.instants import HOUR, parse_instant
from monitor.public.parameters import AtTimes, HotSpots, Parameters
from monitor.public.schedule import Schedule
from monitor.release.decide import Decider, Decision, Evidence
from monitor.release.ledger import LedgerRecord
from monitor.release.state import LedgerState, OwnerTerms
from monitor.windows.facts import COMPLETE_FROM_START, NEVER, Question, Reading

Make = Callable[..., Parameters]
MakeAt = Callable[..., AtTimes]
ONE = Fraction(1)
NOON = "2026-01-01T12:30:00Z"


def value_of(record: LedgerRecord) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(record.value)
    return read


def statuses(decision: Decision) -> dict[str, str]:
    return {record.key.decode(): value_of(record)["status"] for record in decision.records}


def key_order(decision: Decision) -> list[str]:
    return [record.key.decode() for record in decision.records]


def read(
    questions: Mapping[int, Question],
    people: int | Mapping[int, int] = 0,
    present: Sequence[int] | None = None,
    **known: int,
) -> dict[int, Reading]:
    """What shards would tell: `people` at every watched row (or by row), `present` at every designated time."""
    given: dict[str, Any] = {
        "complete_from": COMPLETE_FROM_START,
        "evicted_before": COMPLETE_FROM_START,
        "times_evicted_until": NEVER,
        "time": 0,
    } | known
    return {
        shard: Reading(
            progress={0: 1},
            counts={
                (row, start): people if isinstance(people, int) else people.get(row, 0) for row, start in asked.windows
            },
            present={at: np.array(present if present is not None else [0, 0, 0]) for at in asked.times},
            **given,
        )
        for shard, asked in questions.items()
    }


def tell(decider: Decider, tick: int, state: LedgerState, people: Any = 0, **known: Any) -> Decision:
    """Decide a tick on complete input."""
    readings = read(decider.questions(tick), people, **known)
    return decider.decide(tick, Evidence(readings), state)


def noisy_at(tick: int, mark_lifetime: int, epsilon: Fraction = ONE) -> Mark:
    return Mark(tick, 9, epsilon, tick + mark_lifetime - 1)


class TestOverTime:
    def test_complete_input_is_decided_and_incomplete_input_is_unknown(self, make_parameters: Make, noise: Any) -> None:
        """Counts 0, 2, 1 at threshold 2 without noise; then the same reading below the barrier."""
        decider = Decider(make_parameters(), [0], noise)
        readings = read(decider.questions(5), {1: 2, 2: 1})
        decided = decider.decide(5, Evidence(readings), LedgerState())
        assert list(statuses(decided).values()) == ["safe", "noisy_count", "safe"]
        assert decided.answers == {("stations", "safe"): 2, ("stations", "noisy_count"): 1}
        missing = decider.decide(5, Evidence({}), LedgerState())
        assert set(statuses(missing).values()) == {"unknown"}
        assert missing.answers == {("stations", "unknown"): 3}

    def test_without_any_reading_all_is_unknown(self, make_parameters: Make, noise: Any) -> None:
        """Redis or the brokers were away until the release."""
        decided = Decider(make_parameters(), [0], noise).decide(5, Evidence({}), LedgerState())
        assert set(statuses(decided).values()) == {"unknown"}

    @pytest.mark.parametrize("bound", ["complete_from", "evicted_before"])
    def test_a_window_that_begins_before_the_facts_are_whole_is_unknown(
        self, bound: str, make_parameters: Make, noise: Any
    ) -> None:
        """
        W = 3, and the facts are whole from slot 4 on.

            slot      3  4  5  6  7
            tick 5    [.  #  #]            unknown
            tick 6       [#  #  #]         decided
        """
        decider = Decider(make_parameters(window=3), [0], noise)
        assert set(statuses(tell(decider, 5, LedgerState(), **{bound: 4})).values()) == {"unknown"}
        assert set(statuses(tell(decider, 6, LedgerState(), **{bound: 4})).values()) == {"safe"}

    def test_an_input_that_was_replaced_is_unknown_until_a_window_lies_behind_it(
        self, make_parameters: Make, noise: Any
    ) -> None:
        """input_since = 4, carried by the owner record: as with `since`."""
        decider = Decider(make_parameters(window=3), [0], noise)
        state = LedgerState(terms=OwnerTerms("town", 1, input_since=4))
        assert set(statuses(tell(decider, 5, state)).values()) == {"unknown"}
        assert set(statuses(tell(decider, 6, state)).values()) == {"safe"}

    @pytest.mark.parametrize("max_lead", [0, 1, 2])
    def test_a_lost_ledger_pauses_for_w_plus_f_ticks(self, max_lead: int, make_parameters: Make, noise: Any) -> None:
        """
        The ledger was lost within slot 10; W = 3, so at F = 1 four ticks.

            tick      9  10  11  12  13  14
                         p   p   p   p   s
        """
        parameters = make_parameters(window=3, max_lead=max_lead)
        lost_at = parameters.grid.start(10) + 1
        state = LedgerState(terms=OwnerTerms("town", 1, lost_at=lost_at))
        decider = Decider(parameters, [0], noise)
        mark_lifetime = 3 + max_lead
        for tick in range(10, 10 + mark_lifetime):
            decided = tell(decider, tick, state)
            assert set(statuses(decided).values()) == {"paused"}
            assert value_of(decided.records[0])["answers"] == []
            assert parse_instant(value_of(decided.records[0])["resumes_at"]) == parameters.grid.as_of(
                10 + mark_lifetime
            )
        assert set(statuses(tell(decider, 10 + mark_lifetime, state)).values()) == {"safe"}

    def test_paused_beats_unknown(self, make_parameters: Make, noise: Any) -> None:
        """A location that may not answer says so also where nothing is known."""
        decider = Decider(make_parameters(), [0], noise)
        state = LedgerState(marks={("stations", "place-1"): {5: noisy_at(5, 4)}})
        decided = decider.decide(6, Evidence({}), state)
        assert list(statuses(decided).values()) == ["unknown", "paused", "unknown"]

    def test_marks_that_another_owner_published_pause(self, make_parameters: Make, noise: Any) -> None:
        """
        W = 3, F = 1: the answer of tick 5 holds ticks 5 to 8, whoever decides them.

            tick      5  6  7  8  9
            first     z
            second       p  p  p  s
        """
        parameters = make_parameters(window=3, max_lead=1)
        first = tell(Decider(parameters, [0], noise), 5, LedgerState(), {1: 2})
        state = LedgerState()
        for record in first.records:
            state.fold(record, parameters.grid)
        second = Decider(parameters, [0], noise)
        said = [statuses(tell(second, tick, state))["stations/place-1"] for tick in range(6, 10)]
        assert said == ["paused", "paused", "paused", "safe"]

    def test_answers_are_listed_and_each_spends_its_share(self, make_parameters: Make, noise: Any) -> None:
        """
        Two answers at 1/2 within W + F = 4 ticks (k = 2, ε_l = 1), the third once the first has run out.

            tick      5  6  7  8  9
            answer    z  z  p  p  z
        """
        parameters = make_parameters(answers=2, places=1, max_lead=1)
        decider, state = Decider(parameters, [0], noise), LedgerState()
        told = [value_of(tell(decider, tick, state, 3).records[0]) for tick in range(5, 10)]
        assert [each["status"] for each in told] == ["noisy_count", "noisy_count", "paused", "paused", "noisy_count"]
        assert {each["epsilon"] for each in told} == {"1/2"}
        answer = {"noisy_count": 3, "epsilon": "1/2"}
        five, six, nine = ({"tick": tick} | answer | {"until": tick + 3} for tick in (5, 6, 9))
        assert [each["answers"] for each in told] == [[five], [five, six], [five, six], [five, six], [six, nine]]
        assert noise.drawn == [(Fraction(1, 2), 1)] * 5

    def test_a_longer_window_revives_marks_that_had_run_out(self, make_parameters: Make, noise: Any) -> None:
        """
        F = 1: an answer at tick 5 under W = 1 ran until tick 6; under W = 6 it holds its location until tick 11.

            tick      5  6  7 … 11  12
            W = 1     z  p
            W = 6           p …  p   s
        """
        state = LedgerState(marks={("stations", "place-0"): {5: noisy_at(5, 2)}})
        decider = Decider(make_parameters(window=6, places=1, max_lead=1), [0], noise)
        said = [statuses(tell(decider, tick, state))["stations/place-0"] for tick in range(7, 13)]
        assert said == ["paused"] * 5 + ["safe"]

    def test_every_location_gets_fresh_noise_at_every_tick(self, make_parameters: Make, noise: Any) -> None:
        """At count 0, unchanged, unknown and paused alike: what is drawn tells nothing (docs/rules.md, rule 3)."""
        decider, state = Decider(make_parameters(), [0], noise), LedgerState()
        noise.script = [0, 2, 0]
        assert statuses(tell(decider, 5, state))["stations/place-1"] == "noisy_count"
        tell(decider, 6, state)
        decider.decide(7, Evidence({}), state)
        tell(decider, 8, state)
        assert noise.drawn == [(ONE, 3)] * 4

    def test_the_noise_is_added_to_its_own_location(self, make_parameters: Make, noise: Any) -> None:
        """Draws 5, 0, 1 on counts 0, 1, 1 with threshold 2, in registry order."""
        noise.script = [5, 0, 1]
        decided = tell(Decider(make_parameters(), [0], noise), 5, LedgerState(), {1: 1, 2: 1})
        assert [value_of(record).get("noisy_count") for record in decided.records] == [5, None, 2]

    def test_weights_draw_at_their_own_epsilon(self, make_parameters: Make, noise: Any) -> None:
        """Locations of one monitor with shares 1/2 and 1/4: each draw at the share that it costs."""
        parameters = make_parameters(places=3)
        monitor = parameters.over_time[0]
        half, quarter = (replace(monitor.rules[0], epsilon=Fraction(1, part)) for part in (2, 4))
        parameters = replace(parameters, over_time=(replace(monitor, rules=(half, quarter, half)),))
        noise.script = [7, 8, 9]
        decided = tell(Decider(parameters, [0], noise), 5, LedgerState())
        assert noise.drawn == [(Fraction(1, 2), 2), (Fraction(1, 4), 1)]
        told = [(value_of(record)["noisy_count"], value_of(record)["epsilon"]) for record in decided.records]
        assert told == [(7, "1/2"), (9, "1/4"), (8, "1/2")]

    def test_records_come_in_the_public_order(self, make_parameters: Make, noise: Any) -> None:
        """Monitors as configured, locations as in the registry, whatever their counts."""
        parameters = make_parameters(watched={"zoo": [0, 2], "alley": [1, 2]})
        decided = tell(Decider(parameters, [0], noise), 5, LedgerState(), {2: 9})
        assert key_order(decided) == ["zoo/place-0", "zoo/place-2", "alley/place-1", "alley/place-2"]

    def test_a_location_in_two_monitors_is_marked_in_each(self, make_parameters: Make, noise: Any) -> None:
        """It pays in both, and pauses in both by itself."""
        decider, state = Decider(make_parameters(watched={"zoo": [0], "alley": [0]}), [0], noise), LedgerState()
        noise.script = [2, 0]
        assert list(statuses(tell(decider, 5, state)).values()) == ["noisy_count", "safe"]
        assert list(statuses(tell(decider, 6, state)).values()) == ["paused", "safe"]

    def test_a_partition_decides_its_own_shards_alone(self, make_parameters: Make, noise: Any) -> None:
        """Two shards over two owners: together every location once, none twice; each asks its shards only."""
        parameters = make_parameters(places=12, shards=2)
        deciders = [Decider(parameters, [shard], noise) for shard in (0, 1)]
        keys = [key_order(tell(decider, 5, LedgerState())) for decider in deciders]
        assert all(keys)
        assert sorted(keys[0] + keys[1]) == sorted(f"stations/place-{row}" for row in range(12))
        assert [list(decider.questions(5)) for decider in deciders] == [[0], [1]]

    def test_an_incomplete_shard_leaves_the_others_decided(self, make_parameters: Make, noise: Any) -> None:
        """Unknown goes by shard."""
        parameters = make_parameters(places=12, shards=2)
        decider = Decider(parameters, [0, 1], noise)
        readings = read(decider.questions(5))
        decided = decider.decide(5, Evidence({0: readings[0]}), LedgerState())
        shard = {
            f"stations/{place}": int(parameters.registry.shard[row]) for place, row in parameters.registry.rows.items()
        }
        assert statuses(decided) == {key: ("safe", "unknown")[shard[key]] for key in shard}

    def test_a_record_is_stamped_and_dated_with_its_ticks_end(self, make_parameters: Make, noise: Any) -> None:
        """as_of, window_start, ce_id, and Kafka's timestamp."""
        parameters = make_parameters(places=1)
        record = tell(Decider(parameters, [0], noise), 5, LedgerState()).records[0]
        told = value_of(record)
        assert (told["as_of"], told["window_start"]) == ("2026-01-01T06:00:00Z", "2026-01-01T03:00:00Z")
        assert dict(record.headers)["ce_id"] == b"stations/place-0/5"
        assert record.timestamp_ms == parameters.grid.as_of(5) // 1_000


class TestAtTimes:
    @pytest.fixture
    def parameters(self, make_parameters: Make, make_at_times: MakeAt) -> Parameters:
        """One designated time within slot 12, evaluated at ticks 12 and 13 (horizon 2 h)."""
        return make_parameters(watched={}, at_times=(make_at_times("noon", NOON),))

    def test_a_time_is_told_from_its_slots_end_until_its_horizon_and_the_last_is_final(
        self, parameters: Parameters, noise: Any
    ) -> None:
        """
        τ = 12:30, horizon 2 h: as_of 13:00 and 14:00.

            tick      11  12  13  14
            told          x   x!           "!" is final, unknown or not
        """
        decider, state = Decider(parameters, [0], noise), LedgerState()
        told = {tick: tell(decider, tick, state).records for tick in (11, 12, 13, 14)}
        assert [len(records) for records in told.values()] == [0, 1, 1, 0]
        assert [value_of(told[tick][0])["final"] for tick in (12, 13)] == [False, True]
        unknown = decider.decide(13, Evidence({}), LedgerState()).records[0]
        assert (value_of(unknown)["status"], value_of(unknown)["final"]) == ("unknown", True)

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
    def test_a_time_whose_facts_are_not_whole_is_unknown(
        self, known: dict[str, int], status: str, parameters: Parameters, noise: Any
    ) -> None:
        """Visits are missing whose slots lie before `since`, and times up to `dropped`; trimming cuts windows only."""
        decided = tell(Decider(parameters, [0], noise), 12, LedgerState(), **known)
        assert [value_of(record)["status"] for record in decided.records] == [status]

    def test_a_time_before_the_input_was_replaced_is_unknown(self, parameters: Parameters, noise: Any) -> None:
        """input_since = 13 > slot 12."""
        for complete_from, status in ((12, "complete"), (13, "unknown")):
            state = LedgerState(terms=OwnerTerms("town", 1, input_since=complete_from))
            assert value_of(tell(Decider(parameters, [0], noise), 12, state).records[0])["status"] == status

    def test_a_time_before_the_ledger_was_lost_is_unknown_for_good(self, parameters: Parameters, noise: Any) -> None:
        """Which locations are marked for it is not known any more; a time at or after the loss is told."""
        noon = parse_instant(NOON)
        lost, kept = (LedgerState(terms=OwnerTerms("town", 1, lost_at=at)) for at in (noon + 1, noon))
        decider = Decider(parameters, [0], noise)
        for tick in (12, 13):
            assert value_of(tell(decider, tick, lost, present=[5, 5, 5]).records[0])["status"] == "unknown"
            assert value_of(tell(decider, tick, kept, present=[0, 0, 0]).records[0])["status"] == "complete"
        assert lost.noisy == {("noon", noon): {}}
        assert [len(gaps) for gaps in noise.gaps] == [3, 3]

    def test_noisy_locations_stay_listed_and_are_not_drawn_again(self, parameters: Parameters, noise: Any) -> None:
        """place-1 reaches the threshold at tick 12; at tick 13 the other two are drawn, though it has more people."""
        decider, state = Decider(parameters, [0], noise), LedgerState()
        first = value_of(tell(decider, 12, state, present=[0, 2, 1]).records[0])
        assert first["noisy_counts"] == {"place-1": {"tick": 12, "noisy_count": 2}}
        second = value_of(tell(decider, 13, state, present=[2, 7, 1]).records[0])
        assert second["noisy_counts"] == {
            "place-0": {"tick": 13, "noisy_count": 2},
            "place-1": {"tick": 12, "noisy_count": 2},
        }
        assert noise.gaps == [[2, 0, 1], [0, 1]]

    def test_every_unmarked_location_is_drawn_for_also_at_count_zero(self, parameters: Parameters, noise: Any) -> None:
        """Three empty places, two ticks: three draws each (docs/rules.md, rule 3)."""
        decider, state = Decider(parameters, [0], noise), LedgerState()
        for tick in (12, 13):
            tell(decider, tick, state)
        assert noise.gaps == [[2, 2, 2], [2, 2, 2]]

    def test_an_unknown_snapshot_keeps_the_noisy_counts_so_far(self, parameters: Parameters, noise: Any) -> None:
        """Nothing that was published is taken back."""
        decider, state = Decider(parameters, [0], noise), LedgerState()
        tell(decider, 12, state, present=[0, 2, 0])
        told = value_of(decider.decide(13, Evidence({}), state).records[0])
        assert (told["status"], told["noisy_counts"]) == ("unknown", {"place-1": {"tick": 12, "noisy_count": 2}})

    def test_marks_of_another_owners_records_hold(self, parameters: Parameters, noise: Any) -> None:
        """Folded from its snapshot: place-1 is marked, listed with the tick that drew it, and not drawn again."""
        state = LedgerState()
        for record in tell(Decider(parameters, [0], noise), 12, LedgerState(), present=[0, 2, 0]).records:
            state.fold(record, parameters.grid)
        noise.gaps.clear()
        told = value_of(tell(Decider(parameters, [0], noise), 13, state, present=[0, 4, 0]).records[0])
        assert told["noisy_counts"] == {"place-1": {"tick": 12, "noisy_count": 2}}
        assert noise.gaps == [[2, 2]]

    def test_snapshots_come_by_monitor_time_and_shard(
        self, make_parameters: Make, make_at_times: MakeAt, noise: Any
    ) -> None:
        """Two monitors with overlapping times, two shards; noisy counts of a snapshot in registry order."""
        late, early = "2026-01-01T12:45:00Z", "2026-01-01T12:15:00Z"
        monitors = (make_at_times("zoo", late, early), make_at_times("alley", early))
        parameters = make_parameters(places=6, shards=2, watched={}, at_times=monitors)
        decider = Decider(parameters, [0, 1], noise)
        questions = decider.questions(12)
        sizes = [len(rows) for rows in parameters.registry.by_shard]
        readings = {
            shard: read({shard: asked}, present=[9] * sizes[shard])[shard] for shard, asked in questions.items()
        }
        decided = decider.decide(12, Evidence(readings), LedgerState())
        expected = [(name, at) for name, at in (("zoo", early), ("zoo", late), ("alley", early))]
        assert key_order(decided) == [f"{name}/{at}/{shard}" for name, at in expected for shard in (0, 1)]
        for record in decided.records:
            told = value_of(record)
            rows = [parameters.registry.rows[location] for location in told["noisy_counts"]]
            assert rows == parameters.registry.by_shard[told["shard"]].tolist()

    def test_a_location_that_left_the_registry_is_not_listed_but_stays_marked(
        self, parameters: Parameters, noise: Any
    ) -> None:
        """place-9 was noisy under an earlier registry; should it come back, its mark is there."""
        noon = parse_instant(NOON)
        state = LedgerState(noisy={("noon", noon): {"place-9": (12, 4)}})
        assert value_of(tell(Decider(parameters, [0], noise), 13, state).records[0])["noisy_counts"] == {}
        assert state.noisy["noon", noon] == {"place-9": (12, 4)}


class TestHotSpots:
    """One answer about all shards, at the final tick of the horizon; τ = 12:30, horizon 2 h, so at tick 13."""

    def decider(self, make_parameters: Make, noise: Any, shards: Sequence[int] = (0,), top: int = 2) -> Decider:
        noon = HotSpots("spots", Schedule((parse_instant(NOON),)), Fraction(1, 2), top, 2 * HOUR)
        parameters = replace(make_parameters(places=4, shards=2, watched={}), hot_spots=(noon,))
        return Decider(parameters, shards, noise, parameters.hot_spots)

    def evidence(self, decider: Decider, tick: int, people: Mapping[int, int], complete: bool = True) -> Evidence:
        """So many people by row at τ, wherever it is asked for."""
        rows_of = decider._parameters.registry.by_shard
        readings = {
            shard: read({shard: asked}, present=[people.get(int(row), 0) for row in rows_of[shard]])[shard]
            for shard, asked in decider.questions(tick).items()
        }
        return Evidence({shard: reading for shard, reading in readings.items() if complete or shard == 0})

    def test_they_are_drawn_once_at_the_final_tick_over_all_shards(self, make_parameters: Make, noise: Any) -> None:
        """Every location draws, also at count 0; the highest noisy counts are named, ties in registry order."""
        decider, state = self.decider(make_parameters, noise), LedgerState()
        assert decider.decide(12, self.evidence(decider, 12, {3: 5}), state).records == ()
        noise.script = [4, 1, 0, 0]
        decided = decider.decide(13, self.evidence(decider, 13, {1: 3, 3: 3}), state)
        (record,) = decided.records
        assert value_of(record)["hot_spots"] == [
            {"location_id": "place-0", "noisy_count": 4},
            {"location_id": "place-1", "noisy_count": 4},
        ]
        assert noise.drawn == [(Fraction(1, 2), 4)]
        assert decider.decide(13, self.evidence(decider, 13, {}), state).records == ()

    def test_another_owner_does_not_draw_them_again(self, make_parameters: Make, noise: Any) -> None:
        """What was folded from the record holds, also where a longer horizon makes a later tick the final one."""
        decider = self.decider(make_parameters, noise)
        state = LedgerState()
        for record in decider.decide(13, self.evidence(decider, 13, {1: 3}), LedgerState()).records:
            state.fold(record, decider._parameters.grid)
        assert decider.decide(13, self.evidence(decider, 13, {1: 3}), state).records == ()

    def test_one_shard_that_is_incomplete_makes_them_unknown_and_draws_nothing(
        self, make_parameters: Make, noise: Any
    ) -> None:
        """They are about all locations; what was not drawn may still be, should the horizon be lengthened."""
        decider, state = self.decider(make_parameters, noise), LedgerState()
        (record,) = decider.decide(13, self.evidence(decider, 13, {}, complete=False), state).records
        assert (value_of(record)["status"], value_of(record)["hot_spots"]) == ("unknown", [])
        assert noise.drawn == []
        assert state.drawn == set()

    def test_after_a_lost_ledger_they_are_unknown(self, make_parameters: Make, noise: Any) -> None:
        """They may have been drawn before."""
        decider = self.decider(make_parameters, noise)
        state = LedgerState(terms=OwnerTerms("town", 1, lost_at=parse_instant(NOON) + 1))
        (record,) = decider.decide(13, self.evidence(decider, 13, {}), state).records
        assert value_of(record)["status"] == "unknown"


def test_questions_ask_each_window_once_and_each_live_time_once(
    make_parameters: Make, make_at_times: MakeAt, noise: Any
) -> None:
    """Two monitors with the same window over place-0 and the same designated time share one question."""
    parameters = make_parameters(
        watched={"zoo": [0], "alley": [0, 1]}, at_times=(make_at_times("noon", NOON), make_at_times("lunch", NOON))
    )
    asked = Decider(parameters, [0], noise).questions(12)
    assert asked == {0: Question(((0, 10), (1, 10)), (parse_instant(NOON),), 12)}


def test_the_state_knows_the_tick_that_was_decided(make_parameters: Make, noise: Any) -> None:
    """Also when a tick has no records at all."""
    state = LedgerState()
    tell(Decider(make_parameters(watched={}), [0], noise), 5, state)
    assert state.last_tick == 5


def test_terms_come_from_owner_records_alone(make_parameters: Make, noise: Any) -> None:
    """An owner record with `lost_at` pauses whoever folds it, when the first record has expired."""
    parameters = make_parameters()
    record = owner_record(
        source="town",
        service="town",
        fingerprint="f",
        input_topic_id="i",
        partitions=1,
        lost_at=parameters.grid.start(5),
        input_since=None,
        partition=0,
        at=parameters.grid.start(5) + HOUR // 2,
    )
    state = LedgerState(expired_until=parameters.grid.start(0))
    state.fold(LedgerRecord(record.key, record.value, tuple(record.headers), 0), parameters.grid)
    assert set(statuses(tell(Decider(parameters, [0], noise), 5, state)).values()) == {"paused"}
