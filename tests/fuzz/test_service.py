"""Generated records through the running service, on a real Kafka and Valkey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pytest

from monitor.audit import audit_topics
from monitor.audit.live.topic_facts import KafkaTopics
from monitor.audit.topic_reader import Sources
from monitor.ingest.accept_visits import Accepted, accept
from monitor.ingest.decode_visits import decode_records
from monitor.kinds.facts_and_questions import Question
from monitor.observe.prometheus_metric import PREFIX
from monitor.operate.replay.driver import Replay, prepare_empty
from monitor.operate.servers import EmbeddedValkey
from monitor.service.wiring import Settings
from monitor.time.clock import SteppedClock
from tests.fuzz.records import SLOT, WATCHED, GeneratedRecord, RecordGenerator, Seeds
from tests.kit.topics import open_input, read_header, read_topic
from tests.kit.town import Town
from tests.shared_kafka import SharedKafka
from tests.store.packed import list_seen

pytestmark = pytest.mark.long

RECORDS = 4_000
PARTITIONS = 2

Place = tuple[int, int]


def produce(settings: Settings, records: list[GeneratedRecord]) -> dict[Place, GeneratedRecord]:
    """Send all records in a slot's first minute, to the partitions in turns; return each record by its position."""
    stamp = settings.parameters.grid.start(SLOT) // 1_000
    topic = settings.config.kafka.topics.visits
    with closing(settings.kafka.create_producer(linger_ms=5)) as producer:
        sent = [
            producer.send(topic, key=b"k", value=record.value, partition=n % PARTITIONS, timestamp_ms=stamp)
            for n, record in enumerate(records)
        ]
        producer.flush(timeout=30)
        places = [(future.get(timeout=1).partition, future.get(timeout=1).offset) for future in sent]
    return dict(zip(places, records, strict=True))


def count_dead_letters(settings: Settings) -> Counter[tuple[str, ...]]:
    """Count (partition, offset, index, reason) over the records of the dead-letter topic."""
    letters: Counter[tuple[str, ...]] = Counter()
    for record in read_topic(settings.kafka.bootstrap_servers, settings.config.kafka.topics.dead_letters):
        letters[tuple(read_header(record, name) for name in ("partition", "offset", "index", "reason"))] += 1
    return letters


def count_expected_letters(placed: dict[Place, GeneratedRecord], accepted: Accepted) -> Counter[tuple[str, ...]]:
    """Return the same counts from the records in memory; the index of a whole record is -."""
    places = list(placed)
    return Counter(
        (
            *map(str, places[refusal.record]),
            "-" if refusal.index is None else str(refusal.index),
            refusal.reason.value,
        )
        for refusal in accepted.refused
    )


def read_counts(run: Replay, settings: Settings) -> dict[str, int]:
    """Return the distinct people in the window that ends with the slot, by watched location, from the store."""
    registry, first = settings.parameters.registry, SLOT - settings.parameters.widest_window + 1
    of_location = {}
    for location in WATCHED:
        row = registry.rows[location]
        shard = int(registry.shard[row])
        of_location[location] = run.store.read({shard: Question(((first, [row]),))})[shard].counts[0][0]
    return of_location


def count_people(settings: Settings, accepted: Accepted) -> dict[str, int]:
    """Return the same counts from the records in memory."""
    people_at: dict[str, set[Any]] = {location: set() for location in WATCHED}
    for fact in list_seen(accepted.facts):
        if fact.last > SLOT - 6:
            people_at[settings.parameters.registry.ids[fact.row]].add(fact.person)
    return {location: len(persons) for location, persons in people_at.items()}


@pytest.mark.promise(25, 26)
def test_service_survives_strange_records(
    make_town: Callable[[str, str, str], Town],
    kafka: SharedKafka,
    valkey: EmbeddedValkey,
    topic: Callable[[str], str],
    seeds: Seeds,
) -> None:
    """
    Fates add up, each dead letter is in its topic once with its position, and all planted people are counted.

    What the audit, which shares no code with the service, finds in the topics is the same.
    """
    town = make_town(topic("fuzz"), kafka.bootstrap_servers, valkey.url)
    settings = town.settings
    records = list(RecordGenerator(seeds, 2).records(RECORDS))
    clock = SteppedClock(settings.parameters.grid.start(SLOT))
    preflight = prepare_empty(settings, clock)
    placed = produce(settings, records)
    with Replay(settings, preflight, clock) as run:
        answers = [*run.run_tick(SLOT), *run.run_tick(SLOT + 1)]
        fates = run.summarize(2, 0.0).visits
        value = run.metrics.registry.get_sample_value
        counted, read = read_counts(run, settings), value(f"{PREFIX}_records_total")
    columns = decode_records(settings.parameters, [record.value for record in placed.values()])
    accepted = accept(settings.parameters, settings.hasher, columns, np.full(RECORDS, SLOT, np.int64))
    expected = [record.expected() for record in records]
    kept = Counter(location for one in expected for location, _person in one.kept)
    letters = count_dead_letters(settings)
    topics = settings.config.kafka.topics
    with closing(KafkaTopics(settings.kafka.create_admin)) as facts:
        consumer, visits = settings.kafka.create_consumer, partial(open_input, settings.kafka)
        sources = Sources(topics.alerts, consumer, facts.read_topic_id, facts.log_ends, topics.visits, visits)
        audited = audit_topics([town.config], sources)
    print(f"{RECORDS} records: {fates}; {letters.total()} dead letters; counted {counted}, planted {dict(kept)}")
    assert read == RECORDS
    assert sum(fates.values()) == sum(one.fates for one in expected)
    assert fates == accepted.fates
    assert letters == count_expected_letters(placed, accepted)
    assert letters.total() == fates["dead_letter"]
    assert counted == count_people(settings, accepted)
    assert all(counted[location] >= kept[location] > 0 for location in WATCHED)
    assert audited.ok, audited.violations
    assert audited.fates == fates
    assert audited.ticks == 2
    assert audited.noisy > 0
    assert audited.safe > 0
    assert b'"unknown"' not in b"".join(record.value for record in answers)
