"""Reading visits from Kafka into Redis, compared with the store alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from monitor.ingest.accept_visits import accept
from monitor.ingest.dead_letters import DeadLetterTopic
from monitor.ingest.decode_visits import decode_records
from monitor.ingest.poll_input import InputLog
from monitor.ingest.reading_thread import Reader
from monitor.ingest.write_queue import MOST_FACTS
from monitor.kinds.facts_and_questions import OffsetRange, Portions
from monitor.observe.prometheus_metric import PREFIX
from monitor.observe.update_service_metrics import Metrics
from monitor.service.create_topics import Beginning, set_up
from monitor.service.preflight import run_preflight
from monitor.service.wiring import Settings, create_store
from monitor.store.packing import pack_facts
from monitor.store.redis_client import RedisAddress
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SystemClock
from simulators.bench.bench import Bench, Line, Target
from simulators.bench.site import PARTITIONS, PEOPLE, make_records, prepare_site

PLACES: Final = 20_000
PER_RECORD: Final = 500
DEADLINE_SECONDS: Final = 150.0
_DAYS: Final = 2 * 24 * 3_600
Law = Literal["even", "zipf"]


@dataclass(frozen=True, slots=True)
class FilledTopics:
    """The topics of a service that contain a backlog: the service's settings, and the records."""

    settings: Settings
    visits: int
    records: Sequence[bytes]


def _draw_places(law: Law, count: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Draw places evenly, or by Zipf's law with exponent 1: place n has a weight of 1 / n."""
    if law == "even":
        return draw.integers(0, PLACES, count)
    weights = np.cumsum(1 / np.arange(1, PLACES + 1))
    places: NDArray[np.int64] = np.searchsorted(weights, draw.random(count) * weights[-1])
    return places


def _draw_records(visits: int, law: Law) -> list[bytes]:
    """Return records, each with visits of one person in the last two days."""
    draw = np.random.default_rng(7)
    people = np.repeat(draw.integers(0, PEOPLE, -(-visits // PER_RECORD)), PER_RECORD)[:visits]
    arrived = int(time.time()) - _DAYS - 3_600 + draw.integers(0, _DAYS, visits)
    left = arrived + draw.integers(600, 3_600, visits)
    return make_records(people, _draw_places(law, visits, draw), arrived, left, PER_RECORD)


def fill_topics(bench: Bench, law: Law) -> FilledTopics:
    """Create the topics of a service and produce the backlog."""
    visits, watched = bench.scale((5_000_000, PLACES), (5_000, 1_000))
    settings = prepare_site(bench, f"ingest-{law}", PLACES, watched)
    set_up(settings.kafka, settings.parameters, settings.needs, Beginning.FIRST_START, SystemClock().now())
    bench.report(f"producing {visits:,} visits")
    records = _draw_records(visits, law)
    with closing(settings.kafka.create_producer(linger_ms=20, batch_size=2**20)) as producer:
        for number, value in enumerate(records):
            producer.send(settings.config.kafka.topics.visits, value=value, partition=number % PARTITIONS)
        producer.flush(timeout=DEADLINE_SECONDS)
    return FilledTopics(settings, visits, records)


def _open_windows(filled: FilledTopics, url: str) -> RedisStore:
    settings = filled.settings
    found = run_preflight(settings.kafka, settings.parameters, settings.needs)
    return create_store(replace(settings, redis=RedisAddress(url)), found)


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
                return _drain(reader, metrics, filled.visits)


def _open_slot(settings: Settings, windows: RedisStore) -> None:
    """Open the present slot, as an owner does after the previous tick is in the ledger."""
    parameters = settings.parameters
    windows.open(range(parameters.registry.shards), parameters.grid.find_slot(SystemClock().now()))


def _drain(reader: Reader, metrics: Metrics, visits: int) -> float:
    began = 0.0
    deadline = time.monotonic() + DEADLINE_SECONDS
    counted = f"{PREFIX}_visits_total"
    counters = metrics.registry.restricted_registry([counted])  # reading all metrics at each step takes long

    def count_visits() -> float:
        return sum(sample.value for each in counters.collect() for sample in each.samples if sample.name == counted)

    while count_visits() < visits:
        before = time.perf_counter()
        if reader.step(200) and not began:
            began = before
        if time.monotonic() > deadline:
            raise TimeoutError(f"{visits:,} visits were not read in {DEADLINE_SECONDS:.0f} s")
    return time.perf_counter() - began


def _pack(filled: FilledTopics) -> Iterator[tuple[list[OffsetRange], Portions]]:
    """Yield the ranges and packed facts of the batches that a reader without limits would write."""
    settings = filled.settings
    parameters = settings.parameters
    size = max(1, MOST_FACTS // PER_RECORD)
    slot = parameters.grid.find_slot(time.time_ns() // 1_000)
    for begin in range(0, len(filled.records), size):
        values = filled.records[begin : begin + size]
        numbers = range(begin, begin + len(values))
        ranges = [
            OffsetRange(partition, _count_before(begin, partition), _count_before(numbers[-1] + 1, partition))
            for partition in range(PARTITIONS)
        ]
        columns = decode_records(parameters, values)
        accepted = accept(parameters, settings.hasher, columns, np.full(len(values), slot, np.int64))
        yield ranges, pack_facts(accepted.facts, parameters.registry.shard)


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
        for ranges, packed in _pack(filled):
            began = time.perf_counter()
            windows.write(ranges, packed)
            seconds += time.perf_counter() - began
        return seconds


def measure_ingest(bench: Bench, law: Law) -> Mapping[str, float]:
    """Read the backlog, and send its facts to another server without reading."""
    filled = fill_topics(bench, law)
    rate = filled.visits / read_backlog(bench, filled)
    alone = filled.visits / _measure_store_alone(bench, filled)
    return {
        f"{law} (visits/s)": rate,
        f"{law}: store alone (visits/s)": alone,
        f"{law}: ratio to the store alone": rate / alone,
    }


def _make_line(law: Law) -> Line:
    return Line(
        f"ingest-{law}",
        f"Kafka to Redis, every visit stored, 500 per record, append-only file on, places {law}",
        "≥ 420,000 visits/s; ≥ 75 % of what the store alone takes from ready-packed facts",
        (Target(f"{law} (visits/s)", least=420_000), Target(f"{law}: ratio to the store alone", least=0.75)),
        partial(measure_ingest, law=law),
    )


LINES: Final = (_make_line("even"), _make_line("zipf"))
