"""Helpers for tests of owners: decide ticks, and read the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from monitor.kafka.connections import KafkaConnections
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Reading
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import TRANSACTIONAL_ID_PREFIX
from monitor.ledger.ledger_state import LedgerState
from monitor.ledger.read_ledger import read_partition
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SystemEntropy
from monitor.records.output_records import LEDGER, OWNER, OutputRecord
from monitor.records.signed_notes import Signer
from monitor.ticks.collect_answers import Decision
from monitor.ticks.owner import LedgerTopic, Owner, OwnerRecords
from monitor.ticks.takeover import Check, take_over
from monitor.time.clock import Clock, SteppedClock
from tests.builders import build_counts


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


def decide(owner: Owner, tick: int, people: int = 0) -> Sequence[OutputRecord]:
    """Decide a tick on complete input with `people` people at every place."""
    readings = {
        shard: Reading(
            {}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, build_counts(question, lambda _: people), {}
        )
        for shard, question in owner.decider.build_questions(tick, owner.state).items()
    }
    return publish(owner, tick, readings).records


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
