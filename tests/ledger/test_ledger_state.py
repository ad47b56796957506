"""Folding ledger records restores the state; records that can't be folded are refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from monitor.errors import LedgerError
from monitor.kinds.answer_state import TimeAnswers
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Reading
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.over_time import Mark
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.charges_record import Charges
from monitor.records.output_records import TYPE_PREFIX, OutputRecord
from monitor.records.owner_record import make_ledger_record, make_owner_record
from monitor.ticks.collect_answers import Decider
from monitor.time.instants import HOUR, MINUTE
from monitor.time.slot_grid import SlotGrid
from tests.builders import build_counts

Make = Callable[..., Parameters]
MakeAt = Callable[..., AtTimes]


def terms_record(**kept: Any) -> OutputRecord:
    """Return an owner record, or a start record if it has no input topic."""
    given: dict[str, Any] = {"source": "town", "service": "town", "partitions": 1, "lost_at": None, "partition": 0}
    given |= {"at": 0} | kept
    make = make_owner_record if "input_topic_id" in given else make_ledger_record
    made: OutputRecord = make(
        **({"fingerprint": "f", "input_since": None} if make is make_owner_record else {}) | given
    )
    return made._replace(timestamp_ms=0)


def fold(records: Sequence[OutputRecord], grid: SlotGrid) -> LedgerState:
    state = LedgerState()
    for record in records:
        state.fold(record, grid)
    return state


def list_deciding(state: LedgerState) -> tuple[Any, ...]:
    """Return what decisions depend on; places without answers are left out."""
    marks = {key: marks for key, marks in state.marks.items() if marks}
    return state.terms, state.last_tick, marks, {key: noisy for key, noisy in state.times.noisy.items() if noisy}


@pytest.fixture
def parameters(make_parameters: Make, make_at_times: MakeAt) -> Parameters:
    """Two over_time monitors with two answers per window, and two monitors with many designated times."""
    times = [f"2026-01-01T{hour:02}:30:00Z" for hour in range(2, 12)]
    return make_parameters(
        places=4,
        shards=2,
        answers=2,
        max_lead=1,
        watched={"zoo": [0, 1, 3], "alley": [1, 2]},
        at_times=(make_at_times("often", *times, horizon=3), make_at_times("seldom", times[0], horizon=6)),
    )


def decide_ticks(parameters: Parameters, seed: int, ticks: int = 16) -> tuple[LedgerState, list[list[OutputRecord]]]:
    """Decide ticks of random counts, some unknown, with seeded noise. Return the state and the records."""
    numbers = random.Random(seed)
    decider = Decider(parameters, [0, 1], OneSidedNoise(SeededEntropy(seed)))
    state, published = LedgerState(terms=OwnerTerms("town", 1)), []
    for tick in range(ticks):
        readings = {
            shard: Reading(
                {},
                COMPLETE_FROM_START,
                COMPLETE_FROM_START,
                NEVER,
                0,
                build_counts(question, lambda _: numbers.randrange(4)),
                {
                    at: np.array([numbers.randrange(3) for _ in parameters.registry.by_shard[shard]])
                    for at in question.times
                },
            )
            for shard, question in decider.build_questions(tick, state).items()
        }
        complete = {shard: reading for shard, reading in readings.items() if numbers.random() < 0.8}
        published.append(list(decider.decide(tick, Evidence(complete), state).records))
    return state, published


@pytest.mark.promise(31)
@pytest.mark.parametrize("seed", range(20))
def test_folding_restores_the_state(seed: int, parameters: Parameters) -> None:
    """After every tick folding the records gives the state that deciding left, so a takeover can happen at any tick."""
    state, published = decide_ticks(parameters, seed)
    records = [terms_record(), *(record for records in published for record in records)]
    assert list_deciding(fold(records, parameters.grid)) == list_deciding(state)
    assert any(state.marks.values())
    assert any(state.times.noisy.values())


@pytest.mark.parametrize("seed", range(5))
def test_repeated_records_change_nothing(seed: int, parameters: Parameters) -> None:
    """Records that are repeated, as takeovers do, change nothing."""
    _, published = decide_ticks(parameters, seed)
    once = [terms_record(), *(record for records in published for record in records)]
    doubled = [terms_record(), *(record for records in published for record in (*records, *records[::-1], *records))]
    assert list_deciding(fold(doubled, parameters.grid)) == list_deciding(fold(once, parameters.grid))


def test_last_tick_contains_all_running_marks(parameters: Parameters) -> None:
    """Each record repeats its location's running marks, so the last tick contains all of them."""
    state, published = decide_ticks(parameters, seed=1)
    last = fold(published[-1], parameters.grid)
    for key in state.marks:
        running = tuple(mark for mark in state.find_marks(*key) if mark.until >= 15)
        assert last.find_marks(*key) == running


@pytest.mark.promise(29)
def test_last_records_are_kept(parameters: Parameters) -> None:
    """The records of the last tick are kept once each, byte for byte, for the next owner to repeat."""
    _, published = decide_ticks(parameters, seed=2)
    records = [record for records in published for record in records]
    state = fold([*records, *published[-1]], parameters.grid)
    assert list(state.last_records.values()) == published[-1]


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 100)])
@pytest.mark.parametrize("turned", [False, True])
def test_longer_mark_of_a_tick_counts(epsilon: Fraction, turned: bool) -> None:
    """Of two marks of one tick, the larger ε and the later end count, in any order.

    A record with a longer window lengthens a mark, and a longer mark at a smaller ε refunds nothing.
    """
    marks = Mark(5, 3, Fraction(1), 7), Mark(5, 3, epsilon, 12)
    state = LedgerState()
    for mark in marks[::-1] if turned else marks:
        state.spend("zoo", "place-0", (mark,))
    assert state.find_marks("zoo", "place-0") == (Mark(5, 3, Fraction(1), 12),)


@pytest.mark.promise(34)
def test_expiry_ends_at_first_remaining_answer(parameters: Parameters) -> None:
    """
    Expired answers are older than the first remaining one, even if an owner record before it is stamped a year ahead.

        ledger   (expired)   owner (2027)   4 4 4 …
    """
    _, published = decide_ticks(parameters, seed=5)
    year, now = 8_760 * HOUR, parameters.grid.start(6)
    stray = terms_record(input_topic_id="i")._replace(timestamp_ms=(now + year) // 1_000)
    state = LedgerState()
    state.read(100, stray, parameters.grid, now)
    assert state.expired_until == now
    for offset, record in enumerate(published[4], start=101):
        state.read(offset, record, parameters.grid, now)
    assert state.expired_until == parameters.grid.as_of(4)
    assert LedgerState().expired_until is None


def test_most_input_partitions_are_kept(parameters: Parameters) -> None:
    """The largest number of input partitions is kept per input topic: brokers with outdated metadata list fewer."""
    records = [terms_record(), *(terms_record(input_topic_id="i", input_partitions=seen) for seen in (3, 8, 5))]
    terms = fold(records, parameters.grid).terms
    assert terms is not None
    assert terms.input_partitions == 8
    terms = fold([*records, terms_record(input_topic_id="other", input_partitions=2)], parameters.grid).terms
    assert terms is not None
    assert terms.input_partitions == 2


def test_spent_marks_have_their_max_lead(parameters: Parameters) -> None:
    """Each spent mark has the F of the owner before it, or None if its charges are not known."""
    _, published = decide_ticks(parameters, seed=4)
    records: list[OutputRecord] = [terms_record(), terms_record(input_topic_id="i")]
    for tick, answers in enumerate(published):
        if tick in (4, 9):
            records.append(terms_record(input_topic_id="i", charges=Charges("0" * 16, tick, None, None)))
        records += answers
    spent = fold(records, parameters.grid).summarize_spent()
    found = {mark.tick: max_lead for marks in spent.marks.values() for mark, max_lead in marks}
    assert found == {tick: None if tick < 4 else 4 if tick < 9 else 9 for tick in found}
    assert set(found.values()) == {None, 4, 9}
    assert spent.owned
    assert spent.charges == Charges("0" * 16, 9, None, None)


def test_answers_without_marks_leave_no_entry() -> None:
    """Reading "safe" answers at a takeover leaves the state empty: it does not grow with the places."""
    state = LedgerState()
    state.spend("zoo", "place-0", ())
    assert state.marks == {}


def test_past_marks_last_for_a_period() -> None:
    """A mark that no window can contain again moves to `past`, and is dropped when no period contains it."""
    state = LedgerState()
    state.spend("zoo", "place-0", (Mark(5, 3, Fraction(1), 6), Mark(9, 3, Fraction(1), 10)))
    for tick, kept in ((12, [5, 9]), (26, [5, 9]), (27, [9]), (30, [9]), (31, [])):
        state.forget(tick, mark_lifetime=2, oldest_time=0, kept=20)
        assert state.find_marks("zoo", "place-0") == ()
        assert [mark.tick for marks in state.summarize_spent().marks.values() for mark, _ in marks] == kept
    assert state.past == {}


def test_numbers_about_a_time_are_spent() -> None:
    """Numbers of a location gather by tick; of two of one tick the larger ε counts. One without its ε spends all."""
    half, third, numbers = Fraction(1, 2), Fraction(1, 3), TimeAnswers()
    spend = partial(numbers.spend, "noon", 100, "place-0")
    assert spend([TimeNumber(5, 9, third)])
    assert spend([TimeNumber(3, 7, third), TimeNumber(5, 9, third)])
    assert not spend([TimeNumber(5, 8, half)])
    assert not spend([TimeNumber(5, 8, third)])
    assert numbers.noisy["noon", 100]["place-0"] == (TimeNumber(3, 7, third), TimeNumber(5, 9, half))
    numbers.sign("noon", 100, "place-0", [TimeNumber(5, 9, third)])
    assert not spend([TimeNumber(3, 7, None)])
    assert not spend([TimeNumber(8, 7, None)])
    assert not spend([TimeNumber(5, 9, None)])
    assert numbers.noisy["noon", 100]["place-0"] == (TimeNumber(3, 7, None), TimeNumber(5, 9, half))
    assert numbers.find_signed("noon", 100, "place-0") == (TimeNumber(5, 9, third),)


def test_forget_keeps_marks_for_their_lifetime(parameters: Parameters) -> None:
    """Marks that have run out are kept for the longest mark lifetime.

    Designated times are dropped when they are over.
    """
    state = LedgerState()
    state.spend("zoo", "place-0", (Mark(5, 3, Fraction(1), 6), Mark(9, 3, Fraction(1), 30)))
    state.times.noisy = {("noon", 100): {"place-0": (TimeNumber(1, 2, None),)}, ("noon", 200): {}}
    state.forget(10, mark_lifetime=6, oldest_time=200)
    assert [mark.tick for mark in state.find_marks("zoo", "place-0")] == [5, 9]
    assert list(state.times.noisy) == [("noon", 200)]
    state.forget(11, mark_lifetime=6, oldest_time=200)
    assert [mark.tick for mark in state.find_marks("zoo", "place-0")] == [9]
    state.forget(31, mark_lifetime=6, oldest_time=200)
    assert state.marks == {}


def test_terms_combine_start_and_owner(parameters: Parameters) -> None:
    """Q comes from the first record, the input from the latest owner, and of two losses the later one counts."""
    lost, later = parameters.grid.start(3), parameters.grid.start(4)
    records = [
        terms_record(partitions=2, lost_at=later),
        terms_record(partitions=7, lost_at=lost, input_topic_id="a"),
        terms_record(partitions=7, input_topic_id="b", input_since=8, fingerprint="g"),
    ]
    assert fold(records, parameters.grid).terms == OwnerTerms("town", 2, later, "b", 8, "g")


def test_owner_record_starts_no_ledger(parameters: Parameters) -> None:
    """
    An owner record without a start record does not start a ledger.

    It may come first in a re-created topic, from an append that was pending when the old topic was deleted.

        owner                     has not begun: what was spent is not known
        owner  lost_at            has, and all counts as spent
        …  owner                  has: the first record has expired
    """
    stray, first = terms_record(input_topic_id="i"), terms_record(lost_at=HOUR)
    assert fold([stray], parameters.grid).terms is None
    assert fold([stray, first], parameters.grid).terms == OwnerTerms("town", 1, HOUR)
    expired = LedgerState(expired_until=0)
    expired.fold(terms_record(input_topic_id="i", lost_at=HOUR), parameters.grid)
    assert expired.terms == OwnerTerms("town", 1, HOUR, "i", None, "f")


def test_foreign_record_is_refused(parameters: Parameters) -> None:
    """A record of another service is refused: two services on one output topic both spend."""
    with pytest.raises(LedgerError, match=r"'town' and contains a record of 'osaka'.*kafka\.topics\.alerts"):
        fold([terms_record(), terms_record(service="osaka", input_topic_id="a")], parameters.grid)


@pytest.mark.parametrize("grid", [{"length": 30 * MINUTE}, {"origin": 1_000 * HOUR}])
def test_other_slot_grid_is_refused(grid: dict[str, int], parameters: Parameters) -> None:
    """A ledger of another slot grid is refused: its tick numbers are meaningless here."""
    _, published = decide_ticks(parameters, seed=3, ticks=3)
    with pytest.raises(LedgerError, match=r"clock\.slot and clock\.origin put tick 0 at"):
        fold([terms_record(), *published[0]], replace(parameters.grid, **grid))


def test_unknown_kinds_are_ignored(parameters: Parameters) -> None:
    """Records of unknown kinds, for example of a later version, are ignored."""
    for kind in (f"{TYPE_PREFIX}weather", ""):
        state = fold([OutputRecord(b"k", b"\xff", (("ce_type", kind.encode()),), 0)], parameters.grid)
        assert list_deciding(state) == list_deciding(LedgerState())
        assert state.records == 1


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"\xff", b'{"service": "town"}', b"[]", pytest.param(b'{"x":' + b"[" * 100_000, id="nested")],
)
@pytest.mark.parametrize("kind", ["owner", "ledger", "over_time", "at_times"])
def test_malformed_record_is_refused(kind: str, value: bytes, parameters: Parameters) -> None:
    """A malformed record of a known kind, also a tombstone, is refused: the ε that it spent is not known."""
    record = OutputRecord(b"stations/a", value, (("ce_type", f"{TYPE_PREFIX}{kind}".encode()),), 0)
    with pytest.raises(LedgerError, match="it spent is not known"):
        LedgerState().fold(record, parameters.grid)


def test_later_format_is_refused(parameters: Parameters) -> None:
    """A ledger of a later format is refused: its records may spend in unknown ways."""
    first = terms_record()
    later = first._replace(value=first.value.replace(b'"ledger":1', b'"ledger":2'))
    assert later != first
    with pytest.raises(LedgerError, match="format 2: expected 1"):
        fold([later], parameters.grid)
