"""A small town on real servers, with ε so large that answers are almost certain, and an independent recount.

Slots of one hour from 2026-11-20T00:00Z, F = 1. `places` watches inn and bath: T = 5, W = 3, so a pause lasts
W + F = 4 ticks. `noon` evaluates all four locations at 12:00, with T = 3, for six hours. ε is 40 everywhere: a draw is
above zero with probability e^-40 < 10^-17.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from monitor.operate.replay.driver import prepare_empty
from monitor.operate.servers import EmbeddedValkey
from monitor.service.preflight import Preflight
from monitor.service.wiring import Settings
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR, MINUTE, parse_instant
from tests.builders import build_visit
from tests.kit.recount import Counted, Rules
from tests.kit.topics import read_header
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.service.running import to_replay
from tests.shared_kafka import SharedKafka

ORIGIN: Final = parse_instant("2026-11-20T00:00:00Z")
WINDOW, THRESHOLD, AHEAD = 3, 5, 1
RULES: Final = Rules(ORIGIN, HOUR, 15 * MINUTE, 0, AHEAD)
LOCATIONS: Final = ("inn", "bath", "mill", "farm")

_NOON: Final[dict[str, Any]] = {
    "name": "noon",
    "kind": "at_times",
    "at": ["12:00"],
    "timezone": "UTC",
    "reporting_horizon": "6h",
    "epsilon": "40",
    "threshold": 3,
}


@dataclass(frozen=True)
class Produced:
    """A produced visit: person, location, and the visit as it is counted."""

    person: str
    location: str
    counted: Counted


class ServiceTown(Town):
    """A town with a stepped clock, and the visits produced to it."""

    def __init__(self, folder: Path, tree: dict[str, Any]) -> None:
        super().__init__(folder, tree, LOCATIONS)
        self.parameters = self.apply().parameters
        self.topics = self.settings.config.kafka.topics
        self.clock = SteppedClock(ORIGIN)
        self.produced: list[Produced] = []
        self._producer = self.settings.kafka.create_producer()

    def prepare(self) -> Preflight:
        """Create the topics of a replay and begin the ledger."""
        self.settings = to_replay(self.settings)
        return prepare_empty(self.settings, self.clock)

    def renew_producer(self) -> None:
        """Use a new producer, which knows nothing of an earlier topic of this name."""
        self._producer.close()
        self._producer = self.settings.kafka.create_producer()

    def visit(self, persons: list[str], location: str, slot: int, reported: int | None = None, minute: int = 0) -> None:
        """Produce visits of half an hour in a slot, reported in the same slot unless `reported` is given."""
        reported_slot = slot if reported is None else reported
        arrived = ORIGIN + slot * HOUR + minute * MINUTE
        visits = [build_visit(person, location, arrived, arrived + 30 * MINUTE) for person in persons]
        value = json.dumps({"visits": visits}).encode()
        stamp = (ORIGIN + reported_slot * HOUR) // 1_000
        self._producer.send(self.topics.visits, value=value, timestamp_ms=stamp).get(timeout=10)
        counted = RULES.judge(arrived, arrived + 30 * MINUTE, 1_000 * stamp)
        self.produced += [Produced(person, location, counted) for person in persons]

    def answers_by_tick(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Return the answers of `places` by location and tick."""
        answers: dict[str, dict[int, dict[str, Any]]] = {}
        for value in self.values():
            if value.get("kind") == "over_time":
                answers.setdefault(value["location_id"], {})[value["tick"]] = value
        return answers

    def statuses(self, location: str) -> list[str]:
        """Return the first letter of a location's status per tick, or a dot for a tick without an answer."""
        answers = self.answers_by_tick().get(location, {})
        return [answers[tick]["status"][0] if tick in answers else "." for tick in range(max(answers, default=-1) + 1)]

    def snapshots(self) -> list[dict[str, Any]]:
        """Return the answers of `noon`."""
        return [value for value in self.values() if value.get("kind") == "at_times"]

    def recount(self, location: str, tick: int) -> int:
        """Count the people whose last slot is in the window of a tick or later, by the reports before as_of."""
        return len(
            {
                visit.person
                for visit in self.produced
                if visit.location == location and visit.counted.in_window(tick, WINDOW)
            }
        )

    def false_safe(self) -> list[tuple[str, int]]:
        """Return the locations and ticks of false "safe" answers."""
        return [
            (location, tick)
            for location, by_tick in self.answers_by_tick().items()
            for tick, value in by_tick.items()
            if value["status"] == "safe" and self.recount(location, tick) >= THRESHOLD
        ]

    def repeated(self) -> tuple[list[str], list[str]]:
        """Return the ce_ids of several records, and those of several records with different bytes."""
        by_id: dict[str, Counter[bytes]] = {}
        for record in self.records():
            if json.loads(record.value).get("kind"):
                by_id.setdefault(read_header(record, "ce_id"), Counter())[record.value] += 1
        repeated = [name for name, values in by_id.items() if values.total() > 1]
        return repeated, [name for name, values in by_id.items() if len(values) > 1]

    def close(self) -> None:
        self._producer.close()


@pytest.fixture
def make_tree(kafka: SharedKafka, store: EmbeddedValkey, topic: Callable[[str], str]) -> Callable[..., dict[str, Any]]:
    """A function that makes the configuration of a town with a new name: `make_tree(inputs=4, ledger_partitions=2)`."""

    def make(inputs: int = 1, ledger_partitions: int = 1, **changes: Any) -> dict[str, Any]:
        monitors = [over_time("places", ["inn", "bath"], THRESHOLD, "3h"), _NOON]
        partitions = {"inputs": inputs, "ledger_partitions": ledger_partitions}
        return build_tree(topic("town"), kafka.bootstrap_servers, store.url, monitors, **partitions, **HOURS) | changes

    return make


@pytest.fixture
def make_settings(make_tree: Callable[..., dict[str, Any]], tmp_path: Path) -> Callable[..., Settings]:
    """A function that makes settings as `make_tree` makes configurations."""
    return lambda **changes: Town(tmp_path, make_tree(**changes), LOCATIONS).apply()


@pytest.fixture
def make_town(make_tree: Callable[..., dict[str, Any]], tmp_path: Path) -> Iterator[Callable[..., ServiceTown]]:
    """A function that makes towns with their own topics."""
    towns: list[ServiceTown] = []

    def make(**changes: Any) -> ServiceTown:
        towns.append(ServiceTown(tmp_path, make_tree(**changes)))
        return towns[-1]

    yield make
    for town in towns:
        town.close()


@pytest.fixture
def flush(store: EmbeddedValkey) -> Callable[[], None]:
    """A function that empties the store."""

    def flush_all() -> None:
        with closing(redis.Redis.from_url(store.url)) as client:
            client.flushall()

    return flush_all
