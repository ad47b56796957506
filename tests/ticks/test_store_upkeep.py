"""Upkeep between ticks: open the next slot, evict old facts, check the eviction policy."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from monitor.errors import EvictionError, StoreError, UnreachableError
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, OffsetRange, Question
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.parameters import Parameters
from monitor.ticks.store_upkeep import CHECK_SECONDS, RETRY_SECONDS, Upkeep
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR, SECOND, parse_instant
from monitor.time.schedule import Schedule
from tests.store.packed import pack_shard_facts
from tests.ticks.worlds import World, reading_instant

Make = Callable[..., Parameters]
MakeAt = Callable[..., AtTimes]
MakeSite = Callable[..., Any]
MakeWorld = Callable[..., World]
ANN, BOB = b"a" * 16, b"b" * 16


class TestOpening:
    def test_next_slot_opens_after_the_tick(self, make_world: MakeWorld) -> None:
        """The next slot opens when the tick is decided, and tick 101 then counts its facts."""
        world = make_world()
        release = world.take_partition()
        world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
        world.store.write([OffsetRange(0, 0, 1)], {0: pack_shard_facts(101, {1: [(ANN, 101)]})})
        question = {0: Question(((100, [1]),))}
        assert world.store.read(question)[0].counts[0][0] == 0
        assert release.decide_tick(100, world.stop)
        assert world.store.read(question)[0].counts[0][0] == 1

    def test_hot_spots_slot_stays_closed(self, make_world: MakeWorld) -> None:
        """A slot with hot spots is not opened after the tick: another instance may still have to count it."""
        instant = parse_instant("2026-01-05T04:30:00Z")  # in slot 100
        crowds = HotSpots("crowds", Schedule((instant,)), Fraction(1), 2, HOUR)
        world = make_world(changes={"hot_spots": (crowds,)})
        assert world.parameters.reads_all_shards(100)
        release = world.take_partition()
        world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
        world.store.write([OffsetRange(0, 0, 1)], {0: pack_shard_facts(101, {1: [(ANN, 101)]})})
        assert release.decide_tick(100, world.stop)
        assert world.store.read({0: Question(((100, [1]),))})[0].counts[0][0] == 0
        assert world.store.read({0: Question(((100, [1]),), tick=100)})[0].settled


class TestEviction:
    def test_facts_in_use_are_kept(
        self, make_site: MakeSite, make_parameters: Make, make_at_times: MakeAt, clock: SteppedClock
    ) -> None:
        """
        τ = 00:30 and 02:30, horizons of 2 and 6 hours: every snapshot of both monitors stays complete.

            tick      0  1  2  3  4  5  6  7  8
            00:30     *  *  .  .  .  .             "*" both ask, "." long alone
            02:30           *  *  .  .  .  .
        """
        times = ("2026-01-01T00:30:00Z", "2026-01-01T02:30:00Z")
        monitors = (make_at_times("short", *times, horizon=2), make_at_times("long", *times, horizon=6))
        parameters = make_parameters(places=1, window=2, at_times=monitors)
        site = make_site(parameters, clock)
        site.release.take_over()
        early, late = map(parse_instant, times)
        visits = pack_shard_facts(0, {0: [(ANN, 0), (BOB, 2)]}, {early: [(0, ANN), (0, BOB)], late: [(0, ANN)]})
        site.windows.write([OffsetRange(0, 0, 1)], {0: visits})
        statuses: dict[tuple[str, str], list[str]] = {}
        stations = []
        for tick in range(10):
            clock.move_to(reading_instant(parameters, tick))
            site.tick(tick)
            for record in site.release.last_records:
                value = json.loads(record.value)
                if value["kind"] == "at_times":
                    statuses.setdefault((value["monitor"], value["time"]), []).append(value["status"])
                    expected = {"place-0": {"tick": 0, "noisy_count": 2}} if value["time"] == times[0] else {}
                    assert value["noisy_counts"] == expected
                else:
                    stations.append(value["status"])
        assert statuses == {
            ("short", times[0]): ["complete"] * 2,
            ("long", times[0]): ["complete"] * 6,
            ("short", times[1]): ["complete"] * 2,
            ("long", times[1]): ["complete"] * 6,
        }
        assert "unknown" not in stations

    def test_unused_facts_are_evicted(
        self, make_site: MakeSite, make_parameters: Make, make_at_times: MakeAt, clock: SteppedClock
    ) -> None:
        """Facts that no tick reads any more are evicted, and a later count of them is unknown."""
        noon = parse_instant("2026-01-01T00:30:00Z")
        parameters = make_parameters(places=1, window=2, at_times=(make_at_times("noon", "2026-01-01T00:30:00Z"),))
        site = make_site(parameters, clock)
        site.release.take_over()
        site.windows.write([OffsetRange(0, 0, 1)], {0: pack_shard_facts(0, {0: [(ANN, 0)]}, {noon: [(0, ANN)]})})
        for tick in range(6):
            clock.move_to(reading_instant(parameters, tick))
            site.tick(tick)
        reading = site.windows.read({0: Question(((COMPLETE_FROM_START, [0]),), (noon,))})[0]
        assert reading.counts[0][0] == 0
        assert reading.present[noon].tolist() == [0]
        assert (reading.evicted_before, reading.times_evicted_until) == (3, noon)

    def test_failed_upkeep_keeps_the_tick(self, make_world: MakeWorld) -> None:
        """If the store is unreachable after the append, the tick stays decided and the partition continues."""
        world = make_world()

        def away(*_: Any) -> None:
            raise UnreachableError("Redis does not answer")

        world.store.open = world.store.evict = away  # type: ignore[method-assign, assignment]  # as if it was away
        release = world.take_partition()
        for tick in (100, 101):
            world.set_clocks(world.parameters.grid.as_of(tick) + SECOND)
            assert release.decide_tick(tick, world.stop)
        assert world.statuses_by_tick() == [(100, ["safe"]), (101, ["safe"])]


class TestEvictionPolicy:
    @pytest.mark.promise(36)
    def test_evicting_store_ends_the_release(self, make_world: MakeWorld) -> None:
        """If the store may evict facts since a failover, nothing is published and the error is raised."""
        world = make_world()
        release = world.take_partition()
        world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
        world.store.check_error = EvictionError("maxmemory-policy is allkeys-lru")
        with pytest.raises(EvictionError):
            release.decide_tick(100, world.stop)
        assert world.statuses_by_tick() == []

    def test_eviction_policy_is_checked_every_minute(
        self, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The eviction policy is checked every minute, and one second after a failed check, which stops nothing."""
        world = make_world()
        now = [0.0]
        monkeypatch.setattr("monitor.ticks.store_upkeep.time.monotonic", lambda: now[0])
        upkeep = Upkeep(world.parameters, world.store)
        checks = []
        for later, found in [(0.0, StoreError("no")), (RETRY_SECONDS, None), (1.0, None), (CHECK_SECONDS, None)]:
            now[0] += later
            world.store.check_error = found
            upkeep.check_eviction_policy()
            checks.append(world.store.checks)
        assert checks == [1, 2, 2, 3]

    def test_partitions_share_one_failed_check(self, make_world: MakeWorld, eventually: Callable[..., Any]) -> None:
        """Partitions that check at the same time share one failure.

        A hanging store must not delay them one after the other.
        """
        world = make_world()
        answering = threading.Event()

        def hangs() -> None:
            world.store.checks += 1
            answering.wait(20)
            raise UnreachableError("Redis does not answer")

        world.store.check = hangs  # type: ignore[method-assign]  # a server that hangs
        upkeep = Upkeep(world.parameters, world.store)
        threads = [threading.Thread(target=upkeep.check_eviction_policy) for _ in range(5)]
        for thread in threads:
            thread.start()
        eventually(lambda: world.store.checks == 1)
        answering.set()
        for thread in threads:
            thread.join(20)
        assert world.store.checks == 1
