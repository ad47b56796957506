"""Ticks on a real Kafka and Valkey: watched places, registered places, and many designated times.

Each function runs ticks of one ledger partition on a simulated clock, from reading the counts to the committed
transaction, and returns its figures. The windows are filled directly, because another line measures reading the input.
"""

from __future__ import annotations

import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Concatenate, Final, ParamSpec

import numpy as np
from numpy.typing import NDArray

from monitor.brokers.connections import KafkaConnections
from monitor.config import load_valid_config
from monitor.contracts.alerts import make_ledger_record
from monitor.operate.metrics import Metrics
from monitor.privacy.noise import OneSidedNoise, SystemEntropy
from monitor.privacy.over_time import OverTimeRule
from monitor.public.clock import SteppedClock
from monitor.public.instants import DAY, HOUR, SECOND, format_instant, parse_instant
from monitor.public.location_ids import LARGE, LocationIds
from monitor.public.parameters import AtTimes, OverTime, Parameters, Registry
from monitor.public.schedule import Schedule
from monitor.public.slot_grid import SlotGrid
from monitor.release.context import ReleaseContext
from monitor.release.input_topic import InputTopic
from monitor.release.ledger import EncodedRecord, Writer
from monitor.release.owner import LedgerPlace, Owner
from monitor.release.partition import PartitionRelease
from monitor.release.upkeep import Upkeep
from monitor.service import prepare_settings
from monitor.signals import Signal
from monitor.tools.embedded import EmbeddedValkey, ValkeySettings
from monitor.windows.facts import COMPLETE_FROM_START, ShardFacts, Span
from monitor.windows.hashing import HASH_BYTES
from monitor.windows.packing import group_by_shard, pack_present, pack_seen, split_by_shard
from monitor.windows.redis_client import RedisAddress, create_client
from monitor.windows.redis_store import RedisWindows
from simulators.bench.bench import Bench
from simulators.bench.line import Measured, Target

_ORIGIN: Final = parse_instant("2026-01-01T00:00:00Z")
_GRID: Final = SlotGrid(_ORIGIN, HOUR)
_FIRST_TICK: Final = 500
_SHARDS: Final = 16
_KIB: Final = 1_024
_P = ParamSpec("_P")

_CONFIG: Final = """
service: {{name: {name}, shards: 64}}
clock: {{slot: 1h, origin: 2026-01-01T00:00:00Z, release_delay: 30s}}
locations: {{file: locations.csv}}
visits: {{default_stay: 15m, accept_ahead: 1h}}
privacy: {{epsilon: "1", period: 1d}}
monitors:
  - {{name: daily, kind: at_times, at: ["{at}"], epsilon: "1", threshold: 30, reporting_horizon: 24h}}
kafka:
  bootstrap_servers: ["{kafka}"]
  topics: {{visits: {name}-visits, alerts: {name}-alerts, dead_letters: {name}-dead}}
  partitions: {{visits: 1, alerts: 1}}
redis: {{url: "redis://127.0.0.1:1"}}
"""
_KEY: Final = bytes(range(32))


@dataclass(frozen=True, slots=True)
class OpenPartition:
    """A ledger partition that is taken over, and its windows."""

    release: PartitionRelease
    windows: RedisWindows
    parameters: Parameters
    clock: SteppedClock

    def tick(self, tick: int) -> float:
        """Decide a tick, and return the seconds that it took."""
        self.clock.move_to(_GRID.as_of(tick) + self.parameters.release_delay)
        began = time.perf_counter()
        if not self.release.decide_tick(tick, threading.Event()):
            raise TimeoutError(f"tick {tick} was not decided: {self.release.trouble}")
        return time.perf_counter() - began

    def add_seen(self, tick: int, rows: NDArray[np.int64]) -> None:
        """Add one new person to each row."""
        stamp = np.full(rows.size, tick, np.int64)
        packed = pack_seen(stamp, rows, stamp, _draw_people(rows.size))
        facts = group_by_shard(split_by_shard(self.parameters.registry.shard[rows], stamp, packed), ())
        self._write(facts)

    def add_present(self, tick: int, instant: int, rows: NDArray[np.int64]) -> None:
        """Add one new person to each row at a designated time."""
        stamp, at = np.full(rows.size, tick, np.int64), np.full(rows.size, instant, np.int64)
        packed = pack_present(at, rows, _draw_people(rows.size))
        self._write(group_by_shard((), split_by_shard(self.parameters.registry.shard[rows], stamp, packed)))

    def _write(self, facts: dict[int, list[ShardFacts]]) -> None:
        reached = min(progress[0] for progress in self.windows.read_progress())
        self.windows.write([Span(0, reached, reached + 1)], facts)


def run_in_own_process(
    bench: Bench, measure: Callable[Concatenate[str, _P], dict[str, float]], *sizes: _P.args, **options: _P.kwargs
) -> dict[str, float]:
    """Measure in a new process, so that its memory contains nothing of earlier lines."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(measure, bench.kafka.bootstrap_servers, *sizes, **options).result()


def _read_peak() -> float:
    """Return the peak memory of this process, in MiB."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / _KIB
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB


def _draw_people(number: int) -> NDArray[np.uint8]:
    return np.frombuffer(SystemEntropy().bytes(number * HASH_BYTES), np.uint8).reshape(number, HASH_BYTES)


@contextmanager
def open_partition(bootstrap_servers: str, parameters: Parameters) -> Iterator[OpenPartition]:
    """Create topics and a ledger, take over its only partition, and yield the partition."""
    connections = KafkaConnections((bootstrap_servers,))
    clock = SteppedClock(_GRID.start(_FIRST_TICK))
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedValkey(ValkeySettings(appendonly=True)))
        place = _create_topics(connections, parameters)
        windows = RedisWindows(parameters, "bench", create_client(RedisAddress(server.url)), clock.now)
        stack.callback(windows.close)
        windows.begin(0, 0, COMPLETE_FROM_START)
        ledger = (place.topic, place.topic_id)
        watching = InputTopic(connections, f"{parameters.name}-visits", place.input_topic_id, ledger)
        stack.callback(watching.close)
        noise = OneSidedNoise(SystemEntropy())

        def take_over(partition: int) -> Owner:
            return Owner(connections, place, partition, parameters, noise, clock)

        context = ReleaseContext(parameters, windows, watching, take_over, Metrics(), clock, Signal())
        release = stack.enter_context(closing(PartitionRelease(0, context, Upkeep(parameters, windows))))
        release.take_over()
        yield OpenPartition(release, windows, parameters, clock)


def _create_topics(connections: KafkaConnections, parameters: Parameters) -> LedgerPlace:
    name = parameters.name
    names = (f"{name}-visits", f"{name}-alerts")
    configs = {"retention.ms": "-1", "max.message.bytes": str(32 * 2**20)}
    with closing(connections.create_admin()) as admin:
        wanted = {topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs} for topic in names}
        admin.create_topics(wanted, wait_for_metadata=True)
        visits, alerts = (str(admin.describe_topics([topic])[0]["topic_id"]) for topic in names)
    first = make_ledger_record(source=name, service=name, partitions=1, lost_at=None, partition=0, at=_ORIGIN)
    with closing(Writer(connections, names[1], alerts, 0)) as writer:
        writer.append([EncodedRecord(first.key, first.value, tuple(first.headers), _ORIGIN // 1_000)])
    return LedgerPlace(names[1], alerts, visits, "bench", _ORIGIN, 1)


def _write_ids(places: int) -> bytes:
    """Return the ids of places, each followed by a newline. Python strings would determine the peak memory."""
    numbers = np.arange(places)
    lines = np.empty((places, len("place-00000000\n")), np.uint8)
    lines[:] = np.frombuffer(b"place-00000000\n", np.uint8)
    for digit in range(8):
        lines[:, 13 - digit] += (numbers // 10**digit % 10).astype(np.uint8)
    return lines.tobytes()


def _make_parameters(name: str, places: int, watched: int = 0, at_times: Sequence[AtTimes] = ()) -> Parameters:
    rule = OverTimeRule(Fraction(1), 1, 30, 336, 1)
    rows = tuple(range(0, places, max(1, places // watched)))[:watched] if watched else ()
    ids = LocationIds(_write_ids(places))
    return Parameters(
        name=name,
        grid=_GRID,
        accept_ahead=0,
        max_lead=1,
        default_stay=HOUR // 4,
        release_delay=30 * SECOND,
        tolerance=SECOND,
        registry=Registry(ids if places >= LARGE else tuple(ids), _SHARDS),
        over_time=(OverTime("watched", rows, (rule,) * len(rows)),) if rows else (),
        at_times=tuple(at_times),
    )


def measure_watched(bootstrap_servers: str, watched: int, ticks: int = 5) -> dict[str, float]:
    """Return the median seconds of a tick of `watched` places with 3 people each, and the peak memory in MiB."""
    parameters = _make_parameters(f"watched-{watched}", watched, watched)
    with open_partition(bootstrap_servers, parameters) as opened:
        rows = np.arange(watched)
        for _ in range(3):
            opened.add_seen(_FIRST_TICK, rows)
        seconds = [opened.tick(tick) for tick in range(_FIRST_TICK, _FIRST_TICK + ticks)]
    return {
        "tick (s)": statistics.median(seconds[1:]),
        "place and tick (µs)": statistics.median(seconds[1:]) / watched * 1e6,
        "memory (MiB)": _read_peak(),
    }


def read_registry(folder: Path, bootstrap_servers: str, registered: int) -> Parameters:
    """Read the configuration of a service with one designated time, and compute what the service derives from it."""
    name, at = f"registered-{registered}", format_instant(_GRID.start(_FIRST_TICK))
    (folder / "service.yaml").write_text(_CONFIG.format(name=name, at=at, kafka=bootstrap_servers), encoding="utf-8")
    parameters = prepare_settings(load_valid_config(folder / "service.yaml", {}), _KEY).parameters
    registry = parameters.registry
    _ = registry.rows, registry.by_shard, registry.digest, parameters.row_window
    return parameters


def measure_registered(bootstrap_servers: str, registered: int, visited: int, ticks: int = 5) -> dict[str, float]:
    """Return the median seconds of a tick about one designated time, with `visited` of `registered` places visited.

    "start (s)" is the time to read the configuration and the registry from their files.
    """
    with TemporaryDirectory(prefix="location-monitor-bench-") as folder:
        (Path(folder) / "locations.csv").write_bytes(b"location_id\n" + _write_ids(registered))
        began = time.perf_counter()
        parameters = read_registry(Path(folder), bootstrap_servers, registered)
        start = time.perf_counter() - began
    time_of_day = _GRID.start(_FIRST_TICK)
    with open_partition(bootstrap_servers, parameters) as opened:
        rows = np.linspace(0, registered - 1, visited).astype(np.int64)
        opened.add_present(_FIRST_TICK, time_of_day, rows)
        seconds = []
        for tick in range(_FIRST_TICK, _FIRST_TICK + ticks):
            opened.add_present(tick, time_of_day, rows[: visited // 100])
            seconds.append(opened.tick(tick))
    return {
        "start (s)": start,
        "tick (s)": statistics.median(seconds[1:]),
        "memory (MiB)": _read_peak(),
    }


def measure_live_times(bootstrap_servers: str, times: int, people: int, ticks: int = 5) -> dict[str, float]:
    """Return the median seconds of a tick about `times` live designated times with `people` people each."""
    last = _GRID.start(_FIRST_TICK)
    instants = tuple(last - number * DAY // 2 for number in reversed(range(times)))
    monitor = AtTimes("daily", Schedule(instants), Fraction(1), 30, times * DAY)
    parameters = _make_parameters(f"live-{times}", 20_000, at_times=[monitor])
    rows = np.arange(people) % 20_000
    with open_partition(bootstrap_servers, parameters) as opened:
        for instant in instants:
            opened.add_present(_FIRST_TICK, instant, rows)
        seconds = []
        for tick in range(_FIRST_TICK, _FIRST_TICK + ticks):
            opened.add_present(tick, last, rows[:100])
            seconds.append(opened.tick(tick))
    return {"tick (s)": statistics.median(seconds)}


class WatchedLine:
    """Ticks of 1,000 to 1,000,000 watched places."""

    name = "watched"
    work = "a tick of watched places: Redis, noise, decision, ledger"
    goal = "100,000 places ≤ 1.5 s; 1 million ≤ 15 s and ≤ 2 GiB"
    targets = (
        Target("100,000 places (s)", most=1.5, absolute=True),
        Target("1,000,000 places (s)", most=15, absolute=True),
        Target("memory (MiB)", most=2_048, absolute=True),
    )

    def measure(self, bench: Bench) -> Measured:
        """Decide five ticks at each size."""
        sizes = bench.scale((1_000, 10_000, 100_000, 1_000_000), (100, 1_000))
        results = [run_in_own_process(bench, measure_watched, size) for size in sizes]
        figures = {f"{size:,} places (s)": result["tick (s)"] for size, result in zip(sizes, results, strict=True)}
        return Measured({**figures, "memory (MiB)": results[-1]["memory (MiB)"]})


class RegisteredLine:
    """Ticks about one designated time, with 10 million registered places."""

    name = "registered"
    work = "a tick of a designated time: 10 million registered places, 200,000 visited"
    goal = "≤ 0.3 s per tick, ≤ 15 s to start, ≤ 1.5 GiB"
    targets = (
        Target("tick (s)", most=0.3, absolute=True),
        Target("start (s)", most=15, absolute=True),
        Target("memory (MiB)", most=1_536, absolute=True),
    )

    def measure(self, bench: Bench) -> Measured:
        """Decide five ticks at each size."""
        sizes = bench.scale((100_000, 1_000_000, 10_000_000), (1_000, 10_000))
        results = [run_in_own_process(bench, measure_registered, size, size // 50) for size in sizes]
        return Measured(results[-1])


class LiveTimesLine:
    """Ticks about many live designated times."""

    name = "live-times"
    work = "a tick with 28 live designated times of 100,000 people each"
    goal = "≤ 4 s per tick"
    targets = (Target("tick (s)", most=4, absolute=True),)

    def measure(self, bench: Bench) -> Measured:
        """Decide five ticks, with new facts before each."""
        return Measured(run_in_own_process(bench, measure_live_times, *bench.scale((28, 100_000), (4, 1_000))))


LINES: Final = (WatchedLine(), RegisteredLine(), LiveTimesLine())
