"""Ticks on real servers: the barrier is waited for until the release, and what comes later is unknown or skipped."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from monitor.clock import Clock, SteppedClock, SystemClock
from monitor.connections import KafkaConnections
from monitor.contracts.alerts import TYPE_PREFIX
from monitor.embedded import EmbeddedValkey
from monitor.errors import InputChangedError, LedgerChangedError, UnreachableError
from monitor.release.barrier import InputTopic
from monitor.release.ledger import Record, read_partition
from monitor.release.loop import ReleaseLoop
from monitor.release.membership import Membership
from monitor.release.owner import LedgerPlace, Owner
from monitor.release.turning import run_release
from monitor.scheme import AtTimes, Scheme
from monitor.signals import Signal
from monitor.slots import Slots
from monitor.times import HOUR, MILLISECOND, SECOND, parse_instant
from monitor.windows.facts import SINCE_EVER, Question, Reading, ShardFacts, Span, Windows
from monitor.windows.keys import PROGRESS, Keys
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows

Make = Callable[..., Scheme]
MakeAt = Callable[..., AtTimes]
Eventually = Callable[..., Any]
ANN, BOB = b"a" * 16, b"b" * 16


@dataclass
class Counted:
    """What the loop says of its ticks."""

    ticks: list[tuple[Mapping[str, str], Mapping[tuple[str, str], int]]] = field(default_factory=list)
    skips: list[Sequence[str]] = field(default_factory=list)
    takeovers: list[str] = field(default_factory=list)

    def tick(self, as_of_seconds: float, outcomes: Mapping[str, str], answers: Mapping[tuple[str, str], int]) -> None:
        assert as_of_seconds > 0
        self.ticks.append((outcomes, answers))

    def skipped(self, monitors: Sequence[str]) -> None:
        self.skips.append(monitors)

    def tick_took(self, seconds: float) -> None:
        assert seconds >= 0

    def recovery(self, cause: str) -> None:
        self.takeovers.append(cause)


@dataclass
class Owned:
    """Which partitions this instance owns, as the test says."""

    owned: frozenset[int] = frozenset({0})


@dataclass
class FrozenClock:
    """A real clock that stands still, so that a test says which side of an instant it is on."""

    instant: int
    simulated: bool = False

    def now(self) -> int:
        return self.instant

    def wait_until(self, instant: int, wake: threading.Event) -> bool:  # noqa: ARG002  # it has always come
        return True


@dataclass
class World:
    """A loop and what it works on."""

    loop: ReleaseLoop
    windows: RedisWindows
    owned: Owned
    counted: Counted
    input_topic: str
    fingerprint: str
    place: LedgerPlace
    progressed: Signal
    stop: threading.Event

    def statuses(self) -> list[str]:
        """Of the records of the last tick."""
        return [json.loads(record.value)["status"] for record in self.loop.last_records]


MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(
    connections: KafkaConnections,
    valkey: EmbeddedValkey,
    make_topic: Callable[..., tuple[str, str]],
    make_ledger: Callable[..., LedgerPlace],
    noise: Any,
    topic: Callable[[str], str],
) -> Iterator[MakeWorld]:
    """Makes loops over a ledger, an input of 2 partitions and windows of their own, which hold all of it so far."""
    with ExitStack() as opened:

        def make(scheme: Scheme, clock: Clock, place: LedgerPlace | None = None, begin: bool = True) -> World:
            name, topic_id = make_topic("visits", 2)
            ledger = place or make_ledger()
            client, mark = redis_client(RedisAddress(valkey.url)), topic("mark")
            windows = opened.enter_context(closing(RedisWindows(scheme, mark, client)))
            for partition in (0, 1) if begin else ():
                windows.begin(partition, 0, SINCE_EVER)
            counted, owned, progressed = Counted(), Owned(), Signal()

            def take_over(partition: int) -> Owner:
                return Owner(connections, ledger, partition, scheme, noise, clock)

            watching = InputTopic(connections, name, topic_id, (ledger.topic, ledger.topic_id))
            loop = ReleaseLoop(scheme, windows, watching, owned, take_over, counted, clock, progressed)
            opened.enter_context(closing(loop))
            return World(loop, windows, owned, counted, name, mark, ledger, progressed, threading.Event())

        yield make


@pytest.fixture
def put(connections: KafkaConnections) -> Iterator[Callable[..., None]]:
    """Produces records to a partition of a topic."""
    with closing(connections.producer()) as producer:

        def produce(topic: str, partition: int, records: int) -> None:
            sent = [producer.send(topic, value=b"x", partition=partition) for _ in range(records)]
            for future in sent:
                future.get(timeout=10)

        yield produce


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], None]], threading.Thread]]:
    """Starts work on a thread, which is joined at the end."""
    threads: list[threading.Thread] = []

    def start(work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work)
        threads.append(thread)
        thread.start()
        return thread

    yield start
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def released(scheme: Scheme, tick: int) -> int:
    return scheme.slots.as_of(tick) + scheme.release_delay


def ended(connections: KafkaConnections, place: LedgerPlace) -> list[str]:
    """The kinds of records in the ledger after its first one."""
    found = [dict(record.headers)["ce_type"] for _, record in read_partition(connections, place.topic, 0)]
    return [kind.decode().removeprefix(TYPE_PREFIX) for kind in found[1:]]


class Spied:
    """Windows whose readings are counted, and may be hooked."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self.asked: list[Mapping[int, Question]] = []

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        self.asked.append(questions)
        return self._windows.read(questions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._windows, name)


def _short_slots(make_scheme: Make, **kept: Any) -> Scheme:
    """Slots of two seconds, as the system's clock goes; released half a second after their end."""
    scheme = make_scheme(slots=Slots(parse_instant("2026-01-01T00:00:00Z"), 2 * SECOND), **kept)
    return replace(scheme, release_delay=500 * MILLISECOND, tolerance=10 * MILLISECOND)


def _closed(make_scheme: Make, seconds_ago: int = 0) -> Scheme:
    """Slot 0 has closed, just now unless told otherwise: what Redis reads now is in time for its release."""
    return make_scheme(slots=Slots(SystemClock().now() - HOUR - seconds_ago * SECOND, HOUR))


class TestWaiting:
    def test_a_tick_waits_until_the_facts_reach_the_barrier(
        self,
        make_world: MakeWorld,
        make_scheme: Make,
        clock: SteppedClock,
        put: Callable[..., None],
        in_thread: Callable[..., Any],
        eventually: Eventually,
    ) -> None:
        """
        Five records lie in partition 1 when tick 0 closes; two people of them were at place-1.

            offset      0  1  2  3  4
            progress    ^                 waits, reading again
                        .  .  .  ^        waits
                        .  .  .  .  .  ^  decides
        """
        scheme = make_scheme()
        world = make_world(scheme, clock)
        world.loop.sync(1)
        put(world.input_topic, 1, 5)
        clock.move_to(released(scheme, 0))
        world.loop._windows = spied = Spied(world.windows)
        thread = in_thread(lambda: world.loop.tick(0, world.stop))
        eventually(lambda: len(spied.asked) > 2)
        world.windows.write([Span(1, 0, 3)], {0: ShardFacts(seen={1: ([ANN], [0])})})
        read = len(spied.asked)
        eventually(lambda: len(spied.asked) > read + 2)
        assert world.loop.decided.number == 0
        world.windows.write([Span(1, 3, 5)], {0: ShardFacts(seen={1: ([BOB], [0])})})
        world.progressed.happened()
        thread.join(20)
        assert world.statuses() == ["safe", "noisy_count", "safe"]
        assert world.counted.ticks == [
            ({"stations": "decided"}, {("stations", "safe"): 2, ("stations", "noisy_count"): 1})
        ]

    def test_every_partition_must_be_reached(
        self,
        make_world: MakeWorld,
        make_scheme: Make,
        put: Callable[..., None],
        connections: KafkaConnections,
    ) -> None:
        """Partition 0 is, partition 1 is one record short at the release: unknown, and it is never revised."""
        scheme = _closed(make_scheme)
        clock = FrozenClock(scheme.slots.start(0))
        world = make_world(scheme, clock)
        world.loop.sync(1)
        put(world.input_topic, 0, 1)
        put(world.input_topic, 1, 2)
        world.windows.write([Span(0, 0, 1), Span(1, 0, 1)], {})
        clock.instant = released(scheme, 0)
        world.loop.tick(0, world.stop)
        assert world.statuses() == ["unknown"] * 3
        assert world.counted.ticks == [({"stations": "unknown"}, {("stations", "unknown"): 3})]
        assert ended(connections, world.place) == ["owner", *["over_time"] * 3]

    def test_a_partition_without_progress_is_not_read(self, make_world: MakeWorld, make_scheme: Make) -> None:
        """Also where it is empty: nobody has begun to read it, so the windows say nothing about it yet."""
        scheme = _closed(make_scheme)
        clock = FrozenClock(scheme.slots.start(0))
        world = make_world(scheme, clock, begin=False)
        world.loop.sync(1)
        clock.instant = released(scheme, 0)
        world.loop.tick(0, world.stop)
        assert world.statuses() == ["unknown"] * 3

    def test_on_the_systems_clock_a_barrier_that_is_not_reached_by_the_release_is_unknown(
        self, make_world: MakeWorld, make_scheme: Make, put: Callable[..., None]
    ) -> None:
        """Slots of two seconds, released half a second after their end, and a record that nobody reads."""
        clock = SystemClock()
        scheme = _short_slots(make_scheme)
        world = make_world(scheme, clock)
        world.loop.sync(1)
        put(world.input_topic, 0, 1)
        tick = scheme.slots.slot_of(clock.now())
        world.loop.tick(tick, world.stop)
        assert released(scheme, tick) <= clock.now() < scheme.slots.as_of(tick + 1)
        assert world.statuses() == ["unknown"] * 3

    def test_on_the_systems_clock_what_is_complete_leaves_at_the_release_and_not_before(
        self, make_world: MakeWorld, make_scheme: Make
    ) -> None:
        """The moment of publishing tells nothing about the load: Kafka holds no answer before the release."""
        clock = SystemClock()
        scheme = _short_slots(make_scheme)
        world = make_world(scheme, clock)
        world.loop.sync(1)
        tick = scheme.slots.slot_of(clock.now())
        world.loop.tick(tick, world.stop)
        assert clock.now() >= released(scheme, tick)
        assert world.statuses() == ["safe"] * 3

    def test_shards_that_are_complete_are_not_made_unknown_by_one_that_is_not(
        self, make_world: MakeWorld, make_scheme: Make, put: Callable[..., None], valkey: EmbeddedValkey
    ) -> None:
        """Shard 1 lags until after the release: shard 0 was read in time, and is not read again."""
        clock = SystemClock()
        scheme = _short_slots(make_scheme, places=12, shards=2)
        world = make_world(scheme, clock)
        world.loop.sync(1)
        put(world.input_topic, 0, 1)
        world.windows.write([Span(0, 0, 1)], {})
        with closing(redis_client(RedisAddress(valkey.url))) as raw:
            raw.hset(Keys(scheme.name, world.fingerprint).meta(1), f"{PROGRESS}0", "0")
        assert [progress[0] for progress in world.windows.progress()] == [1, 0]
        world.loop._windows = spied = Spied(world.windows)
        tick = scheme.slots.slot_of(clock.now())
        world.loop.tick(tick, world.stop)
        shards = [int(shard) for shard in scheme.registry.shard]
        assert world.statuses() == [("safe", "unknown")[shard] for shard in shards]
        whole = [sorted(asked) for asked in spied.asked if asked != {0: Question()}]  # which asks for the time alone
        assert whole[:2] == [[0, 1], [1]]


class TestRedisClock:
    @pytest.mark.parametrize(("seconds_ago", "status"), [(90, "unknown"), (10, "safe")])
    def test_a_reading_that_redis_dates_after_the_release_is_unknown(
        self, seconds_ago: int, status: str, make_world: MakeWorld, make_scheme: Make
    ) -> None:
        """The counts must be read before the next slot's visits come in, by Redis's clock too (rule 2)."""
        scheme = _closed(make_scheme, seconds_ago)
        clock = FrozenClock(scheme.slots.start(0))
        world = make_world(scheme, clock)
        world.loop.sync(1)
        clock.instant = released(scheme, 0)
        world.loop.tick(0, world.stop)
        assert world.statuses() == [status] * 3

    def test_a_tick_that_has_not_closed_by_rediss_clock_is_not_answered(
        self, make_world: MakeWorld, make_scheme: Make, connections: KafkaConnections
    ) -> None:
        """The clock is a minute ahead: "safe" would speak of visits that are yet to be reported."""
        scheme = _closed(make_scheme, -60)
        clock = FrozenClock(scheme.slots.start(0))
        world = make_world(scheme, clock)
        world.loop.sync(1)
        clock.instant = released(scheme, 0)
        world.loop.tick(0, world.stop)
        assert ended(connections, world.place) == ["owner"]
        assert world.counted.skips == [["stations"]]

    def test_a_simulated_clock_asks_redis_for_no_time(
        self, make_world: MakeWorld, make_scheme: Make, clock: SteppedClock
    ) -> None:
        """Redis's clock knows nothing of simulated time."""
        scheme = make_scheme()
        world = make_world(scheme, clock)
        world.loop.sync(1)
        clock.move_to(released(scheme, 0))
        world.loop.tick(0, world.stop)
        assert world.statuses() == ["safe"] * 3


class TestLateness:
    def test_a_tick_that_is_not_decided_before_the_next_one_closes_is_skipped(
        self, make_world: MakeWorld, make_scheme: Make, connections: KafkaConnections
    ) -> None:
        """
        The process was stopped within tick 0's release, and goes on in slot 2.

            slot      0  1  2
            tick 0        |  x         as_of(1) has passed: nothing of it gets into the ledger
        """
        scheme = make_scheme()
        clock = FrozenClock(scheme.slots.start(0))
        world = make_world(scheme, clock)
        world.loop.sync(1)
        clock.instant = scheme.slots.as_of(1)
        world.loop.tick(0, world.stop)
        assert world.counted.skips == [["stations"]]
        assert world.counted.ticks == []
        assert world.loop.last_tick is None
        assert ended(connections, world.place) == ["owner"]

    def test_told_to_stop_it_decides_nothing(
        self, make_world: MakeWorld, make_scheme: Make, clock: SteppedClock, connections: KafkaConnections
    ) -> None:
        """A stop within the wait for the release."""
        scheme = make_scheme()
        world = make_world(scheme, clock)
        world.loop.sync(1)
        world.stop.set()
        world.loop.tick(0, world.stop)
        assert ended(connections, world.place) == ["owner"]

    def test_an_instance_that_owns_nothing_counts_nothing(self, make_world: MakeWorld, make_scheme: Make) -> None:
        """Neither a tick, nor a skipped one."""
        scheme = make_scheme()
        clock = FrozenClock(released(scheme, 0))
        world = make_world(scheme, clock)
        world.owned.owned = frozenset()
        world.loop.sync(1)
        world.loop.tick(0, world.stop)
        clock.instant = scheme.slots.as_of(2)
        world.loop.tick(1, world.stop)
        assert (world.counted.ticks, world.counted.skips) == ([], [])


class TestOwnership:
    def test_what_is_owned_is_taken_over_and_what_is_not_is_let_go(
        self,
        make_world: MakeWorld,
        make_scheme: Make,
        clock: SteppedClock,
        make_ledger: Callable[..., LedgerPlace],
    ) -> None:
        """Partitions beyond Q hold no shards, so they are not taken over."""
        world = make_world(make_scheme(places=8, shards=2), clock, make_ledger(queues=2))
        world.owned.owned = frozenset({0, 1, 2})
        world.loop.sync(2)
        assert sorted(world.loop.owners) == [0, 1]
        kept = world.loop.owners[1]
        world.owned.owned = frozenset({1})
        world.loop.sync(2)
        assert dict(world.loop.owners) == {1: kept}
        assert world.counted.takeovers == ["takeover", "takeover"]

    def test_a_loop_that_was_fenced_takes_over_anew(
        self, make_world: MakeWorld, make_scheme: Make, clock: SteppedClock, connections: KafkaConnections
    ) -> None:
        """Two loops on one ledger: the first one's tick 0 is refused; once it has it back, it decides what is left."""
        scheme = make_scheme()
        first = make_world(scheme, clock)
        second = make_world(scheme, clock, first.place)
        first.loop.sync(1)
        second.loop.sync(1)
        clock.move_to(released(scheme, 0))
        first.loop.tick(0, first.stop)
        assert first.loop.owners == {}
        assert first.counted.ticks == []
        second.loop.tick(0, second.stop)
        first.loop.sync(1)
        clock.move_to(released(scheme, 1))
        first.loop.tick(0, first.stop)
        first.loop.tick(1, first.stop)
        assert [json.loads(record.value)["tick"] for record in first.loop.last_records] == [1, 1, 1]
        told = [kind for kind in ended(connections, first.place) if kind != "owner"]
        assert told == ["over_time"] * 9, "tick 0, its bytes again by the takeover, tick 1"

    def test_an_append_whose_outcome_is_not_known_is_taken_over_and_never_drawn_again(
        self, make_world: MakeWorld, make_scheme: Make, clock: SteppedClock, connections: KafkaConnections, noise: Any
    ) -> None:
        """
        The answers of tick 0 are in the ledger, their acknowledgement is lost; the next draw would be another answer.

            draw      0          9
            append    sent, ?    -     taken over anew: the same bytes once more (rule 4)
        """
        scheme = make_scheme(places=1)
        world = make_world(scheme, clock)
        noise.script = [0, 9, 9]
        world.loop.sync(1)
        writer = world.loop.owners[0]._writer
        append = writer.append

        def unacknowledged(records: Sequence[Record]) -> int:
            append(records)
            writer.append = append  # type: ignore[method-assign]  # once
            raise UnreachableError("no broker answers")

        writer.append = unacknowledged  # type: ignore[method-assign]  # as above
        clock.move_to(released(scheme, 0))
        world.loop.tick(0, world.stop)
        world.loop.sync(1)
        world.loop.tick(0, world.stop)
        told: dict[bytes, set[Record]] = {}
        for _, record in read_partition(connections, world.place.topic, 0):
            told.setdefault(dict(record.headers)["ce_id"], set()).add(record)
        assert {len(records) for records in told.values()} == {1}
        assert ended(connections, world.place) == ["owner", "over_time", "owner", "over_time"]
        assert len(noise.drawn) == 1

    def test_an_input_that_was_made_anew_ends_the_loop(
        self, make_world: MakeWorld, make_scheme: Make, clock: SteppedClock, admin: Any, eventually: Eventually
    ) -> None:
        """Everything must be made anew under another fingerprint; nothing is decided."""
        scheme = make_scheme()
        world = make_world(scheme, clock)
        world.loop.sync(1)
        admin.delete_topics([world.input_topic])
        eventually(lambda: world.input_topic not in admin.list_topics())
        clock.move_to(released(scheme, 0))
        with pytest.raises(InputChangedError):
            world.loop.tick(0, world.stop)
        assert world.loop.last_tick is None

    def test_an_input_that_was_made_anew_ends_the_loop_of_an_instance_that_owns_nothing_too(
        self, make_world: MakeWorld, make_scheme: Make, clock: SteppedClock, admin: Any, eventually: Eventually
    ) -> None:
        """It holds input partitions, whose visits nobody else would read under the new fingerprint."""
        scheme = make_scheme()
        world = make_world(scheme, clock)
        world.owned.owned = frozenset()
        world.loop.sync(1)
        clock.move_to(released(scheme, 1))
        world.loop.tick(0, world.stop)
        admin.delete_topics([world.input_topic])
        eventually(lambda: world.input_topic not in admin.list_topics())
        with pytest.raises(InputChangedError):
            world.loop.tick(1, world.stop)

    def test_a_ledger_that_was_made_anew_ends_the_loop_and_nothing_gets_into_it(
        self,
        make_world: MakeWorld,
        make_scheme: Make,
        clock: SteppedClock,
        admin: Any,
        connections: KafkaConnections,
        eventually: Eventually,
    ) -> None:
        """Its owner goes by the topic's id, its records by the topic's name: they would stand beside another's."""
        scheme = make_scheme()
        world = make_world(scheme, clock)
        world.loop.sync(1)
        clock.move_to(released(scheme, 0))
        world.loop.tick(0, world.stop)
        admin.delete_topics([world.place.topic])
        eventually(lambda: world.place.topic not in admin.list_topics())
        anew = {"num_partitions": 1, "replication_factor": 1}
        admin.create_topics({world.place.topic: anew}, wait_for_metadata=True)
        clock.move_to(released(scheme, 1))
        with pytest.raises(LedgerChangedError):
            world.loop.tick(1, world.stop)
        assert list(read_partition(connections, world.place.topic, 0)) == []


class TestTidying:
    def test_nothing_that_is_still_asked_about_is_dropped(
        self, make_world: MakeWorld, make_scheme: Make, make_at_times: MakeAt, clock: SteppedClock
    ) -> None:
        """
        τ = 00:30 and 02:30; "short" asks for 2 hours, "long" for 6: every snapshot of both stays complete.

            tick      0  1  2  3  4  5  6  7  8
            00:30     *  *  .  .  .  .             "*" both ask, "." long alone
            02:30           *  *  .  .  .  .
        """
        times = ("2026-01-01T00:30:00Z", "2026-01-01T02:30:00Z")
        monitors = (make_at_times("short", *times, horizon=2), make_at_times("long", *times, horizon=6))
        scheme = make_scheme(places=1, window=2, at_times=monitors)
        world = make_world(scheme, clock)
        world.loop.sync(1)
        early, late = map(parse_instant, times)
        row = (0).to_bytes(4, "big")
        visits = ShardFacts({0: ([ANN, BOB], [0, 2])}, {early: [row + ANN, row + BOB], late: [row + ANN]})
        world.windows.write([Span(0, 0, 0)], {0: visits})
        told: dict[tuple[str, str], list[str]] = {}
        stations = []
        for tick in range(10):
            clock.move_to(released(scheme, tick))
            world.loop.tick(tick, world.stop)
            for record in world.loop.last_records:
                value = json.loads(record.value)
                if value["kind"] == "at_times":
                    told.setdefault((value["monitor"], value["time"]), []).append(value["status"])
                    expected = {"place-0": {"tick": 0, "noisy_count": 2}} if value["time"] == times[0] else {}
                    assert value["noisy_counts"] == expected
                else:
                    stations.append(value["status"])
        assert told == {
            ("short", times[0]): ["complete"] * 2,
            ("long", times[0]): ["complete"] * 6,
            ("short", times[1]): ["complete"] * 2,
            ("long", times[1]): ["complete"] * 6,
        }
        assert "unknown" not in stations

    def test_what_nobody_asks_about_any_more_is_dropped_and_said_so(
        self, make_world: MakeWorld, make_scheme: Make, make_at_times: MakeAt, clock: SteppedClock
    ) -> None:
        """Data minimisation: windows are cut, times go, and a later count of them would be unknown."""
        noon = parse_instant("2026-01-01T00:30:00Z")
        scheme = make_scheme(places=1, window=2, at_times=(make_at_times("noon", "2026-01-01T00:30:00Z"),))
        world = make_world(scheme, clock)
        world.loop.sync(1)
        visits = ShardFacts({0: ([ANN], [0])}, {noon: [(0).to_bytes(4, "big") + ANN]})
        world.windows.write([Span(0, 0, 0)], {0: visits})
        for tick in range(6):
            clock.move_to(released(scheme, tick))
            world.loop.tick(tick, world.stop)
        reading = world.windows.read({0: Question(((0, SINCE_EVER),), (noon,))})[0]
        assert reading.counts[0, SINCE_EVER] == 0
        assert reading.present[noon].tolist() == [0]
        assert (reading.trimmed, reading.dropped) == (3, noon)


class TestTurning:
    def test_the_loop_decides_one_tick_a_slot_until_told_to_stop(
        self,
        make_world: MakeWorld,
        make_scheme: Make,
        clock: SteppedClock,
        in_thread: Callable[..., Any],
        eventually: Eventually,
        connections: KafkaConnections,
    ) -> None:
        """Taken over within slot 0, so tick 0 is the first."""
        scheme = make_scheme()
        world = make_world(scheme, clock)
        wake = threading.Event()
        said: list[str] = []
        in_thread(lambda: run_release(world.loop, 1, clock, scheme, world.stop, wake, said.append))
        try:
            eventually(lambda: "" in said)
            for tick in range(3):
                clock.move_to(released(scheme, tick))
                eventually(lambda expected=tick: world.loop.last_tick == expected)
        finally:
            world.stop.set()
            wake.set()
        assert world.loop.decided.number == 3
        assert ended(connections, world.place).count("over_time") == 9

    def test_a_takeover_that_fails_is_told_and_tried_again(
        self,
        make_world: MakeWorld,
        make_scheme: Make,
        clock: SteppedClock,
        in_thread: Callable[..., Any],
        eventually: Eventually,
    ) -> None:
        """Brokers that cannot be reached at first: health says so, and nothing is decided before it has worked."""
        scheme = make_scheme()
        world = make_world(scheme, clock)
        true_take_over, tried = world.loop._take_over, []

        def failing(partition: int) -> Owner:
            tried.append(partition)
            if len(tried) < 3:
                raise UnreachableError("no broker answers")
            return true_take_over(partition)

        world.loop._take_over = failing
        wake = threading.Event()
        said: list[str] = []
        in_thread(lambda: run_release(world.loop, 1, clock, scheme, world.stop, wake, said.append))
        try:
            eventually(lambda: world.loop.owners)
            clock.move_to(released(scheme, 0))
            eventually(lambda: world.loop.last_tick == 0)
        finally:
            world.stop.set()
            wake.set()
        assert said[:2] == ["taking over: no broker answers"] * 2

    def test_members_share_the_partitions_and_take_over_what_is_left(
        self,
        connections: KafkaConnections,
        make_topic: Callable[..., tuple[str, str]],
        topic: Callable[[str], str],
        eventually: Eventually,
    ) -> None:
        """Two members own one partition each; when one leaves, the other is woken and owns both."""
        name, _ = make_topic("ledger", 2)
        group, wake = topic("release"), threading.Event()
        with closing(Membership(connections, name, group, wake)) as first:
            eventually(lambda: first.owned == {0, 1}, deadline_seconds=20)
            with closing(Membership(connections, name, group, threading.Event())) as second:
                eventually(lambda: len(first.owned) == len(second.owned) == 1, deadline_seconds=20)
                assert first.owned | second.owned == {0, 1}
                wake.clear()
            assert wake.wait(20)
            eventually(lambda: first.owned == {0, 1}, deadline_seconds=20)
