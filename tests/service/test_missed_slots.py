"""A tick is lost only if no instance could decide it before the end of the next slot. Tests with the real clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from monitor.contracts.clock import SystemClock
from monitor.contracts.instants import SECOND
from tests.conftest import Eventually
from tests.service.running import (
    create_topics,
    find_missing_ticks,
    is_decided,
    list_answered_ticks,
    make_real_time,
    run_instance,
    statuses,
    wait_next_tick,
    wait_until,
)

RELEASE_SECONDS: Final = 2


@pytest.fixture
def town(make_town: Callable[..., Any]) -> Any:
    """A town with its topics, two ledger partitions and slots of eight seconds."""
    town = make_town(ledger_partitions=2, inputs=2, **make_real_time(slot=8, release_delay=RELEASE_SECONDS))
    create_topics(town)
    return town


@pytest.mark.promise(40)
def test_restart_before_release_loses_no_tick(
    town: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    An instance stops after a slot has closed and long before the release. The next instance decides that tick.

        slot      t          │ t + 1
        first     ├──────────┼─┤ ends
        second                  ├── takes over ·· release delay ·· tick t
    """
    monkeypatch.setattr("monitor.ticks.partition.NEAR_RELEASE", 0)
    with run_instance(town):
        tick = wait_next_tick(town, eventually) + 1
        wait_until(town, tick, SECOND // 2, eventually)
    assert not is_decided(town, tick)
    with run_instance(town) as second:
        eventually(lambda: is_decided(town, tick), 20)
        assert SystemClock().now() < town.parameters.grid.as_of(tick + 1)
        wait_next_tick(town, eventually)
        assert [second.lost_ticks(0), second.lost_ticks(1)] == [0, 0]
    assert [find_missing_ticks(ticks) for ticks in list_answered_ticks(town).values()] == [[], []]
    assert statuses(town) == {"safe"}


@pytest.mark.promise(40)
def test_stop_near_release_publishes_first(town: Any, eventually: Eventually) -> None:
    """An instance that is stopped shortly before a release publishes that tick at its release, and then ends."""
    with run_instance(town):
        tick = wait_next_tick(town, eventually) + 1
        wait_until(town, tick, SECOND // 2, eventually)
        assert not is_decided(town, tick)
    assert is_decided(town, tick)
    assert (
        town.parameters.grid.as_of(tick) + RELEASE_SECONDS * SECOND
        <= SystemClock().now()
        < town.parameters.grid.as_of(tick + 1)
    )


@pytest.mark.promise(40)
def test_join_before_release_loses_no_tick(town: Any, eventually: Eventually) -> None:
    """
    The running instance gives up a partition while it waits for the release. Both publish the tick on time.

        first     ├── 0, 1 ──────┼── 1, or 0 ──
        second                    ├── the other ──
        gauges    0 and 1          each for its partition
    """
    with run_instance(town) as first:
        tick = wait_next_tick(town, eventually) + 1
        assert [first.metric("last_tick_timestamp_seconds", partition) is None for partition in (0, 1)] == [False] * 2
        wait_until(town, tick, SECOND // 4, eventually)
        with run_instance(town) as second:
            eventually(lambda: is_decided(town, tick), 20)
            eventually(lambda: len(first.service.loop.owners) == len(second.service.loop.owners) == 1, 30)
            for _ in range(2):
                wait_next_tick(town, eventually)
            (of_first,), (of_second,) = first.service.loop.owners, second.service.loop.owners
            assert of_first != of_second
            assert first.metric("last_tick_timestamp_seconds", of_second) is None
            assert second.metric("last_tick_timestamp_seconds", of_first) is None
            assert (first.lost_ticks(of_first), second.lost_ticks(of_second)) == (0, 0)
    assert [find_missing_ticks(ticks) for ticks in list_answered_ticks(town).values()] == [[], []]
    assert statuses(town) == {"safe"}


@pytest.mark.promise(40)
def test_lost_ticks_are_counted_once(town: Any, eventually: Eventually, caplog: pytest.LogCaptureFixture) -> None:
    """
    After a gap, the ticks between the ledger's last one and the last closed one are counted as lost, once.

        slot      t          t + 1   t + 2   t + 3   t + 4
        first     ├─ t - 1 ─┤
        second                                       ├─ t + 3 ─ t + 4
        lost                 t       t + 1   t + 2
    """
    with run_instance(town):
        tick = wait_next_tick(town, eventually)
    wait_until(town, tick + 3, 0, eventually)
    with run_instance(town) as second:
        for _ in range(2):
            wait_next_tick(town, eventually)
        assert [find_missing_ticks(ticks) for ticks in list_answered_ticks(town).values()] == [[tick + 1, tick + 2]] * 2
        assert [second.lost_ticks(0), second.lost_ticks(1)] == [2, 2]
    for partition in (0, 1):
        message = (
            f"ledger partition {partition}: the ticks of .* are lost \\(2\\): no instance had taken the partition over"
        )
        assert len(re.findall(message, caplog.text)) == 1
