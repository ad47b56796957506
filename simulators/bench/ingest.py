"""Reading visits from Kafka into Redis, compared with the store alone and with a bare loop, and the memory in Redis."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np
from kafka import TopicPartition
from numpy.typing import NDArray

from monitor.brokers.topics import list_topic_needs
from monitor.config import load_valid_config
from monitor.config.servers import KafkaSettings
from monitor.ingest.accept import Accepted, accept
from monitor.ingest.dead_letters import DeadLetterTopic
from monitor.ingest.decode import decode_records
from monitor.ingest.reader import Reader
from monitor.ingest.source import InputLog
from monitor.ingest.write_queue import MOST_APPLIED
from monitor.operate.metric_catalog import FATES, PREFIX
from monitor.operate.metrics import Metrics
from monitor.operate.preflight import run_preflight
from monitor.operate.setup import Beginning, set_up
from monitor.public.clock import SystemClock
from monitor.service import Settings, build_kafka_connections, create_windows, prepare_settings
from monitor.windows.facts import ShardFacts, Span, Windows
from monitor.windows.hashing import HASH_BYTES
from monitor.windows.packing import SEEN
from monitor.windows.redis_client import Client, RedisAddress, create_client
from monitor.windows.redis_store import RedisWindows
from simulators.bench.bench import Bench
from simulators.bench.line import Measured, Target

PARTITIONS: Final = 4
PLACES: Final = 20_000
PEOPLE: Final = 100_000
DEADLINE_SECONDS: Final = 150.0
_BATCHES: Final = 10
_AT_A_PLACE: Final = (110, 1_000, 20_000)
_COMPACT: Final = 1_024

_CONFIG: Final = """
service: {{name: {name}, shards: 16}}
clock: {{slot: 1h, origin: 2026-01-01T00:00:00Z, release_delay: 30s}}
locations: {{file: locations.csv}}
visits: {{default_stay: 15m, accept_ahead: 1h}}
privacy: {{epsilon: "100000", period: 14d}}
monitors:
  - {{name: watched, kind: over_time, locations: [{watched}], epsilon: "100", threshold: 20, window: 14d}}
kafka:
  bootstrap_servers: ["localhost:9092"]
  topics: {{visits: {name}-visits, alerts: {name}-alerts, dead_letters: {name}-dead-letters}}
  partitions: {{visits: {partitions}, alerts: 1}}
redis: {{url: "redis://localhost:6379/0"}}
"""

_DAYS: Final = 2 * 24 * 3_600
_RECORD: Final = np.dtype(
    [
        ("a", "S14"), ("person", "S8"), ("b", "S17"), ("place", "S12"), ("c", "S16"), ("arrived", "S20"), ("d", "S13"),
        ("left", "S20"), ("e", "S3"),
    ]
)  # fmt: skip
_TEXTS: Final = {
    "a": b'{"person_id":"', "b": b'","location_id":"', "c": b'","arrived_at":"', "d": b'","left_at":"', "e": b'"},',
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Backlog:
    """Visits in the input topic: their number, visits per record, the law of places, and the watched places."""

    visits: int
    per_record: int
    law: Literal["even", "zipf"] = "even"
    watched: int = PLACES


@dataclass(frozen=True, slots=True)
class FilledTopics:
    """The topics of a service that contain a backlog: the service's settings, and the records."""

    settings: Settings
    backlog: Backlog
    records: Sequence[bytes]


def _draw_places(law: str, count: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Draw places evenly, or by Zipf's law with exponent 1: place n has a weight of 1 / n."""
    if law == "even":
        return draw.integers(0, PLACES, count)
    weights = np.cumsum(1 / np.arange(1, PLACES + 1))
    places: NDArray[np.int64] = np.searchsorted(weights, draw.random(count) * weights[-1])
    return places


def make_records(backlog: Backlog, seed: int = 7) -> list[bytes]:
    """Return records, each with visits of one person in the last two days. Equal seeds give equal people and places."""
    draw = np.random.default_rng(seed)
    count, of_record = backlog.visits, backlog.per_record
    visits = np.empty(count, _RECORD)
    for name, text in _TEXTS.items():
        visits[name] = text
    people = np.array([f"p-{number:06}".encode() for number in range(PEOPLE)])
    places = np.array([f"place-{number:06}".encode() for number in range(PLACES)])
    visits["person"] = people[np.repeat(draw.integers(0, PEOPLE, -(-count // of_record)), of_record)[:count]]
    visits["place"] = places[_draw_places(backlog.law, count, draw)]
    first = np.datetime64("now", "s") - _DAYS - 3_600
    texts = np.char.add(np.datetime_as_string(first + np.arange(_DAYS + 3_600)).astype("S19"), b"Z")
    arrived = draw.integers(0, _DAYS, count)
    visits["arrived"], visits["left"] = texts[arrived], texts[arrived + draw.integers(600, 3_600, count)]
    bodies = (visits[begin : begin + of_record].tobytes()[:-1] for begin in range(0, count, of_record))
    return [b'{"batch_id":"%d","visits":[%s]}' % (number, body) for number, body in enumerate(bodies)]


def _prepare_settings(bench: Bench, name: str, backlog: Backlog) -> Settings:
    folder = bench.folder(name)
    ids = [f"place-{number:06}" for number in range(PLACES)]
    (folder / "locations.csv").write_text("location_id\n" + "\n".join(ids) + "\n", encoding="utf-8")
    path = folder / "config.yaml"
    watched = ", ".join(ids[:: PLACES // backlog.watched])
    path.write_text(_CONFIG.format(name=name, watched=watched, partitions=PARTITIONS), encoding="utf-8")
    return prepare_settings(load_valid_config(path, {}), os.urandom(32))


def _with_kafka(settings: Settings, bootstrap: str) -> Settings:
    config = settings.config
    kafka = KafkaSettings(
        bootstrap_servers=(bootstrap,), topics=config.kafka.topics, partitions=config.kafka.partitions
    )
    changed = config.model_copy(update={"kafka": kafka})
    return replace(settings, config=changed, kafka=build_kafka_connections(changed))


def fill_topics(bench: Bench, name: str, backlog: Backlog) -> FilledTopics:
    """Create the topics of a service and produce the backlog."""
    settings = _with_kafka(_prepare_settings(bench, name, backlog), bench.kafka.bootstrap_servers)
    wanted = list_topic_needs(settings.parameters, settings.config.kafka, simulated=False)
    set_up(settings.kafka, settings.parameters, wanted, Beginning.FIRST_START, SystemClock().now())
    bench.report(f"producing {backlog.visits:,} visits")
    records = make_records(backlog)
    with closing(settings.kafka.create_producer(linger_ms=20, batch_size=2**20)) as producer:
        for number, value in enumerate(records):
            producer.send(settings.config.kafka.topics.visits, value=value, partition=number % PARTITIONS)
        producer.flush(timeout=DEADLINE_SECONDS)
    return FilledTopics(settings, backlog, records)


def _open_windows(filled: FilledTopics, url: str) -> RedisWindows:
    settings, config = filled.settings, filled.settings.config
    wanted = list_topic_needs(settings.parameters, config.kafka, simulated=False)
    found = run_preflight(settings.kafka, settings.parameters, wanted, config.kafka.topics.alerts)
    return create_windows(replace(settings, redis=RedisAddress(url)), found, SystemClock())


def read_backlog(bench: Bench, filled: FilledTopics) -> float:
    """Run the service's reader over the whole backlog, and return the seconds from the first poll with records."""
    settings, topics = filled.settings, filled.settings.config.kafka.topics
    with bench.valkey() as valkey, closing(_open_windows(filled, valkey.url)) as windows:
        metrics = Metrics()
        source = InputLog(settings.kafka, topics.visits, settings.parameters.name)
        letters = DeadLetterTopic(settings.kafka, topics.dead_letters, topics.visits, 2**20)
        with closing(letters):
            reader = Reader(settings.parameters, source, windows, settings.hasher, letters, metrics)
            with closing(reader):
                reader.step(0)
                while not all(windows.read_progress()):
                    reader.step(200)
                _open_slot(settings, windows)
                return _drain(reader, metrics, filled.backlog.visits)


def _open_slot(settings: Settings, windows: Windows) -> None:
    """Open the present slot, as an owner does after the previous tick is in the ledger."""
    parameters = settings.parameters
    windows.open(range(parameters.registry.shards), parameters.grid.find_slot(SystemClock().now()))


def _drain(reader: Reader, metrics: Metrics, visits: int) -> float:
    began = 0.0
    deadline = time.monotonic() + DEADLINE_SECONDS
    value = metrics.registry.get_sample_value
    while sum(value(f"{PREFIX}_visits_total", {"fate": fate}) or 0 for fate in FATES) < visits:
        before = time.perf_counter()
        if reader.step(200) and not began:
            began = before
        if time.monotonic() > deadline:
            raise TimeoutError(f"{visits:,} visits were not read in {DEADLINE_SECONDS:.0f} s")
    return time.perf_counter() - began


def _pack(filled: FilledTopics) -> Iterator[tuple[list[Span], Accepted]]:
    """Yield the spans and facts of the batches that a reader without limits would write."""
    settings = filled.settings
    parameters = settings.parameters
    size = max(1, MOST_APPLIED // filled.backlog.per_record)
    slot = parameters.grid.find_slot(time.time_ns() // 1_000)
    for begin in range(0, len(filled.records), size):
        values = filled.records[begin : begin + size]
        numbers = range(begin, begin + len(values))
        spans = [
            Span(partition, _count_before(begin, partition), _count_before(numbers[-1] + 1, partition))
            for partition in range(PARTITIONS)
        ]
        columns = decode_records(values, parameters.default_stay)
        yield spans, accept(parameters, settings.hasher, columns, np.full(len(values), slot, np.int64))


def _count_before(number: int, partition: int) -> int:
    """Return how many of the first records are in a partition: record n is in partition n mod PARTITIONS."""
    return (number - partition + PARTITIONS - 1) // PARTITIONS


def _measure_store_alone(bench: Bench, filled: FilledTopics) -> float:
    """Write the packed facts of the backlog to an empty server; return the seconds that this takes."""
    with bench.valkey() as valkey, closing(_open_windows(filled, valkey.url)) as windows:
        for partition in range(PARTITIONS):
            windows.begin(partition, 0, 0)
        _open_slot(filled.settings, windows)
        seconds = 0.0
        for spans, accepted in _pack(filled):
            packed = windows.pack(accepted.facts)
            began = time.perf_counter()
            windows.write(spans, packed)
            seconds += time.perf_counter() - began
        return seconds


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A backlog of which every visit is stored, with 500 visits per record."""

    law: Literal["even", "zipf"]
    least: float

    @property
    def name(self) -> str:
        """The word for the command line."""
        return f"ingest-{self.law}"

    @property
    def work(self) -> str:
        """The work that is measured."""
        return f"Kafka to Redis, every visit stored, 500 per record, append-only file on, places {self.law}"

    @property
    def goal(self) -> str:
        """The goal in words."""
        return f"≥ {self.least:,.0f} visits/s; ≥ 75 % of what the store alone takes from ready-packed facts"

    @property
    def targets(self) -> Sequence[Target]:
        """The goal in numbers."""
        rate, ratio = f"{self.law} (visits/s)", f"{self.law}: ratio to the store alone"
        return Target(rate, least=self.least, absolute=True), Target(ratio, least=0.75)

    def measure(self, bench: Bench) -> Measured:
        """Read the backlog, and send its facts to another server without reading."""
        visits, watched = bench.scale((5_000_000, PLACES), (5_000, 1_000))
        backlog = Backlog(visits, 500, self.law, watched)
        filled = fill_topics(bench, self.name, backlog)
        rate = backlog.visits / read_backlog(bench, filled)
        alone = backlog.visits / _measure_store_alone(bench, filled)
        figures = {
            f"{self.law} (visits/s)": rate,
            f"{self.law}: store alone (visits/s)": alone,
            f"{self.law}: ratio to the store alone": rate / alone,
        }
        return Measured(figures)


class SingleLine:
    """A backlog of one visit per record, compared with a loop that only polls and decodes."""

    name = "ingest-single"
    work = "Kafka to Redis, one visit per record, 0.5 % of the visits stored"
    goal = "≥ 70 % of a bare kafka-python poll and decode loop"
    targets = (Target("single: ratio to the bare loop", least=0.7),)

    def measure(self, bench: Bench) -> Measured:
        """Read the backlog with the service's reader, and with a bare consumer."""
        filled = fill_topics(bench, self.name, Backlog(bench.scale(1_000_000, 2_000), 1, "even", 100))
        visits = filled.backlog.visits
        rate, bare = visits / read_backlog(bench, filled), visits / _poll_bare(filled)
        figures = {"single (visits/s)": rate, "bare loop (visits/s)": bare}
        return Measured({**figures, "single: ratio to the bare loop": rate / bare})


def _poll_bare(filled: FilledTopics) -> float:
    """Poll and decode all records with kafka-python and msgspec; return the seconds from the first record."""
    settings, decode = filled.settings, msgspec.json.Decoder().decode
    consumer = settings.kafka.create_consumer(
        fetch_max_bytes=2**22, max_partition_fetch_bytes=2**21, max_poll_records=4_000
    )
    with closing(consumer):
        partitions = [TopicPartition(settings.config.kafka.topics.visits, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        began, visits = 0.0, 0
        while visits < filled.backlog.visits:
            before = time.perf_counter()
            for records in consumer.poll(timeout_ms=200).values():
                began = began or before
                for record in records:
                    visits += len(decode(record.value)["visits"])
        return time.perf_counter() - began


class RedisMemoryLine:
    """The memory of the facts in Valkey and, if it is installed, in Redis."""

    name = "redis-memory"
    work = "memory in Redis for one person at one place"
    goal = "shown; with `zset-max-listpack-entries` of 1,024, 1,000 people at a place need less than half as much"
    targets = tuple(
        Target(f"{server}, 1000 people, compact, in units of the default", most=0.5) for server in ("Valkey", "Redis")
    )

    def measure(self, bench: Bench) -> Measured:
        """Write facts of as many people at each place, hour by hour, and read the server's used memory."""
        figures: dict[str, float] = {}
        skipped = []
        settings = _prepare_settings(bench, self.name, Backlog(0, 1))
        redis = Path("/usr/bin/redis-server")
        for server, binary in (("Valkey", None), ("Redis", redis)):
            if binary is not None and not binary.exists():
                skipped.append("Redis skipped: redis-server is not installed (deploy/test-tools.sh)")
                continue
            for people in _AT_A_PLACE:
                figures[f"{server}, {people} people (B)"] = _measure_memory(bench, settings, people, binary)
            compact = _measure_memory(bench, settings, 1_000, binary, compact=True)
            figures[f"{server}, 1000 people, compact, in units of the default"] = (
                compact / figures[f"{server}, 1000 people (B)"]
            )
        return Measured(figures, skipped=skipped)


def _measure_memory(
    bench: Bench, settings: Settings, people: int, binary: Path | None, *, compact: bool = False
) -> float:
    """Return the bytes that the server needs per person and place, with `people` people at each place.

    `compact`: the server keeps sorted sets of up to 1,024 people in its compact encoding.
    """
    places = max(1, bench.scale(400_000, 4_000) // people)
    with (
        bench.valkey(binary=binary) as server,
        closing(create_client(RedisAddress(server.url))) as client,
        closing(RedisWindows(settings.parameters, "memory", client)) as windows,
    ):
        windows.begin(0, 0, 0)
        _open_slot(settings, windows)
        if compact:
            client.config_set("zset-max-listpack-entries", _COMPACT)
        before = _read_memory(client)
        for number, facts in enumerate(_make_facts(settings, places, people)):
            windows.write([Span(0, number, number + 1)], facts)
        return (_read_memory(client) - before) / (places * people)


def _make_facts(settings: Settings, places: int, people: int) -> Iterator[dict[int, list[ShardFacts]]]:
    """Yield ten batches that together contain `people` people at each of the places, in the last two days."""
    draw, parameters = np.random.default_rng(7), settings.parameters
    slot = parameters.grid.find_slot(SystemClock().now())
    for part in np.array_split(np.arange(people), _BATCHES):
        row = np.repeat(np.arange(places), part.size)
        facts = np.empty(row.size, SEEN)
        facts["row"], facts["ahead"] = row, -draw.integers(0, 48, row.size)
        facts["person"] = np.frombuffer(draw.bytes(row.size * HASH_BYTES), SEEN["person"])
        shard = parameters.registry.shard[row]
        yield {
            int(number): [ShardFacts(slot - 1, facts[shard == number].tobytes())]
            for number in np.flatnonzero(np.bincount(shard))
        }


def _read_memory(client: Client) -> int:
    """Return the used memory without the buffers of clients and of the append-only file, and without scripts."""
    found = client.info("memory")
    others = ("mem_clients_normal", "mem_aof_buffer", "used_memory_scripts")
    return int(found["used_memory"]) - sum(int(found.get(name, 0)) for name in others)


LINES: Final = (StoredLine("even", 420_000), StoredLine("zipf", 420_000), SingleLine(), RedisMemoryLine())
