"""Decisions of one tick from readings, marks and given noise. "#" marks visits that count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.ticks.collect_answers import Decider
from monitor.time.instants import parse_instant
from tests.builders import replace_monitors, select
from tests.ticks.deciding import decide_complete, list_keys, make_mark, read, statuses, value_of

Make = Callable[..., Parameters]
MakeAt = Callable[..., AtTimes]
ONE = Fraction(1)
NOON = "2026-01-01T12:30:00Z"


class TestOverTime:
    @pytest.mark.promise(5)
    def test_missing_reading_is_unknown(self, make_parameters: Make, noise: Any) -> None:
        """A complete reading (counts 0, 2, 1) is decided at threshold 2; without it all places are unknown."""
        decider = Decider(make_parameters(), [0], noise)
        readings = read(decider.build_questions(5, LedgerState()), {1: 2, 2: 1})
        decision = decider.decide(5, Evidence(readings), LedgerState())
        assert list(statuses(decision).values()) == ["safe", "noisy_count", "safe"]
        assert decision.answers == {("stations", "safe"): 2, ("stations", "noisy_count"): 1}
        missing = decider.decide(5, Evidence({}), LedgerState())
        assert set(statuses(missing).values()) == {"unknown"}
        assert missing.answers == {("stations", "unknown"): 3}

    @pytest.mark.promise(7)
    @pytest.mark.parametrize("bound", ["complete_from", "evicted_before", "input_since"])
    def test_incomplete_window_is_unknown(self, bound: str, make_parameters: Make, noise: Any) -> None:
        """
        A window that begins before the facts are complete, or before the input began, is unknown.

        W = 3, complete from slot 4:

            slot      3  4  5  6  7
            tick 5    [.  #  #]            unknown
            tick 6       [#  #  #]         decided
        """
        decider = Decider(make_parameters(window=3), [0], noise)
        known = {} if bound == "input_since" else {bound: 4}
        state = LedgerState() if known else LedgerState(terms=OwnerTerms("town", 1, input_since=4))
        assert set(statuses(decide_complete(decider, 5, state, **known)).values()) == {"unknown"}
        assert set(statuses(decide_complete(decider, 6, state, **known)).values()) == {"safe"}

    @pytest.mark.parametrize("max_lead", [0, 1, 2])
    def test_lost_ledger_pauses(self, max_lead: int, make_parameters: Make, noise: Any) -> None:
        """
        A lost ledger pauses all places for W + F ticks: lost within slot 10, W = 3, F = 1.

            tick      9  10  11  12  13  14
                         p   p   p   p   s
        """
        parameters = make_parameters(window=3, max_lead=max_lead)
        lost_at = parameters.grid.start(10) + 1
        state = LedgerState(terms=OwnerTerms("town", 1, lost_at=lost_at))
        decider = Decider(parameters, [0], noise)
        mark_lifetime = 3 + max_lead
        for tick in range(10, 10 + mark_lifetime):
            decision = decide_complete(decider, tick, state)
            assert set(statuses(decision).values()) == {"paused"}
            assert value_of(decision.records[0])["answers"] == []
            assert parse_instant(value_of(decision.records[0])["resumes_at"]) == parameters.grid.as_of(
                10 + mark_lifetime
            )
        assert set(statuses(decide_complete(decider, 10 + mark_lifetime, state)).values()) == {"safe"}

    def test_each_answer_spends_its_share(self, make_parameters: Make, noise: Any) -> None:
        """
        Two answers at 1/2 fit into W + F = 4 ticks (k = 2, ε_l = 1); the third follows when the first has run out.

            tick      5  6  7  8  9
            answer    z  z  p  p  z
        """
        parameters = make_parameters(answers=2, places=1, max_lead=1)
        decider, state = Decider(parameters, [0], noise), LedgerState()
        values = [value_of(decide_complete(decider, tick, state, 3).records[0]) for tick in range(5, 10)]
        assert [value["status"] for value in values] == [
            "noisy_count",
            "noisy_count",
            "paused",
            "paused",
            "noisy_count",
        ]
        assert {value["epsilon"] for value in values} == {"1/2"}
        answer = {"noisy_count": 3, "epsilon": "1/2"}
        five, six, nine = ({"tick": tick} | answer | {"until": tick + 3} for tick in (5, 6, 9))
        assert [value["answers"] for value in values] == [[five], [five, six], [five, six], [five, six], [six, nine]]
        assert noise.drawn == [(Fraction(1, 2), 1)] * 5
        since = {value["tick"]: value.get("counted_since") for value in values}
        assert since == {5: None, 6: values[0]["as_of"], 7: None, 8: None, 9: values[1]["as_of"]}

    def test_count_begins_after_the_latest_number(self, make_parameters: Make, noise: Any) -> None:
        """
        While a mark runs, what was reported since is counted, also if the window has more; k = 3, W + F = 4.

            tick      5  6  7  8  9
            since     -  5  5  7  7      number at 5 and at 7; the mark of tick 5 ends after tick 8
            answer    z  s  z  s  s
        """
        parameters = make_parameters(answers=3, places=1, max_lead=1)
        decider, state, asked, letters = Decider(parameters, [0], noise), LedgerState(), [], ""
        for tick, people in zip(range(5, 10), (3, 1, 2, 0, 1), strict=True):
            (question,) = decider.build_questions(tick, state).values()
            reading = replace(read({0: question}, 7)[0], since=dict.fromkeys(question.since, people))
            reading = reading if question.since else read({0: question}, people)[0]
            decision = decider.decide(tick, Evidence({0: reading}), state)
            asked += [(since.start, since.tick, since.row) for since in question.since]
            letters += value_of(decision.records[0])["status"][0]
        assert letters == "nsnss"
        assert asked == [(4, 5, 0), (5, 5, 0), (6, 7, 0), (7, 7, 0)]

    @pytest.mark.promise(5)
    def test_unread_count_since_is_unknown(self, make_parameters: Make, noise: Any) -> None:
        """A place with a running mark is unknown if the reading lacks its count, whatever the window has."""
        parameters = make_parameters(answers=2, places=1, max_lead=1)
        decider, state = Decider(parameters, [0], noise), LedgerState()
        decide_complete(decider, 5, state, 3)
        readings = {0: replace(read(decider.build_questions(6, state))[0], since={})}
        (record,) = decider.decide(6, Evidence(readings), state).records
        assert value_of(record)["status"] == "unknown"
        assert "counted_since" not in value_of(record)

    def test_longer_window_revives_marks(self, make_parameters: Make, noise: Any) -> None:
        """
        F = 1: an answer at tick 5 ran until tick 6 under W = 1; under W = 6 it pauses its place until tick 10.

            tick      5  6  7 … 11  12
            W = 1     z  p
            W = 6           p …  p   s
        """
        state = LedgerState(marks={("stations", "place-0"): {5: make_mark(5, 2)}})
        decider = Decider(make_parameters(window=6, places=1, max_lead=1), [0], noise)
        answered = [statuses(decide_complete(decider, tick, state))["stations/place-0"] for tick in range(7, 13)]
        assert answered == ["paused"] * 5 + ["safe"]

    @pytest.mark.promise(18)
    def test_every_location_gets_fresh_noise(self, make_parameters: Make, noise: Any) -> None:
        """Every location gets fresh noise at every tick (docs/rules.md, rule 3).

        This includes locations at count 0, unchanged, unknown and paused ones.
        """
        decider, state = Decider(make_parameters(), [0], noise), LedgerState()
        noise.script = [0, 2, 0]
        assert statuses(decide_complete(decider, 5, state))["stations/place-1"] == "noisy_count"
        decide_complete(decider, 6, state)
        decider.decide(7, Evidence({}), state)
        decide_complete(decider, 8, state)
        assert noise.drawn == [(ONE, 3)] * 4

    def test_weights_draw_at_their_epsilon(self, make_parameters: Make, noise: Any) -> None:
        """Locations with shares 1/2 and 1/4 draw noise at the share that they pay."""
        parameters = make_parameters(places=3)
        monitor = select(parameters, OverTime)[0]
        half, quarter = (replace(monitor.rules[0], epsilon=Fraction(1, part)) for part in (2, 4))
        parameters = replace_monitors(parameters, over_time=(replace(monitor, rules=(half, quarter, half)),))
        noise.script = [7, 8, 9]
        decision = decide_complete(Decider(parameters, [0], noise), 5, LedgerState())
        assert noise.drawn == [(Fraction(1, 2), 2), (Fraction(1, 4), 1)]
        values = [(value_of(record)["noisy_count"], value_of(record)["epsilon"]) for record in decision.records]
        assert values == [(7, "1/2"), (9, "1/4"), (8, "1/2")]

    def test_counts_go_to_their_places(self, make_parameters: Make, noise: Any) -> None:
        """Two owners of one shard each decide every place of two monitors once, by its own count, which is its row."""
        parameters = make_parameters(places=12, shards=2, watched={"zoo": [1, 4, 5, 9], "alley": [0, 2, 4, 11]})
        people = {row: row for row in range(12)}
        deciders = [Decider(parameters, [shard], noise) for shard in (0, 1)]
        assert [list(decider.build_questions(5, LedgerState())) for decider in deciders] == [[0], [1]]
        records = [
            record for decider in deciders for record in decide_complete(decider, 5, LedgerState(), people).records
        ]
        counts = {record.key.decode(): value_of(record).get("noisy_count") for record in records}
        zoo, alley = (
            {f"{name}/place-{row}": row for row in rows} for name, rows in (("zoo", [4, 5, 9]), ("alley", [2, 4, 11]))
        )
        assert counts == {"zoo/place-1": None} | zoo | {"alley/place-0": None} | alley
        assert len(records) == len(counts)

    @pytest.mark.promise(21)
    def test_records_have_public_order(self, make_parameters: Make, noise: Any) -> None:
        """Records are in the order of the configured monitors and the registry, for any counts."""
        parameters = make_parameters(watched={"zoo": [0, 2], "alley": [1, 2]})
        decision = decide_complete(Decider(parameters, [0], noise), 5, LedgerState(), {2: 9})
        assert list_keys(decision) == ["zoo/place-0", "zoo/place-2", "alley/place-1", "alley/place-2"]

    def test_monitors_mark_separately(self, make_parameters: Make, noise: Any) -> None:
        """A location in two monitors pays and pauses in each of them separately."""
        decider, state = Decider(make_parameters(watched={"zoo": [0], "alley": [0]}), [0], noise), LedgerState()
        noise.script = [2, 0]
        assert list(statuses(decide_complete(decider, 5, state)).values()) == ["noisy_count", "safe"]
        assert list(statuses(decide_complete(decider, 6, state)).values()) == ["paused", "safe"]

    def test_record_times_are_the_ticks_end(self, make_parameters: Make, noise: Any) -> None:
        """A record contains as_of, window_start and ce_id of its tick, and its Kafka timestamp is as_of."""
        parameters = make_parameters(places=1)
        record = decide_complete(Decider(parameters, [0], noise), 5, LedgerState()).records[0]
        value = value_of(record)
        assert (value["as_of"], value["window_start"]) == ("2026-01-01T06:00:00Z", "2026-01-01T03:00:00Z")
        assert dict(record.headers)["ce_id"] == b"stations/place-0/5"
        assert record.timestamp_ms == parameters.grid.as_of(5) // 1_000


def test_questions_by_monitor(make_parameters: Make, make_at_times: MakeAt, noise: Any) -> None:
    """Each monitor has its window, and two monitors with the same designated time share one question about it."""
    parameters = make_parameters(
        watched={"zoo": [0], "alley": [0, 1]}, at_times=(make_at_times("noon", NOON), make_at_times("lunch", NOON))
    )
    ((shard, question),) = Decider(parameters, [0], noise).build_questions(12, LedgerState()).items()
    assert [(first, [*rows]) for first, rows in question.windows] == [(10, [0]), (10, [0, 1])]
    assert (shard, question.times, question.tick) == (0, (parse_instant(NOON),), 12)
