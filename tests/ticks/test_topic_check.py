"""The topic check, once per slot: topics have the same ids, and each output partition is being decided."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

import pytest

from monitor.errors import InputChangedError, LedgerChangedError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.membership import Membership
from monitor.kinds.facts_and_questions import OffsetRange, Question
from monitor.kinds.parameters import Parameters
from monitor.ticks.loop import TickLoop
from monitor.ticks.owner import LedgerTopic
from monitor.time.clock import SystemClock
from monitor.time.instants import HOUR, SECOND
from tests.conftest import Eventually
from tests.store.packed import pack_shard_facts
from tests.ticks.worlds import FixedOwnership, World, make_short_slots

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]
MakeWorld = Callable[..., World]
ANN = b"a" * 16


def check_in(world: World, slot: int) -> None:
    """Run the topic check in a slot."""
    world.clock.step = 0
    world.clock.instant = world.parameters.grid.start(slot) + SECOND
    world.loop.check_topics()


def test_topics_are_checked_once_per_slot(make_world: MakeWorld) -> None:
    """The topics are checked once per slot, also by an instance without partitions."""
    world = make_world()
    world.owned = frozenset()
    for slot, asked in ((100, 1), (100, 1), (101, 2)):
        check_in(world, slot)
        assert world.input.asked == asked
    world.input.error = UnreachableError("no broker answers")
    check_in(world, 102)
    world.input.error = LedgerChangedError("re-created")
    with pytest.raises(LedgerChangedError):
        check_in(world, 102)


def test_failed_check_is_logged_once(make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    """A failed check is repeated in each cycle and logged once per slot."""
    world = make_world()
    world.input.error = UnreachableError("no broker answers")
    for slot, lines in ((100, 1), (100, 1), (101, 2)):
        check_in(world, slot)
        assert caplog.text.count("no broker answers") == lines
    assert world.input.asked == 3


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


def test_recreated_input_ends_idle_instance(
    make_site: MakeSite, make_parameters: Make, admin: Any, eventually: Eventually, make_world: MakeWorld
) -> None:
    """A re-created input ends an instance without output partitions too.

    It is a member of the input group, and would read its share under the old fingerprint.
    """
    parameters = make_parameters()
    clock = make_world().clock
    site = make_site(parameters, clock)
    with closing(TickLoop(site.context, site.take_over, cast("Any", FixedOwnership(frozenset())), 1)) as loop:
        loop.check_topics()
        admin.delete_topics([site.input_topic])
        eventually(lambda: site.input_topic not in admin.list_topics())
        clock.instant += HOUR
        with pytest.raises(InputChangedError):
            loop.check_topics()


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
