"""Runbooks on real servers: a fault fires the alert, the commands of the page run, and the alert clears.

A real Prometheus scrapes a real service and evaluates the rules of deploy/prometheus/ every half second.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest
import redis
import yaml

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.groups import release_group
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey, ValkeySettings
from monitor.tools.embedded.ports import ReservedPort
from tests.deploy.grafana.queries import Query, event_queries, panel_queries

Eventually = Callable[..., Any]
JOB = "location-monitor"
DETECT_SECONDS = 60.0
CLEAR_SECONDS = 90.0


@dataclass
class Site:
    """A running service with its own Valkey, and a Prometheus that watches it."""

    folder: Path
    name: str
    kafka: EmbeddedKafka
    valkey: EmbeddedValkey
    metrics_port: int
    prometheus_port: int

    @property
    def config(self) -> Path:
        return self.folder / "service.yaml"

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        url = f"http://127.0.0.1:{self.prometheus_port}/api/v1/alerts"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                found = json.load(response)["data"]["alerts"]
        except OSError:
            return set()
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

    def values(self, expression: str) -> list[float]:
        """Return the value of each series of an instant query; NaN and infinities are left out."""
        form = urllib.parse.urlencode({"query": expression})
        url = f"http://127.0.0.1:{self.prometheus_port}/api/v1/query?{form}"
        with urllib.request.urlopen(url, timeout=5) as response:
            found = json.load(response)["data"]["result"]
        return [value for value in (float(series["value"][1]) for series in found) if math.isfinite(value)]

    def ready(self) -> bool:
        """Return whether the service is ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/readyz", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def run_commands(self, page: Path) -> list[str]:
        """Run every command of a runbook except `run`, which does not end, and return the commands."""
        blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        commands = [line for block in blocks for line in textwrap.dedent(block).splitlines() if line]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environ = {"PATH": path, "CONFIG": str(self.config), "METRICS": f"127.0.0.1:{self.metrics_port}"}
        executed = [command for command in commands if not command.startswith("location-monitor run ")]
        for command in executed:
            ended = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],  # noqa: S607 - from the search path
                env=environ,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
            assert ended.stdout, command
        return executed


def _write_configuration(site: Site) -> None:
    tree = {
        "service": {"name": site.name, "shards": 2},
        "clock": {"slot": "5s", "origin": "2026-01-05T00:00:00Z", "release_delay": "2s", "tolerance": "100ms"},
        "locations": {"file": "locations.csv"},
        "visits": {"default_stay": "1s", "accept_ahead": "5s", "person_key_file": "person.key"},
        "privacy": {"epsilon": "4000", "period": "1m"},
        "monitors": [
            {
                "name": "places",
                "kind": "over_time",
                "locations": ["inn", "mill"],
                "epsilon": "80",
                "threshold": 5,
                "window": "15s",
            }
        ],
        "kafka": {
            "bootstrap_servers": [site.kafka.bootstrap_servers],
            "topics": {kind: f"{site.name}.{kind}" for kind in ("visits", "alerts", "dead_letters")},
            "partitions": {"visits": 1, "alerts": 2},
        },
        "redis": {"url": site.valkey.url},
        "metrics": {"port": site.metrics_port},
    }
    site.config.write_text(yaml.safe_dump(tree), encoding="utf-8")
    (site.folder / "locations.csv").write_text("location_id\ninn\nmill\n", encoding="utf-8")
    (site.folder / "person.key").write_text("planted-mK4vX9qW2zL8rT\n", encoding="utf-8")


def _write_prometheus(site: Site, root: Path) -> Path:
    """Write a configuration of Prometheus with the project's rules, evaluated often."""
    scrape = {"job_name": JOB, "static_configs": [{"targets": [f"127.0.0.1:{site.metrics_port}"]}]}
    tree = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [str(root / "deploy" / "prometheus" / "rules.yml")],
        "scrape_configs": [scrape],
    }
    file = site.folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return file


@contextmanager
def _process(folder: Path, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def site(
    kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory, root: Path, eventually: Eventually
) -> Iterator[Site]:
    """A service that is ready, watched by Prometheus."""
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        _missing()
    folder = tmp_path_factory.mktemp("runbooks")
    metrics, ui = ReservedPort(), ReservedPort()
    with closing(_Releasing(metrics, ui)), EmbeddedValkey(ValkeySettings()) as valkey:
        site = Site(folder, f"runbooks-{os.getpid()}", kafka, valkey, metrics.number, ui.number)
        _write_configuration(site)
        cli = (sys.executable, "-m", "monitor.cli")
        create = [*cli, "topics", "--config", str(site.config), "--create", "--first-start"]
        subprocess.run(create, check=True, capture_output=True)
        watching = (
            prometheus,
            f"--config.file={_write_prometheus(site, root)}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{site.prometheus_port}",
        )
        service = _process(folder, "service", *cli, "run", "--config", str(site.config))
        with service, _process(folder, "prometheus", *watching):
            eventually(site.ready, 60)
            eventually(lambda: _answers(site) >= 2, 60)
            yield site


class _Releasing:
    """Releases ports when it is closed."""

    def __init__(self, *ports: ReservedPort) -> None:
        self._ports = ports

    def close(self) -> None:
        for port in self._ports:
            port.release()


def _missing() -> NoReturn:
    message = "server missing: Prometheus (no prometheus on the PATH). To run these tests: make test-tools"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def _answers(site: Site) -> int:
    """Return how many output partitions have a last tick."""
    with urllib.request.urlopen(f"http://127.0.0.1:{site.metrics_port}/metrics", timeout=5) as response:
        return len(
            re.findall(r"^location_monitor_last_tick_timestamp_seconds{", response.read().decode(), re.MULTILINE)
        )


@contextmanager
def _foreign_member(site: Site, eventually: Eventually) -> Iterator[None]:
    """Let a foreign consumer in the release group take one of two output partitions and decide nothing."""
    member = KafkaConnections((site.kafka.bootstrap_servers,)).member(release_group(site.name))
    member.subscribe([f"{site.name}.alerts"])
    leave = threading.Event()

    def stay() -> None:
        with closing(member):
            while not leave.is_set():
                member.poll(timeout_ms=100)

    thread = threading.Thread(target=stay)
    thread.start()
    try:
        eventually(lambda: len(member.assignment()) == 1, 60)
        yield
    finally:
        leave.set()
        thread.join()


def _report_visit(site: Site) -> None:
    visit = {"person_id": "ann", "location_id": "inn", "arrived_at": datetime.now(UTC).isoformat()}
    with closing(KafkaConnections((site.kafka.bootstrap_servers,)).producer()) as producer:
        producer.send(f"{site.name}.visits", json.dumps(visit).encode()).get(timeout=10)


@contextmanager
def _full_store(site: Site, eventually: Eventually) -> Iterator[None]:  # as the other faults
    """Let Valkey refuse writes for lack of memory, and report a visit that therefore stays unread."""
    with closing(redis.Redis.from_url(site.valkey.url)) as client:
        client.config_set("maxmemory", "1")
        _report_visit(site)
        try:
            yield
        finally:
            client.config_set("maxmemory", "0")


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "LocationMonitorTicksMissing": ("ticks-missing", _foreign_member),
    "LocationMonitorAnswersUnknown": ("answers-unknown", _full_store),
}


WITHOUT_DATA = {
    "Alerts that fire": "no alert fires in a sound service",
    "Restarts after a crash": "one process has no supervisor",
}
"""Panels of the dashboards without data here, and why."""


def test_dashboards_show_data(site: Site, eventually: Eventually) -> None:
    """Each query of the dashboards returns data; those of WITHOUT_DATA may return none."""
    queries = [*panel_queries(), *map(_without_condition, event_queries())]
    assert set(WITHOUT_DATA) <= {query.title for query in queries}
    _report_visit(site)

    def missing() -> set[str]:
        return {query.title for query in queries if not site.values(query.with_values(JOB, "1m", "5m"))}

    eventually(lambda: missing() <= set(WITHOUT_DATA), 60)  # an alert may fire on a machine that is too busy


def _without_condition(query: Query) -> Query:
    """Return the query without its last comparison, which an event has to fulfil to be marked."""
    return replace(query, expression=re.split(" > 0$| unless ", query.expression)[0])


@pytest.mark.parametrize("alert", FAULTS)
def test_fault_alerts_and_clears(site: Site, alert: str, root: Path, eventually: Eventually) -> None:
    """The fault fires its alert, the commands of the runbook run meanwhile, and the alert clears afterwards."""
    page, fault = FAULTS[alert]
    eventually(lambda: alert not in site.firing() and site.ready(), CLEAR_SECONDS)
    began = time.monotonic()
    with fault(site, eventually):
        eventually(lambda: alert in site.firing(), DETECT_SECONDS)
        detected = time.monotonic()
        executed = site.run_commands(root / "docs" / "runbooks" / f"{page}.md")
        assert len(executed) >= 3
    mitigated = time.monotonic()
    eventually(lambda: alert not in site.firing(), CLEAR_SECONDS)
    seconds = f"detected after {detected - began:.0f} s, cleared after {time.monotonic() - mitigated:.0f} s"
    print(f"{alert}: {seconds}")
