"""Fixtures of the release tests: small parameters, scripted noise, topics on real servers, and in-memory worlds."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.kafka.connections import KafkaConnections
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.operate.servers import EmbeddedValkey
from monitor.records.owner_record import make_ledger_record
from monitor.records.signed_notes import Signer
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from monitor.thread_signals import Signal
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.owner import LedgerTopic, Owner
from monitor.ticks.run_partition import PartitionTicks
from monitor.ticks.shared_by_partitions import TickContext
from monitor.ticks.store_upkeep import Upkeep
from monitor.time.clock import Clock, SteppedClock, SystemClock
from monitor.time.instants import HOUR, SECOND
from monitor.time.slot_grid import SlotGrid
from tests.builders import ORIGIN, replace_monitors
from tests.ticks.deciding import own
from tests.ticks.worlds import (
    FakeStore,
    JumpingClock,
    RecordingObserver,
    RunningClock,
    World,
    release_instant,
)


@dataclass
class ScriptedNoise:
    """Noise from a script: each geometric draw is the next value of `script`, or 0 at its end. All calls are recorded.

    A gap is reached if the next draw is at least the gap, so that count + draw ≥ threshold, as with real noise.
    """

    script: list[int] = field(default_factory=list)
    drawn: list[tuple[Fraction, int]] = field(default_factory=list)
    gaps: list[list[int]] = field(default_factory=list)
    secure: bool = True

    def _next(self) -> int:
        return self.script.pop(0) if self.script else 0

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        self.drawn.append((epsilon, size))
        return np.array([self._next() for _ in range(size)], np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:  # noqa: ARG002  # given
        self.gaps.append(gaps.tolist())
        return np.array([self._next() >= gap for gap in gaps.tolist()], np.bool_)


@pytest.fixture
def noise() -> ScriptedNoise:
    """Noise that draws 0 unless `noise.script` is set, and records its calls."""
    return ScriptedNoise()


@pytest.fixture
def clock() -> SteppedClock:
    """A clock at the start of the first slot, which jumps over each wait."""
    return JumpingClock(ORIGIN)


@pytest.fixture
def make_ledger(
    make_topic: Callable[..., tuple[str, str]], open_writer: Callable[..., Writer]
) -> Callable[..., LedgerTopic]:
    """A function that makes initialised ledgers: topics whose partitions contain their first record."""

    def make(ledger_partitions: int = 1, service: str = "town", lost_at: int | None = None) -> LedgerTopic:
        name, topic_id = make_topic("ledger", ledger_partitions)
        for partition in range(ledger_partitions):
            first = make_ledger_record(
                source=service,
                service=service,
                partitions=ledger_partitions,
                lost_at=lost_at,
                partition=partition,
                at=ORIGIN,
            )
            open_writer(name, topic_id, partition).append([first])
        return LedgerTopic(name, topic_id, "input-1", "fingerprint-1", ORIGIN)

    return make


@pytest.fixture
def take_over(
    connections: KafkaConnections, make_parameters: Callable[..., Parameters], clock: SteppedClock, noise: Any
) -> Iterator[Callable[..., Owner]]:
    """A function that takes over partitions. The owners are closed at the end."""
    with ExitStack() as opened:

        def take(
            place: LedgerTopic, partition: int = 0, parameters: Parameters | None = None, signer: Signer | None = None
        ) -> Owner:
            parameters = parameters or make_parameters()
            made = own(connections, place, partition, parameters, clock, noise=noise, signer=signer)
            return opened.enter_context(closing(made))

        yield take


@pytest.fixture
def make_world(make_parameters: Callable[..., Parameters], noise: Any) -> Callable[..., World]:
    """A function that makes in-memory worlds. By default, the clocks of store and machine stand at slot 100's start.

    A `stepped` world has one clock for both, which only the test moves.
    """

    def make(*, changes: Mapping[str, Any] | None = None, ledger_partitions: int = 1, stepped: bool = False) -> World:
        parameters = replace_monitors(make_parameters(places=8, shards=ledger_partitions), **(changes or {}))
        start = parameters.grid.start(100)
        true_clock = SteppedClock(start) if stepped else RunningClock(start)
        clock = true_clock if stepped else RunningClock(start, SECOND)
        return World(parameters, clock, true_clock, FakeStore(parameters, true_clock), noise, ledger_partitions)

    return make


@pytest.fixture
def run_world(make_world: Callable[..., World]) -> Iterator[Callable[..., World]]:
    """A function that runs in-memory worlds on threads until the end of the test, which moves their one clock.

    `prepare` changes a world before it runs. The clock begins at slot 100.
    """
    started: list[tuple[World, threading.Thread]] = []

    def run(ledger_partitions: int = 1, prepare: Callable[[World], None] = lambda _: None) -> World:
        world = make_world(ledger_partitions=ledger_partitions, stepped=True)
        world.owned = frozenset(range(ledger_partitions))
        prepare(world)
        thread = threading.Thread(target=world.run)
        thread.start()
        started.append((world, thread))
        return world

    yield run
    for world, thread in started:
        world.stop.set()
        world.wake.set()
        thread.join(20)
        assert not thread.is_alive()


@dataclass
class Site:
    """One ledger partition on real servers, with its topics and windows."""

    release: PartitionTicks
    context: TickContext
    windows: RedisStore
    observer: RecordingObserver
    input_topic: str
    fingerprint: str
    place: LedgerTopic
    stop: threading.Event
    take_over: Callable[[int], Owner]

    def statuses(self) -> list[str]:
        """Return the statuses of the last tick's records."""
        return [json.loads(record.value)["status"] for record in self.release.last_records]

    def tick(self, tick: int) -> bool:
        """Decide a tick."""
        return self.release.decide_tick(tick, self.stop)

    def tick_at_release(self, tick: int = 0) -> bool:
        """Set the clock just after the release of a tick, and decide it."""
        self.context.clock.instant = release_instant(self.context.parameters, tick) + 1  # type: ignore[attr-defined]  # frozen
        return self.tick(tick)


@pytest.fixture
def make_site(
    connections: KafkaConnections,
    valkey: EmbeddedValkey,
    make_topic: Callable[..., tuple[str, str]],
    make_ledger: Callable[..., LedgerTopic],
    noise: Any,
    topic: Callable[[str], str],
) -> Iterator[Callable[..., Site]]:
    """A function that makes partitions, each with a ledger, an input of 2 partitions, and complete windows."""
    with ExitStack() as opened:

        def make(parameters: Parameters, clock: Clock, place: LedgerTopic | None = None, begin: bool = True) -> Site:
            name, topic_id = make_topic("visits", 2)
            ledger = replace(place or make_ledger(), input_partitions=2)
            client, mark = create_client(RedisAddress(valkey.url)), topic("mark")
            now = clock.now if isinstance(clock, SteppedClock) else None
            windows = opened.enter_context(closing(RedisStore(parameters, mark, client, now)))
            for partition in (0, 1) if begin else ():
                windows.begin(partition, 0, COMPLETE_FROM_START)
            watching = opened.enter_context(
                closing(InputTopic(connections, name, topic_id, (ledger.topic, ledger.topic_id)))
            )

            def take_over(partition: int) -> Owner:
                return own(connections, ledger, partition, parameters, clock, noise=noise)

            observer = RecordingObserver()
            context = TickContext(parameters, windows, watching, observer, clock, Signal())
            release = opened.enter_context(
                closing(PartitionTicks(0, context, take_over, Upkeep(parameters, context.store)))
            )
            return Site(release, context, windows, observer, name, mark, ledger, threading.Event(), take_over)

        yield make


@pytest.fixture
def make_closed_site(make_site: Callable[..., Site], make_parameters: Callable[..., Parameters]) -> Callable[..., Site]:
    """A function that takes over a partition whose slot 0 ended by Redis's clock, by default two seconds ago.

    The clock of the machine stands at the start of that slot. The tolerance is one second.
    """

    def make(seconds_ago: float = 2) -> Site:
        parameters = make_parameters(grid=SlotGrid(SystemClock().now() - HOUR - int(seconds_ago * SECOND), HOUR))
        site = make_site(parameters, RunningClock(parameters.grid.start(0)))
        assert site.release.take_over()
        return site

    return make


@pytest.fixture
def put(connections: KafkaConnections) -> Iterator[Callable[..., None]]:
    """A function that produces records to a partition of a topic."""
    with closing(connections.create_producer()) as producer:

        def produce(topic: str, partition: int, records: int) -> None:
            sent = [producer.send(topic, value=b"x", partition=partition) for _ in range(records)]
            for future in sent:
                future.get(timeout=10)

        yield produce


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], object]], threading.Thread]]:
    """A function that starts work on a thread, which is joined at the end."""
    threads: list[threading.Thread] = []

    def start(work: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=work)
        threads.append(thread)
        thread.start()
        return thread

    yield start
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
