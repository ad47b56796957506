"""The reader on a real Kafka and a real Valkey: where it begins, what it passes, and that nothing is lost or skipped.

The world: slots of one hour, F = 1; windows of 3 slots at inn and bath, of 8 at bath and 駅; a horizon of 24 slots. The
clock stands in slot 45, so that facts are asked about from slot 45 - (24 + 2) = 19 on, and what was reported from slot
19 - F = 18 on is read.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol

import pytest
import redis
from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import LogTruncationError

from monitor.brokers.connections import KafkaConnections
from monitor.errors import UnreachableError
from monitor.ingest import reader as reader_module
from monitor.ingest.dead_letters import DeadLetterTopic
from monitor.ingest.ports import DeadLetter, DeadLetters
from monitor.ingest.reader import Reader, run_reader
from monitor.ingest.source import InputLog
from monitor.public.instants import HOUR, MINUTE, format_instant
from monitor.public.parameters import Parameters
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from monitor.windows.facts import COMPLETE_FROM_START, Question, Reading
from monitor.windows.hashing import PersonHasher
from monitor.windows.keys import Keys
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows

NOW_SLOT = 45
SINCE = 19
FINGERPRINT = "0123456789abcdef"


class Eventually(Protocol):
    """The type of the fixture `eventually`."""

    def __call__(self, condition: Callable[[], Any], deadline_seconds: float = 10.0) -> Any:
        """The condition's first true value."""


class RealClock:
    """A clock that stands still and claims to be the servers' own."""

    simulated = False

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def set(self, now: int) -> None:
        self._now = now

    def wait_until(self, instant: int, wake: threading.Event) -> bool:
        return self._now >= instant or wake.is_set()


class Dated(RedisWindows):
    """Windows in Redis whose clock is one of the test's: `clock`, which may differ from the reader's."""

    clock: RealClock

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        return {shard: replace(reading, time=self.clock.now()) for shard, reading in super().read(questions).items()}

    def time(self, shards: Collection[int] = (0,)) -> int:  # noqa: ARG002  # all shards have one clock here
        return self.clock.now()


@dataclass
class Seen:
    """What a reader told its observer; in several threads at once it only ever adds."""

    records: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    recoveries: Counter[str] = field(default_factory=Counter)
    lags: dict[int, int] = field(default_factory=dict)

    def batch(self, records: int, fates: Mapping[str, int], reasons: Mapping[str, int], seconds: float) -> None:
        assert seconds > 0
        self.records += records
        self.fates.update(fates)
        self.reasons.update(reasons)

    def lag(self, records: Mapping[int, int]) -> None:
        self.lags = dict(records)

    def several_places(self, people: int) -> None:
        assert people >= 0

    def recovery(self, cause: str) -> None:
        self.recoveries[cause] += 1


class Kept:
    """Dead letters kept in memory; `refuses` makes the next writes fail."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.refuses = 0

    def put(self, letters: Sequence[DeadLetter]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise UnreachableError("dead letters cannot be written now")
        self.letters += letters


class World:
    """An input topic of its own, a store, and readers over them."""

    def __init__(self, kafka: EmbeddedKafka, store: EmbeddedValkey, parameters: Parameters, topic: str) -> None:
        self.connections = KafkaConnections((kafka.bootstrap_servers,), session_timeout_ms=2_000)
        self.store = store
        self.parameters = replace(parameters, name=topic)
        self.topic = topic
        self.clock = RealClock(parameters.grid.start(NOW_SLOT) + 30 * MINUTE)
        self.raw = redis.Redis.from_url(store.url)
        self.seen, self.dead = Seen(), Kept()
        self._open: list[Any] = []
        self._names = count()
        self._stores: list[Dated] = []
        self.windows = self.windows_of(FINGERPRINT)
        self.producer = self.connections.producer()

    def create(self, partitions: int = 1) -> None:
        configs = {"message.timestamp.before.max.ms": str(2**63 - 1), "message.timestamp.after.max.ms": str(2**63 - 1)}
        configs["retention.ms"] = "-1"
        with closing(self.connections.admin()) as admin:
            made = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
            admin.create_topics({self.topic: made}, wait_for_metadata=True)

    def put(self, persons: Iterable[str], location: str = "inn", slot: int = NOW_SLOT, partition: int = 0) -> None:
        """Produce a record of one visit for each person, visited and reported in a slot."""
        stamp = self.parameters.grid.start(slot) // 1_000
        for person in persons:
            value = self.visit(person, location, slot)
            self.producer.send(self.topic, value=value, partition=partition, timestamp_ms=stamp)
        self.producer.flush()

    def visit(self, person: str, location: str = "inn", slot: int = NOW_SLOT) -> bytes:
        start = self.parameters.grid.start(slot)
        times = {"arrived_at": format_instant(start), "left_at": format_instant(start + 10 * MINUTE)}
        return json.dumps({"person_id": person, "location_id": location, **times}).encode()

    def put_raw(self, value: bytes | None, slot: int = NOW_SLOT, partition: int = 0) -> None:
        stamp = self.parameters.grid.start(slot) // 1_000
        self.producer.send(self.topic, value=value, partition=partition, timestamp_ms=stamp, key=b"k").get(timeout=10)

    def reader(self, dead: DeadLetters | None = None, mark: str = FINGERPRINT) -> Reader:
        """A new member of the input group of a configuration with a fingerprint, which fills facts of its own."""
        group = self.topic if mark == FINGERPRINT else f"{self.topic}-{mark}"
        source = InputLog(self.connections, self.topic, group, self.topic)
        hasher = PersonHasher(b"0123456789abcdef")
        windows = self.windows if mark == FINGERPRINT else self.windows_of(mark)
        made = Reader(self.parameters, source, windows, hasher, dead or self.dead, self.seen, self.clock)
        self._open.append(made)
        return made

    def windows_of(self, mark: str) -> Dated:
        """The facts under a fingerprint."""
        made = Dated(self.parameters, mark, redis_client(RedisAddress(self.store.url)))
        made.clock = self.clock
        self._stores.append(made)
        return made

    def empty_store(self) -> None:
        """All facts are gone, and all progress, of every fingerprint."""
        self.raw.flushall()

    @contextmanager
    def running(self, waiting: Callable[[str], None] = lambda _reason: None) -> Iterator[Reader]:
        """A new member of the group, turned by a thread of its own."""
        reader, stop = self.reader(), threading.Event()
        self._open.remove(reader)
        thread = threading.Thread(target=run_reader, args=(reader, stop, waiting))
        thread.start()
        try:
            yield reader
        finally:
            stop.set()
            thread.join(30)

    def close_reader(self, reader: Reader) -> None:
        self._open.remove(reader)
        reader.close()

    def ends(self) -> dict[int, int]:
        """The high watermarks."""
        with closing(self.connections.consumer()) as consumer:
            places = [TopicPartition(self.topic, p) for p in sorted(consumer.partitions_for_topic(self.topic))]
            return {place.partition: end for place, end in consumer.end_offsets(places).items()}

    def delete_below(self, offset: int) -> None:
        with closing(self.connections.admin()) as admin:
            admin.delete_records({TopicPartition(self.topic, 0): offset})

    def is_read(self) -> bool:
        """Whether every shard's progress has reached the end of every partition."""
        ends = self.ends()
        return all(shard.get(p, -1) >= end for shard in self.windows.progress() for p, end in ends.items())

    def count(self, location: str, first_slot: int) -> int:
        """Distinct people whose last slot at a location is at or after a slot."""
        row = self.parameters.registry.rows[location]
        shard = int(self.parameters.registry.shard[row])
        return int(self.windows.read({shard: Question(((row, first_slot),))})[shard].counts[row, first_slot])

    def complete_from(self) -> set[int]:
        """The slots from which the shards' facts are whole."""
        shards = range(self.parameters.registry.shards)
        return {
            reading.complete_from for reading in self.windows.read({shard: Question() for shard in shards}).values()
        }

    def meta(self, shard: int) -> str:
        return Keys(self.parameters.name, FINGERPRINT).meta(shard)

    def close(self) -> None:
        for reader in self._open:
            reader.close()
        self.producer.close()
        for windows in self._stores:
            windows.close()
        self.raw.close()


@pytest.fixture(scope="module")
def store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A server that tests may flush and kill; asking for the shared one first skips them where there is none."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def world(
    kafka: EmbeddedKafka, store: EmbeddedValkey, parameters: Parameters, topic: Callable[[str], str]
) -> Iterator[World]:
    made = World(kafka, store, parameters, topic("visits"))
    yield made
    made.close()


@pytest.fixture
def drain(eventually: Eventually) -> Callable[..., None]:
    """Turns readers in turns, pausing where they do, until everything is read."""

    def turn(world: World, *readers: Reader) -> bool:
        busy = False
        for reader in readers:
            try:
                busy |= reader.step(20)
            except UnreachableError:
                busy = True
        return not busy and world.is_read()

    return lambda world, *readers: eventually(lambda: turn(world, *readers), 20)


Drain = Callable[..., None]


def persons(number: int, prefix: str = "p") -> list[str]:
    return [f"{prefix}-{n}" for n in range(number)]


def test_a_log_that_begins_at_zero_is_read_whole_and_facts_are_whole_since_ever(world: World, drain: Drain) -> None:
    #   slot   40    44 45
    #   inn    aaa      bb      counts from slot 43: b, from slot 40: a and b
    world.create()
    world.put(persons(3, "a"), slot=40)
    world.put(persons(2, "b"), slot=45)
    drain(world, world.reader())
    assert world.count("inn", 43) == 2
    assert world.complete_from() == {COMPLETE_FROM_START}
    assert world.seen.recoveries == {"no_progress": 1}
    assert +world.seen.fates == {"applied": 5}


def test_without_progress_it_begins_f_slots_before_the_lookback_and_says_since_when_facts_are_whole(
    world: World, drain: Drain
) -> None:
    #   slot   5  6 … 17 | 18   19 …   45
    #   bath   xxxxxxxxx | read since
    world.create()
    world.put(persons(4, "old"), "bath", slot=5)
    world.put(persons(3, "early"), "bath", slot=17)
    world.put(persons(2, "reported"), "bath", slot=18)
    world.put(persons(1, "late"), "bath", slot=44)
    drain(world, world.reader())
    assert world.complete_from() == {SINCE}
    assert world.seen.records == 3
    assert world.windows.progress() == [{0: 10}] * 4


def test_without_progress_and_nothing_recent_it_begins_at_the_end(world: World, drain: Drain) -> None:
    world.create()
    world.put(persons(4), slot=2)
    drain(world, world.reader())
    assert world.seen.records == 0
    assert world.complete_from() == {SINCE}


def test_it_begins_at_the_lowest_progress_of_the_shards_whatever_kafka_was_told(world: World, drain: Drain) -> None:
    """Shard 2 was rolled back: its facts from offset 3 on are read again, the others' are not harmed."""
    world.create()
    world.put(persons(6), "駅")
    first = world.reader()
    drain(world, first)
    world.close_reader(first)
    assert committed(world) == {0: 6}
    before = world.count("駅", NOW_SLOT)
    world.raw.hset(world.meta(2), "p0", 3)
    world.seen.records = 0
    drain(world, world.reader())
    assert world.seen.records == 3
    assert world.count("駅", NOW_SLOT) == before == 6


def committed(world: World) -> dict[int, int]:
    with closing(world.connections.admin()) as admin:
        found = admin.list_group_offsets({world.topic: None})[world.topic]
    return {place.partition: place_offset.offset for place, place_offset in found.items()}


def test_records_that_expired_before_they_were_read_are_older_than_any_question(world: World, drain: Drain) -> None:
    """
    The log still holds a record of before all that may be asked about (since - F), so what is gone is older still.

        slot      1  2  3  .  .  19 = since  .  .  45 = now
        log      (aaa bbb)cc                       d
        progress     ^
    """
    world.create()
    world.put(persons(3, "a"), slot=1)
    first = world.reader()
    drain(world, first)
    world.close_reader(first)
    world.put(persons(3, "b"), slot=2)
    world.put(persons(2, "c"), slot=3)
    world.put(persons(1, "d"))
    world.delete_below(6)
    world.seen.records = 0
    drain(world, world.reader())
    assert world.seen.recoveries["behind_the_log"] == 1
    assert world.seen.records == 3  # c was never read: nothing counts it, and it has its fate all the same
    assert world.complete_from() == {SINCE}
    assert world.windows.progress() == [{0: 9}] * 4


@pytest.mark.parametrize("fast", [0, HOUR, -HOUR], ids=["right", "an hour fast", "an hour slow"])
def test_records_that_are_gone_unread_and_may_be_asked_about_make_counts_whole_only_later(
    world: World, drain: Drain, fast: int
) -> None:
    """Somebody deleted recent records: what they said may lie up to F slots ahead of now, by the store's clock.

    By a reader's own clock that is slow, counts would be claimed whole while they may still lack a visit.
    """
    world.clock = RealClock(world.clock.now() + fast)
    world.create()
    world.put(persons(3, "a"))
    first = world.reader()
    drain(world, first)
    world.close_reader(first)
    world.put(persons(4, "b"))
    world.delete_below(5)
    world.seen.records = 0
    drain(world, world.reader())
    assert world.seen.recoveries["log_lost_records"] == 1
    assert world.seen.records == 2
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.windows.progress() == [{0: 7}] * 4


@pytest.mark.parametrize(("before_slot_41", "whole_from"), [(1_001, 41), (1_000, 42), (1, 42), (0, 42)])
def test_what_is_gone_may_have_been_stamped_later_than_the_first_record_left_by_as_much_as_clocks_differ(
    world: World, drain: Drain, before_slot_41: int, whole_from: int
) -> None:
    """
    Leaders changed, and the one before had a clock that was ahead by the tolerance of 1 s, or less.

        slot      40 |41             stamps; x is gone, "first" is left
                  x first
                 first|x             within the tolerance: x may have been stamped in slot 41, and lie F ahead of it
    """
    world.create()
    stamp = world.parameters.grid.start(41) // 1_000 - before_slot_41
    for person in ("gone", "first"):
        world.producer.send(world.topic, value=world.visit(person), partition=0, timestamp_ms=stamp).get(timeout=10)
    world.delete_below(1)
    drain(world, world.reader())
    assert world.complete_from() == {whole_from + world.parameters.max_lead}


def test_a_log_whose_start_passes_the_reader_while_it_runs_is_read_on_from_there(
    world: World, drain: Drain, eventually: Eventually
) -> None:
    world.create()
    world.put(persons(1, "a"))
    reader = world.reader()
    drain(world, reader)
    world.put(persons(1_000, "b"))
    world.delete_below(900)
    drain(world, reader)
    assert world.windows.progress() == [{0: 1_001}] * 4
    assert world.count("inn", NOW_SLOT) >= 102


def test_progress_beyond_the_logs_end_means_that_visits_are_lost_so_counts_are_whole_only_later(
    world: World, drain: Drain, eventually: Eventually
) -> None:
    """What was lost may lie up to F slots ahead of now, so facts are whole from slot 45 + F + 1 on."""
    world.create()
    world.put(persons(3))
    first = world.reader()
    drain(world, first)
    world.close_reader(first)
    for shard in range(4):
        world.raw.hset(world.meta(shard), "p0", 90)
    reader = world.reader()
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 1)[1])
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.windows.progress() == [{0: 3}] * 4
    world.put(persons(1, "after"))
    drain(world, reader)
    assert world.windows.progress() == [{0: 4}] * 4


def test_a_store_that_forgets_a_loss_by_failing_over_is_told_again(
    world: World, drain: Drain, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica has progress of before the loss, and `since` too; the log grows past that before anyone looks again.

    log          |--- 3 ---|  … 4 … 104
    progress     90           3 … 4   90 (failed over)   4 … 104
    since        ever         47      ever               47
    """
    monkeypatch.setattr(reader_module, "LOOK_SECONDS", 0.0)
    world.create()
    world.put(persons(3))
    first = world.reader()
    drain(world, first)
    world.close_reader(first)
    for shard in range(4):
        world.raw.hset(world.meta(shard), "p0", 90)
    reader = world.reader()
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 1)[1])
    world.put(persons(1, "after"))
    drain(world, reader)
    whole_from = {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.complete_from() == whole_from
    for shard in range(4):
        world.raw.hset(world.meta(shard), mapping={"p0": 90, "since": COMPLETE_FROM_START})
    world.put(persons(100, "more"))
    reader.step(20)
    drain(world, reader)
    assert world.complete_from() == whole_from
    assert world.windows.progress() == [{0: 104}] * 4
    assert world.count("inn", NOW_SLOT) == 104
    assert world.seen.recoveries["log_lost_records"] == 2


def test_a_loss_told_again_raises_no_shard_that_fell_back_too(
    world: World, drain: Drain, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes of a cluster fail over at once: one has progress of before the loss, the other has lost the last batch.

    log          |--- 3 ---|  … 4
    inn's shard  90           4        1   and not the facts of 1 to 4: to be read again from 1
    others       90           4        90  (failed over)
    """
    monkeypatch.setattr(reader_module, "LOOK_SECONDS", 0.0)
    world.create()
    world.put(persons(3))
    first = world.reader()
    drain(world, first)
    world.close_reader(first)
    inn = int(world.parameters.registry.shard[0])
    for shard in range(4):
        world.raw.hset(world.meta(shard), "p0", 90)
    reader = world.reader()
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 1)[1])
    world.put(persons(1, "after"))
    drain(world, reader)
    for shard in range(4):
        world.raw.hset(world.meta(shard), mapping={"p0": 1 if shard == inn else 90, "since": COMPLETE_FROM_START})
    world.raw.delete(Keys(world.parameters.name, FINGERPRINT).window(inn, 0))
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 2)[1])
    drain(world, reader)
    assert world.windows.progress() == [{0: 4}] * 4
    assert world.count("inn", NOW_SLOT) == 3  # those of the records 1, 2 and 3


@pytest.mark.parametrize(("kept", "read_from"), [(2, 2), (None, 0)])
def test_a_log_that_was_cut_below_what_was_read_makes_counts_whole_only_later(
    world: World,
    drain: Drain,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    kept: int | None,
    read_from: int,
) -> None:
    """As kafka-python tells it, by leaders' epochs: also where the log has grown beyond the progress again.

    Other partitions are read on without a hole.
    """
    world.create(2)
    world.put(persons(5, "a"))
    world.put(persons(5, "b"), partition=1)
    reader = world.reader()
    drain(world, reader)
    poll = reader._source._consumer.poll
    place = TopicPartition(world.topic, 0)

    def cut(**how: Any) -> Any:
        polled = poll(**how)
        if place.partition not in reader._source.reading or not polled:
            return polled
        monkeypatch.setattr(reader._source._consumer, "poll", poll)
        raise LogTruncationError({place: None if kept is None else OffsetAndMetadata(kept, "", 1)})

    monkeypatch.setattr(reader._source._consumer, "poll", cut)
    world.put(persons(3, "c"), partition=1)
    world.seen.records = 0
    eventually(lambda: (reader.step(50), world.seen.recoveries["log_lost_records"] == 1)[1])
    drain(world, reader)
    assert world.complete_from() == {NOW_SLOT + world.parameters.max_lead + 1}
    assert world.seen.records == 5 - read_from + 3
    assert world.windows.progress() == [{0: 5, 1: 8}] * 4
    assert world.count("inn", NOW_SLOT) == 13


def test_a_partition_that_is_added_is_read_from_its_first_record(
    world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.brokers.connections.METADATA_MAX_AGE_MS", 300)
    world.create()
    world.put(persons(2, "a"))
    reader = world.reader()
    drain(world, reader)
    with closing(world.connections.admin()) as admin:
        admin.create_partitions({world.topic: 2})
    with closing(world.connections.producer()) as fresh:
        fresh.partitions_for(world.topic)
        for person in persons(3, "b"):
            stamp = world.parameters.grid.start(NOW_SLOT) // 1_000
            fresh.send(world.topic, value=world.visit(person), partition=1, timestamp_ms=stamp).get(timeout=10)
    drain(world, reader)
    assert world.windows.progress() == [{0: 2, 1: 3}] * 4
    assert world.count("inn", NOW_SLOT) == 5
    assert world.complete_from() == {COMPLETE_FROM_START}


def test_after_a_flush_everything_is_read_again_also_where_nothing_new_comes(world: World, drain: Drain) -> None:
    world.create(2)
    world.put(persons(20, "a"), partition=0)
    world.put(persons(10, "b"), partition=1)
    reader = world.reader()
    drain(world, reader)
    world.raw.flushall()
    assert world.count("inn", NOW_SLOT) == 0
    drain(world, reader)
    assert world.count("inn", NOW_SLOT) == 30
    assert world.windows.progress() == [{0: 20, 1: 10}] * 4


def test_a_batch_that_was_read_behind_a_hole_is_refused_and_read_again_with_the_hole(
    world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partition 0's facts roll back while more of both partitions is on its way; nothing but the writes may tell."""
    monkeypatch.setattr(reader_module, "LOOK_SECONDS", 3_600.0)
    world.create(2)
    world.put(persons(5, "a"))
    reader = world.reader()
    drain(world, reader)
    world.raw.flushall()
    world.put(persons(5, "b"))
    while not reader.step(100):
        pass
    world.put(persons(5, "c"), partition=1)
    drain(world, reader)
    assert world.seen.recoveries["windows_behind"] >= 1
    assert world.count("inn", NOW_SLOT) == 15
    assert world.windows.progress() == [{0: 10, 1: 5}] * 4


def test_dead_letters_are_written_before_progress_passes_them(world: World, drain: Drain) -> None:
    world.create()
    world.put_raw(b"not json")
    world.put(persons(1))
    world.dead.refuses = 2
    reader = world.reader()
    failures = 0
    while failures < 2:
        try:
            reader.step(50)
        except UnreachableError:
            failures += 1
            assert all(shard.get(0, 0) == 0 for shard in world.windows.progress())
            assert not world.dead.letters
    drain(world, reader)
    assert [(letter.refusal.reason, letter.partition, letter.offset) for letter in world.dead.letters] == [
        ("not_json", 0, 0)
    ]
    assert world.windows.progress() == [{0: 2}] * 4


def test_offsets_are_committed_to_kafka_for_lag_tools(
    world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    monkeypatch.setattr(reader_module, "COMMIT_SECONDS", 0.05)
    world.create()
    world.put(persons(7))
    reader = world.reader()
    drain(world, reader)
    eventually(lambda: (reader.step(20), committed(world) == {0: 7})[1])
    assert world.seen.lags == {0: 0}


def test_what_is_not_yet_in_the_windows_is_not_committed(
    world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    monkeypatch.setattr(reader_module, "COMMIT_SECONDS", 0.0)
    told: list[dict[int, int]] = []
    monkeypatch.setattr(InputLog, "commit", lambda _self, offsets: told.append(dict(offsets)))
    world.create()
    reader = world.reader()
    drain(world, reader)
    world.put(persons(4))
    eventually(lambda: reader.step(100))
    assert told[-1] in ({}, {0: 0})
    drain(world, reader)
    reader.step(20)
    assert told[-1] == {0: 4}


def letters_at(world: World) -> list[int]:
    """The offsets of the dead letters, in order of writing."""
    return [letter.offset for letter in world.dead.letters]


def read_through(world: World, drain: Drain, mark: str = FINGERPRINT) -> None:
    """A configuration's reader comes, reads everything and leaves."""
    reader = world.reader(mark=mark)
    drain(Reached(world, reader), reader)
    world.close_reader(reader)


@dataclass
class Reached:
    """What `drain` asks whether all is read: by one reader's own facts."""

    world: World
    reader: Reader

    def is_read(self) -> bool:
        ends, progress = self.world.ends(), self.reader._windows.progress()
        return all(shard.get(p, -1) >= end for shard in progress for p, end in ends.items())


def test_what_nobody_has_read_has_its_fate_however_old_it_is(world: World, drain: Drain) -> None:
    """Redis is emptied while nobody reads, and what may be asked about begins behind what was read."""
    #   slot        5   6   7 … 17 | 18 19 …  45
    #   log         x x | x a x    | a             what may be asked about begins at slot 18
    #   committed       ^
    world.create()
    for _ in range(2):
        world.put_raw(b"not json", slot=5)
    world.clock.set(world.parameters.grid.start(6))
    read_through(world, drain)
    world.put_raw(b"not json", slot=6)
    world.put(persons(1), slot=6)
    world.put_raw(b"not json", slot=7)
    world.put(persons(1), slot=NOW_SLOT)
    world.clock.set(world.parameters.grid.start(NOW_SLOT))
    world.empty_store()
    read_through(world, drain)
    assert letters_at(world) == [0, 1, 2, 4]
    assert +world.seen.fates == {"dead_letter": 4, "applied": 2}
    assert world.complete_from() == {SINCE}


OTHER = "fedcba9876543210"


def test_a_new_configuration_writes_no_dead_letter_that_an_earlier_one_has_written(world: World, drain: Drain) -> None:
    """It reads a window of old records, and counts their fates; what was refused since then is written."""
    world.create()
    world.put_raw(b"not json")
    world.put(persons(2))
    read_through(world, drain)
    world.put_raw(b"not json either")
    read_through(world, drain, OTHER)
    assert letters_at(world) == [0, 3]
    assert world.seen.reasons == {"not_json": 3}
    assert world.seen.fates["applied"] == 4


def test_dead_letters_are_written_from_the_lowest_offset_on_that_any_group_has_committed(
    world: World, drain: Drain
) -> None:
    """A group that is behind has not written its own yet: twice is better than never."""
    #   first      ├ x ┤ committed: 1
    #   second     ├ x │ x ┤ committed: 2
    #   third      │   ├ x │ x ┤
    third = "00000000deadbeef"
    world.create()
    world.put_raw(b"not json")
    read_through(world, drain)
    world.put_raw(b"not json")
    read_through(world, drain, OTHER)
    world.put_raw(b"not json")
    read_through(world, drain, third)
    assert letters_at(world) == [0, 1, 1, 2]


def test_after_a_flush_dead_letters_are_not_repeated(world: World, drain: Drain) -> None:
    """What was committed tells of them."""
    world.create()
    world.put_raw(b"not json")
    read_through(world, drain)
    world.empty_store()
    world.put_raw(b"not json")
    read_through(world, drain)
    assert letters_at(world) == [0, 1]


def test_dead_letters_of_a_log_that_lost_its_end_are_written_whatever_was_committed(
    world: World, drain: Drain, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other records have the offsets then. The log was cut at 1, and has grown to 4 again before Redis is emptied."""
    world.create()
    for _ in range(4):
        world.put_raw(b"not json")
    read_through(world, drain)
    world.empty_store()
    reader = world.reader()
    drain(world, reader)
    assert letters_at(world) == [0, 1, 2, 3]
    reader._source.truncated[0] = 1
    reader._source.park()
    eventually(lambda: (reader.step(20), world.seen.recoveries["log_lost_records"] == 1)[1])
    drain(world, reader)
    assert letters_at(world) == [0, 1, 2, 3, 1, 2, 3]
    world.empty_store()
    reader._source.park()
    drain(world, reader)
    assert letters_at(world) == [0, 1, 2, 3, 1, 2, 3, 0, 1, 2, 3]


def test_aborted_and_control_records_are_passed(world: World, drain: Drain) -> None:
    """The log: 3 visits, 2 aborted ones, the abort's marker, 1 visit and the commit's marker. The barrier is 8."""
    world.create()
    world.put(persons(3, "a"))
    with closing(world.connections.producer(transactional_id=world.topic, retry_backoff_ms=5)) as producer:
        producer.init_transactions()
        stamp = world.parameters.grid.start(NOW_SLOT) // 1_000
        for label, number in (("aborted", 2), ("committed", 1)):
            producer.begin_transaction()
            for person in persons(number, label):
                producer.send(world.topic, value=world.visit(person), partition=0, timestamp_ms=stamp)
            producer.flush()
            (producer.abort_transaction if label == "aborted" else producer.commit_transaction)()
    drain(world, world.reader())
    assert world.ends() == {0: 8}
    assert world.windows.progress() == [{0: 8}] * 4
    assert world.count("inn", NOW_SLOT) == 4


def test_a_transactions_end_on_a_quiet_partition_is_passed_while_others_are_busy(
    world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for what was fetched of the others to be taken, which here is less than a twentieth of it all."""
    monkeypatch.setattr("monitor.ingest.source.PARTITION_FETCH_BYTES", 64 * 1_024)
    monkeypatch.setattr("monitor.ingest.source.RECORDS_PER_POLL", 50)
    world.create(2)
    world.put(persons(10_000, "busy"), partition=0)
    with closing(world.connections.producer(transactional_id=world.topic, retry_backoff_ms=5)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(world.topic, value=world.visit("quiet"), partition=1)
        producer.commit_transaction()
    reader = world.reader()
    while world.windows.progress()[0].get(1, 0) < 2:
        reader.step(20)
        busy = world.windows.progress()[0].get(0, 0)
        assert busy < 10_000
    drain(world, reader)


def test_readers_that_come_and_go_count_every_visit_once(world: World, eventually: Eventually) -> None:
    #   first    ├─ a ─┼─ b ─┤        both read while b comes,
    #   second         ├─ b ─┼─ c ─┤  and each must take over what the other leaves
    world.create(4)
    with world.running() as second:
        with world.running() as first:
            produce(world, "a")
            eventually(lambda: len(first._source.reading) == len(second._source.reading) == 2, 30)
            produce(world, "b")
        produce(world, "c")
        eventually(world.is_read, 30)
    assert world.count("inn", NOW_SLOT) == 600
    assert world.windows.progress() == [dict.fromkeys(range(4), 150)] * 4


def produce(world: World, label: str) -> None:
    for partition in range(4):
        world.put(persons(50, f"{label}{partition}"), partition=partition)


def test_a_store_that_dies_makes_the_reader_pause_and_go_on_when_it_is_back(
    world: World, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """Without persistence the store comes back empty: all is read again."""
    world.create()
    world.put(persons(5, "a"))
    waiting: list[str] = []
    with world.running(waiting.append):
        eventually(world.is_read, 20)
        world.store.kill()
        world.put(persons(5, "b"))
        eventually(lambda: waiting[-1].startswith("reading: Redis at 127.0.0.1:"), 20)
        world.store.restart()
        eventually(lambda: waiting[-1] == "" and world.is_read(), 20)
    assert world.count("inn", NOW_SLOT) == 10
    assert not [record for record in caplog.records if "a-0" in record.getMessage() or "b-0" in record.getMessage()]


def test_a_reader_that_is_stopped_in_a_backlog_finishes_its_batch_and_the_next_one_goes_on(
    world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    monkeypatch.setattr("monitor.ingest.source.RECORDS_PER_POLL", 20)
    world.create()
    world.put(persons(600))
    with world.running():
        eventually(lambda: world.windows.progress()[0].get(0, 0) >= 20)
    reached = world.windows.progress()[0][0]
    assert committed(world) == {0: reached}
    assert world.count("inn", NOW_SLOT) == reached
    drain(world, world.reader())
    assert world.count("inn", NOW_SLOT) == 600
    assert world.seen.fates["applied"] == 600


BAD: dict[str, tuple[bytes | None, str]] = {
    "bad UTF-8": (b'{"person_id": "\xff\xfe"}', "not_json"),
    "not JSON": (b"person,location", "not_json"),
    "deep nesting": (b"[" * 100_000, "not_json"),
    "NaN": (b'{"person_id": NaN}', "not_json"),
    "an integer of 10,000 digits": (b"9" * 10_000, "not_json"),
    "a tombstone": (None, "not_json"),
    "an empty value": (b"", "not_json"),
    "no object": (b"17", "not_a_visit"),
    "visits that are no list": (b'{"visits": 5}', "not_a_visit"),
    "no location": (b'{"person_id": "p", "arrived_at": "2026-11-20T12:00:00Z"}', "not_a_visit"),
    "a control character": (
        b'{"person_id": "a\\u0007b", "location_id": "inn", "arrived_at": "2026-11-20T12:00:00Z"}',
        "bad_id",
    ),
    "a number as an id": (b'{"person_id": 17, "location_id": "inn", "arrived_at": "2026-11-20T12:00:00Z"}', "bad_id"),
    "a huge integer as a time": (
        b'{"person_id": "p", "location_id": "inn", "arrived_at": ' + b"1" * 300 + b"}",
        "bad_time",
    ),
    "an id of 1 MB": (
        b'{"person_id": "' + b"x" * 900_000 + b'", "location_id": "inn", "arrived_at": "2026-11-20T12:00:00Z"}',
        "bad_id",
    ),
    "a naive time": (b'{"person_id": "p", "location_id": "inn", "arrived_at": "2026-11-20T12:00:00"}', "bad_time"),
    "left before arrived": (
        b'{"person_id":"p","location_id":"inn","arrived_at":"2026-11-20T12:00:00Z","left_at":"2026-11-20T11:00:00Z"}',
        "left_before_arrived",
    ),
    "an unknown location": (
        b'{"person_id": "p", "location_id": "attic", "arrived_at": "2026-11-20T12:00:00Z"}',
        "unknown_location",
    ),
    "two slots ahead": (
        b'{"person_id": "p", "location_id": "inn", "arrived_at": "2026-11-20T14:00:00Z"}',
        "too_far_ahead",
    ),
}


@pytest.fixture
def dead_topic(world: World) -> str:
    """The dead-letter topic, whose records are at most 64 KiB."""
    name = f"{world.topic}.dead"
    with closing(world.connections.admin()) as admin:
        configs = {"max.message.bytes": "65536"}
        made = {"num_partitions": 1, "replication_factor": 1, "configs": configs}
        admin.create_topics({name: made}, wait_for_metadata=True)
    return name


def read_all(world: World, topic: str) -> list[Any]:
    place = TopicPartition(topic, 0)
    with closing(world.connections.consumer()) as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        end = consumer.end_offsets([place])[place]
        found: list[Any] = []
        while consumer.position(place) < end:
            found += consumer.poll(timeout_ms=500).get(place, [])
    return found


def test_every_kind_of_bad_record_is_one_dead_letter_that_says_why_and_where_and_nothing_else_suffers(
    world: World, drain: Drain, dead_topic: str
) -> None:
    """Bad records, each between two good ones; the headers tell reason and place, and hold nothing of the record."""
    world.create()
    for number, (value, _reason) in enumerate(BAD.values()):
        world.put([f"good-{number}"])
        world.put_raw(value)
    world.put(["good-last"])
    writer = DeadLetterTopic(world.connections, dead_topic, world.topic, 65_536)
    with closing(writer):
        drain(world, world.reader(writer))
    letters = [dict(record.headers) for record in read_all(world, dead_topic)]
    assert [(letter["offset"].decode(), letter["reason"].decode()) for letter in letters] == [
        (str(2 * number + 1), reason) for number, (_value, reason) in enumerate(BAD.values())
    ]
    assert {(letter["topic"].decode(), letter["partition"]) for letter in letters} == {(world.topic, b"0")}
    assert world.count("inn", NOW_SLOT) == len(BAD) + 1
    assert world.seen.fates["applied"] == len(BAD) + 1
    assert world.seen.fates["dead_letter"] == len(BAD) == sum(world.seen.reasons.values())


def test_a_dead_letter_beyond_the_topics_limit_is_cut_and_says_so(world: World, drain: Drain, dead_topic: str) -> None:
    world.create()
    whole = b'{"no": "' + b"x" * 1_000_000
    world.put_raw(whole)
    world.put_raw(BAD["an id of 1 MB"][0])
    world.put_raw(b"short")
    writer = DeadLetterTopic(world.connections, dead_topic, world.topic, 65_536)
    with closing(writer):
        drain(world, world.reader(writer))
    first, second, third = read_all(world, dead_topic)
    assert dict(first.headers)["truncated"] == dict(second.headers)["truncated"] == b"true"
    assert whole.startswith(first.value)
    assert 60_000 < len(first.value) < 65_536
    assert "truncated" not in dict(third.headers)
    assert third.value == b"short"


def test_the_bad_visits_of_a_batch_are_dead_letters_alone_and_their_siblings_count(world: World, drain: Drain) -> None:
    world.create()
    good = [json.loads(world.visit(person)) for person in persons(3)]
    visits = [
        good[0],
        {**good[0], "location_id": "attic"},
        good[1],
        "no visit",
        {**good[0], "person_id": "tab\tbed"},
        good[2],
        json.loads(world.visit("later", slot=NOW_SLOT + 2)),
    ]
    world.put_raw(json.dumps({"batch_id": 5, "visits": visits}).encode())
    drain(world, world.reader())
    letters = [(letter.refusal.index, str(letter.refusal.reason)) for letter in world.dead.letters]
    assert letters == [(1, "unknown_location"), (3, "not_a_visit"), (4, "bad_id"), (6, "too_far_ahead")]
    assert world.count("inn", NOW_SLOT) == 3
    assert +world.seen.fates == {"applied": 3, "dead_letter": 4}


def test_an_empty_batch_is_read_and_holds_nothing(world: World, drain: Drain) -> None:
    world.create()
    world.put_raw(b'{"batch_id": "b", "visits": []}')
    world.put(persons(1))
    drain(world, world.reader())
    assert not world.dead.letters
    assert +world.seen.fates == {"applied": 1}


def test_ten_thousand_visits_of_one_record_all_count(world: World, drain: Drain) -> None:
    world.create()
    arrived = format_instant(world.parameters.grid.start(NOW_SLOT))
    visits = [{"person_id": f"{n}", "location_id": "inn", "arrived_at": arrived} for n in range(10_000)]
    world.put_raw(json.dumps({"visits": visits}, separators=(",", ":")).encode())
    drain(world, world.reader())
    assert world.count("inn", NOW_SLOT) == 10_000


def test_every_visit_has_one_fate_and_fates_add_up(world: World, drain: Drain) -> None:
    #   slot       … 41      | 43 …             45 (now)   46   47
    #   inn, W = 3:  expired | applied from slot 43 on     F    refused      42 holds an evening that is asked about
    world.create()
    world.put_raw(world.visit("a", "inn", 45))
    world.put_raw(world.visit("b", "inn", 43))
    world.put_raw(world.visit("c", "inn", 41))
    world.put_raw(world.visit("d", "inn", 46))
    world.put_raw(world.visit("e", "inn", 47))
    world.put_raw(world.visit("f", "farm", 44))
    world.put_raw(world.visit("g", "駅", 38))
    world.put_raw(world.visit("h", "attic", 45))
    drain(world, world.reader())
    assert world.seen.fates == {"applied": 4, "expired": 1, "not_watched": 1, "dead_letter": 2}
    assert world.seen.fates.total() == world.seen.records == 8


def test_windows_counts_end_at_the_last_slot_that_was_reported(world: World, drain: Drain) -> None:
    """A person who comes again is counted once, by the last slot, in whatever order the visits arrive."""
    world.create(2)
    world.put(["back"], slot=45)
    world.put_raw(world.visit("back", slot=43), 45)
    drain(world, world.reader())
    assert [world.count("inn", first) for first in (43, 44, 45, 46)] == [1, 1, 1, 0]
    assert world.parameters.grid.length == HOUR
