"""A service on the servers of the benchmark: configuration, topics, visits, running instances, and their metrics."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import yaml
from prometheus_client.parser import text_string_to_metric_families

from monitor.config import load_config
from monitor.errors import FailedError
from monitor.operate.metric_catalog import PREFIX
from monitor.public.instants import MINUTE, SECOND, format_instant
from monitor.public.slot_grid import SlotGrid
from monitor.service import build_kafka_connections

WAIT_SECONDS: Final = 120.0
COMMAND_SECONDS: Final = 300.0
STEP_SECONDS: Final = 0.05
_UNTIMED_SECONDS: Final = 0.3
_LOG_BYTES: Final = 2_000
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # written in C, if PyYAML has it

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS, step_seconds: float = STEP_SECONDS
) -> T:
    """Call a condition once per step until its value is true, and return this value.

    Raises:
        FailedError: the condition is not met in time. `what` names it in the message.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise FailedError(f"{what}: not within {seconds:.0f} s")
        time.sleep(step_seconds)
    return value


def wait_untimed(condition: Callable[[], T], what: str) -> T:
    """Wait as `wait_for` does, but with longer steps, because each check takes processor time from the service."""
    return wait_for(condition, what, step_seconds=_UNTIMED_SECONDS)


@dataclass(frozen=True, slots=True)
class Layout:
    """The size of a configuration. ε is large, so that `privacy.epsilon` is never the limit."""

    places: int = 1_000
    watched: int = 1_000
    slot: str = "5s"
    window: str = "10m"
    release_delay: str = "1s"
    inputs: int = 4
    outputs: int = 4
    shards: int = 16
    replicas: int | None = None
    cluster: bool = False
    designated: Sequence[str] = ()
    horizon: str = "10m"


@dataclass(frozen=True, slots=True)
class Sample:
    """The metrics of all instances at one instant: the sum of each metric, its sums by process, and stored visits."""

    totals: Mapping[str, float]
    by_process: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    stored_visits: float = 0.0

    def total(self, name: str) -> float:
        """Return the sum over all series of a metric; 0 if there are none."""
        return self.totals.get(f"{PREFIX}_{name}", self.totals.get(name, 0.0))

    def of_processes(self, name: str) -> Mapping[str, float]:
        """Return the sum of a metric by process."""
        return self.by_process.get(f"{PREFIX}_{name}", {})


class Instance:
    """One command `location-monitor run`, its log and its pages."""

    def __init__(self, config: Path, log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "monitor.cli", "run", "--config", str(config)]
        with log.open("wb") as output:
            self.program = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603  # made here

    @property
    def text(self) -> str:
        """The log so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def get(self, path: str) -> str:
        """Return a page of the endpoint; empty while it does not answer with 200."""
        if self.program.poll() is not None:
            raise FailedError(f"run ended with exit code {self.program.returncode}: {self.text[-_LOG_BYTES:]}")
        port = re.search(r"metrics and health on port (\d+)", self.text)
        if port is None:
            return ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


class Running:
    """The instances of a service on this host, and their metrics together."""

    def __init__(self, config: Path, folder: Path, name: str, count: int) -> None:
        self._config, self._folder, self._name = config, folder, name
        self._started = 0
        self.instances: list[Instance] = []
        for _ in range(count):
            self.start()

    def start(self) -> None:
        """Start one more instance."""
        self._started += 1
        self.instances.append(Instance(self._config, self._folder / f"{self._name}-{self._started}.log"))

    def replace_first(self) -> None:
        """Kill the first instance, and start another one."""
        first = self.instances.pop(0)
        first.program.kill()
        first.program.wait()
        self.start()

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the instances."""
        return tuple(instance.program.pid for instance in self.instances)

    def get(self, path: str) -> tuple[str, ...]:
        """Return a page of each instance; empty while an instance does not answer with 200."""
        return tuple(instance.get(path) for instance in self.instances)

    def sample(self) -> Sample:
        """Return the present metrics."""
        totals: dict[str, float] = {}
        by_process: dict[str, dict[str, float]] = {}
        stored = 0.0
        for pid, page in zip(self.pids, self.get("/metrics"), strict=True):
            for family in text_string_to_metric_families(page):
                for sample in family.samples:
                    totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
                    shares = by_process.setdefault(sample.name, {})
                    shares[str(pid)] = shares.get(str(pid), 0.0) + sample.value
                    if sample.labels.get("fate") == "applied":
                        stored += sample.value
        return Sample(totals, by_process, stored)

    def wait_ready(self) -> None:
        """Wait until every instance is ready."""
        wait_untimed(lambda: all(self.get("/readyz")), "the service is ready")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all instances."""
        for pid in self.pids:
            os.kill(pid, number)

    def stop(self) -> None:
        """Stop all instances with SIGTERM, and wait until they have ended. Kill them if this takes too long."""
        for instance in self.instances:
            if instance.program.poll() is None:
                instance.program.terminate()
        try:
            for instance in self.instances:
                instance.program.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill all instances."""
        for instance in self.instances:
            instance.program.kill()
            instance.program.wait()


def place_id(number: int) -> str:
    """Return the id of a place."""
    return f"place-{number:08}"


class Site:
    """A folder with a configuration and a registry. `create` creates the topics on the servers."""

    def __init__(self, folder: Path, name: str, servers: tuple[str, str], layout: Layout) -> None:
        self.folder, self.name, self.layout = folder, name, layout
        with (folder / "locations.csv").open("w", encoding="utf-8") as registry:
            registry.write("location_id\n")
            registry.writelines(f"{place_id(number)}\n" for number in range(layout.places))
        (folder / "person.key").write_bytes(base64.b64encode(os.urandom(32)))
        self.config_file = folder / "bench.yaml"
        tree = self._make_tree(*servers)
        self.config_file.write_text(yaml.dump(tree, Dumper=_DUMPER), encoding="utf-8")
        self.config = load_config(self.config_file, {})
        self.connections = build_kafka_connections(self.config)
        self.grid = SlotGrid(self.config.clock.origin, self.config.clock.slot)
        self._started = 0

    def _make_tree(self, kafka: str, redis: str) -> dict[str, Any]:
        layout, name = self.layout, self.name
        step = max(1, layout.places // max(1, layout.watched))
        over_time = {
            "name": "watched",
            "kind": "over_time",
            "locations": [place_id(number * step) for number in range(layout.watched)],
            "epsilon": str(layout.watched),
            "threshold": 50,
            "window": layout.window,
        }
        times = {
            "name": "times",
            "kind": "at_times",
            "at": list(layout.designated),
            "timezone": "UTC",
            "reporting_horizon": layout.horizon,
            "epsilon": "1",
            "threshold": 50,
        }
        return {
            "service": {"name": name, "shards": layout.shards},
            "clock": {
                "slot": layout.slot,
                "origin": "2026-01-01T00:00:00Z",
                "release_delay": layout.release_delay,
                "tolerance": "100ms",
            },
            "locations": {"file": "locations.csv"},
            "visits": {"default_stay": "1s", "accept_ahead": layout.slot, "person_key_file": "person.key"},
            "privacy": {"epsilon": str(10**9), "period": "1h"},
            "monitors": [over_time, *([times] if layout.designated else [])],
            "kafka": {
                "bootstrap_servers": kafka.split(","),
                "topics": {"visits": f"{name}.visits", "alerts": f"{name}.alerts", "dead_letters": f"{name}.dead"},
                "partitions": {"visits": layout.inputs, "alerts": layout.outputs},
                **({"replication_factor": layout.replicas} if layout.replicas else {}),
            },
            "redis": {"url": redis, **({"cluster": True} if layout.cluster else {})},
            "metrics": {"port": 0},
        }

    def create(self) -> None:
        """Create the topics.

        Raises:
            FailedError: `topics --create` failed.
        """
        self._call("topics", "--create", "--first-start")

    def _call(self, *words: str) -> str:
        command = [sys.executable, "-m", "monitor.cli", *words, "--config", str(self.config_file)]
        done = subprocess.run(  # noqa: S603  # made here
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
        if done.returncode != 0:
            raise FailedError(f"location-monitor {' '.join(words)}: {(done.stdout + done.stderr)[-_LOG_BYTES:]}")
        return done.stdout

    @contextmanager
    def run(self, instances: int = 1) -> Iterator[Running]:
        """Run the service, and stop it at the end."""
        self._started += 1
        running = Running(self.config_file, self.folder, f"run-{self._started}", instances)
        try:
            yield running
            running.stop()
        finally:
            running.kill()

    @contextmanager
    def open_producer(self) -> Iterator[Producer]:
        """Yield a producer of visits."""
        client = self.connections.create_producer(linger_ms=5, batch_size=1024 * 1024)
        try:
            yield Producer(client, self.config.kafka.topics.visits, self.layout.inputs)
        finally:
            client.close(timeout=10)

    def audit(self) -> str:
        """Recount the topics with `audit`. Return its findings; empty if every answer is correct."""
        try:
            self._call("audit")
        except FailedError as error:
            return str(error)
        return ""


class Producer:
    """A producer of records to the input, to each partition in turn."""

    def __init__(self, client: Any, topic: str, partitions: int) -> None:
        self._client, self._topic, self._partitions = client, topic, partitions
        self._sent = 0

    def send(self, records: Sequence[bytes], timestamp_ms: int | None = None) -> None:
        """Send records, and wait until Kafka has acknowledged them."""
        for value in records:
            partition = self._sent % self._partitions
            self._client.send(self._topic, value=value, partition=partition, timestamp_ms=timestamp_ms)
            self._sent += 1
        self._client.flush(timeout=WAIT_SECONDS)


@dataclass(frozen=True, slots=True)
class Crowd:
    """People who visit the first `places` places. `zipf` draws them with frequencies 1/rank instead of evenly."""

    people: int
    places: int
    zipf: bool = False

    def make_records(self, draw: np.random.Generator, visits: int, per_record: int, now: int) -> list[bytes]:
        """Return records of `per_record` visits, each of which ended within the minute before `now` (microseconds).

        The visits of a record have the same times. The text is composed without a JSON encoder, which would be the
        slowest part of the benchmark.
        """
        people = [f"p-{person:08}" for person in draw.integers(self.people, size=visits).tolist()]
        places = [place_id(place) for place in self._draw_places(draw, visits)]
        records = []
        for first in range(0, visits, per_record):
            at = format_instant(now - int(draw.integers(1, MINUTE // SECOND)) * SECOND)
            times = f'"arrived_at":"{at}","left_at":"{at}"'
            last = first + per_record
            chunk = ",".join(
                f'{{"person_id":"{person}","location_id":"{place}",{times}}}'
                for person, place in zip(people[first:last], places[first:last], strict=True)
            )
            records.append((f'{{"visits":[{chunk}]}}' if per_record > 1 else chunk).encode())
        return records

    def _draw_places(self, draw: np.random.Generator, visits: int) -> list[int]:
        count = self.places
        if not self.zipf:
            return [int(place) for place in draw.integers(count, size=visits)]
        weights = np.cumsum(1 / np.arange(1, count + 1))
        return [int(place) for place in np.searchsorted(weights, draw.random(visits) * weights[-1])]
