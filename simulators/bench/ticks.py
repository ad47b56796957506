"""Ticks on a real Kafka and Valkey: watched places, and many designated times.

Each function runs ticks of one ledger partition on a simulated clock, from reading the counts to the committed
transaction. The windows are filled directly, because another line measures reading the input.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.command_options import collect_garbage_rarely
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, PERSON, PRESENT, SEEN, Facts, OffsetRange, make_facts
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.observe.update_service_metrics import Metrics
from monitor.privacy.one_sided_noise import OneSidedNoise, SystemEntropy
from monitor.privacy.over_time import OverTimeRule
from monitor.records.owner_record import make_ledger_record
from monitor.store.packing import pack_facts
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from monitor.thread_signals import Signal
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.owner import LedgerTopic, Owner, OwnerRecords
from monitor.ticks.run_partition import PartitionTicks
from monitor.ticks.shared_by_partitions import TickContext
from monitor.ticks.store_upkeep import Upkeep
from monitor.ticks.takeover import take_over
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY, HOUR, SECOND, parse_instant
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid
from simulators.bench.bench import Bench, Line, Target

_ORIGIN: Final = parse_instant("2026-01-01T00:00:00Z")
_GRID: Final = SlotGrid(_ORIGIN, HOUR)
_FIRST_TICK: Final = 500
_SHARDS: Final = 16
_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class OpenPartition:
    """A ledger partition that is taken over, its windows, and a writer to another topic."""

    release: PartitionTicks
    windows: RedisStore
    parameters: Parameters
    clock: SteppedClock
    other: Writer

    def tick(self, tick: int) -> float:
        """Decide a tick, and return the seconds that it took."""
        self.clock.move_to(_GRID.as_of(tick) + self.parameters.tolerance)
        self.clock.move_when_awaited(_GRID.as_of(tick) + self.parameters.release_delay, 1)
        began = time.perf_counter()
        if not self.release.decide_tick(tick, threading.Event()):
            raise TimeoutError(f"tick {tick} was not decided: {self.release.trouble}")
        return time.perf_counter() - began

    def measure_limit(self, tick: int) -> float:
        """Return the seconds that the counts and the records of the last tick take on the servers alone.

        The same counts are asked again, and the same records are appended to another topic.
        """
        owner = self.release.owner
        if owner is None:
            raise TimeoutError(f"the partition lost its owner: {self.release.trouble}")
        questions, records = owner.decider.build_questions(tick, owner.state), self.release.last_records
        began = time.perf_counter()
        self.windows.read(questions)
        self.other.append(records)
        return time.perf_counter() - began

    def add_seen(self, tick: int, rows: NDArray[np.int64]) -> None:
        """Add one new person to each row."""
        stamp = np.full(rows.size, tick, np.int64)
        self._write(Facts(seen=make_facts(SEEN, stamp=stamp, row=rows, last=stamp, person=_draw_people(rows.size))))

    def add_present(self, tick: int, instant: int, rows: NDArray[np.int64]) -> None:
        """Add one new person to each row at a designated time."""
        stamp, at = np.full(rows.size, tick, np.int64), np.full(rows.size, instant, np.int64)
        people = _draw_people(rows.size)
        self._write(Facts(present=make_facts(PRESENT, stamp=stamp, instant=at, row=rows, person=people)))

    def _write(self, facts: Facts) -> None:
        reached = min(progress[0] for progress in self.windows.read_progress())
        self.windows.write([OffsetRange(0, reached, reached + 1)], pack_facts(facts, self.parameters.registry.shard))


def _draw_people(number: int) -> NDArray[np.void]:
    return np.frombuffer(SystemEntropy().bytes(number * PERSON.itemsize), PERSON)


@contextmanager
def open_partition(bench: Bench, parameters: Parameters) -> Iterator[OpenPartition]:
    """Create topics and a ledger, take over its only partition, and yield the partition."""
    connections = KafkaConnections((bench.kafka.bootstrap_servers,))
    clock = SteppedClock(_GRID.start(_FIRST_TICK))
    with ExitStack() as stack:
        server = stack.enter_context(bench.valkey())
        ledger = _create_topics(connections, parameters)
        windows = RedisStore(parameters, "bench", create_client(RedisAddress(server.url)), clock.now)
        stack.callback(windows.close)
        windows.begin(0, 0, COMPLETE_FROM_START)
        output = (ledger.topic, ledger.topic_id)
        watching = InputTopic(connections, f"{parameters.name}-visits", ledger.input_topic_id, output)
        stack.callback(watching.close)
        noise = OneSidedNoise(SystemEntropy())

        records = OwnerRecords(ledger, parameters, clock.now)

        def own(partition: int) -> Owner:
            return take_over(connections, partition, records, noise, clock, lambda _partition, _state: None)

        context = TickContext(parameters, windows, watching, Metrics(), clock, Signal())
        release = stack.enter_context(closing(PartitionTicks(0, context, own, Upkeep(parameters, windows))))
        release.take_over()
        other = stack.enter_context(closing(Writer(connections, f"{parameters.name}-other", "bench-other", 0)))
        yield OpenPartition(release, windows, parameters, clock, other)


def _create_topics(connections: KafkaConnections, parameters: Parameters) -> LedgerTopic:
    name = parameters.name
    names = (f"{name}-visits", f"{name}-alerts", f"{name}-other")
    configs = {"retention.ms": "-1", "max.message.bytes": str(32 * 2**20)}
    with closing(connections.create_admin()) as admin:
        wanted = {topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs} for topic in names}
        admin.create_topics(wanted, wait_for_metadata=True)
        visits, alerts = (str(admin.describe_topics([topic])[0]["topic_id"]) for topic in names[:2])
    first = make_ledger_record(source=name, service=name, partitions=1, lost_at=None, partition=0, at=_ORIGIN)
    with closing(Writer(connections, names[1], alerts, 0)) as writer:
        writer.append([first])
    return LedgerTopic(names[1], alerts, visits, "bench", _ORIGIN, 1)


def _make_parameters(name: str, places: int, watched: int = 0, at_times: Sequence[AtTimes] = ()) -> Parameters:
    rule = OverTimeRule(Fraction(1), 1, 30, 336, 1)
    rows = tuple(range(0, places, max(1, places // watched)))[:watched] if watched else ()
    return Parameters(
        name=name,
        grid=_GRID,
        accept_ahead=0,
        max_lead=1,
        default_stay=HOUR // 4,
        release_delay=30 * SECOND,
        tolerance=SECOND,
        registry=Registry(tuple(f"place-{number:08}" for number in range(places)), _SHARDS),
        monitors=(*([OverTime("watched", rows, (rule,) * len(rows))] if rows else []), *at_times),
    )


def measure_watched(bench: Bench) -> Mapping[str, float]:
    """Measure a tick of watched places with 3 people each, for each number of places."""
    sizes = bench.scale((100_000, 1_000_000), (100, 1_000))
    figures: dict[str, float] = {}
    for size in sizes:
        figures.update(_measure_size(bench, size))
    return figures


def _measure_size(bench: Bench, watched: int) -> dict[str, float]:
    collect_garbage_rarely()  # as `run` does
    parameters = _make_parameters(f"watched-{watched}", watched, watched)
    with open_partition(bench, parameters) as opened:
        rows = np.arange(watched)
        for _ in range(3):
            opened.add_seen(_FIRST_TICK, rows)
        return _measure_ticks(opened, f"{watched:,} places", lambda _tick: None)


def _measure_ticks(opened: OpenPartition, name: str, prepare: Callable[[int], None]) -> dict[str, float]:
    """Return the median seconds of a tick and of its limit, measured in turns. The first tick is not counted."""
    seconds, limits = [], []
    for tick in range(_FIRST_TICK, _FIRST_TICK + _TICKS):
        prepare(tick)
        seconds.append(opened.tick(tick))
        limits.append(opened.measure_limit(tick))
    tick_seconds, limit = statistics.median(seconds[1:]), statistics.median(limits[1:])
    return {
        f"{name} (s)": tick_seconds,
        f"{name}: the same counts and records on the servers alone (s)": limit,
        f"{name}: ratio to the servers alone": tick_seconds / limit,
    }


def measure_live_times(bench: Bench) -> Mapping[str, float]:
    """Measure a tick about many live designated times, with new facts before each tick."""
    times, people = bench.scale((28, 100_000), (4, 1_000))
    last = _GRID.start(_FIRST_TICK)
    instants = tuple(last - number * DAY // 2 for number in reversed(range(times)))
    monitor = AtTimes("daily", Schedule(instants), Fraction(1), 30, times * DAY)
    parameters = _make_parameters("live-times", 20_000, at_times=[monitor])
    rows = np.arange(people) % 20_000
    with open_partition(bench, parameters) as opened:
        for instant in instants:
            opened.add_present(_FIRST_TICK, instant, rows)
        return _measure_ticks(opened, "tick", lambda tick: opened.add_present(tick, last, rows[:100]))


LINES: Final = (
    Line(
        "watched",
        "a tick of watched places: Redis, noise, decision, ledger",
        "100,000 places ≤ 1.5 s; 1 million ≤ 15 s",
        (Target("100,000 places (s)", most=1.5), Target("1,000,000 places (s)", most=15)),
        measure_watched,
    ),
    Line(
        "live-times",
        "a tick with 28 live designated times of 100,000 people each",
        "≤ 4 s per tick",
        (Target("tick (s)", most=4),),
        measure_live_times,
    ),
)
