"""Ticks that were cut off: every order of transactions that succeed, are aborted or end within a tick, without Kafka.

A tick has four answers, of which three exist at this tick only, because it is the final one of its designated time:

    over time at place-0 | the snapshot with lower bounds | hot spots | lengths of visits
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any, Final, cast

import numpy as np
import pytest

from monitor.client.verification import Verification
from monitor.errors import UnreachableError
from monitor.kinds.all_records import read_record
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import Reading
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.ledger.read_ledger import is_from
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from monitor.records.checkpoints import NOT_IN_THE_TREE, name_log, read_checkpoint
from monitor.records.output_records import OutputRecord
from monitor.records.owner_record import OwnerRecord, make_ledger_record
from monitor.ticks.owner import LedgerTopic, Owner, OwnerRecords
from monitor.time.instants import HOUR, format_instant
from monitor.time.schedule import Schedule
from tests.builders import ORIGIN, replace_monitors, select
from tests.kinds.examples import LENGTHS, measure_lengths
from tests.kit.signed import SIGNER, TOPIC_ID, open_log, publish
from tests.ticks.deciding import read

ANSWERS: Final = 4
OUTCOMES: Final = ("acknowledged", "committed", "aborted", "cut at 0", "cut at 1", "cut at 3")
"""What becomes of a transaction. After all but the first, the owner does not know it, and another one takes over."""


@pytest.fixture(scope="module")
def parameters(make_parameters: Callable[..., Parameters]) -> Parameters:
    """Parameters whose ticks all have four answers: each slot has a designated time, of which only one tick answers."""
    times = Schedule(tuple(ORIGIN + slot * HOUR + HOUR // 2 for slot in range(20)))
    half = Fraction(1, 2)
    return replace_monitors(
        make_parameters(places=2, window=3, answers=2, watched={"stations": [0]}),
        at_times=(AtTimes("noon", times, half, 2, HOUR, half),),
        hot_spots=(HotSpots("busiest", times, half, 2, HOUR),),
        **{LENGTHS: (measure_lengths(times, HOUR, epsilon=half),)},
    )


@dataclass
class Ledger:
    """A partition in memory: each record, and whether its transaction was committed. `outcomes` of the next appends."""

    outcomes: list[str] = field(default_factory=list)
    records: list[tuple[bool, OutputRecord]] = field(default_factory=list)

    def append(self, records: Sequence[OutputRecord], within: float = 0.0) -> int:  # noqa: ARG002  # not timed
        outcome = self.outcomes.pop(0) if self.outcomes and records else "acknowledged"
        owner = bool(records) and records[0].key == b"owner"  # a regular one may be before the answers
        arrived = records[: owner + int(outcome[-1])] if outcome.startswith("cut") else records
        self.records += [(outcome in {"acknowledged", "committed"}, record) for record in arrived]
        if outcome != "acknowledged":
            raise UnreachableError(outcome)
        return len(self.records) - 1

    def close(self) -> None:
        """Do nothing."""

    def list_answers(self, *, committed: bool) -> Iterator[tuple[int, bytes, OutputRecord]]:
        """Yield the tick, the ce_id and the record of each answer."""
        for is_committed, record in self.records:
            headers = dict(record.headers)
            if headers["ce_type"] not in NOT_IN_THE_TREE and is_committed >= committed:
                yield int(headers["ce_id"].rpartition(b"/")[2]), headers["ce_id"], record

    def list_unsigned(self) -> set[bytes]:
        """Return the ce_ids of the answers that an owner has appended without a checkpoint, and no earlier one with."""
        latest, signed, unsigned = set[bytes](), set[bytes](), set[bytes]()
        for _, record in self.records:
            if record.key == b"owner":
                unsigned |= latest - signed
                latest = set()
            elif record.key == b"checkpoint":
                signed |= latest
            elif record.key != b"ledger":
                latest.add(dict(record.headers)["ce_id"])
        return unsigned

    def list_signed_trees(self) -> dict[tuple[str, int], set[str]]:
        """Return the texts that the key has signed for each log and tick, also in transactions that were aborted."""
        texts: dict[tuple[str, int], set[str]] = {}
        for _, record in self.records:
            if record.key == b"checkpoint":
                found = read_checkpoint(record.value, SIGNER.verifier, name_log(SIGNER.verifier.name, TOPIC_ID, 0))
                assert found is not None
                texts.setdefault((found.origin, found.tick), set()).add(found.text)
        return texts

    def list_given_up(self) -> set[int]:
        """Return the ticks of which answers are recorded as lost, in committed transactions."""
        committed = [record for is_committed, record in self.records if is_committed]
        entries = [read_record(record.key, record.value, record.headers) for record in committed]
        return {
            entry.incomplete for entry in entries if isinstance(entry, OwnerRecord) and entry.incomplete is not None
        }


@dataclass
class Service:
    """A service whose owners are replaced when an append fails. It decides every tick that it may decide."""

    parameters: Parameters
    noise: Noise
    ledger: Ledger
    signs: bool = False
    fingerprint: str = "fingerprint-1"

    def take_over(self) -> Owner:
        """Take the partition over in the order of `monitor.ticks.takeover.take_over`."""
        grid = self.parameters.grid
        state = LedgerState(signed=open_log() if self.signs else None)
        for offset, (_, record) in enumerate(self.ledger.records):
            state.read(offset, record, grid, now=0)
        topic = LedgerTopic("ledger", TOPIC_ID, "input-1", self.fingerprint, ORIGIN)
        records = OwnerRecords(topic, self.parameters, lambda: ORIGIN)
        terms = records.update_terms(state.terms, 0)
        self.ledger.records.append((True, records.build(terms, 0)))
        state.begin_ownership(terms)
        seen = [(committed, record) for committed, record in self.ledger.records[state.last_offset :]]
        last = state.last_tick
        committed = last is None or any(committed and is_from(record, last) for committed, record in seen)
        owner = Owner(0, cast("Any", self.ledger), state, records, self.noise, 0)
        owner.repeat_last_tick(committed=committed)
        return owner

    def read(self, owner: Owner, tick: int) -> dict[int, Reading]:
        """Return complete readings: two people with consent were at place-0."""
        people, stays = np.array([2, 0]), [(b"1" * 16, 0, 600), (b"2" * 16, 0, 900)]
        questions = owner.decider.build_questions(tick, owner.state)
        return {
            shard: replace(
                reading,
                consenting=dict.fromkeys(questions[shard].consenting, people),
                stays=dict.fromkeys(questions[shard].stays, stays),
            )
            for shard, reading in read(questions, 2, present=people.tolist()).items()
        }

    def step(self, owner: Owner, late: bool = False) -> None:
        """Decide the next tick, or the one after it, as `PartitionTicks` does."""
        tick = owner.first_undecided + late
        rest = owner.rest
        if rest is not None and (rest.reason or tick > rest.tick):
            owner.give_up_rest(rest)
            tick = owner.first_undecided
        owner.append(tick, owner.decide(tick, Evidence(self.read(owner, tick))))

    def run(self, ticks: int, *, late: bool = False) -> None:
        """Run until that many appends of ticks in a row have been acknowledged."""
        owner: Owner | None = None
        done = 0
        while done < ticks:
            try:
                owner = owner or self.take_over()
                self.step(owner, late=late and owner.rest is not None)
                done += 1
            except UnreachableError:
                owner, done = None, 0


def begin(parameters: Parameters, outcomes: Sequence[str], noise: Noise, *, signs: bool = False) -> Service:
    """Return a service whose ledger contains tick 0."""
    first = make_ledger_record(
        source="town", service="town", partitions=1, lost_at=None, partition=0, at=ORIGIN, input_topic_id="input-1"
    )
    ledger = Ledger(records=[(True, first)])
    service = Service(parameters, noise, ledger, signs)
    service.run(1)
    ledger.outcomes = list(outcomes)
    return service


def list_names(parameters: Parameters, tick: int) -> list[bytes]:
    """Return the ce_ids that a tick should have, in their order."""
    time = format_instant(ORIGIN + tick * HOUR + HOUR // 2)
    about = ["stations/place-0", f"noon/{time}/0", f"busiest/{time}", f"lengths/{time}"]
    assert len(about) == ANSWERS
    assert parameters.grid.length == HOUR
    return [f"{subject}/{tick}".encode() for subject in about]


def check_starts(ledger: Ledger, outcomes: object) -> None:
    """Check that each count of a place begins after its latest number, whoever has drawn it, and that some do."""
    since = set[bool]()
    for tick, ce_id, record in ledger.list_answers(committed=False):
        value = json.loads(record.value)
        if ce_id.startswith(b"stations/") and value["status"] in {"safe", "noisy_count"}:
            latest = max((mark["tick"] for mark in value["answers"] if mark["tick"] < tick), default=None)
            as_of = None if latest is None else format_instant(ORIGIN + (latest + 1) * HOUR)
            assert value.get("counted_since") == as_of, outcomes
            since.add(latest is not None)
    assert True in since, outcomes


def check_one_draw(ledger: Ledger, outcomes: object) -> None:
    """Check that each answer has one set of bytes, and that the owners continue the ticks in order."""
    bytes_by_id: dict[bytes, set[OutputRecord]] = {}
    ticks = []
    for tick, ce_id, record in ledger.list_answers(committed=False):
        bytes_by_id.setdefault(ce_id, set()).add(record)
        ticks.append(tick)
    assert all(len(records) == 1 for records in bytes_by_id.values()), outcomes
    assert all(after - before in {0, 1} for before, after in pairwise(ticks)), outcomes


@pytest.mark.promise(28, 29, 40)
def test_rest_of_a_cut_tick_is_drawn(parameters: Parameters) -> None:
    """
    After any three transactions, every tick is whole in the committed records, and no answer has two draws.

        ledger   1 1       owner  1 1 1 1           cut at 2: the two answers again, and the two that are missing
        ledger   1 1       owner  1 1 1   owner  1 1 1 1   2 2 2 2
    """
    noise = OneSidedNoise(SeededEntropy(1))
    for outcomes in product(OUTCOMES, repeat=3):
        service = begin(parameters, outcomes, noise)
        service.run(2)
        check_one_draw(service.ledger, outcomes)
        check_starts(service.ledger, outcomes)
        published: dict[int, list[bytes]] = {}
        for tick, ce_id, _ in service.ledger.list_answers(committed=True):
            published.setdefault(tick, []).append(ce_id)
        assert list(published) == list(range(len(published))), outcomes
        assert all(list(dict.fromkeys(ids)) == list_names(parameters, tick) for tick, ids in published.items()), (
            outcomes
        )
        assert not service.ledger.list_given_up(), outcomes


@pytest.mark.promise(28, 40, 45)
def test_rest_of_a_cut_tick_is_signed(parameters: Parameters) -> None:
    """
    If answers are signed, the rest of a tick is drawn and signed without the unsigned part, which is not repeated.

    There is one log, and no tick is signed twice with different answers.

        ledger   1 1       owner  . . 1 1 c         cut at 2
        ledger   1 1 1 1   owner (incomplete: 1)    without its checkpoint, nothing of tick 1 can be signed
    """
    noise = OneSidedNoise(SeededEntropy(2))
    for outcomes in product((*OUTCOMES, f"cut at {ANSWERS}"), repeat=3):
        service = begin(parameters, outcomes, noise, signs=True)
        service.run(2)
        ledger = service.ledger
        check_one_draw(ledger, outcomes)
        verification = Verification(SIGNER.verifier, TOPIC_ID)
        signed = verification.check(publish(record for committed, record in ledger.records if committed))
        assert not verification.problem, (outcomes, verification.problem)
        trees = ledger.list_signed_trees()
        assert len({log for log, _ in trees}) == 1, outcomes
        assert {len(texts) for texts in trees.values()} == {1}, outcomes
        seen: dict[int, set[bytes]] = {}
        for tick, ce_id, _ in ledger.list_answers(committed=False):
            seen.setdefault(tick, set()).add(ce_id)
        ids = {dict(record.headers)["ce_id"] for record in signed}
        assert not ids & ledger.list_unsigned(), outcomes
        committed = {ce_id for _, ce_id, _ in ledger.list_answers(committed=True)}
        assert committed == ids, outcomes
        for tick in seen:
            whole = committed >= {*list_names(parameters, tick)}
            assert whole == (tick not in ledger.list_given_up()), outcomes


@pytest.mark.promise(28, 40)
def test_rest_that_is_too_late_is_recorded_as_lost(parameters: Parameters) -> None:
    """
    If the rest of a tick cannot be decided any more, the part is repeated, and the rest is recorded as lost.

        ledger   1 1       owner  1 1 owner (incomplete: 1)   2 2 2 2
    """
    noise = OneSidedNoise(SeededEntropy(3))
    for outcomes in product(OUTCOMES, repeat=3):
        service = begin(parameters, outcomes, noise)
        service.run(2, late=True)
        ledger = service.ledger
        check_one_draw(ledger, outcomes)
        committed: dict[int, set[bytes]] = {}
        for tick, ce_id, _ in ledger.list_answers(committed=False):
            committed.setdefault(tick, set()).add(ce_id)
        for tick, known in committed.items():
            assert (tick in ledger.list_given_up()) == (known != {*list_names(parameters, tick)}), outcomes
        repeated = {ce_id for _, ce_id, _ in ledger.list_answers(committed=True)}
        assert repeated == {ce_id for _, ce_id, _ in ledger.list_answers(committed=False)}, outcomes


@pytest.mark.promise(28, 40)
@pytest.mark.parametrize("outcome", ["aborted", "committed"])
def test_given_up_rest_is_not_drawn(parameters: Parameters, noise: Any, outcome: str) -> None:
    """
    If the transaction that gives a rest up was aborted, the next owner gives it up again, and never draws it.

        ledger   1 1       owner  1 1 owner (incomplete: 1)       owner  1 1 owner (incomplete: 1)
    """
    service = begin(parameters, ["acknowledged", "cut at 2", outcome], noise)
    with pytest.raises(UnreachableError):
        service.step(service.take_over())
    with pytest.raises(UnreachableError):
        service.step(service.take_over(), late=True)
    owner = service.take_over()
    assert not owner.may_decide(1)
    assert (owner.rest is None) == (outcome == "committed")
    service.step(owner)
    assert service.ledger.list_given_up() == {1}
    seen = {ce_id for tick, ce_id, _ in service.ledger.list_answers(committed=False) if tick == 1}
    assert seen == {*list_names(parameters, 1)[:2]}


@pytest.mark.promise(15, 28, 40)
@pytest.mark.parametrize("changed", ["facts", "charges"])
def test_other_configuration_draws_no_rest(parameters: Parameters, noise: Any, changed: str) -> None:
    """An instance with other facts or charges repeats the part, and records that the rest of the tick is lost."""
    service = begin(parameters, ["acknowledged", "cut at 2"], noise)
    with pytest.raises(UnreachableError):
        service.step(service.take_over())
    if changed == "facts":
        service.fingerprint = "fingerprint-2"
    else:
        cheaper = replace(select(parameters, HotSpots)[0], epsilon=Fraction(1, 4))
        service.parameters = replace_monitors(parameters, hot_spots=(cheaper,))
    owner = service.take_over()
    assert not owner.may_decide(1)
    service.step(owner)
    assert service.ledger.list_given_up() == {1}
    published = [ce_id for tick, ce_id, _ in service.ledger.list_answers(committed=True) if tick == 1]
    assert published == list_names(parameters, 1)[:2]
    assert service.take_over().first_undecided == 3


@pytest.mark.promise(45)
def test_log_begins_with_a_whole_tick(parameters: Parameters, noise: Any) -> None:
    """If signing is turned on after a cut tick, its part is repeated unsigned, and its rest is recorded as lost."""
    service = begin(parameters, ["acknowledged", "cut at 2"], noise)
    with pytest.raises(UnreachableError):
        service.step(service.take_over())
    service.signs = True
    service.run(2)
    assert service.ledger.list_given_up() == {1}
    verification = Verification(SIGNER.verifier, TOPIC_ID)
    committed = publish(record for committed, record in service.ledger.records if committed)
    assert len(verification.check(committed)) == 2 * ANSWERS
    assert not verification.problem
