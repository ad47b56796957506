"""Decisions of `upper_bound` monitors: W = 4, b = 2 and F = 1, so the numbers of three buckets add up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from monitor.kinds.all_records import read_record
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, BucketCount, Question, Reading
from monitor.kinds.parameters import Parameters
from monitor.kinds.upper_bound.keys_and_parameters import UpperBound
from monitor.ledger.compute_payment import PeriodPayments, declare_charges
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.privacy.over_time import OverTimeRule
from monitor.privacy.upper_bound import BucketRule, compute_most_numbers
from monitor.records.output_records import OutputRecord
from monitor.records.unknown_causes import FACTS_MISSING, LEDGER_LOST
from monitor.ticks.collect_answers import Decider
from tests.builders import build_parameters, watch
from tests.kit.signed import open_log
from tests.ticks.deciding import read as read_nobody
from tests.ticks.deciding import value_of

ONE, HALF = Fraction(1), Fraction(1, 2)
RULE = BucketRule(ONE, 2, 4, 1)
VISITS = [("ann", 3, 4), ("ann", 4, 4), ("bob", 5, 5), ("ann", 6, 6), ("eve", 8, 7)]
"""Person, slot of the visit, and slot of the stamp. All are at place-0."""


def build(rule: BucketRule = RULE, rows: Iterable[int] = (0,), period: int = 0) -> Parameters:
    parameters = build_parameters(2, max_lead=rule.max_lead, period=period)
    return replace(parameters, monitors=(UpperBound("curve", tuple(rows), (rule,) * len(tuple(rows))),))


def read(
    questions: Mapping[int, Question], complete_from: int = COMPLETE_FROM_START, rule: BucketRule = RULE
) -> dict[int, Reading]:
    """Return readings with the counts of `VISITS`, from the definition."""
    return {
        shard: replace(reading, buckets={asked: count(asked, rule) for asked in questions[shard].buckets})
        for shard, reading in read_nobody(questions, complete_from=complete_from).items()
    }


def count(asked: BucketCount, rule: BucketRule) -> int:
    """Return the people that a question asks for, from the definition. The number of a set is that of its row."""
    at_place = VISITS if asked.number == 0 else []
    stamps = range(asked.last - rule.bucket + 1, asked.last + 1)
    return len({who for who, slot, stamp in at_place if slot > asked.last - rule.window and stamp in stamps})


def decide(
    decider: Decider, tick: int, state: LedgerState, known: Collection[OutputRecord] = (), **how: Any
) -> list[dict[str, Any]]:
    """Return the values of the answers of a tick with readings; `known`: answers that the ledger has."""
    evidence = Evidence(read(decider.build_questions(tick, state), **how))
    decision = decider.decide(tick, evidence, state, {record.ce_id: record for record in known})
    return [value_of(record) for record in decision.records]


def list_numbers(value: Mapping[str, Any]) -> list[tuple[int, int]]:
    return [(number["tick"], number["noisy_count"]) for number in value["numbers"]]


def test_each_bucket_gets_one_number(noise: Any) -> None:
    """
    A tick that ends a bucket draws its number, and publishes the sum of the buckets of the last W + F slots.

        slot      4  5  6  7  8  9
        people    ann   ann
                     bob   eve
        number      2     2     0
    """
    noise.script = [1, 0, 0, 5]
    decider, state = Decider(build(), [0], noise), LedgerState()
    values = [value for tick in range(5, 11) for value in decide(decider, tick, state)]
    assert [value["tick"] for value in values] == [5, 7, 9]
    assert [list_numbers(value) for value in values] == [
        [(1, 1), (3, 0), (5, 2)],
        [(3, 0), (5, 2), (7, 7)],
        [(5, 2), (7, 7), (9, 0)],
    ]
    assert [value["count_at_most"] for value in values] == [3, 9, 9]
    assert noise.drawn == [(HALF, 3), (HALF, 1), (HALF, 1)]
    assert {value["epsilon"] for value in values} == {"1/2"}
    assert values[1]["numbers"][-1] == {
        "tick": 7, "noisy_count": 7, "epsilon": "1/2", "until": 11, "bucket": 2, "window": 4,
    }  # fmt: skip


def test_incomplete_bucket_is_drawn_once_later(noise: Any) -> None:
    """Without a reading there is no bound; the next end of a bucket draws what is missing, from the same counts."""
    decider, state = Decider(build(), [0], noise), LedgerState()
    for tick in (3, 5):
        missing = decider.decide(tick, Evidence({}), state)
        assert value_of(missing.records[0])["status"] == "unknown"
        assert "count_at_most" not in value_of(missing.records[0])
    assert not noise.drawn
    assert list_numbers(decide(decider, 7, state)[0]) == [(3, 0), (5, 2), (7, 2)]
    assert noise.drawn == [(HALF, 3)]
    late = decide(decider, 9, state)[0]
    assert (late["count_at_most"], noise.drawn) == (4, [(HALF, 3), (HALF, 1)])


def test_facts_that_begin_later_are_unknown(noise: Any) -> None:
    """
    A bucket is drawn if the facts are complete from the window of its last slot on: complete from slot 4, W = 4.

        bucket            4 5    6 7    8 9
        window         2 … 5  4 … 7  6 … 9
        number            -      #      #
    """
    decider, state = Decider(build(), [0], noise), LedgerState()
    assert list_numbers(decide(decider, 5, state, complete_from=4)[0]) == []
    evidence = Evidence(read(decider.build_questions(7, state), complete_from=4))
    decision = decider.decide(7, evidence, state)
    assert list_numbers(value_of(decision.records[0])) == [(7, 2)]
    assert set(decision.unknown) == {(0, FACTS_MISSING)}
    assert decide(decider, 9, state, complete_from=4)[0]["status"] == "unknown"
    assert decide(decider, 11, state, complete_from=4)[0]["count_at_most"] == 2


def test_lost_ledger_spends_its_buckets(noise: Any) -> None:
    """Buckets with a slot before the loss are never drawn, so the bound is unknown for W + F slots."""
    parameters = build()
    state = LedgerState(terms=OwnerTerms("town", 1, lost_at=parameters.grid.start(7) + 1))
    decider = Decider(parameters, [0], noise)
    decision = decider.decide(7, Evidence(read(decider.build_questions(7, state))), state)
    assert list_numbers(value_of(decision.records[0])) == []
    assert set(decision.unknown) == {(0, LEDGER_LOST)}
    assert [decide(decider, tick, state)[0]["status"] for tick in (9, 11, 13)] == ["unknown", "unknown", "complete"]


def test_known_answer_is_not_drawn(noise: Any) -> None:
    """An answer that the ledger has is repeated byte for byte, and nothing is drawn for it."""
    decider, state = Decider(build(rows=(0, 1)), [0], noise), LedgerState()
    first = decider.decide(5, Evidence(read(decider.build_questions(5, state))), state)
    again = LedgerState()
    again.spend("curve", "place-0", read_numbers(first.records[0]))
    noise.drawn.clear()
    evidence = Evidence(read(decider.build_questions(5, again)))
    second = decider.decide(5, evidence, again, {first.records[0].ce_id: first.records[0]})
    assert second.records[0] == first.records[0]
    assert noise.drawn == [(HALF, 3)]
    assert again.find_marks("curve", "place-1")


def read_numbers(record: OutputRecord) -> Any:
    read_back: Any = read_record(record.key, record.value, record.headers)
    return read_back.numbers


def test_ledger_brings_numbers_back(noise: Any) -> None:
    """A state that is folded from the records draws no bucket again, and publishes the same sum."""
    decider, state, folded = Decider(build(), [0], noise), LedgerState(), LedgerState()
    for tick in (5, 7):
        decision = decider.decide(tick, Evidence(read(decider.build_questions(tick, state))), state)
        answer: Any = read_record(*decision.records[0][:3])
        answer.fold(folded)
    assert folded.marks == state.marks
    noise.drawn.clear()
    assert decide(decider, 9, folded) == decide(decider, 9, state)
    assert noise.drawn == [(HALF, 1)] * 2


@pytest.mark.parametrize("other", [BucketRule(ONE, 1, 4, 1), BucketRule(ONE, 2, 6, 1), BucketRule(ONE, 4, 4, 1)])
def test_changed_rule_draws_no_slot_twice(other: BucketRule, noise: Any) -> None:
    """After a change of the bucket or window, no slot is counted twice, and the bound is back after W + F slots."""
    state = LedgerState()
    for tick in (5, 7, 9):
        decide(Decider(build(), [0], noise), tick, state)
    decider = Decider(build(other), [0], noise)
    ends = [tick for tick in range(10, 40) if other.ends_bucket(tick)]
    values = [value for tick in ends for value in decide(decider, tick, state, rule=other)]
    known = {(number["tick"], number["bucket"]) for value in values for number in value["numbers"]}
    slots = [slot for last, bucket in known for slot in range(last - bucket + 1, last + 1)]
    assert len(slots) == len(set(slots))
    assert values[0]["status"] == "unknown"
    back = next(value["tick"] for value in values if value["status"] == "complete")
    assert back <= 9 + other.lifetime + 2 * other.bucket
    assert all(value["status"] == "complete" for value in values if value["tick"] >= back)


def test_over_time_beside_it_reads_its_own_window(noise: Any) -> None:
    """A window monitor that follows an upper bound reads its own counts: an upper bound asks for no window."""
    rule = OverTimeRule(ONE, 1, 5, 4, 1)
    parameters = build()
    parameters = replace(parameters, monitors=(*parameters.monitors, watch("stations", (0,), rule)))
    decider, state = Decider(parameters, [0], noise), LedgerState()
    assert [len(question.windows) for question in decider.build_questions(5, state).values()] == [1]
    assert [value["kind"] for value in decide(decider, 5, state)] == ["upper_bound", "over_time"]


class TestPayments:
    def compute(self, parameters: Parameters, state: LedgerState, others: Mapping[int, Any] | None = None) -> Fraction:
        payments = PeriodPayments(parameters, Fraction(9), {0: state.summarize_spent()}, others)
        return payments.compute_total(12)

    def test_published_numbers_are_in_the_worst_case(self, noise: Any) -> None:
        """Numbers of the present rule are in its worst case; after a change of the bucket, they are added to it."""
        day = 24 * 60 * 60 * 1_000_000
        parameters, state = build(period=day), LedgerState()
        for tick in (5, 7, 9):
            decide(Decider(parameters, [0], noise), tick, state)
        state.last_tick = 9
        assert self.compute(parameters, state) == 9
        assert self.compute(build(BucketRule(2 * ONE, 2, 4, 1), period=day), state) == 9
        numbers = len(state.find_marks("curve", "place-0"))
        assert numbers == 5
        for rule in (BucketRule(ONE, 4, 4, 1), BucketRule(HALF, 2, 4, 1)):
            assert self.compute(build(rule, period=day), state) == 9 + numbers * HALF

    def test_other_owners_are_added(self) -> None:
        """Another owner's buckets are added to the worst case, unless its monitor is the same."""
        day = 24 * 60 * 60 * 1_000_000
        parameters = build(period=day)
        same, other = (declare_charges(build(rule)) for rule in (RULE, BucketRule(ONE, 1, 4, 1)))
        assert self.compute(parameters, LedgerState(), {0: same}) == 9
        most = compute_most_numbers(1, 4, 1, parameters.period_slots)
        assert self.compute(parameters, LedgerState(), {0: other}) == 9 + most * Fraction(1, 4)


def test_unsigned_numbers_are_in_no_sum(noise: Any) -> None:
    """A number without a signature is spent, but in no sum: anybody may have written a low one."""
    log = open_log()
    state = LedgerState(signed=log)
    decider = Decider(build(), [0], noise)
    first = decider.decide(5, Evidence(read(decider.build_questions(5, state))), state)
    assert log.read(log.sign(5, build().grid.as_of(5), first.records), 5, first.records)
    assert state.repeats_only_signed
    answer: Any = read_record(*first.records[0][:3])
    answer.fold(state)
    answer.sign(state)
    forged = replace(answer.numbers[-1], tick=7, until=11, noisy_count=0)
    state.spend("curve", "place-0", (forged,))
    value = decide(decider, 7, state)[0]
    assert (value["status"], list_numbers(value)) == ("unknown", [(3, 0), (5, 2)])


@pytest.mark.parametrize("rule", [RULE, BucketRule(ONE, 1, 4, 1), BucketRule(ONE, 4, 4, 0)])
def test_first_bound_after_facts_that_begin_later(rule: BucketRule, noise: Any) -> None:
    """`check --live` states the first tick with a bound, which is the first one that the decisions have."""
    for complete_from in range(5, 10):
        parameters, state = build(rule), LedgerState()
        decider, complete = Decider(parameters, [0], noise), []
        for tick in range(6, 40):
            evidence = Evidence(read(decider.build_questions(tick, state), complete_from, rule))
            records = decider.decide(tick, evidence, state).records
            complete += [tick for record in records if value_of(record)["status"] == "complete"]
        assert complete[0] == parameters.monitors[0].find_first_known(complete_from)
