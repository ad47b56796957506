"""Between ticks: facts of the next slot are let in, old ones cut off, and the store is seen to evict nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from monitor.errors import EvictionError, UnreachableError, WindowsError
from monitor.public.clock import SteppedClock
from monitor.public.instants import HOUR, SECOND, parse_instant
from monitor.public.parameters import AtTimes, HotSpots, Parameters
from monitor.public.schedule import Schedule
from monitor.release.upkeep import AGAIN_SECONDS, CHECK_SECONDS, Upkeep
from monitor.windows.facts import COMPLETE_FROM_START, Question, Span
from monitor.windows.packing import pack_shard_facts
from tests.release.worlds import World, released

Make = Callable[..., Parameters]
MakeAt = Callable[..., AtTimes]
MakeSite = Callable[..., Any]
MakeWorld = Callable[..., World]
ANN, BOB = b"a" * 16, b"b" * 16


class TestOpening:
    def test_facts_of_the_next_slot_are_let_in_once_the_tick_is_decided(self, make_world: MakeWorld) -> None:
        """They waited while tick 100 could be counted; tick 101 is asked about what is there."""
        world = make_world()
        release = world.partition()
        release.take_over()
        world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
        world.store.write([Span(0, 0, 1)], {0: [pack_shard_facts(101, {1: [(ANN, 101)]})]})
        question = {0: Question(((1, 100),))}
        assert world.store.read(question)[0].counts[1, 100] == 0
        assert release.tick(100, world.stop)
        assert world.store.read(question)[0].counts[1, 100] == 1

    def test_not_where_hot_spots_are_due_for_their_owner_reads_the_shards_of_others(
        self, make_world: MakeWorld
    ) -> None:
        """They open with the clock then: another instance may still have to count tick 100."""
        instant = parse_instant("2026-01-05T04:30:00Z")  # in slot 100
        crowds = HotSpots("crowds", Schedule((instant,)), Fraction(1), 2, HOUR)
        world = make_world(changes={"hot_spots": (crowds,)})
        assert world.parameters.draws_hot_spots_at(100)
        release = world.partition()
        release.take_over()
        world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
        world.store.write([Span(0, 0, 1)], {0: [pack_shard_facts(101, {1: [(ANN, 101)]})]})
        assert release.tick(100, world.stop)
        assert world.store.read({0: Question(((1, 100),))})[0].counts[1, 100] == 0
        assert world.store.read({0: Question(((1, 100),), tick=100)})[0].settled


class TestTidying:
    def test_nothing_that_is_still_asked_about_is_dropped(
        self, make_site: MakeSite, make_parameters: Make, make_at_times: MakeAt, clock: SteppedClock
    ) -> None:
        """
        τ = 00:30 and 02:30; "short" asks for 2 hours, "long" for 6: every snapshot of both stays complete.

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
        site.windows.write([Span(0, 0, 1)], {0: [visits]})
        told: dict[tuple[str, str], list[str]] = {}
        stations = []
        for tick in range(10):
            clock.move_to(released(parameters, tick))
            site.tick(tick)
            for record in site.release.last_records:
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
        self, make_site: MakeSite, make_parameters: Make, make_at_times: MakeAt, clock: SteppedClock
    ) -> None:
        """Data minimisation: windows are cut, times go, and a later count of them would be unknown."""
        noon = parse_instant("2026-01-01T00:30:00Z")
        parameters = make_parameters(places=1, window=2, at_times=(make_at_times("noon", "2026-01-01T00:30:00Z"),))
        site = make_site(parameters, clock)
        site.release.take_over()
        site.windows.write([Span(0, 0, 1)], {0: [pack_shard_facts(0, {0: [(ANN, 0)]}, {noon: [(0, ANN)]})]})
        for tick in range(6):
            clock.move_to(released(parameters, tick))
            site.tick(tick)
        reading = site.windows.read({0: Question(((0, COMPLETE_FROM_START),), (noon,))})[0]
        assert reading.counts[0, COMPLETE_FROM_START] == 0
        assert reading.present[noon].tolist() == [0]
        assert (reading.evicted_before, reading.times_evicted_until) == (3, noon)

    def test_a_store_that_is_away_then_costs_nothing_but_time(self, make_world: MakeWorld) -> None:
        """Facts wait, and old ones are kept: the tick is in the ledger, and the partition goes on."""
        world = make_world()

        def away(*_: Any) -> None:
            raise UnreachableError("Redis does not answer")

        world.store.open = world.store.evict = away  # type: ignore[method-assign, assignment]  # as if it was away
        release = world.partition()
        release.take_over()
        for tick in (100, 101):
            world.set_clocks(world.parameters.grid.as_of(tick) + SECOND)
            assert release.tick(tick, world.stop)
        assert world.told() == [(100, ["safe"]), (101, ["safe"])]


class TestEviction:
    def test_a_store_that_may_evict_since_a_failover_ends_all_answering(self, make_world: MakeWorld) -> None:
        """Facts may be gone, and what is read says "safe": it is not published, and the reason is raised."""
        world = make_world()
        release = world.partition()
        release.take_over()
        world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
        world.store.found = EvictionError("maxmemory-policy is allkeys-lru")
        with pytest.raises(EvictionError):
            release.tick(100, world.stop)
        assert world.told() == []

    def test_the_store_is_looked_at_again_after_a_minute(
        self, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And a second after it could not be looked at; a failure to look stops nothing."""
        world = make_world()
        now = [0.0]
        monkeypatch.setattr("monitor.release.upkeep.time.monotonic", lambda: now[0])
        upkeep = Upkeep(world.parameters, world.store)
        checks = []
        for later, found in [(0.0, WindowsError("no")), (AGAIN_SECONDS, None), (1.0, None), (CHECK_SECONDS, None)]:
            now[0] += later
            world.store.found = found
            upkeep.look()
            checks.append(world.store.checks)
        assert checks == [1, 2, 2, 3]

    def test_partitions_that_look_at_once_wait_for_one_failure_and_not_for_one_each(
        self, make_world: MakeWorld, eventually: Callable[..., Any]
    ) -> None:
        """A store that hangs for seconds would hold one partition up after the other, and the last beyond its slot."""
        world = make_world()
        answering = threading.Event()

        def hangs() -> None:
            world.store.checks += 1
            answering.wait(20)
            raise UnreachableError("Redis does not answer")

        world.store.check = hangs  # type: ignore[method-assign]  # a server that hangs
        upkeep = Upkeep(world.parameters, world.store)
        threads = [threading.Thread(target=upkeep.look) for _ in range(5)]
        for thread in threads:
            thread.start()
        eventually(lambda: world.store.checks == 1)
        answering.set()
        for thread in threads:
            thread.join(20)
        assert world.store.checks == 1
