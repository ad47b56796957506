"""Servers that are away or hang leave enough of the slot to decide the tick."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from monitor.contracts.instants import MINUTE, SECOND, parse_instant
from monitor.contracts.slot_grid import SlotGrid
from monitor.errors import UnreachableError
from tests.ticks.worlds import World

MakeWorld = Callable[..., World]


@pytest.mark.promise(40)
def test_append_leaves_time_for_a_takeover(make_world: MakeWorld) -> None:
    """
    An append is given up after half of the time that is left, so that the tick can be decided after a takeover.

        slot 101    ├─ 30 s ─┼── append ──┼── takeover ──┼─ 30 s ─┤ two tolerances before the end
    """
    world = make_world(changes={"grid": SlotGrid(parse_instant("2026-01-01T00:00:00Z"), 102 * SECOND)})
    assert (world.parameters.release_delay, world.parameters.tolerance) == (30 * SECOND, SECOND)
    world.set_clocks(world.parameters.grid.start(100))
    world.clock.step = 0
    release = world.partition()
    release.take_over()
    world.set_clocks(world.parameters.grid.as_of(100) + SECOND)
    assert release.decide_tick(100, world.stop)
    assert world.writers[-1].within == pytest.approx((102 - 2 - 30 - 30) / 2)


@pytest.mark.promise(40)
def test_store_that_hangs_is_asked_once(make_world: MakeWorld) -> None:
    """
    While the store does not answer, a tick makes no further request: each one could take seconds of the slot.

        store      answers   away      answers
        tick       100       101       102
        upkeep     1         none      2
    """
    world = make_world(changes={"release_delay": MINUTE})
    opened: list[int] = []

    def record(shards: Sequence[int], slot: int) -> None:
        assert list(shards) == [0]
        opened.append(slot)

    world.store.open = record  # type: ignore[method-assign]  # as if it was opened
    release = world.partition()
    release.take_over()
    for tick, error in ((100, None), (101, UnreachableError("Redis does not answer")), (102, None)):
        world.set_clocks(world.parameters.grid.as_of(tick) + 2 * SECOND)
        if error is not None:
            world.context.store_clock.update(world.clock.instant)
        world.store.error = error
        before = world.store.checks
        assert release.decide_tick(tick, world.stop)
        assert world.store.checks == before or error is None
    assert opened == [101, 103]
    assert [statuses for _, statuses in world.statuses_by_tick()] == [["safe"], ["unknown"], ["safe"]]
