"""A world for tests of the reader: an input topic on a real Kafka, windows in a real Valkey, and readers.

Slots have one hour, and F = 1. The windows have 3 slots at inn and bath, and 8 slots at bath and 駅. The horizon has 24
slots. The clock is in slot 45, so slots from 45 - (24 + 2) = 19 on can be counted, and records from slot 19 - F = 18 on
are read.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import redis
from kafka import TopicPartition

from monitor.errors import UnreachableError
from monitor.ingest.dead_letters import DeadLetter, DeadLetterTopic
from monitor.ingest.poll_input import InputLog
from monitor.ingest.reading_thread import Reader, run_reader
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import list_groups, name_input_group
from monitor.kafka.kafka_python_3_0.fetcher import FetchState
from monitor.kinds.facts_and_questions import Question, Reading
from monitor.kinds.parameters import Parameters
from monitor.observe.service_metrics import REPORT_DELAY_BUCKETS
from monitor.observe.update_service_metrics import Metrics
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from monitor.store.hash_persons import PersonHasher
from monitor.store.keys import Keys
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from monitor.time.instants import MINUTE
from tests.builders import build_visit
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka

NOW_SLOT = 45
HORIZON_START = 19
FINGERPRINT = "0123456789abcdef"


BY_PRODUCERS = partial(FetchState, stamped_by_brokers=False)
"""The state of a reader for which the tests' timestamps are stamps."""

Drain = Callable[..., None]
"""A function that runs readers until everything is read."""


class Dated(RedisStore):
    """Windows in Redis with a clock of the test, which may differ from the reader's."""

    clock: SteppedClock

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        return {shard: replace(reading, time=self.clock.now()) for shard, reading in super().read(questions).items()}

    def time(self, shards: Collection[int] = (0,)) -> int:  # noqa: ARG002  # all shards have one clock here
        return self.clock.now()


@dataclass
class Seen(Metrics):
    """Metrics that add up what readers report, from several threads."""

    records: int = 0
    late: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    recoveries: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    lags: dict[int, int] = field(default_factory=dict)
    oldest: list[float | None] = field(default_factory=list)
    newest: dict[int, float] = field(default_factory=dict)
    delays: Counter[float] = field(default_factory=Counter)
    delay_seconds: float = 0

    def count_batch(self, records: int, fates: Mapping[str, int], reasons: Mapping[str, int], seconds: float) -> None:
        assert seconds > 0
        self.records += records
        self.fates.update(fates)
        self.reasons.update(reasons)

    def set_lag(self, records: Mapping[int, int]) -> None:
        self.lags = dict(records)

    def observe_timestamps(self, oldest_seconds: float | None, newest_seconds: Mapping[int, float]) -> None:
        self.oldest.append(oldest_seconds)
        self.newest.update(newest_seconds)

    def observe_report_delays(self, visits: Sequence[int], seconds: float) -> None:
        self.delays.update(dict(zip((*REPORT_DELAY_BUCKETS, math.inf), visits, strict=True)))
        self.delay_seconds += seconds

    def count_late_records(self, records: int) -> None:
        self.late += records

    def count_people_at_several_places(self, people: int) -> None:
        assert people >= 0

    def count_cut(self, visits: int) -> None:
        self.cut += visits

    def count_recovery(self, cause: str) -> None:
        self.recoveries[cause] += 1


class Kept(DeadLetterTopic):
    """Dead letters in memory; the next `refuses` writes fail."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.refuses = 0

    def put(self, letters: Sequence[DeadLetter]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise UnreachableError("dead letters cannot be written now")
        self.letters += letters


class World:
    """A new input topic, a store, and their readers."""

    def __init__(
        self, kafka: SharedKafka | EmbeddedKafka, store: EmbeddedValkey, parameters: Parameters, topic: str
    ) -> None:
        self.connections = KafkaConnections((kafka.bootstrap_servers,), session_timeout_ms=2_000)
        self.store = store
        self.parameters = replace(parameters, name=topic)
        self.topic = topic
        self.clock = SteppedClock(parameters.grid.start(NOW_SLOT) + 30 * MINUTE)
        self.raw = redis.Redis.from_url(store.url)
        self.seen, self.dead = Seen(), Kept()
        self.read_before = False
        self._open: list[Any] = []
        self._stores: list[Dated] = []
        self.windows = self._latest = self.windows_of(FINGERPRINT)
        self.producer = self.connections.create_producer()

    def create(self, partitions: int = 1) -> None:
        create_topic(self.connections, self.topic, partitions)

    def put(self, persons: Iterable[str], location: str = "inn", slot: int = NOW_SLOT, partition: int = 0) -> None:
        """Produce a record per person, with a visit of the slot in which it is stamped."""
        stamp = self.parameters.grid.start(slot) // 1_000
        for person in persons:
            value = self.visit(person, location, slot)
            self.producer.send(self.topic, value=value, partition=partition, timestamp_ms=stamp)
        self.producer.flush()

    def visit(self, person: str, location: str = "inn", slot: int = NOW_SLOT) -> bytes:
        start = self.parameters.grid.start(slot)
        return json.dumps(build_visit(person, location, start, start + 10 * MINUTE)).encode()

    def put_raw(self, value: bytes | None, slot: int = NOW_SLOT, partition: int = 0) -> None:
        stamp = self.parameters.grid.start(slot) // 1_000
        self.producer.send(self.topic, value=value, partition=partition, timestamp_ms=stamp, key=b"k").get(timeout=10)

    def reader(self, dead: DeadLetterTopic | None = None, mark: str = FINGERPRINT) -> Reader:
        """Return a new member of the input group of the configuration with a fingerprint.

        `source` is its input, and `is_read` looks at its facts.
        """
        group = name_input_group(self.topic, mark)
        self.source = InputLog(
            self.connections, self.topic, group, self.topic, reading=BY_PRODUCERS(), read_before=self.read_before
        )
        hasher = PersonHasher(b"0123456789abcdef")
        self._latest = self.windows if mark == FINGERPRINT else self.windows_of(mark)
        reader = Reader(self.parameters, self.source, self._latest, hasher, dead or self.dead, self.seen)
        self._open.append(reader)
        return reader

    def windows_of(self, mark: str) -> Dated:
        """Return the windows of a fingerprint."""
        windows = Dated(self.parameters, mark, create_client(RedisAddress(self.store.url)))
        windows.clock = self.clock
        self._stores.append(windows)
        return windows

    def empty_store(self) -> None:
        """Delete all facts and all progress, of every fingerprint."""
        self.raw.flushall()

    @contextmanager
    def running(self, waiting: Callable[[str], None] = lambda _reason: None) -> Iterator[Reader]:
        """Run a new member of the group in a thread."""
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

    def read_through(self, drain: Drain, mark: str = FINGERPRINT) -> None:
        """Run a reader of a configuration until it has read everything, and close it."""
        reader = self.reader(mark=mark)
        drain(self, reader)
        self.close_reader(reader)

    def ends(self) -> dict[int, int]:
        """Return the high watermarks."""
        with closing(self.connections.create_consumer()) as consumer:
            places = [TopicPartition(self.topic, p) for p in sorted(consumer.partitions_for_topic(self.topic))]
            return {place.partition: end for place, end in consumer.end_offsets(places).items()}

    def expire_groups(self) -> None:
        """Delete the service's groups with their offsets, as brokers do after `offsets.retention.minutes`."""
        with closing(self.connections.create_admin()) as admin:
            admin.delete_groups(list_groups(self.connections, self.topic))

    def delete_below(self, offset: int) -> None:
        with closing(self.connections.create_admin()) as admin:
            admin.delete_records({TopicPartition(self.topic, 0): offset})

    def is_read(self) -> bool:
        """Return whether every shard's progress has reached the end of every partition, for the latest reader."""
        ends = self.ends()
        return all(shard.get(p, -1) >= end for shard in self._latest.read_progress() for p, end in ends.items())

    def count(self, location: str, first_slot: int) -> int:
        """Count the distinct people whose last slot at a location is at or after a slot."""
        row = self.parameters.registry.rows[location]
        shard = int(self.parameters.registry.shard[row])
        return int(self.windows.read({shard: Question(((first_slot, [row]),))})[shard].counts[0][0])

    def complete_from(self) -> set[int]:
        """Return the slots from which the facts of the shards are complete."""
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


def read_committed(world: World) -> dict[int, int]:
    with closing(world.connections.create_admin()) as admin:
        group = name_input_group(world.topic, FINGERPRINT)
        offsets = admin.list_group_offsets({group: None})[group]
    return {place.partition: commit.offset for place, commit in offsets.items()}


def persons(number: int, prefix: str = "p") -> list[str]:
    return [f"{prefix}-{n}" for n in range(number)]


class Damage:
    """A byte of a record's value that can be changed on the broker's disk."""

    def __init__(self, kafka: SharedKafka, name: str, value: bytes) -> None:
        self._path = Path(kafka.folder) / "data" / f"{name}-0" / f"{0:020d}.log"
        self._place = self._path.read_bytes().index(value)

    def flip(self) -> None:
        """Change the byte, or change it back."""
        with self._path.open("r+b") as file:
            byte = os.pread(file.fileno(), 1, self._place)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 0xFF]), self._place)
