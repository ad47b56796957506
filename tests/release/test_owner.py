"""Taking over a ledger partition on a real Kafka: what is read, repeated, refused and carried on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from kafka import TopicPartition

from monitor.brokers.connections import KafkaConnections
from monitor.contracts.alerts import COUNTING, LEDGER, OWNER
from monitor.contracts.charges import Charges
from monitor.errors import FencedError, LedgerChangedError, LedgerError, PeriodError
from monitor.public.clock import SteppedClock
from monitor.public.instants import DAY, SECOND
from monitor.public.parameters import Parameters
from monitor.release.decide import Evidence
from monitor.release.ledger import LedgerRecord, Writer, read_partition
from monitor.release.owner import LedgerPlace, Owner
from monitor.release.state import LedgerState, OwnerTerms
from monitor.windows.facts import COMPLETE_FROM_START, NEVER, Reading
from monitor.windows.fingerprint import fingerprint, published_fingerprint
from monitor.windows.hashing import PersonHasher

Make = Callable[..., Parameters]
MakeLedger = Callable[..., LedgerPlace]
TakeOver = Callable[..., Owner]


@pytest.fixture
def take_over(
    connections: KafkaConnections, make_parameters: Make, clock: SteppedClock, noise: Any
) -> Iterator[TakeOver]:
    """Takes over partitions; owners are closed at the end."""
    with ExitStack() as opened:

        def take(place: LedgerPlace, partition: int = 0, parameters: Parameters | None = None) -> Owner:
            made = Owner(connections, place, partition, parameters or make_parameters(), noise, clock)
            return opened.enter_context(closing(made))

        yield take


def decide(owner: Owner, tick: int, people: int = 0) -> tuple[LedgerRecord, ...]:
    """Decide a tick on complete input with so many people everywhere."""
    readings = {
        shard: Reading({}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, dict.fromkeys(asked.windows, people), {})
        for shard, asked in owner.questions(tick).items()
    }
    return owner.decide(tick, Evidence(readings)).records


def ledger(connections: KafkaConnections, place: LedgerPlace, partition: int = 0) -> list[LedgerRecord]:
    return [record for _offset, record in read_partition(connections, place.topic, partition)]


def kinds(records: list[LedgerRecord]) -> list[str]:
    """Each record's kind, answers by tick."""
    named = {OWNER.encode(): "owner", LEDGER.encode(): "ledger"}
    return [named.get(dict(record.headers)["ce_type"]) or str(json.loads(record.value)["tick"]) for record in records]


def owner_values(records: list[LedgerRecord]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records if record.key == b"owner"]


def at(clock: SteppedClock, parameters: Parameters, slot: int) -> None:
    """Step the clock into the middle of a slot."""
    clock.move_to(parameters.grid.start(slot) + parameters.grid.length // 2)


def test_a_takeover_announces_itself_and_repeats_the_last_ticks_bytes(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """
    The last transaction may have been aborted: subscribers get its bytes again, all of one tick and no other.

        ledger  owner 0 0 0 1 1 1   owner 1 1 1
                first owner         second
    """
    place, parameters = make_ledger(), make_parameters(window=20)
    first = take_over(place, parameters=parameters)
    decide(first, 0)
    repeated = decide(first, 1, people=2)
    second = take_over(place, parameters=parameters)
    found = ledger(connections, place)
    assert kinds(found) == ["ledger", "owner", *"000", *"111", "owner", *"111"]
    assert found[-3:] == list(repeated)
    assert second.state.last_tick == 1
    assert [mark.noisy_count for mark in second.state.marks_of("stations", "place-0")] == [2]


def test_a_takeover_fences_the_owner_before(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver
) -> None:
    """What the zombie decides is not in the ledger."""
    place = make_ledger()
    zombie, owner = take_over(place), take_over(place)
    with pytest.raises(FencedError):
        decide(zombie, 0)
    decide(owner, 0)
    assert kinds(ledger(connections, place)) == ["ledger", "owner", "owner", *"000"]


def test_an_answer_of_an_aborted_transaction_counts(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """The owner was killed within tick 0's transaction: its noisy answers hold, and tick 0 is not decided again."""
    place = make_ledger()
    killed = take_over(place)
    records = killed._decider.decide(
        0,
        Evidence(
            {
                0: Reading(
                    {},
                    COMPLETE_FROM_START,
                    COMPLETE_FROM_START,
                    NEVER,
                    0,
                    {(row, -2): 2 * (row == 1) for row in range(3)},
                    {},
                )
            }
        ),
        killed.state,
    ).records

    producer = killed._writer._producer
    producer.begin_transaction()
    for record in records:
        producer.send(place.topic, key=record.key, value=record.value, headers=list(record.headers), partition=0)
    producer.flush()
    owner = take_over(place)
    assert [mark.tick for mark in owner.state.marks_of("stations", "place-1")] == [0]
    assert not owner.may_decide(0)
    assert owner.may_decide(1)
    assert kinds(ledger(connections, place)) == ["ledger", "owner", *"000", "owner", *"000"]


def test_an_uninitialised_ledger_is_refused(
    connections: KafkaConnections, make_topic: Callable[..., tuple[str, str]], take_over: TakeOver
) -> None:
    """Without its first record nobody knows what was spent; nothing is appended."""
    name, topic_id = make_topic("ledger")
    place = LedgerPlace(name, topic_id, "input-1", "f", 0)
    with pytest.raises(LedgerError, match=f"partition 0 of {name} has no first record.*topics --create"):
        take_over(place)
    assert ledger(connections, place) == []


def test_another_services_ledger_is_refused(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver
) -> None:
    """Each service needs a ledger of its own; nothing is appended."""
    place = make_ledger(service="osaka")
    with pytest.raises(LedgerError, match=r"service\.name is 'town'.*belongs to 'osaka'"):
        take_over(place)
    assert kinds(ledger(connections, place)) == ["ledger"]


def test_after_a_refusal_nothing_is_held_open(
    make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """The right service takes over afterwards."""
    place = make_ledger(service="osaka")
    with pytest.raises(LedgerError):
        take_over(place)
    assert take_over(place, parameters=make_parameters(name="osaka")).state.terms == OwnerTerms(
        "osaka", 1, None, "input-1", None, "fingerprint-1"
    )


def test_the_first_tick_is_that_of_the_first_slot_to_close_after_the_takeover(
    make_ledger: MakeLedger, take_over: TakeOver, clock: SteppedClock, make_parameters: Make
) -> None:
    """
    The partition was taken over in the middle of slot 7.

        slot   5  6  7  8
                     ^              tick 7 closes it; tick 6 was someone else's or nobody's
    """
    parameters = make_parameters()
    at(clock, parameters, 7)
    owner = take_over(make_ledger())
    assert owner.first_tick == 7
    assert [owner.may_decide(tick) for tick in (5, 6, 7, 8)] == [False, False, True, True]


def test_a_clock_that_ran_ahead_at_the_takeover_and_was_set_right_holds_no_tick_up(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """
    Taken over in what the clock said was slot 5000; it is slot 7. What the owner record carries is repeated in time.

        slot   7  8  …              ticks 7 and later are due again, the owner record after two of them (W + F = 8)
    """
    place, parameters = make_ledger(), make_parameters(window=7, places=1, max_lead=1)
    at(clock, parameters, 5000)
    owner = take_over(place, parameters=parameters)
    assert not owner.may_decide(7)
    owner.lower_first_tick(7)
    assert [owner.may_decide(tick) for tick in (6, 7, 8)] == [False, True, True]
    for tick in (7, 8, 9):
        decide(owner, tick)
    owner.lower_first_tick(7)
    assert [owner.may_decide(tick) for tick in (7, 9, 10)] == [False, False, True]
    assert kinds(ledger(connections, place)) == ["ledger", "owner", "7", "8", "owner", "9"]


def test_nothing_is_decided_at_or_below_the_ledgers_last_tick(
    make_ledger: MakeLedger, take_over: TakeOver, clock: SteppedClock, make_parameters: Make
) -> None:
    """The clock jumped back from slot 9 to slot 2: silence until it is past what was decided."""
    place, parameters = make_ledger(), make_parameters()
    at(clock, parameters, 9)
    decide(take_over(place), 9)
    at(clock, parameters, 2)
    owner = take_over(place)
    assert owner.first_tick == 2
    assert [owner.may_decide(tick) for tick in (2, 8, 9, 10)] == [False, False, False, True]
    decide(owner, 10)
    assert not owner.may_decide(10)


def test_marks_ahead_of_the_clock_run(
    make_ledger: MakeLedger, take_over: TakeOver, clock: SteppedClock, make_parameters: Make
) -> None:
    """Decided at tick 9 by a clock that was ahead; at tick 10 of the right clock they hold their locations."""
    place, parameters = make_ledger(), make_parameters()
    at(clock, parameters, 9)
    decide(take_over(place), 9, people=2)
    at(clock, parameters, 2)
    assert {json.loads(record.value)["status"] for record in decide(take_over(place), 10)} == {"paused"}


def test_when_a_ledger_was_lost_is_carried_from_owner_to_owner(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """From the first record to every owner record after it."""
    lost_at = make_parameters().grid.start(3)
    place = make_ledger(lost_at=lost_at)
    for _ in range(2):
        terms = take_over(place).state.terms
        assert terms is not None
        assert terms.lost_at == lost_at
    assert [value["lost_at"] for value in owner_values(ledger(connections, place))] == ["2026-01-01T03:00:00Z"] * 2


def test_answers_that_expired_under_a_shorter_window_count_as_spent_under_a_longer_one(
    connections: KafkaConnections,
    admin: Any,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """
    With W = 2 the answer of tick 0 had run out; then its records expired; with W = 9 its visits are counted again.

        tick    0  1  2  3  4  5  6  7  …  14
        W = 2   z  p  p  s  s                     records of ticks 0 to 3 expire
        W = 9                  p  p  p     p      until the first one that is left, of tick 4, is W + F ticks old
    """
    place = make_ledger()
    short, long = make_parameters(window=2, places=1, max_lead=1), make_parameters(window=9, places=1, max_lead=1)
    at(clock, short, 0)
    owner = take_over(place, parameters=short)
    for tick in range(5):
        decide(owner, tick, people=2 if tick == 0 else 0)
    owners = [offset for offset, record in read_partition(connections, place.topic, 0) if record.key == b"owner"]
    admin.delete_records({TopicPartition(place.topic, 0): owners[-1]})
    assert kinds(ledger(connections, place)) == ["owner", "4"]
    at(clock, long, 5)
    owner = take_over(place, parameters=long)
    said = [json.loads(decide(owner, tick)[-1].value)["status"] for tick in range(5, 18)]
    assert said == [*["paused"] * 10, "safe", "safe", "safe"]


def test_a_ledger_that_was_made_anew_is_not_taken_over_under_its_old_id(
    connections: KafkaConnections,
    admin: Any,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
    eventually: Callable[..., Any],
) -> None:
    """
    The name leads to the new topic, the fence is the old one's: two owners would write side by side.

        topic X    owner 0 0 0   deleted
        topic Y                  lost_at   ✗ as owner of X     owner of Y
    """
    old, parameters = make_ledger(), make_parameters()
    first = take_over(old)
    decide(first, 0)
    new = make_ledger(lost_at=parameters.grid.start(1))
    start = ledger(connections, new)[0]
    admin.delete_topics([old.topic])
    eventually(lambda: old.topic not in admin.list_topics())
    admin.create_topics({old.topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    anew = replace(old, topic_id=str(admin.describe_topics([old.topic])[0]["topic_id"]))
    with closing(Writer(connections, anew.topic, anew.topic_id, 0)) as writer:
        writer.append([start])
    at(clock, parameters, 1)
    with pytest.raises(LedgerChangedError, match="made anew"):
        take_over(old)
    assert kinds(ledger(connections, anew)) == ["ledger", "owner"]
    state = take_over(anew).state
    assert (state.lost_at, state.last_tick) == (parameters.grid.start(1), None)


def test_after_a_lost_ledger_an_input_that_may_be_another_one_is_whole_from_after_the_loss(
    make_ledger: MakeLedger, take_over: TakeOver, clock: SteppedClock, make_parameters: Make
) -> None:
    """
    The old ledger alone told which input its answers were made of; planned stays may have been in another one.

        slot      6  7  8  9            lost in slot 7, F = 1: visits of slots up to 8 may be missing
                  .  .  .  #
    """
    parameters = make_parameters(max_lead=1)
    place = make_ledger(lost_at=parameters.grid.start(7))
    at(clock, parameters, 20)
    expected = OwnerTerms("town", 1, parameters.grid.start(7), "input-1", 9, "fingerprint-1")
    for _ in range(2):
        assert take_over(place, parameters=parameters).state.terms == expected


def test_a_lost_ledger_and_another_clocks_tolerance(
    make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """Lost half a second before slot 8 by a clock that may be a second slow: as if in slot 8."""
    parameters = make_parameters(max_lead=1)
    place = make_ledger(lost_at=parameters.grid.start(8) - SECOND // 2)
    terms = take_over(place, parameters=parameters).state.terms
    assert terms is not None
    assert terms.input_since == 10


def test_another_input_topic_sets_input_since_and_later_owners_keep_it(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """Whole from when on is reckoned from when the input was looked at, whenever, and by which clock, it is taken over.

    It was seen to be another in slot 7, F = 1: visits of slots up to 8 may be lost, so the facts are whole from slot 9.

        slot      6  7  8  9
                  .  .  .  #
    """
    parameters = make_parameters(max_lead=1)
    place = make_ledger()
    assert take_over(place, parameters=parameters).state.terms == OwnerTerms(
        "town", 1, None, "input-1", None, "fingerprint-1"
    )
    seen = parameters.grid.start(7)
    moved = replace(place, input_topic_id="input-2", fingerprint="fingerprint-2", input_seen_at=seen)
    at(clock, parameters, 5)
    expected = OwnerTerms("town", 1, None, "input-2", 9, "fingerprint-2")
    assert take_over(moved, parameters=parameters).state.terms == expected
    at(clock, parameters, 20)
    assert take_over(moved, parameters=parameters).state.terms == expected
    assert [value["input_since"] for value in owner_values(ledger(connections, place))] == [None, 9, 9]


def test_the_owner_record_is_repeated_so_that_it_outlives_the_retention(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """W + F = 8: every two ticks, a quarter of what the ledger is kept for at least."""
    place = make_ledger()
    owner = take_over(place, parameters=make_parameters(window=7, places=1, max_lead=1))
    for tick in range(5):
        decide(owner, tick)
    found = ledger(connections, place)
    assert kinds(found) == ["ledger", "owner", "0", "1", "owner", "2", "3", "owner", "4"]
    first, *others = owner_values(found)
    assert others == [first, first]


def test_a_tick_with_nothing_to_answer_is_in_the_ledger(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """No place is watched: an owner record says that the tick was decided, and the next owner knows it."""
    place, parameters = make_ledger(), make_parameters(watched={})
    decide(take_over(place, parameters=parameters), 4)
    assert owner_values(ledger(connections, place))[-1]["tick"] == 4
    after = take_over(place, parameters=parameters)
    assert (after.state.last_tick, after.may_decide(4), after.may_decide(5)) == (4, False, True)


def test_the_first_record_pins_over_how_many_partitions_the_shards_are_spread(
    make_ledger: MakeLedger, take_over: TakeOver, admin: Any, make_parameters: Make, eventually: Callable[..., Any]
) -> None:
    """Q = 2, and partitions were added since: shard s stays with partition s mod 2, away from the new ones."""
    place = make_ledger(ledger_partitions=2)
    admin.create_partitions({place.topic: 4})
    eventually(lambda: len(admin.describe_topics([place.topic])[0]["partitions"]) == 4)
    parameters = make_parameters(places=8, shards=5)
    assert take_over(place, 0, parameters).shards == [0, 2, 4]
    assert take_over(place, 1, parameters).shards == [1, 3]
    with pytest.raises(LedgerError, match="partition 2"):
        take_over(place, 2, parameters)


def test_partitions_are_owned_apart(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """Owners of two partitions decide each its own shards; neither fences the other."""
    place, parameters = make_ledger(ledger_partitions=2), make_parameters(places=8, shards=2)
    owners = [take_over(place, partition, parameters) for partition in (0, 1)]
    for owner in owners:
        decide(owner, 0)
    for partition, rows in enumerate(parameters.registry.by_shard):
        told = [json.loads(record.value) for record in ledger(connections, place, partition)]
        assert [value["location_id"] for value in told if "tick" in value] == [f"place-{row}" for row in rows]


@pytest.mark.parametrize("last_input", ["input-1", "input-2"])
def test_what_a_lagging_leader_hid_is_carried_on_all_the_same(
    last_input: str,
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What an owner record carries was read before it; if what precedes it says more, another one is appended.

    The first reading misses the last owners: the input changed from input-1 to input-2, now or before.
    """
    place = make_ledger()
    moved = replace(place, input_topic_id="input-2")
    take_over(place)
    take_over(replace(place, input_topic_id=last_input))
    true_read = Owner._read
    readings: list[int | None] = []

    def lagging(self: Owner, state: LedgerState, start: int, until: int | None) -> int:
        readings.append(until)
        # only the ledger's first record, and its marker
        return true_read(self, state, start, 2 if len(readings) == 1 else until)

    monkeypatch.setattr(Owner, "_read", lagging)
    for _ in range(2):
        terms = take_over(moved).state.terms
        assert terms is not None
        assert (terms.input_topic_id, terms.input_since) == ("input-2", 1)
    assert [value["input_since"] for value in owner_values(ledger(connections, place))][-3:] == [None, 1, 1]


def test_a_ledger_with_a_foreign_record_is_not_taken_over(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, open_writer: Callable[..., Writer]
) -> None:
    """Something that claims to be an answer and can't be read: what it spent is not known."""
    place = make_ledger()
    foreign = LedgerRecord(b"stations/a", b"{}", (("ce_type", b"org.location-monitor.over_time"),), 0)
    open_writer(place.topic, place.topic_id).append([foreign])
    with pytest.raises(LedgerError, match="What it spent is not known"):
        take_over(place)


@dataclass
class Books:
    """TakeoverCheck that are given, and say at which partitions they were asked."""

    charges: Charges = field(default_factory=lambda: Charges("0123456789abcdef", 1, (), ()))
    at: int = 0
    refused: Exception | None = None
    asked: list[tuple[int, int]] = field(default_factory=list)

    def now(self) -> int:
        return self.at

    def end_takeover(self, partition: int, state: LedgerState) -> None:
        self.asked.append((partition, state.records))
        if self.refused is not None:
            raise self.refused


@pytest.fixture
def with_books(
    connections: KafkaConnections, make_parameters: Make, clock: SteppedClock, noise: Any
) -> Iterator[Callable[..., Owner]]:
    """Takes over partition 0 with accounts; owners are closed at the end."""
    with ExitStack() as opened:

        def take(place: LedgerPlace, books: Books) -> Owner:
            return opened.enter_context(
                closing(Owner(connections, place, 0, make_parameters(window=7, places=1), noise, clock, books))
            )

        yield take


def test_owner_records_tell_what_counts_hold_and_what_may_be_charged(
    connections: KafkaConnections, make_ledger: MakeLedger, with_books: Callable[..., Owner]
) -> None:
    """And how many partitions the input was seen with."""
    place = replace(make_ledger(), input_partitions=3)
    owner = with_books(place, Books())
    (value,) = owner_values(ledger(connections, place))
    assert (value["counting"], value["input_partitions"]) == (COUNTING, 3)
    assert value["charges"] == {"digest": "0123456789abcdef", "ahead": 1, "places": [], "times": []}
    assert owner.state.counting == COUNTING


def test_owner_records_are_stamped_by_the_clock_that_is_not_ahead(
    connections: KafkaConnections, make_ledger: MakeLedger, with_books: Callable[..., Owner], clock: SteppedClock
) -> None:
    """An instance's clock is a year ahead: by its stamp the record would outlive all answers, and silence them."""
    place = make_ledger()
    right = clock.now() + 5 * SECOND
    clock.move_to(clock.now() + 365 * DAY)
    with_books(place, Books(at=right))
    (record,) = [record for record in ledger(connections, place) if record.key == b"owner"]
    assert record.timestamp_ms == right // 1_000


def test_the_accounts_end_a_takeover_and_may_refuse_it(
    connections: KafkaConnections, make_ledger: MakeLedger, with_books: Callable[..., Owner], take_over: TakeOver
) -> None:
    """After the owner's record is in the ledger and all before it was read; then nothing is held open."""
    place = make_ledger()
    decide(take_over(place), 0)
    books = Books(refused=PeriodError("too much"))
    with pytest.raises(PeriodError, match="too much"):
        with_books(place, books)
    assert books.asked == [(0, 5)]
    assert kinds(ledger(connections, place)) == ["ledger", "owner", *"000", "owner", *"000"]
    decide(take_over(place), 1)


def test_more_input_partitions_are_told_with_the_next_tick(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """So that whoever takes over does not believe a broker that lists fewer; fewer are not told."""
    place = replace(make_ledger(), input_partitions=3)
    owner = take_over(place, parameters=make_parameters(window=40))
    decide(owner, 0)
    owner.note_input_partitions(5)
    owner.note_input_partitions(4)
    decide(owner, 1)
    decide(owner, 2)
    assert [value["input_partitions"] for value in owner_values(ledger(connections, place))] == [3, 5]
    terms = take_over(place).state.terms
    assert terms is not None
    assert terms.input_partitions == 5


def test_a_key_of_person_ids_cannot_be_tested_by_what_owners_publish(make_parameters: Make) -> None:
    """Whoever guesses the key finds the same fingerprint with every guess; the store's own differs."""
    parameters = make_parameters()
    digests = [PersonHasher(key * 32).key_digest for key in (b"a", b"b")]
    assert len({fingerprint(parameters, digest, "t") for digest in digests}) == 2
    published = published_fingerprint(parameters, "t")
    assert published not in {fingerprint(parameters, digest, "t") for digest in digests}
    assert published != published_fingerprint(parameters, "made anew")
    assert published != published_fingerprint(make_parameters(window=9), "t")
