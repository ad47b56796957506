"""Takeovers of a ledger partition on a real Kafka: what an owner reads, repeats, refuses and carries over."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka import TopicPartition

from monitor.errors import LedgerChangedError, LedgerError, PeriodError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.compute_payment import declare_charges
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.ledger.read_ledger import LedgerReader, read_partition
from monitor.ticks.owner import LedgerTopic, Owner
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY, HOUR, SECOND, format_instant
from tests.kit.topics import recreate_topic
from tests.ticks.deciding import at, decide, ledger, list_kinds, own, read_owner_values

Make = Callable[..., Parameters]
MakeLedger = Callable[..., LedgerTopic]
TakeOver = Callable[..., Owner]


@pytest.mark.promise(32)
def test_uninitialised_ledger_is_refused(
    connections: KafkaConnections, make_topic: Callable[..., tuple[str, str]], take_over: TakeOver
) -> None:
    """A ledger without a first record is refused, because the spent ε is not known; nothing is appended."""
    name, topic_id = make_topic("ledger")
    place = LedgerTopic(name, topic_id, "input-1", "f", 0)
    with pytest.raises(LedgerError, match=f"partition 0 of {name} has no first record.*topics --create"):
        take_over(place)
    assert ledger(connections, place) == []


@pytest.mark.promise(35)
def test_foreign_ledger_is_refused(connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver) -> None:
    """A ledger of another service is refused, and nothing is appended."""
    place = make_ledger(service="osaka")
    with pytest.raises(LedgerError, match=r"service\.name is 'town'.*belongs to 'osaka'"):
        take_over(place)
    assert list_kinds(ledger(connections, place)) == ["ledger"]


def test_expired_answers_count_under_longer_window(
    connections: KafkaConnections,
    admin: Any,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """
    With W = 2 the answer of tick 0 had run out and its records expired; with W = 9 its visits are counted again.

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
    assert list_kinds(ledger(connections, place)) == ["owner", "4"]
    at(clock, long, 5)
    owner = take_over(place, parameters=long)
    published_statuses = [json.loads(decide(owner, tick)[-1].value)["status"] for tick in range(5, 18)]
    assert published_statuses == [*["paused"] * 10, "safe", "safe", "safe"]


@pytest.mark.promise(30)
def test_recreated_ledger_needs_its_new_id(
    connections: KafkaConnections,
    admin: Any,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """
    A re-created ledger is not taken over under its old id: the fence would be on the old topic.

        topic X    owner 0 0 0   deleted
        topic Y                  lost_at   ✗ as owner of X     owner of Y
    """
    old, parameters = make_ledger(), make_parameters()
    first = take_over(old)
    decide(first, 0)
    new = make_ledger(lost_at=parameters.grid.start(1))
    start = ledger(connections, new)[0]
    recreate_topic(connections, old.topic)
    recreated = replace(old, topic_id=str(admin.describe_topics([old.topic])[0]["topic_id"]))
    with closing(Writer(connections, recreated.topic, recreated.topic_id, 0)) as writer:
        writer.append([start])
    at(clock, parameters, 1)
    with pytest.raises(LedgerChangedError, match="re-created"):
        take_over(old)
    assert list_kinds(ledger(connections, recreated)) == ["ledger", "owner"]
    state = take_over(recreated).state
    assert (state.lost_at, state.last_tick) == (parameters.grid.start(1), None)


@pytest.mark.promise(32)
@pytest.mark.parametrize(("before_slot_8", "input_since"), [(HOUR, 9), (SECOND // 2, 10)], ids=["slot 7", "slot 8"])
def test_lost_ledger_sets_input_since(
    before_slot_8: int,
    input_since: int,
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """
    After a lost ledger the input may be another one: lost in slot 7, F = 1, so visits of slots up to 8 may be missing.

        slot      6  7  8  9            a loss half a second before slot 8 counts as in slot 8, because its clock may be
                  .  .  .  #            a second slow

    The loss is in the record of each later owner.
    """
    parameters = make_parameters(max_lead=1)
    lost_at = parameters.grid.start(8) - before_slot_8
    place = make_ledger(lost_at=lost_at)
    at(clock, parameters, 20)
    charges = declare_charges(parameters)
    expected = OwnerTerms("town", 1, lost_at, "input-1", input_since, "fingerprint-1", charges=charges)
    for _ in range(2):
        assert take_over(place, parameters=parameters).state.terms == expected
    stated = [value["lost_at"] for value in read_owner_values(ledger(connections, place))]
    assert stated == [format_instant(lost_at)] * 2


def test_replaced_input_sets_input_since(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """
    `input_since` follows from the slot in which the new input was first seen: slot 7, F = 1.

    It does not depend on when, or by which clock, the partition is taken over. Visits of slots up to 8 may be lost, so
    the facts are complete from slot 9.

        slot      6  7  8  9
                  .  .  .  #
    """
    parameters = make_parameters(max_lead=1)
    place = make_ledger()
    charges = declare_charges(parameters)
    assert take_over(place, parameters=parameters).state.terms == OwnerTerms(
        "town", 1, None, "input-1", None, "fingerprint-1", charges=charges
    )
    seen = parameters.grid.start(7)
    moved = replace(place, input_topic_id="input-2", fingerprint="fingerprint-2", input_seen_at=seen)
    at(clock, parameters, 5)
    expected = OwnerTerms("town", 1, None, "input-2", 9, "fingerprint-2", charges=charges)
    assert take_over(moved, parameters=parameters).state.terms == expected
    at(clock, parameters, 20)
    assert take_over(moved, parameters=parameters).state.terms == expected
    assert [value["input_since"] for value in read_owner_values(ledger(connections, place))] == [None, 9, 9]


@pytest.mark.parametrize("last_input", ["input-1", "input-2"])
def test_stale_first_read_is_corrected(
    last_input: str,
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    If records before the owner record change the terms, another owner record is appended.

    The first reading misses the last owners: the input changed from input-1 to input-2, now or before.
    """
    place = make_ledger()
    moved = replace(place, input_topic_id="input-2")
    take_over(place)
    take_over(replace(place, input_topic_id=last_input))
    true_read = LedgerReader._read  # noqa: SLF001  # Kafka cannot be made to lag
    readings: list[Mapping[int, int]] = []

    def lagging(self: LedgerReader, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        readings.append(ends)
        # only the ledger's first record, and its marker
        true_read(self, starts, {0: 2} if len(readings) == 1 else ends)

    monkeypatch.setattr(LedgerReader, "_read", lagging)
    for _ in range(2):
        terms = take_over(moved).state.terms
        assert terms is not None
        assert (terms.input_topic_id, terms.input_since) == ("input-2", 1)
    assert [value["input_since"] for value in read_owner_values(ledger(connections, place))][-3:] == [None, 1, 1]


@pytest.mark.promise(34)
def test_owner_record_uses_the_cautious_clock(
    connections: KafkaConnections, make_ledger: MakeLedger, make_parameters: Make, clock: SteppedClock
) -> None:
    """Owner records are stamped by the clock that is not ahead.

    A timestamp one year ahead would outlive all answers and pause their places.
    """
    place = make_ledger()
    right = clock.now() + 5 * SECOND
    clock.move_to(clock.now() + 365 * DAY)
    own(connections, place, 0, make_parameters(), clock, now=lambda: right).close()
    (record,) = [record for record in ledger(connections, place) if record.key == b"owner"]
    assert record.timestamp_ms == right // 1_000


def test_check_ends_a_takeover(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    make_parameters: Make,
    take_over: TakeOver,
    clock: SteppedClock,
) -> None:
    """The check runs once the owner record is appended and all before it is read.

    If it refuses, the writer is closed.
    """
    place = make_ledger()
    decide(take_over(place), 0)
    asked: list[tuple[int, int]] = []

    def refuse(partition: int, state: LedgerState) -> None:
        asked.append((partition, state.records))
        raise PeriodError("too much")

    with pytest.raises(PeriodError, match="too much"):
        own(connections, place, 0, make_parameters(), clock, check=refuse)
    assert asked == [(0, 5)]
    assert list_kinds(ledger(connections, place)) == ["ledger", "owner", *"000", "owner", *"000"]
    decide(take_over(place), 1)


def test_transactional_id_has_a_constant_prefix(
    make_ledger: MakeLedger, take_over: Callable[..., Owner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transactional id is the prefix, the topic's id and the partition, without the name of the service."""
    place = make_ledger()
    create, ids = KafkaConnections.create_producer, list[str]()

    def record_id(connections: KafkaConnections, **settings: Any) -> Any:
        ids.append(settings["transactional_id"])
        return create(connections, **settings)

    monkeypatch.setattr(KafkaConnections, "create_producer", record_id)
    take_over(place)
    assert ids == [f"location-monitor.{place.topic_id}-0"]
