"""A town on real servers with the real clock and slots of two seconds: configuration, topics, traffic, instances.

- `edges` watches six places with an ε at which a draw is above zero with a probability below 10^-17. A place is then
  safe exactly if fewer than T people were there, so that a lost visit is visible. W = 6, F = 1: a pause lasts 7 ticks.
- `murmur` watches two places with so little ε that draws vary, so that a second draw is visible.
- `moments` evaluates all places every four seconds, and `crowds` the three fullest places then. About half of the
  people consent to the lower bounds of `moments`, whose ε is so large that they equal the people who consented.
- `late` watches five places with T = 1. A person is reported there now and then, after the end of the slot and before
  the release of its tick: that tick is safe, and the next one is not.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from kafka import TopicPartition
from kafka.errors import KafkaError

from monitor.config import load_valid_config
from monitor.contracts.clock import SystemClock
from monitor.contracts.instants import MINUTE, SECOND, format_instant
from monitor.errors import MonitorError
from monitor.kafka.topics import list_topic_needs
from monitor.service.service import Settings, prepare_settings
from monitor.service.setup import Beginning, SetupResult, set_up
from tests.faults.processes import ARMED, CLI, Instance, until
from tests.faults.reading import open_consumer
from tests.faults.traffic import Traffic

KEY: Final = "qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA="
SLOT: Final = 2 * SECOND
ORIGIN: Final = "2026-01-01T00:00:00+00:00"
LATE: Final = tuple(f"late-{n}" for n in range(5))
PLACES: Final = (*(f"edge-{n}" for n in range(6)), "murmur-0", "murmur-1", "yard-0", "yard-1", *LATE, "void")
TIMES_EVERY: Final = 4 * SECOND
MINUTES: Final = 30


@dataclass(frozen=True)
class Shape:
    """The layout of a town's topics and servers, and changes of the usual configuration."""

    inputs: int = 3
    ledger_partitions: int = 2
    shards: int = 4
    replication: int | None = None
    cluster: bool = False
    changes: dict[str, Any] = field(default_factory=dict)


def make_monitors(now: int) -> list[dict[str, Any]]:
    """Return the monitors of a town, with designated times from `now` on."""
    times = [format_instant(at) for at in range(now, now + MINUTES * MINUTE, TIMES_EVERY)]
    return [
        {
            "name": "edges",
            "kind": "over_time",
            "locations": [place for place in PLACES if place.startswith(("edge", "void"))],
            "epsilon": "280",
            "threshold": 4,
            "window": "12s",
        },
        {
            "name": "murmur",
            "kind": "over_time",
            "locations": ["murmur-0", "murmur-1"],
            "epsilon": "2",
            "threshold": 5,
            "window": "8s",
            "answers_per_window": 2,
        },
        {
            "name": "late",
            "kind": "over_time",
            "locations": list(LATE),
            "epsilon": "160",
            "threshold": 1,
            "window": "4s",
        },
        {
            "name": "moments",
            "kind": "at_times",
            "at": times,
            "reporting_horizon": "6s",
            "epsilon": "40",
            "threshold": 2,
            "at_least": {"epsilon": "40"},
        },
        {"name": "crowds", "kind": "hot_spots", "at": times, "reporting_horizon": "10s", "epsilon": "40", "top": 3},
    ]


def configuration(name: str, kafka: str, redis: str, shape: Shape) -> dict[str, Any]:
    """Return the configuration of a town, with designated times from about now on."""
    now = time.time_ns() // 1_000 // (TIMES_EVERY) * TIMES_EVERY
    return {
        "service": {"name": name, "shards": shape.shards},
        "clock": {"slot": "2s", "origin": ORIGIN, "release_delay": "900ms", "tolerance": "100ms"},
        "locations": {"file": "locations.csv"},
        "visits": {"default_stay": "1s", "accept_ahead": "2s", "person_key_file": "person.key"},
        "privacy": {"epsilon": "100000", "period": "30s"},
        "monitors": make_monitors(now),
        "kafka": {
            "bootstrap_servers": kafka.split(","),
            "topics": {"visits": f"{name}.visits", "alerts": f"{name}.alerts", "dead_letters": f"{name}.dead"},
            "partitions": {"visits": shape.inputs, "alerts": shape.ledger_partitions},
            **({"replication_factor": shape.replication} if shape.replication else {}),
        },
        "redis": {"url": redis, **({"cluster": True} if shape.cluster else {})},
        "metrics": {"port": 0},
        **shape.changes,
    }


class Town:
    """A town's files, topics, traffic, and every instance started."""

    def __init__(self, folder: Path, name: str, servers: tuple[str, str], shape: Shape, seed: int) -> None:
        self.folder, self.name, self.shape, self.seed = folder, name, shape, seed
        folder.mkdir(exist_ok=True)
        (folder / "locations.csv").write_text("location_id\n" + "\n".join(PLACES) + "\n")
        (folder / "person.key").write_text(KEY)
        (folder / "person.key").chmod(0o600)
        self.tree = configuration(name, *servers, shape)
        self.config = folder / "town.yaml"
        self.settings = self.configure(self.tree)
        # State exactly the most that a person may pay, so that the audit finds any excess.
        self.tree["privacy"]["epsilon"] = str(self.settings.worst)
        self.settings = self.configure(self.tree)
        self.topics = self.settings.config.kafka.topics
        self.instances: list[Instance] = []
        self.subscriber: Subscriber | None = None
        usual = tuple(place for place in PLACES[:-1] if place not in LATE)
        self.traffic = Traffic(self.settings.kafka, self.topics.visits, usual, seed, LATE, SLOT)

    def configure(self, tree: dict[str, Any], config: Path | None = None) -> Settings:
        """Write a configuration, by default to the town's file, and return its settings."""
        config = config or self.config
        config.write_text(yaml.safe_dump(tree))
        return prepare_settings(load_valid_config(config, {}), KEY.encode())

    def create(self, beginning: Beginning = Beginning.UNSPECIFIED) -> SetupResult:
        """Create the topics as `topics --create` does."""
        config, parameters = self.settings.config, self.settings.parameters
        wanted = list_topic_needs(parameters, config.kafka)
        return set_up(
            self.settings.kafka,
            parameters,
            wanted,
            beginning,
            SystemClock().now(),
            self.shape.replication,
        )

    def start(self, *arguments: str, config: Path | None = None) -> Instance:
        """Start an instance with arguments of armed.py."""
        return self._start(str(ARMED), "--config", str(config or self.config), *arguments)

    def start_command(self, config: Path, *words: str) -> Instance:
        """Start a command of operators, such as `page`, with a configuration file or a folder of such files."""
        return self._start(str(CLI), *words, "--config", str(config))

    def _start(self, *argv: str) -> Instance:
        self.instances.append(Instance(self.folder / f"instance-{len(self.instances)}.log", *argv))
        return self.instances[-1]

    def now(self) -> int:
        """Return the current slot."""
        return self.settings.parameters.grid.find_slot(time.time_ns() // 1_000)

    @property
    def servers(self) -> tuple[str, ...]:
        """The bootstrap servers, for clients of the tests."""
        return self.settings.kafka.bootstrap_servers

    def ends(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition of a topic."""
        with closing(open_consumer(self.servers, "read_uncommitted")) as consumer:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            return {partition.partition: end for partition, end in consumer.end_offsets(partitions).items()}

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """Open an admin client."""
        with closing(self.settings.kafka.create_admin()) as client:
            yield client

    def end(self) -> None:
        """End all processes and the traffic."""
        for instance in self.instances:
            instance.end()
        if self.traffic.flows:
            self.traffic.stop()


class Subscriber:
    """A subscriber that reads uncommitted records, as the public may, and remembers all.

    It reads all partitions, including those added later. `said` contains the distinct bytes by ce_id, `values` the
    answers in the order of arrival.
    """

    def __init__(self, town: Town) -> None:
        self._town = town
        self._stop = threading.Event()
        self.seen: dict[str, set[bytes]] = {}
        self.values: list[dict[str, Any]] = []
        self._statuses: dict[int, set[str]] = {}
        town.subscriber = self
        self._thread = threading.Thread(target=self._run, name="subscriber", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._read()
            except (KafkaError, MonitorError, OSError):
                self._stop.wait(0.3)

    def _read(self) -> None:
        # Use the service's connections, because a consumer that they fail to create leaves no sockets open.
        consumer = self._town.settings.kafka.create_consumer(
            isolation_level="read_uncommitted", auto_offset_reset="earliest", metadata_max_age_ms=1_000
        )
        try:
            consumer.subscribe([self._town.topics.alerts])
            while not self._stop.is_set():
                for records in consumer.poll(timeout_ms=100).values():
                    for record in records:
                        self._note(record)
        finally:
            consumer.close(autocommit=False)

    def _note(self, record: Any) -> None:
        headers = dict(record.headers)
        ce_id = headers["ce_id"].decode()
        written = json.dumps([record.key.decode(), record.value.decode(), sorted(map(str, record.headers))]).encode()
        known = self.seen.setdefault(ce_id, set())
        if written not in known:
            known.add(written)
            value = json.loads(record.value)
            if "tick" in value:
                self.values.append(value)
                # An owner record has a tick without a status, if the tick had nothing to answer.
                self._statuses.setdefault(value["tick"], set()).update(filter(None, [value.get("status")]))

    @property
    def last_tick(self) -> int:
        """The latest answered tick."""
        return max(list(self._statuses), default=-1)

    def wait_tick(self, above: int, seconds: float = 30.0) -> int:
        """Wait for an answer about a tick above a given one, and return the latest tick."""
        return until(lambda: tick if (tick := self.last_tick) > above else 0, seconds, f"an answer above tick {above}")

    def wait_new(self, seconds: float = 30.0) -> int:
        """Wait for an answer about a tick that closes from now on, and return the latest tick."""
        return self.wait_tick(self._town.now(), seconds)

    def wait_complete(self, seconds: float = 40.0) -> int:
        """Wait until a tick that closes from now on has no "unknown", and return this tick."""
        since = self._town.now()

        def find_complete_tick() -> int:
            ticks = sorted(tick for tick in list(self._statuses) if tick > since)
            return next((tick for tick in ticks if self._statuses[tick] and "unknown" not in self._statuses[tick]), 0)

        return until(find_complete_tick, seconds, f"answers above tick {since} without any unknown")

    def is_complete(self) -> bool:
        """Return whether the ticks of the last two slots have answers and no "unknown"."""
        recent = [tick for tick in list(self._statuses) if tick >= self._town.now() - 2]
        return bool(recent) and all("unknown" not in self._statuses[tick] for tick in recent)

    def statuses(self, monitor: str, since: int = 0) -> dict[tuple[str, int], str]:
        """Return the statuses of an over_time monitor by (location, tick), from tick `since` on."""
        return {
            (value["location_id"], value["tick"]): value["status"]
            for value in list(self.values)
            if value["monitor"] == monitor and value["tick"] >= since
        }

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join(20)
