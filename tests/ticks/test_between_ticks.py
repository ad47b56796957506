"""What an instance does between ticks: it evicts old facts, and checks the store, the topics, and hidden answers."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

import pytest

from monitor.errors import EvictionError, LedgerChangedError, StoreError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.membership import Membership
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, OffsetRange, Question
from monitor.kinds.parameters import Parameters
from monitor.ticks import hidden_answers
from monitor.ticks.hidden_answers import OPEN_SECONDS, HiddenAnswers
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.loop import TickLoop
from monitor.ticks.owner import LedgerTopic
from monitor.ticks.store_upkeep import CHECK_SECONDS, RETRY_SECONDS, Upkeep
from monitor.time.clock import SteppedClock, SystemClock
from monitor.time.instants import SECOND, parse_instant
from tests.conftest import Eventually
from tests.store.packed import pack_shard_facts
from tests.ticks.worlds import FakeInputTopic, World, make_short_slots, reading_instant

Make = Callable[..., Parameters]
MakeAt = Callable[..., AtTimes]
MakeSite = Callable[..., Any]
MakeWorld = Callable[..., World]
ANN, BOB = b"a" * 16, b"b" * 16


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
        """The eviction policy is checked every minute, and one second after a failed check, which stops nothing.

        The pause begins at the end of a check: partitions that wait for a hanging store share its failure.
        """
        world = make_world()
        now, check = [0.0], world.store.check

        def hang() -> None:
            now[0] += 2 * RETRY_SECONDS
            check()

        world.store.check = hang  # type: ignore[method-assign]  # a server that hangs
        monkeypatch.setattr("monitor.ticks.store_upkeep.time.monotonic", lambda: now[0])
        upkeep = Upkeep(world.parameters, world.store)
        checks = []
        waits = [(0.0, StoreError("no")), (0.0, None), (RETRY_SECONDS, None), (1.0, None), (CHECK_SECONDS, None)]
        for later, found in waits:
            now[0] += later
            world.store.check_error = found
            upkeep.check_eviction_policy()
            checks.append(world.store.checks)
        assert checks == [1, 1, 2, 2, 3]


def check_in(world: World, slot: int) -> None:
    """Run the topic check in a slot."""
    world.clock.step = 0
    world.clock.instant = world.parameters.grid.start(slot) + SECOND
    world.loop.check_topics()


def test_topics_are_checked_once_per_slot(make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    """The topics are checked once per slot, also by an instance without partitions.

    A failed check is repeated in each cycle and logged once per slot.
    """
    world = make_world()
    world.owned = frozenset()
    for slot, asked in ((100, 1), (100, 1), (101, 2)):
        check_in(world, slot)
        assert world.input.asked == asked
    world.input.error = UnreachableError("no broker answers")
    for slot, asked, lines in ((102, 3, 1), (102, 4, 1), (103, 5, 2)):
        check_in(world, slot)
        assert (world.input.asked, caplog.text.count("no broker answers")) == (asked, lines)
    world.input.error = LedgerChangedError("re-created")
    with pytest.raises(LedgerChangedError):
        check_in(world, 103)


def test_undecided_partition_is_reported(make_world: MakeWorld) -> None:
    """
    In slot 104 tick 103 is being decided, so every partition must contain tick 102.

    The first two slots are not checked.

        partition 0    102
        partition 1    100, then 103
    """
    world = make_world(ledger_partitions=2)
    world.input.last_ticks = {0: 101, 1: 100}
    for slot in (102, 103):
        check_in(world, slot)
        assert world.loop.trouble == ""
    world.input.last_ticks = {0: 102, 1: 100}
    check_in(world, 104)
    assert world.loop.trouble == (
        "ledger partitions 1 have no answers of 2026-01-05T07:00:00Z: no instance decides them"
    )
    world.input.last_ticks = {0: 103, 1: 103}
    check_in(world, 105)
    assert world.loop.trouble == ""


def test_partition_without_answers_is_reported(make_world: MakeWorld) -> None:
    """A partition without any tick is reported too. The partition that this instance owns is not read."""
    world = make_world(ledger_partitions=2)
    world.input.last_ticks = {}
    world.owned = frozenset({0})
    world.publish_up_to(102)
    try:
        world.loop.reconcile()
        while 0 not in world.loop.owners:
            world.stop.wait(0.01)
        for slot in (102, 103, 104):
            check_in(world, slot)
        assert "ledger partitions 1 have no answers" in world.loop.trouble
    finally:
        world.loop.close()


def test_waiting_instance_evicts_old_facts(make_world: MakeWorld) -> None:
    """An instance that waits to join evicts old facts: no owner of a partition does it for a new configuration."""
    world = make_world()
    world.joined = False
    question = {0: Question(((100, [1]),))}
    world.store.write([OffsetRange(0, 0, 1)], {0: pack_shard_facts(100, {1: [(ANN, 100)]})})
    world.set_clocks(world.parameters.grid.start(101) + SECOND)
    world.store.open([0], 101)
    widest = world.parameters.widest_window
    for slot, kept in ((101, 1), (101 + widest, 1), (102 + 2 * widest + world.parameters.history_slots, 0)):
        world.set_clocks(world.parameters.grid.start(slot) + SECOND)
        world.loop.check_topics()
        assert world.store.read(question)[0].counts[0][0] == kept


def test_waiting_instance_reports_no_partition(make_world: MakeWorld) -> None:
    """An instance reports undecided partitions only after it has been a member for a whole slot."""
    world = make_world()
    world.input.last_ticks = {0: 90}
    world.joined = False
    for slot in (103, 104, 105):
        check_in(world, slot)
        assert world.loop.trouble == ""
    world.joined = True
    for slot in (106, 107):
        check_in(world, slot)
        assert world.loop.trouble == ""
    check_in(world, 108)
    assert "no instance decides them" in world.loop.trouble


class PresentMembership(Membership):
    """A membership that has joined its group."""

    joined = True


@pytest.mark.promise(40)
def test_partition_of_foreign_member_is_reported(
    make_site: MakeSite,
    make_parameters: Make,
    connections: KafkaConnections,
    make_ledger: Callable[..., LedgerTopic],
    topic: Callable[[str], str],
    in_thread: Callable[..., Any],
    eventually: Eventually,
) -> None:
    """
    A foreign consumer in the release group decides nothing, so its partition is reported.

        partition 0    ours      answers of the last tick
        partition 1    theirs    none
    """
    ledger = make_ledger(ledger_partitions=2)
    site = make_site(make_short_slots(make_parameters, places=8, shards=2), SystemClock(), ledger)
    group, stop, wake = topic("release"), threading.Event(), threading.Event()
    troubles: list[str] = []
    foreign = connections.create_member(group, auto_offset_reset="earliest")
    foreign.subscribe([ledger.topic])
    with closing(foreign), closing(PresentMembership(connections, ledger.topic, group, wake)) as ours:

        def shared() -> bool:
            foreign.poll(timeout_ms=50)
            return len(ours.owned) == 1

        eventually(shared, 30)
        (own,) = ours.owned
        with closing(TickLoop(site.context, site.take_over, cast("Any", ours), 2)) as loop:
            thread = in_thread(lambda: loop.run(stop, wake, troubles.append))
            try:
                eventually(lambda: loop.last_tick is not None, 20)
                eventually(lambda: troubles[-1], 20)
            finally:
                stop.set()
                wake.set()
                thread.join(20)
    assert re.fullmatch(f"ledger partitions {1 - own} have no answers of .*Z: no instance decides them", troubles[-1])


def test_open_transaction_is_reported(
    connections: KafkaConnections,
    make_topic: Callable[..., tuple[str, str]],
    put: Callable[[str, int, int], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    A transaction that has been open for a minute is logged once, with its partition and offset, until it ends.

        offset            0  1  2
        partition 0       x  x
        partition 1       x  o  x      "o" is open: subscribers see one record
    """
    (ledger, ledger_id), (visits, visits_id) = make_topic("ledger", 2), make_topic("visits")
    seconds, pause = [0.0], hidden_answers.CHECK_SECONDS
    with (
        closing(InputTopic(connections, visits, visits_id, (ledger, ledger_id))) as input_topic,
        closing(connections.create_producer(transactional_id=f"{ledger}-open")) as producer,
        caplog.at_level(logging.INFO, hidden_answers.__name__),
    ):
        put(ledger, 0, 2)
        put(ledger, 1, 1)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(ledger, value=b"o", partition=1).get(timeout=10)
        put(ledger, 1, 1)
        hidden = HiddenAnswers(input_topic, 2, lambda: seconds[0])
        troubles = []
        for seconds[0] in (0, OPEN_SECONDS - pause, OPEN_SECONDS, OPEN_SECONDS + pause):
            hidden.check()
            troubles.append(hidden.trouble)
        assert troubles[:2] == ["", ""]
        assert troubles[2] == troubles[3]
        assert "subscribers cannot read ledger partition 1 beyond offset 1: a producer has an open" in troubles[2]
        producer.abort_transaction()
        while hidden.trouble:  # the marker may arrive a moment later
            seconds[0] += pause
            hidden.check()
    logged = [record.getMessage() for record in caplog.records if record.name == hidden_answers.__name__]
    assert logged == [
        troubles[2],
        "subscribers can read all ledger partitions again",
    ]


def test_transactions_of_ticks_are_not_reported() -> None:
    """
    If the last stable offset moves between two checks, no transaction was open all the time.

        seconds          0    60   120  180
        stable offset    5    8    8    -       the one at 8 is reported after a minute
    """
    topic, seconds, troubles = FakeInputTopic(), [0.0], []
    hidden = HiddenAnswers(cast("Any", topic), 1, lambda: seconds[0])
    for seconds[0], topic.hidden in ((0, {0: 5}), (60, {0: 8}), (120, {0: 8}), (180, {})):
        hidden.check()
        troubles.append(bool(hidden.trouble))
    assert troubles == [False, False, True, False]


def test_hidden_answers_make_instance_unready(
    run_world: MakeWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readiness contains the reason while answers are hidden, although all ticks are decided."""
    monkeypatch.setattr(hidden_answers, "OPEN_SECONDS", 0.0)
    monkeypatch.setattr(hidden_answers, "CHECK_SECONDS", 0.0)
    world = run_world()
    world.input.hidden = {0: 7}
    eventually(lambda: world.loop.trouble.startswith("subscribers cannot read ledger partition 0 beyond offset 7"))
    world.input.hidden = {}
    eventually(lambda: not world.loop.trouble)
