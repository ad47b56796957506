"""A tiny town on real servers, with so much ε that answers are all but certain, and a recount that shares no code.

Slots of one hour from 2026-11-20T00:00Z, F = 1. `places` watches inn and bath: T = 5, W = 3, so a pause lasts
W + F = 4 ticks. `noon` asks about all four locations at 12:00, with T = 3, for six hours. ε is 40 everywhere: a
draw is above zero with a chance of e^-40 < 10^-17.
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
import yaml

from monitor.config import load_config, load_registry
from monitor.operate.preflight import Preflight
from monitor.public.clock import SteppedClock
from monitor.public.instants import HOUR, MINUTE, format_instant, parse_instant
from monitor.release.ledger import read_partition
from monitor.service import Settings, settings_of
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from monitor.tools.replay.driver import prepare_empty

ORIGIN: Final = parse_instant("2026-11-20T00:00:00Z")
WINDOW, THRESHOLD, AHEAD = 3, 5, 1
LOCATIONS: Final = ("inn", "bath", "mill", "farm")

_TOWN: Final[dict[str, Any]] = {
    "clock": {"slot": "1h", "origin": "2026-11-20T00:00:00+00:00", "release_delay": "30s", "tolerance": "1s"},
    "locations": {"file": "locations.csv"},
    "visits": {"default_stay": "15m", "accept_ahead": "1h"},
    "privacy": {"epsilon": "4000", "period": "1d"},
    "monitors": [
        {
            "name": "places",
            "kind": "over_time",
            "locations": ["inn", "bath"],
            "epsilon": "80",
            "threshold": THRESHOLD,
            "window": "3h",
        },
        {
            "name": "noon",
            "kind": "at_times",
            "at": ["12:00"],
            "timezone": "UTC",
            "reporting_horizon": "6h",
            "epsilon": "40",
            "threshold": 3,
        },
    ],
}


@dataclass(frozen=True)
class Produced:
    """A visit that was produced: who, where, its last slot, and the slot in which it was reported."""

    person: str
    location: str
    last_slot: int
    reported: int


class Town:
    """A configuration with topics of its own, what was produced to it, and what it has published."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.parameters = settings.parameters
        self.topics = settings.config.kafka.topics
        self.clock = SteppedClock(ORIGIN)
        self.produced: list[Produced] = []
        self._producer = settings.kafka.producer()

    def prepare(self) -> Preflight:
        """Make the topics, and begin the ledger."""
        return prepare_empty(self.settings, self.clock)

    def fresh_producer(self) -> None:
        """Forget what was known of the input topic: another one has its name now."""
        self._producer.close()
        self._producer = self.settings.kafka.producer()

    def visit(self, persons: list[str], location: str, slot: int, reported: int | None = None, minute: int = 0) -> None:
        """Produce visits of half an hour in a slot, reported in that slot or in another one."""
        told = slot if reported is None else reported
        arrived = ORIGIN + slot * HOUR + minute * MINUTE
        times = {"arrived_at": format_instant(arrived), "left_at": format_instant(arrived + 30 * MINUTE)}
        visits = [{"person_id": person, "location_id": location, **times} for person in persons]
        value = json.dumps({"visits": visits}).encode()
        stamp = (ORIGIN + told * HOUR) // 1_000
        self._producer.send(self.topics.visits, value=value, timestamp_ms=stamp).get(timeout=10)
        self.produced += [Produced(person, location, slot, told) for person in persons]

    def records(self) -> list[tuple[int, dict[str, str], dict[str, Any]]]:
        """All records of the output topic: partition, headers and value."""
        return [
            (partition, {name: value.decode() for name, value in record.headers}, json.loads(record.value))
            for partition in range(self.settings.config.kafka.partitions.alerts)
            for _offset, record in read_partition(self.settings.kafka, self.topics.alerts, partition)
        ]

    def answers(self) -> dict[str, dict[int, dict[str, Any]]]:
        """What `places` said, by location and tick."""
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for _partition, _headers, value in self.records():
            if value.get("kind") == "over_time":
                found.setdefault(value["location_id"], {})[value["tick"]] = value
        return found

    def statuses(self, location: str) -> list[str]:
        """The first letter of each of a location's statuses, tick by tick; a dot where there is none."""
        said = self.answers().get(location, {})
        return [said[tick]["status"][0] if tick in said else "." for tick in range(max(said, default=-1) + 1)]

    def snapshots(self) -> list[dict[str, Any]]:
        """What `noon` said."""
        return [value for _partition, _headers, value in self.records() if value.get("kind") == "at_times"]

    def recount(self, location: str, tick: int) -> int:
        """Distinct people whose last slot is in the window of a tick or later, among what was reported before as_of."""
        return len(
            {
                visit.person
                for visit in self.produced
                if visit.location == location and visit.last_slot > tick - WINDOW and visit.reported <= tick
            }
        )

    def false_safe(self) -> list[tuple[str, int]]:
        """Where and when "safe" was said and was not true."""
        return [
            (location, tick)
            for location, said in self.answers().items()
            for tick, value in said.items()
            if value["status"] == "safe" and self.recount(location, tick) >= THRESHOLD
        ]

    def said_twice(self) -> tuple[list[str], list[str]]:
        """The ce_ids that came more than once, and those that came with differing bytes."""
        said: dict[str, Counter[str]] = {}
        for _partition, headers, value in self.records():
            if value.get("kind"):
                said.setdefault(headers["ce_id"], Counter())[json.dumps(value)] += 1
        twice = [name for name, values in said.items() if values.total() > 1]
        return twice, [name for name, values in said.items() if len(values) > 1]

    def close(self) -> None:
        self._producer.close()


@pytest.fixture(scope="module")
def store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A server that tests may flush and kill; asking for the shared one first skips them where there is none."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def make_settings(
    kafka: EmbeddedKafka, store: EmbeddedValkey, topic: Callable[[str], str], tmp_path: Path
) -> Callable[..., Settings]:
    """Settings of the town under a name and with topics of its own: `make_settings(inputs=4, queues=2)`."""

    def made(inputs: int = 1, ledger_partitions: int = 1, **changes: Any) -> Settings:
        name = topic("town")
        tree = {
            **_TOWN,
            "service": {"name": name, "shards": 4},
            "kafka": {
                "bootstrap_servers": [kafka.bootstrap_servers],
                "topics": {"visits": f"{name}.visits", "alerts": f"{name}.alerts", "dead_letters": f"{name}.dead"},
                "partitions": {"visits": inputs, "alerts": ledger_partitions},
            },
            "redis": {"url": store.url},
            **changes,
        }
        (tmp_path / "locations.csv").write_text("location_id\n" + "\n".join(LOCATIONS) + "\n")
        (tmp_path / "town.yaml").write_text(yaml.safe_dump(tree))
        config = load_config(tmp_path / "town.yaml", {})
        return settings_of(config, load_registry(config.locations.file), b"0123456789abcdef0123456789abcdef")

    return made


@pytest.fixture
def make_town(make_settings: Callable[..., Settings]) -> Iterator[Callable[..., Town]]:
    """Towns with topics of their own."""
    made: list[Town] = []

    def town(**changes: Any) -> Town:
        made.append(Town(make_settings(**changes)))
        return made[-1]

    yield town
    for one in made:
        one.close()


@pytest.fixture
def flush(store: EmbeddedValkey) -> Callable[[], None]:
    """Empties the store."""

    def flushed() -> None:
        with closing(redis.Redis.from_url(store.url)) as client:
            client.flushall()

    return flushed
