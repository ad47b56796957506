"""A tick is lost only if nobody could decide it during the whole next slot: stops, joins and gaps by the real clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from monitor.public.clock import SystemClock
from monitor.public.instants import SECOND
from tests.service.running import (
    begin,
    changes,
    decided,
    missing,
    next_decided,
    running,
    statuses,
    ticks,
    wait_until,
)

Eventually = Callable[..., Any]

RELEASE_SECONDS: Final = 2


@pytest.fixture
def town(make_town: Callable[..., Any]) -> Any:
    """A town of two ledger partitions with slots of eight seconds, whose topics were made."""
    made = make_town(ledger_partitions=2, inputs=2, **changes(slot=8, release_delay=RELEASE_SECONDS))
    begin(made)
    return made


def test_a_restart_within_the_release_delay_loses_nothing(
    town: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Ended just after a slot has closed, with the release too far off to wait for: the next one decides that tick.

        slot      t          │ t + 1
        first     ├──────────┼─┤ ends
        second                  ├── takes over ·· release delay ·· tick t
    """
    monkeypatch.setattr("monitor.release.partition.LEAVING", 0)
    with running(town):
        tick = next_decided(town, eventually) + 1
        wait_until(town, tick, SECOND // 2, eventually)
    assert not decided(town, tick)
    with running(town) as second:
        eventually(lambda: decided(town, tick), 20)
        assert SystemClock().now() < town.parameters.grid.as_of(tick + 1)
        next_decided(town, eventually)
        assert [second.lost(0), second.lost(1)] == [0, 0]
    assert [missing(said) for said in ticks(town).values()] == [[], []]
    assert statuses(town) == {"safe"}


def test_told_to_stop_within_a_release_that_is_near_it_answers_before_it_leaves(
    town: Any, eventually: Eventually
) -> None:
    """At the release and not before; nobody else is needed."""
    with running(town):
        tick = next_decided(town, eventually) + 1
        wait_until(town, tick, SECOND // 2, eventually)
        assert not decided(town, tick)
    assert decided(town, tick)
    assert (
        town.parameters.grid.as_of(tick) + RELEASE_SECONDS * SECOND
        <= SystemClock().now()
        < town.parameters.grid.as_of(tick + 1)
    )


def test_an_instance_that_joins_within_the_release_delay_costs_no_tick(town: Any, eventually: Eventually) -> None:
    """
    The one that is there gives a partition away while it waits for the release, and is not held up by that.

        first     ├── 0, 1 ──────┼── 1, or 0 ──
        second                    ├── the other ──
        gauges    0 and 1          each its own
    """
    with running(town) as first:
        tick = next_decided(town, eventually) + 1
        assert [first.value("last_tick_timestamp_seconds", partition) is None for partition in (0, 1)] == [False] * 2
        wait_until(town, tick, SECOND // 4, eventually)
        with running(town) as second:
            eventually(lambda: decided(town, tick), 20)
            eventually(lambda: len(first.service.loop.owners) == len(second.service.loop.owners) == 1, 30)
            for _ in range(2):
                next_decided(town, eventually)
            (own,), (other,) = first.service.loop.owners, second.service.loop.owners
            assert own != other
            assert first.value("last_tick_timestamp_seconds", other) is None
            assert second.value("last_tick_timestamp_seconds", own) is None
            assert (first.lost(own), second.lost(other)) == (0, 0)
    assert [missing(said) for said in ticks(town).values()] == [[], []]
    assert statuses(town) == {"safe"}


def test_ticks_that_closed_while_nothing_ran_are_counted_once_for_each_output_partition(
    town: Any, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The ledger's last tick against the clock; the last closed one is not among them.

        slot      t          t + 1   t + 2   t + 3   t + 4
        first     ├─ t - 1 ─┤
        second                                       ├─ t + 3 ─ t + 4
        lost                 t       t + 1   t + 2
    """
    with running(town):
        tick = next_decided(town, eventually)
    wait_until(town, tick + 3, 0, eventually)
    with running(town) as second:
        for _ in range(2):
            next_decided(town, eventually)
        gaps = {location: missing(said) for location, said in ticks(town).items()}
        assert list(gaps.values()) == [[tick + 1, tick + 2]] * 2
        assert [second.lost(0), second.lost(1)] == [2, 2]
    for partition in (0, 1):
        told = (
            f"ledger partition {partition}: the ticks of .* are lost \\(2\\): no instance had taken the partition over"
        )
        assert len(re.findall(told, caplog.text)) == 1
