"""The reader and unreadable batches, and records full of junk, on a real Kafka and Valkey.

See `tests.ingest.world`.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing

import pytest
import snappy
import zstandard

from monitor.errors import UnreachableError
from monitor.ingest.accept_visits import accept
from monitor.ingest.dead_letters import SINGLE, DeadLetterTopic
from monitor.ingest.decode_visits import decode_records
from monitor.kafka.kafka_python_3_0.batches import LOG_END, Unreadable
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START
from monitor.kinds.parameters import Parameters
from monitor.records.dead_letter_record import DeadLetterHeaders
from monitor.store.hash_persons import PersonHasher
from monitor.store.keys import Keys
from tests.conftest import Eventually
from tests.ingest import crafted
from tests.ingest.crafted import SNAPPY, ZSTD
from tests.ingest.world import FINGERPRINT, NOW_SLOT, Damage, Drain, World, persons
from tests.kit.topics import create_topic, read_topic
from tests.shared_kafka import SharedKafka

JUNK = 90_000
BOMB = zstandard.compress(crafted.records([bytes(1_000_000)] * 80))


@pytest.fixture
def world(world: World) -> World:
    """A world with its topic."""
    world.create()
    return world


def put_batch(world: World, body: bytes, count: int, codec: int, slot: int = NOW_SLOT) -> int:
    """Send a batch stamped in a slot, and return the offset of its first record."""
    stamp = world.parameters.grid.start(slot) // 1_000
    return crafted.produce(world.connections, world.topic, crafted.batch(body, count, codec, stamp))


@pytest.mark.promise(25)
def test_contradicting_batch(world: World, drain: Drain) -> None:
    """The unreadable rest of a batch is one dead letter, and all else counts.

    Java's consumer stops at the second record too.
    """
    world.put(persons(2, "before"))
    visits = [world.visit(f"batch-{number}") for number in range(3)]
    body = crafted.record(visits[0]) + crafted.record(visits[1], 1, off=1) + crafted.record(visits[2], 2)
    put_batch(world, zstandard.compress(body), 3, ZSTD)
    world.put(persons(2, "after"))
    drain(world, world.reader())
    assert world.count("inn", NOW_SLOT) == 5
    (letter,) = world.dead.letters
    assert (letter.offset, letter.refusal.reason, letter.refusal.count) == (3, "unreadable_batch", 2)
    assert letter.refusal.error == (
        "batch: expected a readable batch: one of its records has the wrong length; 2 records from offset 3 to 4"
    )
    assert world.complete_from() == {COMPLETE_FROM_START}
    assert +world.seen.fates == {"applied": 5, "dead_letter": 2}
    assert +world.seen.reasons == {"unreadable_batch": 2}
    assert "log_lost_records" not in world.seen.recoveries


@pytest.mark.promise(25)
@pytest.mark.parametrize("slot", [NOW_SLOT, NOW_SLOT - 3])
def test_batch_lost_unread(world: World, drain: Drain, slot: int, caplog: pytest.LogCaptureFixture) -> None:
    """A batch lost unread leaves counts incomplete.

    Stamped in slot c, its visits end by c + F, so facts are complete from c + F + 1.
    """
    world.put(persons(2, "before"))
    put_batch(world, BOMB, 80, ZSTD, slot)
    world.put(persons(3, "after"))
    drain(world, world.reader())
    assert world.complete_from() == {slot + world.parameters.max_lead + 1}
    assert world.count("inn", NOW_SLOT) == 5
    assert world.windows.read_progress() == [{0: 85}] * 4
    letter = world.dead.letters[-1]
    assert letter.refusal.reason == "unreadable_batch"
    assert letter.refusal.error.endswith(
        f"{letter.refusal.count} records from offset {letter.offset} to 81; counted as lost unread"
    )
    assert letter.offset + letter.refusal.count == 82
    assert world.seen.fates["dead_letter"] == 80
    assert world.seen.recoveries["log_lost_records"] == 1
    assert any(record.levelname == "ERROR" and "lost unread" in record.getMessage() for record in caplog.records)


@pytest.mark.promise(25)
def test_damaged_batch_is_lost(world: World, kafka: SharedKafka, drain: Drain) -> None:
    """A damaged batch is lost as of now, because its timestamp cannot be trusted; later batches are read."""
    put_batch(world, crafted.records([world.visit("harmed")]), 1, crafted.NONE, 30)
    world.put(persons(3, "after"))
    Damage(kafka, world.topic, b"harmed").flip()
    drain(world, world.reader())
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.count("inn", NOW_SLOT) == 3
    assert [(letter.offset, letter.refusal.reason) for letter in world.dead.letters] == [(0, "unreadable_batch")]


def test_unknown_end_loses_the_log(world: World, drain: Drain) -> None:
    """If the end of unreadable data is unknown, the whole log is lost as of now; later records are read."""
    world.put(persons(3, "before"))
    reader = world.reader()
    drain(world, reader)
    world.put(persons(2, "unread"), slot=30)
    world.source.park()
    world.source.unread[0] = Unreadable(3, LOG_END, 1, None, "invented", b"", lost=True)
    drain(world, reader)
    world.put(persons(1, "after"))
    drain(world, reader)
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.windows.read_progress() == [{0: 6}] * 4
    assert world.count("inn", 0) == 4


@pytest.mark.promise(26)
def test_loss_is_reported_before_skipping(world: World, eventually: Eventually, drain: Drain) -> None:
    """No shard passes a lost batch before its dead letter is durable and its facts are marked incomplete."""
    put_batch(world, BOMB, 80, ZSTD)
    world.put(persons(1, "after"))
    reader = world.reader()
    world.dead.refuses = 10**9
    failures = 0

    def failed() -> bool:
        nonlocal failures
        try:
            reader.step(50)
        except UnreachableError:
            failures += 1
        return failures >= 3

    eventually(failed, 30)
    assert all(shard.get(0, 0) < 80 for shard in world.windows.read_progress())
    assert "log_lost_records" not in world.seen.recoveries
    world.dead.refuses = 0
    drain(world, reader)
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.count("inn", NOW_SLOT) == 1


@pytest.mark.promise(25)
def test_lagging_shard_reads_before_loss(world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that lost six visits reads them before the lost batch is skipped.

    Otherwise the visits would be missing unnoticed.
    """
    monkeypatch.setattr("monitor.ingest.reading_thread.CHECK_SECONDS", 3_600.0)
    world.put(persons(6, "before"), "駅")
    reader = world.reader()
    drain(world, reader)
    row = world.parameters.registry.rows["駅"]
    shard = int(world.parameters.registry.shard[row])
    world.raw.zremrangebyscore(Keys(world.parameters.name, FINGERPRINT).window(shard, row), "-inf", "(+inf")
    world.raw.hset(world.meta(shard), "p0", 0)
    assert world.count("駅", NOW_SLOT) == 0
    put_batch(world, BOMB, 80, ZSTD, NOW_SLOT - 8)
    drain(world, reader)
    assert world.count("駅", NOW_SLOT) == 6
    assert world.windows.read_progress() == [{0: 86}] * 4
    assert world.complete_from() == {NOW_SLOT - 8 + world.parameters.max_lead + 1}


@pytest.mark.promise(26)
def test_dead_letters_of_several_visits(world: World, drain: Drain) -> None:
    """A record of junk has 100 dead letters and one for the rest, which contains their number and is truncated.

    The good visit among them counts, and fates add up.
    """
    name = f"{world.topic}.dead"
    create_topic(world.connections, name, configs={"max.message.bytes": "65536"})
    visits = [*[1] * (JUNK // 2), json.loads(world.visit("good")), *[1] * (JUNK // 2)]
    put_batch(world, snappy.compress(crafted.records([json.dumps({"visits": visits}).encode()])), 1, SNAPPY)
    put_batch(world, BOMB, 80, ZSTD)
    with closing(DeadLetterTopic(world.connections, name, world.topic, 65_536)) as writer:
        drain(world, world.reader(writer))
    records = read_topic(world.connections.bootstrap_servers, name)
    letters = [{key: value.decode() for key, value in record.headers} for record in records]
    for letter in letters:
        DeadLetterHeaders.model_validate(letter)
    counts = Counter(letter["reason"] for letter in letters)
    assert counts["not_a_visit"] == SINGLE
    (others,) = [letter for letter in letters if letter["reason"] == "others_refused"]
    assert (others["index"], others["count"], others["truncated"]) == (str(SINGLE), str(JUNK - SINGLE), "true")
    (batch,) = [letter for letter in letters if letter["reason"] == "unreadable_batch"]
    assert (batch["index"], int(batch["offset"]) + int(batch["count"])) == ("-", 81)
    assert world.count("inn", NOW_SLOT) == 1
    assert world.seen.fates.total() == 1 + JUNK + 80
    assert (world.seen.fates["applied"], world.seen.reasons["not_a_visit"]) == (1, JUNK)
    assert others["error"] == (
        f"visits: expected valid visits; refused besides {SINGLE} others of this record: {JUNK - SINGLE} not_a_visit"
    )


@pytest.mark.promise(26)
def test_refused_visits_have_one_fate(parameters: Parameters) -> None:
    """Each refused visit has one fate, for every kind of fault: two dead letters cover the visits without their own."""
    good = {"person_id": "p", "location_id": "inn", "arrived_at": "2026-11-20T12:00:00Z"}
    kinds = [
        17,
        {},
        {**good, "person_id": ""},
        {**good, "arrived_at": "noon"},
        {**good, "left_at": "2026-11-20T11:00:00Z"},
        {**good, "location_id": "attic"},
        {**good, "arrived_at": "2027-11-20T12:00:00Z"},
        good,
    ]
    value = json.dumps({"visits": kinds * 300}).encode()
    columns = decode_records(parameters, [value, value])
    slot = parameters.grid.find_slot(int(columns.arrived[0]))
    accepted = accept(parameters, PersonHasher(b"0123456789abcdef"), columns, columns.record[:2] * 0 + slot)
    counts = Counter[str]()
    for refusal in accepted.refused:
        counts.update({reason.value: count for reason, count in (refusal.several or {refusal.reason: 1}).items()})
    assert counts == {
        "not_a_visit": 1_200,
        "bad_id": 600,
        "bad_time": 600,
        "left_before_arrived": 600,
        "unknown_location": 600,
        "too_far_ahead": 600,
    }
    assert len(accepted.refused) == 4 * (SINGLE + 1)
    places = [(refusal.record, refusal.index) for refusal in accepted.refused]
    assert places == sorted(set(places))
    assert columns.record.size == 3 * 600
