"""Takeovers on a real Kafka after an owner was stopped within a tick's transaction, also if answers are signed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from itertools import product
from typing import Any, Final

import pytest

from monitor.client.topic_consumer import Subscriber
from monitor.client.verification import Verification
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.parameters import Parameters
from monitor.ledger.read_ledger import is_committed
from monitor.records.output_records import OutputRecord
from monitor.ticks.owner import LedgerTopic, Owner
from monitor.time.instants import DAY, HOUR, MILLISECOND
from tests.kit.signed import SIGNER
from tests.kit.topics import read_topic
from tests.ticks.deciding import decide, leave_open, ledger, list_kinds, read

MakeLedger = Callable[..., LedgerTopic]
TakeOver = Callable[..., Owner]
APPENDS: Final = ("committed", "aborted", "plain")
ANSWERS: Final = [b"stations/place-0", b"stations/place-1", b"stations/place-2"]


def list_committed(connections: KafkaConnections, place: LedgerTopic) -> list[str]:
    """Return the kinds of the committed records that a subscriber sees; answers by their tick."""
    return list_kinds(read_topic(connections.bootstrap_servers, place.topic))


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


@pytest.mark.promise(28, 29)
@pytest.mark.parametrize("committed", [True, False])
def test_whole_tick_is_repeated(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, committed: bool
) -> None:
    """A tick of which all answers are in the ledger is repeated byte for byte, counts, and is never decided again."""
    place = make_ledger()
    killed = take_over(place)
    questions = killed.decider.build_questions(0, killed.state)
    records = list(killed.decide(0, Evidence(read(questions, {1: 2}))).records)
    with leave_open(connections, place.topic, place.topic_id, records) as producer:
        if committed:
            producer.commit_transaction()
        owner = take_over(place)
    assert not owner.may_decide(0)
    assert owner.may_decide(1)
    assert [mark.tick for mark in owner.state.find_marks("stations", "place-1")] == [0]
    assert ledger(connections, place)[-3:] == records
    assert list_committed(connections, place)[-4:] == ["owner", *"000"]


@pytest.mark.promise(28, 40)
@pytest.mark.parametrize("known", ["whole", "part", "none"])
def test_foreign_transaction_delays_no_takeover(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    make_parameters: Callable[..., Parameters],
    known: str,
) -> None:
    """
    Behind another program's open transaction, a takeover finds whether the last tick is whole, and ticks are decided.

        ledger   owner  f   0 0 0   owner   0 0 0   1 1 1       f stays open, and hides all that follows
                 owner  f   0       owner   0 0 0   1 1 1
                 owner  f           owner   0 0 0   1 1 1
    """
    place, parameters = make_ledger(), make_parameters(window=20)
    owner = take_over(place, parameters=parameters)
    with ExitStack() as opened:
        foreign = open_producer(connections, f"{place.topic}-foreign", opened)
        foreign.begin_transaction()
        foreign.send(place.topic, value=b"foreign", partition=0).get(timeout=10)
        if known == "whole":
            decide(owner, 0)
        elif known == "part":
            with leave_open(connections, place.topic, place.topic_id, list(owner.decide(0, Evidence({})).records)[:1]):
                pass
        owner = take_over(place, parameters=parameters)
        assert (owner.rest is not None) == (known == "part")
        assert owner.first_undecided == (known == "whole")
        for tick in range(owner.first_undecided, 2):
            decide(owner, tick)
        assert list_committed(connections, place) == ["ledger", "owner"]
        foreign.abort_transaction()
    ticks = list_committed(connections, place)[2:]
    assert ticks == {"whole": [*"000", "owner", *"000", *"111"]}.get(known, ["owner", *"000", *"111"])


def open_producer(connections: KafkaConnections, transactional_id: str, opened: ExitStack) -> Any:
    """Return a producer of transactions, which is closed at the end."""
    producer = opened.enter_context(closing(connections.create_producer(transactional_id=transactional_id)))
    producer.init_transactions()
    return producer


def send(producer: Any, topic: str, record: OutputRecord, partitions: Iterable[int]) -> list[int]:
    """Append a record to each of these partitions, and return the offsets."""
    sent = [
        producer.send(topic, key=record.key, value=record.value, headers=list(record.headers), partition=partition)
        for partition in partitions
    ]
    return [future.get(timeout=10).offset for future in sent]


@pytest.mark.promise(28, 40)
def test_commit_is_found_behind_open_transaction(
    connections: KafkaConnections,
    make_topic: Callable[..., tuple[str, str]],
    make_ledger: MakeLedger,
    take_over: TakeOver,
) -> None:
    """
    Behind foreign open transactions, a takeover finds what a read_committed subscriber sees once they are aborted.

    An answer is appended twice to each partition, in all combinations, with a foreign transaction at any place:

        f?   committed, aborted or plain   f?   committed, aborted or plain   f?   end
    """
    answer, end = next(iter(take_over(make_ledger()).decide(1, Evidence({})).records)), OutputRecord(b"", b"", (), 0)
    cases = list(product(APPENDS, APPENDS, (None, 0, 1, 2)))
    topic, _ = make_topic("appends", len(cases))
    with ExitStack() as opened:
        plain = opened.enter_context(closing(connections.create_producer()))
        owner, *foreign = (open_producer(connections, f"{topic}-{number}", opened) for number in range(4))
        for step in range(3):
            foreign[step].begin_transaction()
            send(foreign[step], topic, answer, [number for number, case in enumerate(cases) if case[2] == step])
            for append in APPENDS if step < 2 else ():
                where = [number for number, case in enumerate(cases) if case[step] == append]
                if append == "plain":
                    send(plain, topic, answer, where)
                    continue
                owner.begin_transaction()
                send(owner, topic, answer, where)
                (owner.commit_transaction if append == "committed" else owner.abort_transaction)()
        ends = send(plain, topic, end, range(len(cases)))
        found = [is_committed(connections, topic, number, 1, (0, after + 1)) for number, after in enumerate(ends)]
        for producer in foreign:
            producer.abort_transaction()
    seen = {record.partition for record in read_topic(connections.bootstrap_servers, topic) if record.value}
    assert found == [number in seen for number in range(len(cases))]
    assert found == [{*case[:2]} != {"aborted"} for case in cases]


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
