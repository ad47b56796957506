"""What a signed tick and a takeover repeat: every order of crashes, takeovers and forgeries, without Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any, Final

import pytest

from monitor.client.verification import Verification
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import NoisyCount, make_at_times_record
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.over_time.record import OVER_TIME
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.ledger.sign_ticks import SignedLog
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from monitor.privacy.over_time import Mark, OverTimeAnswer
from monitor.records.checkpoints import CHECKPOINT
from monitor.records.output_records import OutputRecord, make_record
from monitor.records.signed_notes import Signer
from monitor.records.unknown_causes import NOT_SIGNED
from monitor.ticks.collect_answers import Decider, Decision
from tests.builders import select, write_answer
from tests.kit.signed import SIGNER, TOPIC_ID, make_answers, open_log, publish, sign
from tests.ticks.deciding import ONE, decide_complete, statuses, value_of

FIRST: Final = 12
"""The tick of noon. Two people are at place-0, which is also watched over time."""
FORGED: Final = 4711
OUTCOMES: Final = ("committed", "forged", "aborted", "cut at 2", "cut at 1", "cut at 0")
"""What becomes of a tick's two answers and its checkpoint. After it, another owner takes over. "forged": before that,
somebody else writes noisy counts of the next tick."""


@pytest.fixture(scope="module", params=[1, 2])
def answers(request: pytest.FixtureRequest) -> int:
    """The number of noisy counts of a location about a time."""
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def parameters(
    make_parameters: Callable[..., Parameters], make_at_times: Callable[..., AtTimes], answers: int
) -> Parameters:
    noon = make_at_times("noon", "2026-01-01T12:30:00Z", horizon=24)
    noon = replace(noon, epsilon=Fraction(1), answers=answers)
    built: Parameters = make_parameters(places=2, watched={"stations": [0]}, at_times=(noon,))
    return built


def forge(parameters: Parameters, tick: int, marked: int | None = None) -> list[OutputRecord]:
    """Return answers with forged noisy counts: of place-0 over time, drawn at `marked`, and of both places at noon."""
    (stations,), (noon,), grid = select(parameters, OverTime), select(parameters, AtTimes), parameters.grid
    answer = OverTimeAnswer(
        "noisy_count", FORGED, (Mark(tick if marked is None else marked, FORGED, ONE, until=tick + 2),), None
    )
    as_of, places = grid.as_of(tick), parameters.registry.ids
    over_time = write_answer(places[0], stations.rules[0], tick, answer, grid, monitor=stations.name)
    snapshot = make_at_times_record(
        source="town",
        monitor=noon.name,
        time=noon.times.instants[0],
        tick=tick,
        as_of=as_of,
        registry=parameters.registry.digest,
        locations=2,
        shard=0,
        shards=1,
        complete=True,
        final=False,
        threshold=2,
        epsilon=noon.epsilon,
        noisy_counts=dict.fromkeys(places, NoisyCount(tick, FORGED)),
    )
    return [over_time, snapshot]


@dataclass
class Town:
    """A service whose owners are replaced after each tick. `ledger`: each record, and whether it is committed."""

    parameters: Parameters
    noise: Noise
    ledger: list[tuple[bool, OutputRecord]] = field(default_factory=list)

    def take_over(self, *, signs: bool) -> LedgerState:
        """Read the ledger, and append what a takeover repeats."""
        state = LedgerState(signed=open_log() if signs else None)
        for _, record in self.ledger:
            state.fold(record, self.parameters.grid)
        if state.signed is not None:
            repeated = state.signed.choose_repeated(state.last_tick, list(state.last_records.values()))
            self.ledger += [(True, record) for record in repeated]
        return state

    def run_tick(self, outcome: str, people: int = 2, *, signs: bool = True) -> Decision:
        """Take over, decide the next tick, and append its records with an outcome."""
        state = self.take_over(signs=signs)
        tick = FIRST if state.last_tick is None else state.last_tick + 1
        decider = Decider(self.parameters, [0], self.noise)
        decision = decide_complete(decider, tick, state, people=people, present=[people, 0])
        records = list(decision.records)
        if state.signed is not None:
            records.append(state.signed.sign(tick, self.parameters.grid.as_of(tick), decision.records))
        arrived = records[: int(outcome[-1])] if outcome.startswith("cut") else records
        self.ledger += [(outcome in {"committed", "forged"}, record) for record in arrived]
        if outcome == "forged":
            self.ledger += [(True, record) for record in forge(self.parameters, tick + 1)]
        return decision


def list_noon(records: Sequence[OutputRecord]) -> list[dict[str, Any]]:
    """Return the noisy counts of the snapshot among the records of a tick."""
    counts: dict[str, dict[str, Any]] = value_of(records[1])["noisy_counts"]
    return [number for first in counts.values() for number in (first, *first.get("later", ()))]


def list_counts(records: Sequence[OutputRecord]) -> set[tuple[int, int]]:
    """Return the tick and the noisy count of each answer that a tick's records publish or repeat."""
    counts = [*value_of(records[0])["answers"], *list_noon(records)]
    return {(each["tick"], each["noisy_count"]) for each in counts}


def list_signed(town: Town) -> list[list[OutputRecord]]:
    """Return the answers of each tick that ends with a checkpoint, as the ledger contains them."""
    ticks, pending = [], list[OutputRecord]()
    for _, record in town.ledger:
        if dict(record.headers)["ce_type"] == CHECKPOINT.encode():
            ticks.append(pending[-2:])
            pending = []
        else:
            pending.append(record)
    return ticks


@pytest.mark.promise(45)
def test_only_signed_counts_are_repeated(parameters: Parameters) -> None:
    """After any three ticks, no signed tick repeats a noisy count that no earlier signed tick contains."""
    noise = OneSidedNoise(SeededEntropy(1))
    for outcomes in product(OUTCOMES, repeat=3):
        town = Town(parameters, noise)
        town.run_tick("committed")
        for outcome in outcomes:
            town.run_tick(outcome)
        town.run_tick("committed")
        known = set[tuple[int, int]]()
        for records in list_signed(town):
            tick = value_of(records[0])["tick"]
            repeated = {(drawn, noisy) for drawn, noisy in list_counts(records) if drawn < tick}
            assert repeated <= known, outcomes
            known |= list_counts(records)
        if "forged" not in outcomes:
            verification = Verification(SIGNER.verifier, TOPIC_ID)
            verification.check(publish(record for committed, record in town.ledger if committed))
            assert not verification.problem, outcomes


def test_ended_counts_are_not_repeated(parameters: Parameters, noise: Noise) -> None:
    """A signed answer repeats the noisy counts that still run (W = 3, F = 0), although an owner knows earlier ones."""
    town = Town(parameters, noise)
    decisions = [town.run_tick("committed") for _ in range(4)]
    repeated = [[mark["tick"] for mark in value_of(each.records[0])["answers"]] for each in decisions]
    assert repeated == [[FIRST], [FIRST], [FIRST], [FIRST + 3]]


@pytest.mark.promise(45)
@pytest.mark.parametrize("epsilon", [None, Fraction(1), Fraction(3, 4), Fraction(1, 4)])
def test_forged_number_changes_no_signed_one(
    epsilon: Fraction | None, parameters: Parameters, answers: int, noise: Noise
) -> None:
    """A forged ε of a signed number about a time is spent if it is larger, and the number is repeated as signed."""
    town = Town(parameters, noise)
    (first,) = list_noon(town.run_tick("committed").records)
    snapshot = forge(parameters, FIRST + 1)[1]
    value = value_of(snapshot)
    forged: dict[str, Any] = {"tick": FIRST, "noisy_count": FORGED} | ({"epsilon": str(epsilon)} if epsilon else {})
    value["noisy_counts"] = {"place-0": forged}
    town.ledger += [(True, snapshot._replace(value=json.dumps(value).encode()))]
    decision = town.run_tick("committed")
    noon = list_noon(decision.records)
    assert {key: noon[0].get(key) for key in first} == first
    draws = answers == 2 and epsilon == Fraction(1, 4)  # the signed ε of 1/2 is larger
    assert [each["tick"] for each in noon] == ([FIRST, FIRST + 2] if draws else [FIRST])
    assert "counted_since" in noon[0] or not draws
    assert statuses(decision)["noon/2026-01-01T12:30:00Z/0"] == "complete"


@pytest.mark.promise(1, 45)
def test_hidden_counts_are_spent(parameters: Parameters, noise: Noise) -> None:
    """
    The noisy counts of a tick that was cut off are spent: neither repeated nor drawn again (W = 3, F = 0).

        tick       12    13    14    15    16    17
        stations   s     z     p     p     z     p      tick 13 has no checkpoint
        noon       s     z     u     u     u     u
    """
    town = Town(parameters, noise)
    town.run_tick("committed", people=0)
    town.run_tick("cut at 2")
    answered = []
    for _ in range(4):
        decision = town.run_tick("committed")
        marks = value_of(decision.records[0])["answers"]
        assert all(mark["tick"] >= FIRST + 4 for mark in marks)
        assert not list_noon(decision.records)
        assert decision.unknown == {(0, NOT_SIGNED)}
        answered.append(tuple(statuses(decision).values()))
    assert answered == [(status, "unknown") for status in ("paused", "paused", "noisy_count", "paused")]


def test_counts_before_signing_are_repeated(parameters: Parameters, answers: int, noise: Noise) -> None:
    """If signing is turned on, the log begins with the noisy counts that the ledger contains; a takeover keeps them."""
    town = Town(parameters, noise)
    town.run_tick("committed", signs=False)
    for _ in range(2):
        decision = town.run_tick("committed")
        assert [mark["tick"] for mark in value_of(decision.records[0])["answers"]] == [FIRST]
        assert [each["tick"] for each in list_noon(decision.records)] == [FIRST, FIRST + 1][:answers]
        assert list(statuses(decision).values()) == ["paused", "complete"]


def test_stray_answer_in_the_first_signed_tick(parameters: Parameters, noise: Noise) -> None:
    """The log has begun with its first checkpoint, even if the ledger has other answers of that tick."""
    town = Town(parameters, noise)
    town.run_tick("committed", people=0, signs=False)
    stray = make_record("town", OVER_TIME, "stray", parameters.grid.as_of(FIRST + 1), "stray", b"{}")
    assert town.run_tick("committed", people=0).records
    town.ledger.insert(2, (False, stray._replace(value=forge(parameters, FIRST + 1)[0].value)))
    town.ledger += [(True, record) for record in forge(parameters, FIRST + 2)]
    decision = town.run_tick("committed", people=0)
    assert value_of(decision.records[0])["answers"] == list_noon(decision.records) == []
    assert decision.unknown == {(0, NOT_SIGNED)}


def test_forged_mark_never_changes_a_signed_one(parameters: Parameters, noise: Noise) -> None:
    """
    A forged record that lengthens the mark of a signed noisy count pauses its place, and is not repeated (W = 3).

        tick       12    13    14    15    16
        signed     z------------]                the key has signed tick 12
        forged           z------------]          tick 13 says that the mark of tick 12 runs until 15
        stations   z           p     p     z
    """
    town = Town(parameters, noise)
    town.run_tick("committed")
    town.ledger += [(True, forge(parameters, FIRST + 1, marked=FIRST)[0])]
    decisions = [town.run_tick("committed") for _ in range(3)]
    assert [statuses(each)["stations/place-0"] for each in decisions] == ["paused", "paused", "noisy_count"]
    repeated = [value_of(each.records[0])["answers"] for each in decisions]
    assert [[(mark["tick"], mark["until"]) for mark in marks] for marks in repeated] == [
        [(FIRST, FIRST + 2)],
        [],
        [(FIRST + 4, FIRST + 6)],
    ]
    assert repeated[0][0]["noisy_count"] == 2


def take_over(records: Sequence[OutputRecord]) -> tuple[SignedLog, Sequence[OutputRecord]]:
    """Read a ledger of ticks that begin with tick 0, as an owner does. Return the log and the records to repeat."""
    log, last = open_log(), 0
    answers: dict[object, OutputRecord] = {}
    for record in records:
        if dict(record.headers)["ce_type"] == CHECKPOINT.encode():
            log.read(record, last, list(answers.values()))
            continue
        tick = int(record.value.split()[0])
        answers = answers if tick == last else {}
        last = tick
        answers[dict(record.headers)["ce_id"]] = record
    return log, log.choose_repeated(last, list(answers.values()))


def test_forged_tick_is_not_signed() -> None:
    """Answers that somebody else wrote while no owner ran are neither repeated nor signed."""
    first = sign(open_log(), 0)
    log, repeated = take_over([*first, *make_answers(1, draw=99)])
    assert repeated == ()
    verification = Verification(SIGNER.verifier, TOPIC_ID)
    verification.check(publish([*first, *sign(log, 2)]))
    assert not verification.problem


def test_tick_of_another_key_is_repeated() -> None:
    """If the key is changed, the last tick is repeated with its checkpoint, which subscribers of the old key need."""
    last = sign(open_log(Signer("example.org/old", bytes(range(1, 33)))), 0)
    assert list(take_over(last)[1]) == last


def test_forged_answer_is_not_repeated() -> None:
    """An answer that somebody else added to the last tick is not repeated with it."""
    first = sign(open_log(), 0)
    assert list(take_over([*first, *make_answers(0, draw=99)[:1]])[1]) == first
