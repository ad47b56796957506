"""Owners of ledger partitions on a real Kafka: their ticks and records, and what follows a fence or a failed append."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from monitor.errors import LedgerChangedError, LedgerError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.read_ledger import read_partition
from monitor.records.output_records import OutputRecord
from monitor.ticks.owner import LedgerTopic, Owner
from monitor.time.clock import SteppedClock
from tests.kit.topics import recreate_topic
from tests.ticks.deciding import at, decide, ledger, list_kinds, read_owner_values
from tests.ticks.worlds import reading_instant

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]
MakeLedger = Callable[..., LedgerTopic]
TakeOver = Callable[..., Owner]


def test_corrected_clock_lowers_the_first_tick(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    clock: SteppedClock,
    make_parameters: Make,
) -> None:
    """
    A takeover in slot 5000 of a fast clock delays no tick once the clock is corrected to slot 7, nor its owner record.

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
    assert list_kinds(ledger(connections, place)) == ["ledger", "owner", "7", "8", "owner", "9"]


def test_owner_record_is_renewed(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """The owner record is renewed every two ticks at W + F = 8, a quarter of the shortest retention."""
    place = make_ledger()
    owner = take_over(place, parameters=make_parameters(window=7, places=1, max_lead=1))
    for tick in range(5):
        decide(owner, tick)
    found = ledger(connections, place)
    assert list_kinds(found) == ["ledger", "owner", "0", "1", "owner", "2", "3", "owner", "4"]
    first, *others = read_owner_values(found)
    assert others == [first, first]


def test_tick_without_answers_is_recorded(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """A tick without answers is recorded by an owner record, which the next owner reads."""
    place, parameters = make_ledger(), make_parameters(watched={})
    decide(take_over(place, parameters=parameters), 4)
    assert read_owner_values(ledger(connections, place))[-1]["tick"] == 4
    after = take_over(place, parameters=parameters)
    assert (after.state.last_tick, after.may_decide(4), after.may_decide(5)) == (4, False, True)


def test_first_record_fixes_partitions(
    make_ledger: MakeLedger, take_over: TakeOver, admin: Any, make_parameters: Make, eventually: Callable[..., Any]
) -> None:
    """Q = 2 of the first record stays when partitions are added: shard s belongs to partition s mod 2."""
    place = make_ledger(ledger_partitions=2)
    admin.create_partitions({place.topic: 4})
    eventually(lambda: len(admin.describe_topics([place.topic])[0]["partitions"]) == 4)
    parameters = make_parameters(places=8, shards=5)
    assert take_over(place, 0, parameters).shards == [0, 2, 4]
    assert take_over(place, 1, parameters).shards == [1, 3]
    with pytest.raises(LedgerError, match="partition 2"):
        take_over(place, 2, parameters)


def test_more_input_partitions_are_recorded(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, make_parameters: Make
) -> None:
    """A larger number of input partitions is written with the next tick, a smaller one is not."""
    place = replace(make_ledger(), input_partitions=3)
    owner = take_over(place, parameters=make_parameters(window=40))
    decide(owner, 0)
    owner.note_input_partitions(5)
    owner.note_input_partitions(4)
    decide(owner, 1)
    decide(owner, 2)
    assert [value["input_partitions"] for value in read_owner_values(ledger(connections, place))] == [3, 5]
    terms = take_over(place).state.terms
    assert terms is not None
    assert terms.input_partitions == 5


@pytest.mark.promise(30)
def test_fenced_owner_takes_over_again(
    make_site: MakeSite, make_parameters: Make, clock: SteppedClock, connections: KafkaConnections
) -> None:
    """A fenced instance takes over again and decides the remaining ticks."""
    parameters = make_parameters()
    first = make_site(parameters, clock)
    second = make_site(parameters, clock, first.place)
    assert first.release.take_over()
    assert second.release.take_over()
    clock.move_to(reading_instant(parameters, 0))
    assert not first.tick(0)
    assert first.release.owner is None
    assert first.observer.ticks == []
    assert second.tick(0)
    assert first.release.take_over()
    clock.move_to(reading_instant(parameters, 1))
    assert first.release.find_next_tick() == 1
    assert not first.tick(0)
    assert first.tick(1)
    assert [json.loads(record.value)["tick"] for record in first.release.last_records] == [1, 1, 1]
    answers = [kind for kind in list_kinds(ledger(connections, first.place)) if kind.isdigit()]
    assert answers == [*"000", *"000", *"111"], "tick 0, its bytes again by the takeover, tick 1"


@pytest.mark.promise(28)
def test_unknown_outcome_is_never_drawn_again(
    make_site: MakeSite,
    make_parameters: Make,
    clock: SteppedClock,
    connections: KafkaConnections,
    noise: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    If the acknowledgement of tick 0 is lost, the takeover repeats its bytes; a new draw would be another answer.

        draw      0          9
        append    sent, ?    -     taken over again: the same bytes once more (docs/rules.md, rule 4)
    """
    parameters = make_parameters(places=1)
    site = make_site(parameters, clock)
    noise.script = [0, 9, 9]
    site.release.take_over()
    append = Writer.append

    def unacknowledged(writer: Writer, records: Sequence[OutputRecord], within: float) -> int:
        append(writer, records, within)
        monkeypatch.setattr(Writer, "append", append)  # once
        raise UnreachableError("no broker answers")

    monkeypatch.setattr(Writer, "append", unacknowledged)
    clock.move_to(reading_instant(parameters, 0))
    assert not site.tick(0)
    assert site.release.take_over()
    assert site.release.find_next_tick() == 1
    assert not site.tick(0)
    answers: dict[bytes, set[OutputRecord]] = {}
    for _, record in read_partition(connections, site.place.topic, 0):
        answers.setdefault(dict(record.headers)["ce_id"], set()).add(record)
    assert {len(records) for records in answers.values()} == {1}
    assert list_kinds(ledger(connections, site.place)) == ["ledger", "owner", "0", "owner", "0"]
    assert len(noise.drawn) == 1


@pytest.mark.promise(32)
def test_recreated_ledger_gets_no_answers(
    make_site: MakeSite,
    make_parameters: Make,
    clock: SteppedClock,
    admin: Any,
    connections: KafkaConnections,
) -> None:
    """A re-created ledger ends the tick, and no answer gets into it: its fence belongs to the new topic id."""
    parameters = make_parameters()
    site = make_site(parameters, clock)
    site.release.take_over()
    clock.move_to(reading_instant(parameters, 0))
    assert site.tick(0)
    recreate_topic(connections, site.place.topic)
    clock.move_to(reading_instant(parameters, 1))
    with pytest.raises(LedgerChangedError):
        site.tick(1)
    assert list(read_partition(connections, site.place.topic, 0)) == []
