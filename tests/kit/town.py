"""A town: the configuration of one service with its topics and processes, on real servers.

`build_tree` has what most configurations of tests share. Tests replace sections, in the form that operators write.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml
from kafka import TopicPartition

from monitor.config.valid_config import load_valid_config
from monitor.kafka.connections import KafkaConnections
from monitor.service.create_topics import Beginning, SetupResult, set_up
from monitor.service.wiring import Settings, prepare_settings
from monitor.time.clock import SystemClock
from tests.kit.processes import CLI, Instance
from tests.kit.programs import run_program
from tests.kit.topics import Isolation, open_consumer, read_topic
from tests.kit.waiting import until

KEY: Final = "qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA="

TWO_SECONDS: Final[dict[str, Any]] = {
    "clock": {"slot": "2s", "origin": "2026-01-01T00:00:00+00:00", "release_delay": "900ms", "tolerance": "100ms"},
    "visits": {"default_stay": "1s", "accept_ahead": "2s", "person_key_file": "person.key"},
    "privacy": {"epsilon": "4000", "period": "1m"},
}
"""Sections for the real clock: slots of two seconds, F = 1."""

HOURS: Final[dict[str, Any]] = {
    "clock": {"slot": "1h", "origin": "2026-11-20T00:00:00+00:00", "release_delay": "30s", "tolerance": "1s"},
    "visits": {"default_stay": "15m", "accept_ahead": "0s", "person_key_file": "person.key"},
    "privacy": {"epsilon": "4000", "period": "1d"},
}
"""Sections for a stepped clock and for replays: slots of an hour, F = 1."""


def over_time(name: str, locations: Sequence[str], threshold: int, window: str, epsilon: int = 40) -> dict[str, Any]:
    """Return an `over_time` monitor with this ε at each place. At 40, a draw is above zero with probability e^-40."""
    return {
        "name": name,
        "kind": "over_time",
        "locations": list(locations),
        "epsilon": str(epsilon * len(locations)),
        "threshold": threshold,
        "window": window,
    }


def build_tree(
    name: str,
    kafka: str,
    redis: str,
    monitors: Sequence[Mapping[str, Any]],
    *,
    inputs: int = 1,
    ledger_partitions: int = 1,
    shards: int = 4,
    **sections: Any,
) -> dict[str, Any]:
    """Return the configuration of a service of this name. `kafka`: bootstrap servers; `sections`: further sections."""
    return {
        "service": {"name": name, "shards": shards},
        "locations": {"file": "locations.csv"},
        "monitors": copy.deepcopy([*monitors]),
        "kafka": {
            "bootstrap_servers": kafka.split(","),
            "topics": {"visits": f"{name}.visits", "alerts": f"{name}.alerts", "dead_letters": f"{name}.dead"},
            "partitions": {"visits": inputs, "alerts": ledger_partitions},
        },
        "redis": {"url": redis},
        "metrics": {"port": 0},
        **copy.deepcopy(sections),
    }


def write_places(folder: Path, places: Sequence[str]) -> None:
    """Write the registry and the person key, the files that `build_tree` names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "locations.csv").write_text("\n".join(["location_id", *places]) + "\n", encoding="utf-8")
    (folder / "person.key").write_text(KEY)
    (folder / "person.key").chmod(0o600)


class Town:
    """A configuration in a folder, and every process started with it.

    `tree` may be changed. `write` writes it to `config`, and `settings` are those of its last `apply`.
    """

    settings: Settings

    def __init__(self, folder: Path, tree: dict[str, Any], places: Sequence[str]) -> None:
        write_places(folder, places)
        self.folder, self.tree = folder, tree
        self.name: str = tree["service"]["name"]
        self.config = folder / "town.yaml"
        self.instances: list[Instance] = []

    def write(self) -> Path:
        """Write the configuration and return its file."""
        self.config.write_text(yaml.safe_dump(self.tree))
        return self.config

    def apply(self) -> Settings:
        """Write the configuration and return its settings."""
        self.settings = self.configure(self.tree, self.config)
        return self.settings

    def configure(self, tree: Mapping[str, Any], config: Path) -> Settings:
        """Write a configuration to a file and return its settings."""
        config.write_text(yaml.safe_dump(tree))
        return prepare_settings(load_valid_config(config, {}), KEY.encode())

    @property
    def servers(self) -> tuple[str, ...]:
        """The bootstrap servers."""
        return tuple(self.tree["kafka"]["bootstrap_servers"])

    @cached_property
    def connections(self) -> KafkaConnections:
        """The connections to Kafka."""
        return KafkaConnections(self.servers)

    def topic(self, kind: str) -> str:
        """Return the name of a topic: `visits`, `alerts` or `dead_letters`."""
        return str(self.tree["kafka"]["topics"][kind])

    def create(self, beginning: Beginning = Beginning.UNSPECIFIED) -> SetupResult:
        """Create the topics of the applied settings as `topics --create` does."""
        settings, now = self.settings, SystemClock().now()
        replication = settings.config.kafka.replication_factor
        return set_up(settings.kafka, settings.parameters, settings.needs, beginning, now, replication)

    def command(self, *words: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line with the configuration to its end."""
        return run_program([CLI, *words, "--config", str(self.write())], self.folder, seconds)

    def launch(self, *argv: str, environment: Mapping[str, str] | None = None) -> Instance:
        """Start a Python file with its arguments."""
        log = self.folder / f"instance-{len(self.instances)}.log"
        self.instances.append(Instance(log, *argv, environment=environment))
        return self.instances[-1]

    @contextmanager
    def running(self, *options: str) -> Iterator[Instance]:
        """Run `run` in a process, which is killed at the end if it still runs."""
        instance = self.launch(CLI, "run", "--config", str(self.write()), *options)
        try:
            yield instance
        finally:
            instance.end()

    def report(self, *visits: Mapping[str, Any]) -> None:
        """Produce each visit in a record of its own."""
        with closing(self.connections.create_producer()) as producer:
            for visit in visits:
                producer.send(self.topic("visits"), value=json.dumps(visit).encode())
            producer.flush()

    def records(self, kind: str = "alerts", isolation: Isolation = "read_committed") -> list[Any]:
        """Return the records of a topic by partition and offset."""
        return read_topic(self.servers, self.topic(kind), isolation)

    def values(self) -> list[dict[str, Any]]:
        """Return the values of the output topic's records."""
        return [json.loads(record.value) for record in self.records()]

    def answers(self, location: str) -> list[dict[str, Any]]:
        """Return the answers of `over_time` monitors about a location."""
        return [value for value in self.values() if value.get("location_id") == location]

    def ends(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition of a topic."""
        with closing(open_consumer(self.servers, "read_uncommitted")) as consumer:
            numbers = until(lambda: consumer.partitions_for_topic(topic), 30, f"{topic} is known")
            partitions = [TopicPartition(topic, number) for number in numbers]
            return {partition.partition: end for partition, end in consumer.end_offsets(partitions).items()}

    def end(self) -> None:
        """Kill all processes that still run."""
        for instance in self.instances:
            instance.end()
