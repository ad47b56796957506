"""Owners of ledger partitions on a real Kafka: the ticks that they decide, and their owner records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from monitor.errors import LedgerError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.store.fingerprint import compute_fingerprint, compute_published_fingerprint
from monitor.store.hashing import PersonHasher
from monitor.ticks.owner import LedgerTopic, Owner
from monitor.time.clock import SteppedClock
from tests.ticks.owning import at, decide, ledger, list_kinds, read_owner_values

Make = Callable[..., Parameters]
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


@pytest.mark.promise(23)
def test_published_fingerprint_hides_the_key(make_parameters: Make) -> None:
    """The published fingerprint does not depend on the person key, so it can't confirm a guess."""
    parameters = make_parameters()
    digests = [PersonHasher(key * 32).key_digest for key in (b"a", b"b")]
    assert len({compute_fingerprint(parameters, digest, "t") for digest in digests}) == 2
    published = compute_published_fingerprint(parameters, "t")
    assert published not in {compute_fingerprint(parameters, digest, "t") for digest in digests}
    assert published != compute_published_fingerprint(parameters, "re-created")
    assert published != compute_published_fingerprint(make_parameters(window=9), "t")
