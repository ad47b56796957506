"""Takeovers of a ledger partition on a real Kafka after an owner was stopped within a tick's transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.ledger.reader import read_partitions
from monitor.ticks.evidence import Evidence
from monitor.ticks.owner import LedgerTopic, Owner
from tests.ticks.owning import decide, leave_open, ledger, list_kinds

MakeLedger = Callable[..., LedgerTopic]
TakeOver = Callable[..., Owner]


def list_committed(connections: KafkaConnections, place: LedgerTopic) -> list[str]:
    """Return the kinds of the committed records; answers by their tick."""
    with closing(read_partitions(connections, place.topic, {0: 0}, {}, "read_committed")) as records:
        return list_kinds([record for _, _, record in records])


@pytest.mark.promise(28, 40)
@pytest.mark.parametrize("kills", [1, 2])
def test_takeover_completes_a_tick(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    make_parameters: Callable[..., Parameters],
    kills: int,
) -> None:
    """
    The owner that finds a part of tick 1 appends it again with the rest, in one transaction, also after a second kill.

        uncommitted   0 0 0   1                  1 1
        committed             owner   owner               owner   1 1 1   owner   1 1 1
    """
    place, parameters = make_ledger(), make_parameters(window=20)
    owner = take_over(place, parameters=parameters)
    decide(owner, 0)
    seen = []
    for kill in range(1, kills + 1):
        assert owner.first_undecided == 1
        seen = list(owner.decide(1, Evidence({})).records)[:kill]
        with leave_open(connections, place.topic, place.topic_id, seen):
            owner = take_over(place, parameters=parameters)
    assert owner.rest is not None
    records = list(decide(owner, 1, people=2))
    assert records[:kills] == seen
    assert not owner.may_decide(1)
    committed = ["ledger", "owner", *"000", *["owner"] * kills, *"111"]
    assert list_committed(connections, place) == committed
    assert take_over(place, parameters=parameters).rest is None
    assert list_committed(connections, place) == [*committed, "owner", *"111"]


@pytest.mark.promise(28)
@pytest.mark.parametrize("committed", [True, False])
def test_whole_tick_is_repeated(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, committed: bool
) -> None:
    """A tick of which all answers are in the ledger is repeated at the takeover, and never decided again."""
    place = make_ledger()
    killed = take_over(place)
    records = list(killed.decide(0, Evidence({})).records)
    with leave_open(connections, place.topic, place.topic_id, records) as producer:
        if committed:
            producer.commit_transaction()
        owner = take_over(place)
    assert not owner.may_decide(0)
    assert ledger(connections, place)[-3:] == records
    assert list_committed(connections, place)[-4:] == ["owner", *"000"]


@pytest.mark.promise(40)
def test_given_up_rest_stays_lost(connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver) -> None:
    """After an owner record that names tick 0 as incomplete, no later owner completes the tick or gives it up again."""
    place = make_ledger()
    killed = take_over(place)
    with leave_open(connections, place.topic, place.topic_id, list(killed.decide(0, Evidence({})).records)[:1]):
        owner = take_over(place)
    assert owner.rest is not None
    assert (owner.rest.tick, owner.rest.lost) == (0, 2)
    owner.give_up_rest(owner.rest)
    assert list_committed(connections, place) == ["ledger", "owner", "owner", "0", "owner"]
    again = take_over(place)
    assert (again.rest, again.first_undecided) == (None, 1)
