"""A tick is lost only if nobody could decide it during the whole next slot: stops, joins and gaps by the real clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from monitor.clock import SystemClock
from monitor.operate.health import Health
from monitor.operate.metrics import PREFIX, Metrics
from monitor.operate.setup import Beginning, set_up
from monitor.operate.topics import needs
from monitor.run import prepare
from monitor.service import Service, redis_windows, secure_noise
from monitor.times import SECOND

Eventually = Callable[..., Any]

RELEASE: Final = 2 * SECOND
CLOCK: Final = {
    "slot": "6s",
    "origin": "2026-01-01T00:00:00+00:00",
    "release_delay": "2s",
    "tolerance": "100ms",
}
PLACES: Final = {
    "name": "places",
    "kind": "over_time",
    "locations": ["inn", "bath"],
    "epsilon": "80",
    "threshold": 5,
    "window": "18s",
}
CHANGES: Final[dict[str, Any]] = {
    "clock": CLOCK,
    "monitors": [PLACES],
    "visits": {"default_stay": "1s", "accept_ahead": "6s"},
    "privacy": {"epsilon": "4000", "period": "1m"},
}


class Running:
    """An instance of the service in this process, by the real clock."""

    def __init__(self, town: Any) -> None:
        self.metrics, clock = Metrics(), SystemClock()
        found = prepare(town.settings, clock)
        self.windows = redis_windows(town.settings, found, clock)
        self.service = Service(town.settings, found, self.windows, clock, secure_noise(), self.metrics, Health())
        self.service.start()

    def value(self, name: str, partition: int) -> float | None:
        """A metric of an output partition."""
        return self.metrics.registry.get_sample_value(f"{PREFIX}_{name}", {"partition": str(partition)})

    def lost(self, partition: int = 0) -> float | None:
        """How many ticks of an output partition nobody decided."""
        return self.value("lost_ticks_total", partition)

    def stop(self) -> None:
        self.service.stop()
        self.windows.close()


@contextmanager
def running(town: Any) -> Iterator[Running]:
    """An instance that is stopped in the end."""
    instance = Running(town)
    try:
        yield instance
    finally:
        instance.stop()


@pytest.fixture
def town(make_town: Callable[..., Any]) -> Any:
    """A town of two ledger partitions with slots of six seconds, whose topics were made."""
    made = make_town(queues=2, inputs=2, **CHANGES)
    settings = made.settings
    wanted = needs(settings.scheme, settings.config.kafka, simulated=False)
    set_up(settings.kafka, settings.scheme, wanted, Beginning.UNSAID, SystemClock().now())
    return made


def ticks(town: Any) -> dict[str, list[int]]:
    """By location, the ticks that were answered: inn and bath are in two ledger partitions."""
    return {location: sorted(said) for location, said in town.answers().items()}


def decided(town: Any, tick: int) -> bool:
    """Whether both partitions have a tick."""
    found = ticks(town)
    return len(found) == 2 and all(tick in said for said in found.values())


def wait_until(town: Any, tick: int, after: int, eventually: Eventually) -> None:
    """Wait until so long after a tick's end."""
    instant = town.scheme.slots.as_of(tick) + after
    eventually(lambda: SystemClock().now() >= instant, 60)


def without_gaps(said: list[int]) -> bool:
    return said == list(range(said[0], said[-1] + 1))


def statuses(town: Any) -> set[str]:
    """What was said so far, of whatever tick."""
    return {value["status"] for said in town.answers().values() for value in said.values()}


def next_decided(town: Any, eventually: Eventually) -> int:
    """Wait until both partitions have a tick that was not there yet, and give it."""
    before = max((tick for said in ticks(town).values() for tick in said), default=-1)
    eventually(lambda: any(tick > before for said in ticks(town).values() for tick in said), 60)
    tick = max(tick for said in ticks(town).values() for tick in said)
    eventually(lambda: decided(town, tick), 20)
    return tick


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
        assert SystemClock().now() < town.scheme.slots.as_of(tick + 1)
        next_decided(town, eventually)
        assert [second.lost(0), second.lost(1)] == [0, 0]
    assert all(map(without_gaps, ticks(town).values()))
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
    assert town.scheme.slots.as_of(tick) + RELEASE <= SystemClock().now() < town.scheme.slots.as_of(tick + 1)


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
    assert all(map(without_gaps, ticks(town).values()))
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


def missing(said: list[int]) -> list[int]:
    """The ticks between the first and the last that are not there."""
    return sorted(set(range(said[0], said[-1])) - set(said))
