"""Helpers for tests of decisions and owners: readings, decisions on complete input, takeovers, and the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from monitor.kafka.connections import KafkaConnections
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Question, Reading, Stamps
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import TRANSACTIONAL_ID_PREFIX
from monitor.ledger.ledger_state import LedgerState
from monitor.ledger.read_ledger import read_partition
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SystemEntropy
from monitor.privacy.over_time import Mark
from monitor.records.output_records import LEDGER, OWNER, OutputRecord
from monitor.records.signed_notes import Signer
from monitor.ticks.collect_answers import Decider, Decision
from monitor.ticks.owner import LedgerTopic, Owner, OwnerRecords
from monitor.ticks.takeover import Check, take_over
from monitor.time.clock import Clock, SteppedClock
from tests.builders import build_counts, build_since

ONE = Fraction(1)


def value_of(record: OutputRecord) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(record.value)
    return read


def statuses(decision: Decision) -> dict[str, str]:
    return {record.key.decode(): value_of(record)["status"] for record in decision.records}


def list_keys(decision: Decision) -> list[str]:
    return [record.key.decode() for record in decision.records]


def read(
    questions: Mapping[int, Question],
    people: int | Mapping[int, int] = 0,
    present: Sequence[int] | None = None,
    stamped: int = 10**6,
    **known: int,
) -> dict[int, Reading]:
    """Return readings: `people` at every watched row (or by row), `present` at every designated time.

    All people at a designated time were reported in the slot `stamped`.
    """
    at_time = np.array(present if present is not None else [0, 0, 0])

    def count(row: int) -> int:
        return people if isinstance(people, int) else people.get(row, 0)

    places = np.repeat(np.arange(at_time.size), at_time)
    given: dict[str, Any] = {
        "complete_from": COMPLETE_FROM_START,
        "evicted_before": COMPLETE_FROM_START,
        "times_evicted_until": NEVER,
        "time": 0,
    } | known
    return {
        shard: Reading(
            progress={0: 1},
            counts=build_counts(question, count),
            since=build_since(question, count),
            present=dict.fromkeys(question.times, at_time),
            stamps=dict.fromkeys(question.times, Stamps(places, np.full(places.size, stamped))),
            **given,
        )
        for shard, question in questions.items()
    }


def decide_complete(decider: Decider, tick: int, state: LedgerState, people: Any = 0, **known: Any) -> Decision:
    """Decide a tick with complete readings of all shards."""
    readings = read(decider.build_questions(tick, state), people, **known)
    return decider.decide(tick, Evidence(readings), state)


def make_mark(tick: int, mark_lifetime: int, epsilon: Fraction = ONE) -> Mark:
    return Mark(tick, 9, epsilon, tick + mark_lifetime - 1)


def accept(_partition: int, _state: LedgerState) -> None:
    """Check nothing at the end of a takeover."""


def own(
    connections: KafkaConnections,
    ledger: LedgerTopic,
    partition: int,
    parameters: Parameters,
    clock: Clock,
    *,
    noise: Noise | None = None,
    check: Check = accept,
    now: Callable[[], int] | None = None,
    signer: Signer | None = None,
) -> Owner:
    """Take a partition over. `now`: the clock of owner records (default: `clock`)."""
    records = OwnerRecords(ledger, parameters, now or clock.now)
    return take_over(connections, partition, records, noise or OneSidedNoise(SystemEntropy()), clock, check, signer)


def decide(owner: Owner, tick: int, people: int | Mapping[int, int] = 0) -> Sequence[OutputRecord]:
    """Decide a tick on complete input with `people` people at every place (or by row)."""
    return publish(owner, tick, read(owner.decider.build_questions(tick, owner.state), people)).records


@contextmanager
def leave_open(
    connections: KafkaConnections, topic: str, topic_id: str, records: Sequence[OutputRecord]
) -> Iterator[Any]:
    """Fence the writer of partition 0, and send records in a transaction that stays open, as if killed meanwhile."""
    producer = connections.create_producer(transactional_id=f"{TRANSACTIONAL_ID_PREFIX}{topic_id}-0")
    try:
        producer.init_transactions()
        producer.begin_transaction()
        sent = [
            producer.send(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=0,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        producer.flush()
        for future in sent:
            future.get(timeout=10)
        yield producer
    finally:
        producer.close(timeout=0)


def publish(owner: Owner, tick: int, readings: Mapping[int, Reading]) -> Decision:
    """Decide a tick on these readings, and append its answers."""
    decision = owner.decide(tick, Evidence(readings))
    owner.append(tick, decision)
    return decision


def ledger(connections: KafkaConnections, place: LedgerTopic, partition: int = 0) -> list[OutputRecord]:
    return [record for _offset, record in read_partition(connections, place.topic, partition)]


def list_kinds(records: list[OutputRecord]) -> list[str]:
    """Return each record's kind; answers by their tick."""
    named = {OWNER.encode(): "owner", LEDGER.encode(): "ledger"}
    return [named.get(dict(record.headers)["ce_type"]) or str(json.loads(record.value)["tick"]) for record in records]


def read_owner_values(records: list[OutputRecord]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records if record.key == b"owner"]


def at(clock: SteppedClock, parameters: Parameters, slot: int) -> None:
    """Step the clock into the middle of a slot."""
    clock.move_to(parameters.grid.start(slot) + parameters.grid.length // 2)
