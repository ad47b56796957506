"""A count is a function of the log: every order of steps of readers, owners and the store gives the same counts.

The real reader, windows and tick process a few records of two people. `interleavings.py` runs the steps, `exploring.py`
all their orders. Each reachable state is visited once. The counts of every reading that could decide a tick are those
of the accepted visits stamped before as_of. The same is true for the log without some records of a person.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import redis

from monitor.operate.servers import EmbeddedValkey
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from tests.privacy_service.exploring import Explored, explore
from tests.privacy_service.interleavings import World
from tests.privacy_service.plans import Entry, Plan

pytestmark = pytest.mark.long

# Late in slot 0; the start of slot 1, then when tick 0 may be counted, and after its release; the same for slot 2.
MOMENTS = ((0, 1_000), (1, 0), (1, 2), (1, 31), (2, 2), (2, 31))
FEWER = ((0, 1_000), (1, 2), (1, 31), (2, 2))

LOGS = {
    # Bob's and Ann's reports at the inn arrive just after as_of of tick 0, and before it is counted.
    "late": (
        Entry("ann", "mill", 20, 50, stamp=0, moment=0),
        Entry("bob", "inn", 10, 50, stamp=1, moment=1),
        Entry("ann", "inn", 70, 110, stamp=1, moment=1),
        Entry("bob", "mill", 80, 140, stamp=2, moment=4),
    ),
    # Ann's visit is reported twice, in slot 0 and in slot 1, and she visits again.
    "again": (
        Entry("ann", "inn", 10, 50, stamp=0, moment=0),
        Entry("ann", "inn", 10, 50, stamp=1, moment=1),
        Entry("bob", "inn", 70, 100, stamp=1, moment=2),
        Entry("ann", "inn", 130, 140, stamp=2, moment=4),
    ),
    # One visit is reported ahead of time (refused for F = 0), one lasts into the next slot (cut).
    "ahead": (
        Entry("ann", "inn", 70, 100, stamp=0, moment=0),
        Entry("bob", "inn", 10, 130, stamp=0, moment=0),
        Entry("ann", "inn", 70, 100, stamp=1, moment=1),
        Entry("bob", "mill", 80, 100, stamp=1, moment=2),
    ),
    # A leader with a fast clock stamps into the next slot, the next leader, with a slow clock, into the slot before.
    "skewed": (
        Entry("ann", "inn", 20, 50, stamp=1, moment=0),
        Entry("bob", "inn", 30, 50, stamp=0, moment=1),
        Entry("bob", "mill", 80, 100, stamp=1, moment=1),
        Entry("ann", "mill", 80, 100, stamp=2, moment=3),
    ),
}

SHORT = {
    "late": LOGS["late"][:3],
    "again": (*LOGS["again"][:2], Entry("ann", "inn", 130, 140, stamp=2, moment=3)),
}
"""Logs for the moments of FEWER."""

Stated = Callable[[str], tuple[int, int]]


@pytest.fixture(scope="session")
def stated() -> Stated:
    """The number of states and orders in tests/enumeration_sizes.txt: `stated("No fault")`."""
    text = (Path(__file__).parents[1] / "enumeration_sizes.txt").read_text(encoding="utf-8")

    def of(label: str) -> tuple[int, int]:
        ((states, orders),) = re.findall(rf"^\| {re.escape(label)} \| ([0-9,]+) \| ([0-9,]+) \|", text, re.MULTILINE)
        return int(states.replace(",", "")), int(orders.replace(",", ""))

    return of


def with_neighbours(plan: Plan) -> list[Explored]:
    """Explore the plan's log and the logs without some records of a person; check that no count rises."""
    explored = [explore(plan)]
    ticks = range(plan.moments[-1][0])
    for person, less in plan.neighbours():
        for tick in ticks:
            before, after = plan.counts(tick), less.counts(tick)
            assert all(0 <= before[cell] - after.get(cell, 0) <= 1 for cell in before), person
            assert after.keys() <= before.keys()
        explored.append(explore(less))
    return explored


def count_orders(fault: str, explored: list[Explored]) -> tuple[int, int]:
    """Return the number of states and orders; check that some readings had later facts in the store."""
    observed = [result.observed for result in explored]
    totals = sum(result.states for result in explored), sum(result.orders for result in explored)
    readings, later = sum(log.readings for log in observed), sum(log.ahead_of_the_tick for log in observed)
    unknown = sum(log.unknown for log in observed)
    print(f"{fault}: {totals[0]:,} states, {totals[1]:,} orders, {readings} readings, {later} with later facts there")
    assert readings > later > 0
    assert unknown > 0
    return totals


EVERY_LOG = [
    ("late", 1, 0),
    ("again", 2, 1),
    ("ahead", 2, 1),
    ("skewed", 1, 0),
    *(pytest.param(*case, marks=pytest.mark.soak) for case in [("late", 2, 1), ("again", 1, 0)]),
    *(pytest.param(*case, marks=pytest.mark.soak) for case in [("ahead", 1, 0), ("skewed", 2, 1)]),
]


@pytest.mark.promise(27)
@pytest.mark.parametrize(("log", "window", "max_lead"), EVERY_LOG)
def test_every_interleaving_gives_the_same_counts(log: str, window: int, max_lead: int, stated: Stated) -> None:
    """One reader and one owner: any number of records per poll, writes at once or late, looks before and after each.

    slot 0        |as_of  slot 1                           |as_of  slot 2
    ann@mill       bob@inn ann@inn                                  bob@mill
    poll, write, poll, look, poll, poll, write, look, answers, next slot is let in, poll, …
    """
    plan = Plan((LOGS[log],), MOMENTS, window, max_lead)
    assert count_orders(log, with_neighbours(plan)) == stated(f"No fault, {log}, W = {window}, F = {max_lead}")


@pytest.mark.promise(27)
@pytest.mark.parametrize(
    "log", ["again", *(pytest.param(log, marks=pytest.mark.soak) for log in ("late", "ahead", "skewed"))]
)
def test_every_interleaving_gives_the_same_counts_since(log: str, stated: Stated) -> None:
    """The same orders, and at every reading the counts by what was reported since each earlier tick."""
    plan = Plan((LOGS[log],), MOMENTS, 2, 1, answers=2)
    totals = count_orders(log, with_neighbours(plan))
    assert totals == stated(f"No fault, {log}, W = 2, F = 1") if log in {"again", "ahead"} else totals > (5_000, 0)


FAULTS: dict[str, dict[str, Any]] = {
    "A reader dies, its last write lands late": {"faults": (("crash", 1), ("zombie", 1))},
    "An owner dies, another looks at any moment of the next slot": {"faults": (("takeover", 1),)},
    "The store is emptied": {"faults": (("flush", 1),), "answers": 2},
    "The store falls back": {"faults": (("failover", 1),), "answers": 2},
    "Two readers read the partition": {"readers": ((0,), (0,))},
    "Two shards and two owners": {"shards": 2, "ledger_partitions": 2, "answers": 2},
    "Two owners, one of which asks about all shards": {"shards": 2, "ledger_partitions": 2, "ranked": True},
}

WORSE: dict[str, dict[str, Any]] = {
    "A reader dies and the store is emptied": {"faults": (("crash", 1), ("zombie", 1), ("flush", 1))},
    "A reader dies and the store falls back": {"faults": (("crash", 1), ("zombie", 1), ("failover", 1))},
    "An owner dies and the store falls back": {"faults": (("takeover", 1), ("failover", 1))},
    "Two readers and the store is emptied": {"readers": ((0,), (0,)), "faults": (("flush", 1),)},
}


@pytest.mark.promise(27)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_changes_a_count(fault: str, stated: Stated) -> None:
    """In every order of the fault and the other steps, a tick is unknown or has the counts of the log."""
    plan = Plan((SHORT["late"],), FEWER, 2, 1, **FAULTS[fault])
    assert count_orders(fault, [explore(plan)]) == stated(fault)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("fault", "log"), [*product({**FAULTS, **WORSE}, SHORT)])
def test_no_fault_changes_neighbouring_counts(fault: str, log: str) -> None:
    """No fault and no pair of faults changes a count, with and without each person's records."""
    plan = Plan((SHORT[log],), FEWER, 2, 1, **{**FAULTS, **WORSE}[fault])
    totals = count_orders(fault, with_neighbours(plan) if fault in FAULTS else [explore(plan)])
    assert totals[0] > 1_000


@pytest.mark.promise(27)
@pytest.mark.parametrize("readers", [((0, 1),), ((0,), (1,))], ids=["one reader", "two readers"])
def test_two_partitions_at_any_speed(readers: tuple[tuple[int, ...], ...], stated: Stated) -> None:
    """If one partition is a slot ahead of the other, no order changes a count: its facts of the next slot wait."""
    log = SHORT["late"]
    plan = Plan((log[:1], log[1:]), FEWER, 2, 1, readers=readers)
    label = "one reader" if len(readers) == 1 else "two readers"
    assert count_orders(label, with_neighbours(plan)) == stated(f"Two partitions, {label}")


@pytest.mark.promise(27)
def test_late_report_is_not_counted() -> None:
    """
    A late report does not count, with and without the target: the inn has T = 5 and four people, and Bob's is late.

        with the target     | 1 2 3 4 t | B            the poll ends before Bob's report
        without             | 1 2 3 4 B |              it is polled too: "safe" would be impossible in one case
    """
    people = [Entry(f"p{number}", "inn", 10, 50, stamp=0, moment=0) for number in range(4)]
    target = Entry("target", "mill", 10, 50, stamp=0, moment=0)
    bob = Entry("bob", "inn", 20, 50, stamp=1, moment=1)
    plan = Plan(((*people, target, bob),), FEWER[:3], window=2)
    without = plan.without([target])
    assert plan.counts(0)["inn", None] == without.counts(0)["inn", None] == 4
    assert Plan(((*people, target, bob._replace(stamp=0)),), FEWER).counts(0)["inn", None] == 5
    for explored_plan in (plan, without):
        explored = explore(explored_plan)
        assert explored.observed.ahead_of_the_tick > 0
        assert explored.states > 100


def store_in(server: EmbeddedValkey) -> Callable[[Plan, SteppedClock], Any]:
    """Return a function that creates windows in a flushed server, with the plan's clock."""

    def make(plan: Plan, clock: SteppedClock) -> RedisStore:
        with redis.Redis.from_url(server.url) as client:
            client.flushall()
        return RedisStore(plan.parameters, "0123456789abcdef", create_client(RedisAddress(server.url)), clock.now)

    return make


REDIS_PLANS = {
    "late": Plan((LOGS["late"],), MOMENTS, 2, 1),
    "again": Plan((LOGS["again"],), MOMENTS, 2, 1, faults=(("crash", 1), ("zombie", 2)), answers=2),
    "ahead": Plan((LOGS["ahead"],), MOMENTS, 2, 1, shards=2, ledger_partitions=2),
    "skewed": Plan((LOGS["skewed"],), MOMENTS, 1, 0, faults=(("takeover", 1),)),
    "two": Plan((LOGS["late"][:2], LOGS["late"][2:]), MOMENTS, 2, 1, readers=((0,), (1,))),
}


def walk(plan: Plan, choose: random.Random, stores: Any) -> World:
    """Run one random order of steps; the clock moves less often, so that each moment has many steps."""
    world = World(plan, stores)
    for _ in range(40):
        actions = world.actions()
        weights = [1 if action[0] in {"clock", "idle"} else 3 for action in actions]
        world.do(choose.choices(actions, weights)[0])
    world.windows.close()
    return world


@pytest.mark.promise(27)
@pytest.mark.parametrize("name", REDIS_PLANS)
def test_sampled_orders_on_a_real_store(valkey: EmbeddedValkey, name: str) -> None:
    """Thirty orders of forty steps each, drawn with a fixed seed, give the same counts on Valkey."""
    choose = random.Random(name)
    readings = later = 0
    for _ in range(30):
        observed = walk(REDIS_PLANS[name], choose, store_in(valkey)).observed
        readings += observed.readings
        later += observed.ahead_of_the_tick
    print(f"{name}: {readings} readings, {later} while later facts were in the store")
    assert readings > 20
    assert later > 5


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", REDIS_PLANS)
def test_many_sampled_orders_on_real_store(valkey: EmbeddedValkey, name: str) -> None:
    """Orders with a new seed in every run, which is printed, give the same counts."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    observed = [walk(REDIS_PLANS[name], choose, store_in(valkey)).observed for _ in range(1_000)]
    assert sum(result.readings for result in observed) > 200
