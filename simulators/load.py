"""A load test: start real servers, and measure how fast a backlog is read from Kafka into Redis."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
from pydantic import SecretStr
from redis import Redis
from rich.console import Console

from monitor.brokers.topics import list_topic_needs
from monitor.config import Config, load_valid_config
from monitor.config.servers import KafkaSettings, RedisSettings
from monitor.ingest.dead_letters import DeadLetterTopic
from monitor.ingest.reader import Reader
from monitor.ingest.source import InputLog
from monitor.operate.metric_catalog import FATES, PREFIX
from monitor.operate.metrics import Metrics
from monitor.operate.preflight import run_preflight
from monitor.operate.setup import Beginning, set_up
from monitor.public.clock import Clock, SystemClock
from monitor.public.instants import DAY, HOUR, MINUTE, format_instant
from monitor.service import Settings, create_windows, prepare_settings
from monitor.tools.convert.progress import show_progress
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey, ValkeySettings
from monitor.windows.facts import Windows

PARTITIONS: Final = 4
DEADLINE_SECONDS: Final = 600.0

_CONFIG: Final = """
service: {{name: load, shards: 16}}
clock: {{slot: 1h, origin: 2026-01-01T00:00:00Z, release_delay: 30s}}
locations: {{file: locations.csv}}
visits: {{default_stay: 15m, accept_ahead: 1h}}
privacy: {{epsilon: "1000", period: 14d}}
monitors:
  - {{name: watched, kind: over_time, locations: [{watched}], epsilon: "100", threshold: 20, window: 14d}}
  - {{name: daily, kind: at_times, at: ["18:00"], timezone: UTC, reporting_horizon: 2d, epsilon: "1", threshold: 20}}
kafka:
  bootstrap_servers: ["localhost:9092"]
  topics: {{visits: visits, alerts: safety-alerts, dead_letters: visits.dead-letters}}
  partitions: {{visits: {partitions}, alerts: 1}}
redis: {{url: "redis://localhost:6379/0"}}
"""


@dataclass(frozen=True, slots=True)
class Load:
    """The size of a backlog: the numbers of visits, visits per record, people, locations and watched locations."""

    visits: int = 1_000_000
    per_record: int = 500
    people: int = 100_000
    locations: int = 20_000
    watched: int = 100
    seed: int = 7


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of reading the backlog, from the first poll with records to the last visit in the windows."""

    seconds: float
    visits: int
    fates: dict[str, int]
    redis_bytes: int

    @property
    def rate(self) -> float:
        """Visits per second."""
        return self.visits / self.seconds


def write_config(load: Load, folder: Path) -> Path:
    """Write the configuration and the registry of a load, and return the configuration's path."""
    ids = [f"place-{number:06}" for number in range(load.locations)]
    (folder / "locations.csv").write_text("location_id\n" + "\n".join(ids) + "\n", encoding="utf-8")
    watched = ", ".join(ids[:: max(1, load.locations // load.watched)][: load.watched])
    path = folder / "load.yaml"
    path.write_text(_CONFIG.format(watched=watched, partitions=PARTITIONS), encoding="utf-8")
    return path


def make_records(load: Load, now: int) -> list[bytes]:
    """Return the records of the backlog, each with visits of one person to random places in the last two days."""
    draw = random.Random(load.seed)
    encode = msgspec.json.Encoder().encode
    values = []
    for number in range(-(-load.visits // load.per_record)):
        person = f"p-{draw.randrange(load.people):06}"
        count = min(load.per_record, load.visits - number * load.per_record)
        arrivals = [now - draw.randrange(2 * DAY) for _ in range(count)]
        visits = [
            {
                "person_id": person,
                "location_id": f"place-{draw.randrange(load.locations):06}",
                "arrived_at": format_instant(arrived // 1_000_000 * 1_000_000),
                "left_at": format_instant((arrived + draw.randrange(10 * MINUTE, HOUR)) // 1_000_000 * 1_000_000),
            }
            for arrived in arrivals
        ]
        values.append(encode({"batch_id": str(number), "visits": visits}))
    return values


def with_servers(config: Config, bootstrap: str, url: str) -> Config:
    """Return the configuration with the addresses of the started servers."""
    kafka = KafkaSettings(
        bootstrap_servers=(bootstrap,), topics=config.kafka.topics, partitions=config.kafka.partitions
    )
    return config.model_copy(update={"kafka": kafka, "redis": RedisSettings(url=SecretStr(url))})


def measure(load: Load, folder: Path, console: Console) -> Measured:
    """Start Kafka and Valkey (append-only file on), fill the input topic, and measure how it is read into the windows.

    Raises:
        EmbeddedError: the servers cannot start.
        TimeoutError: the backlog is not read in time.
    """
    config_file = write_config(load, folder)
    valid = load_valid_config(config_file, {})
    config = valid.config
    clock = SystemClock()
    with EmbeddedValkey(ValkeySettings(appendonly=True)) as valkey, EmbeddedKafka(report=console.print) as kafka:
        moved = replace(valid, config=with_servers(config, kafka.bootstrap_servers, valkey.url))
        settings = prepare_settings(moved, os.urandom(32))
        wanted = list_topic_needs(settings.parameters, settings.config.kafka, simulated=False)
        set_up(settings.kafka, settings.parameters, wanted, Beginning.FIRST_START, clock.now())
        _produce(settings, make_records(load, clock.now()), console)
        found = run_preflight(settings.kafka, settings.parameters, wanted, config.kafka.topics.alerts)
        windows = create_windows(settings, found, clock)
        used = _read_used_memory(valkey.url)
        metrics = Metrics()
        source = InputLog(settings.kafka, config.kafka.topics.visits, settings.parameters.name)
        letters = DeadLetterTopic(settings.kafka, config.kafka.topics.dead_letters, config.kafka.topics.visits, 2**20)
        reader = Reader(settings.parameters, source, windows, settings.hasher, letters, metrics)
        try:
            _open_present_slot(reader, windows, settings, clock)
            seconds = _drain(reader, metrics, load, console)
            return Measured(seconds, load.visits, _read_fates(metrics), _read_used_memory(valkey.url) - used)
        finally:
            reader.close()
            letters.close()
            windows.close()


def _produce(settings: Settings, made: list[bytes], console: Console) -> None:
    topic = settings.config.kafka.topics.visits
    producer = settings.kafka.create_producer(linger_ms=20, batch_size=1024 * 1024)
    try:
        with show_progress("Producing", len(made), console) as meter:
            for number, value in enumerate(made):
                producer.send(topic, value=value, partition=number % PARTITIONS)
                meter.advance(number + 1, 0)
        producer.flush(timeout=120)
    finally:
        producer.close(timeout=5)


def _open_present_slot(reader: Reader, windows: Windows, settings: Settings, clock: Clock) -> None:
    """Start reading, then open the current slot, as an owner does after the previous tick is in the ledger."""
    reader.step(0)
    while not all(windows.read_progress()):
        reader.step(200)
    parameters = settings.parameters
    windows.open(range(parameters.registry.shards), parameters.grid.find_slot(clock.now()))


def _drain(reader: Reader, metrics: Metrics, load: Load, console: Console) -> float:
    """Run the reader until all visits are written. Return the seconds since the poll that read the first records."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    began = 0.0
    with show_progress("Reading", load.visits, console) as meter:
        while (done := sum(_read_fates(metrics).values())) < load.visits:
            before = time.perf_counter()
            if reader.step(200) and not began:
                began = before
            meter.advance(done, done)
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {done:,} of {load.visits:,} visits were read in {DEADLINE_SECONDS:.0f} s")
    return time.perf_counter() - began


def _read_used_memory(url: str) -> int:
    client = Redis.from_url(url)
    try:
        return int(client.info("memory")["used_memory"])
    finally:
        client.close()


def _read_fates(metrics: Metrics) -> dict[str, int]:
    value = metrics.registry.get_sample_value
    return {fate: int(value(f"{PREFIX}_visits_total", {"fate": fate}) or 0) for fate in FATES}
