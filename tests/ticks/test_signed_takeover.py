"""Takeovers of a signed ledger partition on a real Kafka: a subscriber verifies what each of them leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Final

import pytest

from monitor.client.topic_consumer import Subscriber
from monitor.client.verification import Verification
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.records.output_records import OutputRecord
from monitor.ticks.owner import LedgerTopic, Owner
from monitor.time.instants import DAY, HOUR, MILLISECOND
from tests.kit.signed import SIGNER
from tests.ticks.owning import decide, leave_open, ledger

MakeLedger = Callable[..., LedgerTopic]
TakeOver = Callable[..., Owner]

ANSWERS: Final = [b"stations/place-0", b"stations/place-1", b"stations/place-2"]


def read_signed_ticks(connections: KafkaConnections, place: LedgerTopic) -> list[int]:
    """Return the ticks of the answers that a subscriber verifies, each once, in order."""
    with closing(Subscriber(connections, place.topic, HOUR // MILLISECOND, DAY // MILLISECOND)) as subscriber:
        subscriber.begin()
        verification = Verification(SIGNER.verifier, subscriber.topic_id)
        signed = verification.check(list(subscriber.read_to_end()))
    assert not verification.problem
    return list(dict.fromkeys(json.loads(record.value or b"")["tick"] for record in signed))


def draw(owner: Owner, tick: int) -> list[OutputRecord]:
    """Return the records of a tick with its checkpoint, as its owner appends them."""
    decision = owner.decide(tick, Evidence({}))
    assert decision.checkpoint is not None
    return [*decision.records, decision.checkpoint]


@pytest.mark.promise(29)
def test_takeover_repeats_a_signed_tick(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver
) -> None:
    """A takeover appends the last tick and its checkpoint again, byte for byte, and the tree goes on."""
    place = make_ledger()
    first = take_over(place, signer=SIGNER)
    decide(first, 0)
    decide(first, 1, people=2)
    last = ledger(connections, place)[-4:]
    assert [record.key for record in last] == [*ANSWERS, b"checkpoint"]
    second = take_over(place, signer=SIGNER)
    assert ledger(connections, place)[-4:] == last
    decide(second, 2)
    assert read_signed_ticks(connections, place) == [0, 1, 2]


@pytest.mark.parametrize(("arrived", "signed"), [(4, [0, 1, 2]), (3, [0, 2]), (2, [0, 1, 2])])
def test_aborted_tick(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, arrived: int, signed: list[int]
) -> None:
    """
    An aborted tick is appended again if its checkpoint has arrived, and else not, because anybody may have written it.

        ledger   0 0 0 c  1 1 1 c   owner 1 1 1 c   2 2 2 c        the owner is killed before it commits tick 1
        ledger   0 0 0 c  1 1 1     owner           2 2 2 c        nothing of tick 1 is left to draw
        ledger   0 0 0 c  1 1       owner     1 c   2 2 2 c        the answer that was never in the ledger is drawn
    """
    place = make_ledger()
    killed = take_over(place, signer=SIGNER)
    decide(killed, 0)
    with leave_open(connections, place.topic, place.topic_id, draw(killed, 1)[:arrived]):
        owner = take_over(place, signer=SIGNER)
    assert owner.may_decide(1) == (arrived == 2)
    for tick in range(owner.first_undecided, 3):
        decide(owner, tick)
    assert read_signed_ticks(connections, place) == signed


def test_signing_begins_later(connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver) -> None:
    """If signing is turned on, the takeover repeats the last tick as before, and the log begins with the next one."""
    place = make_ledger()
    decide(take_over(place), 0)
    owner = take_over(place, signer=SIGNER)
    assert [record.key for record in ledger(connections, place)[-3:]] == ANSWERS
    decide(owner, 1)
    assert read_signed_ticks(connections, place) == [1]
