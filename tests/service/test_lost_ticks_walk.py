"""A seeded walk of instances that start and stop: the lost ticks are exactly those that no instance could decide."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from monitor.contracts.instants import SECOND
from tests.conftest import Eventually
from tests.service.running import (
    RunningInstance,
    create_topics,
    find_last_tick,
    find_missing_ticks,
    list_answered_ticks,
    make_real_time,
    statuses,
    wait_next_tick,
    wait_until,
)

SLOTS: Final = 9
PARTITIONS: Final = (0, 1)


class Instances:
    """The running instances, and the number of lost ticks that all of them counted, by ledger partition."""

    def __init__(self, town: Any) -> None:
        self._town = town
        self._running: list[RunningInstance] = []
        self.lost = [0.0, 0.0]

    def run(self, number: int) -> None:
        """Start instances, or stop the oldest ones, until this number runs."""
        while len(self._running) < number:
            self._running.append(RunningInstance(self._town))
        while len(self._running) > number:
            instance = self._running.pop(0)
            instance.stop()
            for partition in PARTITIONS:
                self.lost[partition] += instance.lost_ticks(partition) or 0


@pytest.mark.promise(40)
def test_only_undecidable_ticks_are_lost(make_town: Callable[..., Any], eventually: Eventually) -> None:
    """A tick is lost if no instance ran at any moment of the next slot, and only then. Each is counted once.

    Instances start and stop half a second after the beginning of a slot. An instance that stops then publishes the
    tick that has just closed before it ends.

        slot        t    t + 1   t + 2   t + 3
        instances   2      0       0       1       after the half second
        lost               t + 1                   (tick t is published in t + 1, tick t + 2 in t + 3)
    """
    town = make_town(ledger_partitions=2, inputs=2, **make_real_time(slot=8, release_delay=2))
    create_topics(town)
    chance = random.Random(20_261_122)
    instances = Instances(town)
    try:
        instances.run(1)
        first = wait_next_tick(town, eventually)
        running = {first: 1, first + 1: 1}
        for slot in range(first + 2, first + 2 + SLOTS):
            wait_until(town, slot - 1, SECOND // 2, eventually)
            running[slot] = chance.choice((0, 0, 1, 2)) if slot < first + SLOTS else 1
            instances.run(running[slot])
        eventually(lambda: find_last_tick(town) >= first + SLOTS, 30)
        wait_next_tick(town, eventually)
    finally:
        instances.run(0)
    expected = [slot for slot in running if running[slot] == 0 == running.get(slot + 1)]
    assert expected
    assert [find_missing_ticks(ticks) for ticks in list_answered_ticks(town).values()] == [expected, expected]
    assert instances.lost == [len(expected)] * 2
    assert statuses(town) == {"safe"}
