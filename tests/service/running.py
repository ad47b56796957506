"""Instances of the service in this process with the real clock, and the ticks in their ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Final

from monitor.observe.health import Health
from monitor.observe.prometheus_metric import PREFIX
from monitor.observe.update_service_metrics import Metrics
from monitor.operate.replay.driver import adapt_topic_needs
from monitor.service.keep_running import prepare
from monitor.service.wiring import Service, Settings, create_noise, create_store
from monitor.time.clock import SystemClock
from tests.conftest import Eventually
from tests.kit.town import over_time

ANSWER_SECONDS: Final = 60.0


def make_real_time(slot: int, release_delay: int) -> dict[str, Any]:
    """Return the changes of the configuration for the real clock: slot and release delay in seconds, W = 3, F = 1."""
    clock = {"slot": f"{slot}s", "origin": "2026-01-01T00:00:00+00:00"}
    return {
        "clock": {**clock, "release_delay": f"{release_delay}s", "tolerance": "100ms"},
        "monitors": [over_time("places", ["inn", "bath"], 5, f"{3 * slot}s")],
        "visits": {"default_stay": "1s", "accept_ahead": f"{slot}s"},
        "privacy": {"epsilon": "4000", "period": "1m"},
    }


def watch(locations: list[str], stated: str = "4000", window: str = "3h", name: str = "places") -> dict[str, Any]:
    """Return the changes for one monitor of these locations with ε = 80."""
    monitor = {"name": name, "kind": "over_time", "epsilon": "80", "threshold": 5, "window": window}
    return {"monitors": [{**monitor, "locations": locations}], "privacy": {"epsilon": stated, "period": "3h"}}


def to_replay(settings: Settings) -> Settings:
    """Return settings whose topics may have records with timestamps of a stepped clock."""
    return replace(settings, needs=adapt_topic_needs(settings.needs))


@contextmanager
def run_instance(town: Any) -> Iterator[Metrics]:
    """Run an instance, which is stopped at the end as SIGTERM does. Return its metrics."""
    metrics, clock = Metrics(), SystemClock()
    preflight = prepare(town.settings, clock)
    with closing(create_store(town.settings, preflight)) as windows:
        service = Service(town.settings, preflight, windows, clock, create_noise(), metrics, Health())
        service.start()
        try:
            yield metrics
        finally:
            service.stop()


def read_lost_ticks(metrics: Metrics, partition: int) -> float | None:
    """Return the number of lost ticks of a ledger partition."""
    return metrics.registry.get_sample_value(f"{PREFIX}_lost_ticks_total", {"partition": str(partition)})


def list_answered_ticks(town: Any) -> dict[str, list[int]]:
    """Return the answered ticks by location. Inn and bath are in two ledger partitions."""
    return {location: sorted(answers) for location, answers in town.answers_by_tick().items()}


def is_decided(town: Any, tick: int) -> bool:
    """Return whether both partitions have a tick."""
    ticks = list_answered_ticks(town).values()
    return len(ticks) == 2 and all(tick in partition for partition in ticks)


def find_last_tick(town: Any) -> int:
    """Return the last tick that a partition has; -1 if there is none."""
    return max((tick for ticks in list_answered_ticks(town).values() for tick in ticks), default=-1)


def wait_next_tick(town: Any, eventually: Eventually) -> int:
    """Wait until both partitions have a new tick, and return it. One may be taken over a tick after the other."""
    before = find_last_tick(town)

    def find_common_tick() -> int | None:
        partitions = [set(ticks) for ticks in list_answered_ticks(town).values()]
        newest = max(set.intersection(*partitions), default=before) if len(partitions) == 2 else before
        return newest if newest > before else None

    tick: int = eventually(find_common_tick, ANSWER_SECONDS)
    return tick


def find_missing_ticks(ticks: list[int]) -> list[int]:
    """Return the ticks that are missing between the first and the last."""
    return sorted(set(range(ticks[0], ticks[-1])) - set(ticks))


def statuses(town: Any) -> set[str]:
    """Return all statuses published so far."""
    return {value["status"] for answers in town.answers_by_tick().values() for value in answers.values()}
