"""Instances of the service in this process by the real clock, and what their ledger holds tick by tick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from monitor.brokers.topics import list_topic_needs
from monitor.operate.health import Health
from monitor.operate.metrics import PREFIX, Metrics
from monitor.operate.setup import Beginning, set_up
from monitor.public.clock import SystemClock
from monitor.run import prepare
from monitor.service import Service, redis_windows, secure_noise

Eventually = Callable[..., Any]

ANSWER_SECONDS: Final = 60.0


def changes(slot: int, release_delay: int) -> dict[str, Any]:
    """What makes a town one by the real clock: slots and a release delay of so many seconds; W = 3, F = 1."""
    clock = {"slot": f"{slot}s", "origin": "2026-01-01T00:00:00+00:00"}
    places = {"name": "places", "kind": "over_time", "locations": ["inn", "bath"], "epsilon": "80", "threshold": 5}
    return {
        "clock": {**clock, "release_delay": f"{release_delay}s", "tolerance": "100ms"},
        "monitors": [{**places, "window": f"{3 * slot}s"}],
        "visits": {"default_stay": "1s", "accept_ahead": f"{slot}s"},
        "privacy": {"epsilon": "4000", "period": "1m"},
    }


def begin(town: Any) -> None:
    """Make a town's topics as `topics --create` does."""
    settings = town.settings
    wanted = list_topic_needs(settings.parameters, settings.config.kafka, simulated=False)
    set_up(settings.kafka, settings.parameters, wanted, Beginning.UNSPECIFIED, SystemClock().now())


class Running:
    """An instance, from when it is made until it is stopped."""

    def __init__(self, town: Any) -> None:
        self.metrics, clock = Metrics(), SystemClock()
        found = prepare(town.settings, clock)
        self.windows = redis_windows(town.settings, found, clock)
        self.service = Service(town.settings, found, self.windows, clock, secure_noise(), self.metrics, Health())
        self.service.start()

    def value(self, name: str, partition: int) -> float | None:
        """A metric of an output partition."""
        return self.metrics.registry.get_sample_value(f"{PREFIX}_{name}", {"partition": str(partition)})

    def lost(self, partition: int) -> float | None:
        """How many ticks of an output partition nobody decided."""
        return self.value("lost_ticks_total", partition)

    def stop(self) -> None:
        """As SIGTERM does."""
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


def ticks(town: Any) -> dict[str, list[int]]:
    """By location, the ticks that were answered: inn and bath are in two ledger partitions."""
    return {location: sorted(said) for location, said in town.answers().items()}


def decided(town: Any, tick: int) -> bool:
    """Whether both partitions have a tick."""
    found = ticks(town)
    return len(found) == 2 and all(tick in said for said in found.values())


def next_decided(town: Any, eventually: Eventually) -> int:
    """Wait until both partitions have a tick that was not there yet, and give it."""
    before = max((tick for said in ticks(town).values() for tick in said), default=-1)
    eventually(lambda: any(tick > before for said in ticks(town).values() for tick in said), ANSWER_SECONDS)
    tick = max(tick for said in ticks(town).values() for tick in said)
    eventually(lambda: decided(town, tick), ANSWER_SECONDS)
    return tick


def wait_until(town: Any, tick: int, after: int, eventually: Eventually) -> None:
    """Wait until so long after a tick's end."""
    instant = town.parameters.grid.as_of(tick) + after
    eventually(lambda: SystemClock().now() >= instant, ANSWER_SECONDS)


def missing(said: list[int]) -> list[int]:
    """The ticks between the first and the last that are not there."""
    return sorted(set(range(said[0], said[-1])) - set(said))


def statuses(town: Any) -> set[str]:
    """What was said so far, of whatever tick."""
    return {value["status"] for said in town.answers().values() for value in said.values()}
