"""A town for the pictures of the dashboards: the service, its page and a subscriber, on separate servers.

People come and go, some records are invalid, and Redis is full for a while, so that the panels have data to show.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import redis
import yaml

from monitor.brokers.connections import KafkaConnections
from monitor.errors import FailedError
from monitor.tools.embedded.ports import LOOPBACK, ReservedPort
from monitor.tools.embedded.servers import Servers, start_servers

ROOT: Final = Path(__file__).parents[2]
PLACES: Final = (
    "bakery",
    "bank",
    "baths",
    "cinema",
    "clinic",
    "harbour",
    "library",
    "market",
    "museum",
    "school",
    "station",
    "town hall",
)
JOBS: Final = ("location-monitor", "location-monitor-page", "location-monitor-public")
"""The jobs of the service, the page and the subscriber."""

_SLOT_SECONDS: Final = 5
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0
_VISITORS: Final = 4
_PEOPLE: Final = 500
_KEY: Final = "a key for pictures: uK8vQ2mX5zR1tW9p\n"


@dataclass(frozen=True, slots=True)
class Town:
    """A running town: its servers, the metrics ports in the order of `JOBS`, the page's port, and Prometheus's URL."""

    servers: Servers
    ports: Sequence[int]
    page_port: int
    url: str


@contextmanager
def open_town(folder: Path) -> Iterator[Town]:
    """Start everything in a folder, and stop it at the end of the block.

    Raises:
        EmbeddedError: Kafka or Valkey could not be started.
        FailedError: Prometheus is missing, or the service does not answer.
    """
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        raise FailedError("the pictures need Prometheus (no prometheus on the PATH): make test-tools")
    with ExitStack() as stack:
        servers = stack.enter_context(start_servers(print))
        reserved = [ReservedPort() for _ in range(5)]
        for port in reserved:
            stack.callback(port.release)
        *ports, page, ui = (port.number for port in reserved)
        config = _write_configuration(folder, servers, ports, page)
        rules = _write_prometheus(folder, ports)
        cli = (sys.executable, "-m", "monitor.cli")
        create = [*cli, "topics", "--config", str(config), "--create", "--first-start"]
        subprocess.run(create, check=True, capture_output=True, cwd=ROOT)  # noqa: S603  # this program
        for words in (
            (*cli, "run", "--config", str(config)),
            (*cli, "page", "--config", str(config)),
            (*cli, "watch", "--config", str(config), "--metrics", str(ports[2])),
            (
                prometheus,
                f"--config.file={rules}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={LOOPBACK}:{ui}",
            ),
        ):
            stack.enter_context(_run_process(folder, words))
        for number in (*ports, ui):
            _wait_for(number)
        yield Town(servers, ports, page, f"http://{LOOPBACK}:{ui}")


def _write_configuration(folder: Path, servers: Servers, ports: Sequence[int], page: int) -> Path:
    names = {purpose: f"town.{purpose}" for purpose in ("visits", "alerts", "dead_letters")}
    monitor = {"name": "places", "kind": "over_time", "locations": list(PLACES), "epsilon": "480"}
    tree: dict[str, Any] = {
        "service": {"name": "town", "shards": 4},
        "clock": {
            "slot": f"{_SLOT_SECONDS}s",
            "origin": "2026-01-05T00:00:00Z",
            "release_delay": "1s",
            "tolerance": "100ms",
        },
        "locations": {"file": "locations.csv"},
        "visits": {"default_stay": "1s", "accept_ahead": f"{_SLOT_SECONDS}s", "person_key_file": "person.key"},
        "privacy": {"epsilon": "2000", "period": "1m"},
        "monitors": [monitor | {"threshold": 12, "window": "15s", "answers_per_window": 1}],
        "kafka": {
            "bootstrap_servers": [servers.kafka.bootstrap_servers],
            "topics": names,
            "partitions": {"visits": 2, "alerts": 2},
        },
        "redis": {"url": servers.valkey.url},
        "metrics": {"port": ports[0]},
        "page": {"port": page, "metrics_port": ports[1], "subscribers": 10},
    }
    (folder / "town.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    (folder / "locations.csv").write_text("\n".join(("location_id", *PLACES, "")), encoding="utf-8")
    (folder / "person.key").write_text(_KEY, encoding="utf-8")
    return folder / "town.yaml"


def _write_prometheus(folder: Path, ports: Sequence[int]) -> Path:
    scrape = [
        {"job_name": job, "static_configs": [{"targets": [f"localhost:{port}"]}]}
        for job, port in zip(JOBS, ports, strict=True)
    ]
    rules = ROOT / "deploy" / "prometheus"
    tree = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules / "rules.yml"), str(rules / "page.yml")],
        "scrape_configs": scrape,
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return folder / "prometheus.yml"


@contextmanager
def _run_process(folder: Path, words: Sequence[str]) -> Iterator[None]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=ROOT)  # noqa: S603  # programs of this module
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(port: int) -> None:
    """Wait until a server answers /readyz without a server error: it is ready, or does not have this path."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            with closing(http.client.HTTPConnection("localhost", port, timeout=5)) as connection:
                connection.request("GET", "/readyz")
                if connection.getresponse().status < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise FailedError(f"nothing became ready on port {port} within {_START_SECONDS:g} s")


def simulate_people(town: Town, seconds: float, seed: int = 20) -> None:
    """Let people visit places and the page for some time. In the middle, Redis is full for a while."""
    stop = threading.Event()
    visitors = [threading.Thread(target=_visit_page, args=(town, stop)) for _ in range(_VISITORS)]
    for visitor in visitors:
        visitor.start()
    try:
        _report_visits(town, seconds, random.Random(seed))  # noqa: S311  # simulated people
    finally:
        stop.set()
        for visitor in visitors:
            visitor.join()


def _report_visits(town: Town, seconds: float, draw: random.Random) -> None:
    """Report the visits of each second. Each place is busy at a different time."""
    kafka, valkey = (
        KafkaConnections((town.servers.kafka.bootstrap_servers,)),
        redis.Redis.from_url(town.servers.valkey.url),
    )
    began, full = time.monotonic(), False
    with closing(kafka.create_producer()) as producer, closing(valkey):
        valkey.config_set("maxmemory", "64mb")
        while (passed := time.monotonic() - began) < seconds:
            if full is not (0.5 <= passed / seconds < 0.6):  # noqa: PLR2004  # a tenth, in the middle
                full = not full
                valkey.config_set("maxmemory", "1" if full else "64mb")
            for number, place in enumerate(PLACES):
                busy = max(0.0, math.sin(2 * math.pi * (passed / 90 + number / len(PLACES)))) ** 3
                for _ in range(int(busy * draw.uniform(0, 4))):
                    producer.send("town.visits", _make_visit(place, draw))
            if draw.random() < 0.1:  # noqa: PLR2004  # one second in ten has an invalid record
                producer.send("town.visits", b"no visit")
            time.sleep(1)


def _make_visit(place: str, draw: random.Random) -> bytes:
    arrived = datetime.now(UTC).isoformat()
    visit = {"person_id": f"person-{draw.randrange(_PEOPLE)}", "location_id": place, "arrived_at": arrived}
    return json.dumps(visit).encode()


def _visit_page(town: Town, stop: threading.Event) -> None:
    """Follow the stream of the page, and read all answers now and then, as a browser does."""
    with closing(http.client.HTTPConnection("localhost", town.page_port, timeout=30)) as streaming:
        streaming.request("GET", "/v1/stream")
        stream = streaming.getresponse()
        while not stop.is_set():
            stream.readline()  # the next line comes at the latest with the next beat
            with closing(http.client.HTTPConnection("localhost", town.page_port, timeout=30)) as asking:
                asking.request("GET", "/v1/locations")
                asking.getresponse().read()
