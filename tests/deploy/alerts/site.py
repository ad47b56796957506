"""A running service with its own Valkey, watched by a real Prometheus, and the commands of runbooks."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from monitor.kafka.connections import KafkaConnections
from monitor.tools.servers import EmbeddedValkey, ValkeySettings
from monitor.tools.servers.ports import ReservedPort
from tests.conftest import Eventually
from tests.deploy.alerts.runbooks import read_commands
from tests.missing import report_missing
from tests.shared_kafka import SharedKafka

JOB: Final = "location-monitor"
AUDITOR_JOB: Final = "location-monitor-auditor"
PAGE_JOB: Final = "location-monitor-page"
PUBLIC_JOB: Final = "location-monitor-public"
SLOT_SECONDS: Final = 5
CLI: Final = (sys.executable, "-m", "monitor.cli")
PORTS: Final = ("metrics", "second", "auditor", "prometheus", "page", "page_metrics", "public")
TARGETS: Final = {
    JOB: ("metrics", "second"),
    AUDITOR_JOB: ("auditor",),
    PAGE_JOB: ("page_metrics",),
    PUBLIC_JOB: ("public",),
}
"""The ports that Prometheus scrapes, by job."""

LIMIT: Final = "200mb"
"""The memory of Valkey, without a fault."""

_ENDLESS: Final = re.compile(r"^location-monitor (run|audit --follow|page) ")


class Service:
    """A process that a test stops and starts again. Its output is appended to a log."""

    def __init__(
        self, folder: Path, name: str, words: tuple[str, ...], environ: Mapping[str, str] | None = None
    ) -> None:
        self.log = folder / f"{name}.log"
        self._folder, self._words, self._environ = folder, words, environ
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log, cwd=self._folder, env=self._environ)

    def stop(self) -> None:
        """End the process, if it runs, and wait for its end."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the process."""
        self.start()
        try:
            yield
        finally:
            self.stop()


@dataclass
class Site:
    """The processes of a site, their ports by name (PORTS), and the file that runbooks call $CONFIG."""

    folder: Path
    name: str
    kafka: SharedKafka
    valkey: EmbeddedValkey
    ports: Mapping[str, int]
    config: Path
    service: Service
    auditor: Service
    page: Service
    stack: ExitStack = field(default_factory=ExitStack)
    began: float = 0.0
    """When the fault began, on the monotonic clock. A fault that needs preparations sets it after them."""

    @property
    def connections(self) -> KafkaConnections:
        """How to reach Kafka."""
        return KafkaConnections((self.kafka.bootstrap_servers,))

    def topic(self, kind: str) -> str:
        """Return the name of a topic: visits, alerts or dead_letters."""
        return f"{self.name}.{kind}"

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        url = f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/alerts"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                found = json.load(response)["data"]["alerts"]
        except OSError:
            return set()
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

    def values(self, expression: str) -> list[float]:
        """Return the value of each series of an instant query; NaN and infinities are left out."""
        form = urllib.parse.urlencode({"query": expression})
        url = f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/query?{form}"
        with urllib.request.urlopen(url, timeout=5) as response:
            found = json.load(response)["data"]["result"]
        return [value for value in (float(series["value"][1]) for series in found) if math.isfinite(value)]

    def fetch(self, port: str, path: str) -> tuple[int, str]:
        """Return status and text of a page of a process; (0, "") if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=5) as response:
                return int(response.status), response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self, port: str = "metrics") -> bool:
        """Return whether the service, the auditor or the page is ready."""
        return self.fetch(port, "/readyz")[0] == 200

    def answers(self) -> int:
        """Return how many output partitions have a last tick."""
        text = self.fetch("metrics", "/metrics")[1]
        return len(re.findall(r"^location_monitor_last_tick_timestamp_seconds{", text, re.MULTILINE))

    def environ(self) -> dict[str, str]:
        """Return the environment in which the commands of runbooks run."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CONFIG": str(self.config),
            "METRICS": f"127.0.0.1:{self.ports['metrics']}",
            "AUDITOR": f"127.0.0.1:{self.ports['auditor']}",
            "PAGE": f"127.0.0.1:{self.ports['page_metrics']}",
        }

    def run_commands(self, anchor: str) -> list[str]:
        """Run every command of a runbook except those that do not end, and return the commands."""
        executed = [command for command in read_commands(anchor) if not _ENDLESS.match(command)]
        for command in executed:
            ended = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],  # noqa: S607 - from the search path
                env=self.environ(),
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
            assert ended.stdout, command
        return executed

    def endless(self, anchor: str) -> Service:
        """Return the process of the command of a runbook that does not end: `run`, `audit --follow` or `page`."""
        (command,) = (command for command in read_commands(anchor) if _ENDLESS.match(command))
        return Service(self.folder, f"from-{anchor}", ("bash", "-c", f"exec {command}"), self.environ())

    def started(self, service: Service) -> Service:
        """Start a process that ends with the site, and return it."""
        service.start()
        self.stack.callback(service.stop)
        return service

    def report(self, *visits: Mapping[str, Any]) -> None:
        """Produce visits; without arguments a correct one, of now."""
        now = datetime.now(UTC).isoformat()
        sent = visits or ({"person_id": "ann", "location_id": "inn", "arrived_at": now},)
        with closing(self.connections.create_producer()) as producer:
            for visit in sent:
                producer.send(self.topic("visits"), json.dumps(visit).encode()).get(timeout=10)


def write_configuration(site: Site, name: str = "service.yaml", **sections: Any) -> Path:
    """Write a configuration of the service with the files that it names. `sections` replaces whole sections."""
    tree = {
        "service": {"name": site.name, "shards": 2},
        "clock": {
            "slot": f"{SLOT_SECONDS}s",
            "origin": "2026-01-05T00:00:00Z",
            "release_delay": "2s",
            "tolerance": "100ms",
        },
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
            "topics": {kind: site.topic(kind) for kind in ("visits", "alerts", "dead_letters")},
            "partitions": {"visits": 1, "alerts": 2},
        },
        "redis": {"url": site.valkey.url},
        "metrics": {"port": site.ports["metrics"]},
        "auditor": {"port": site.ports["auditor"]},
        "page": {"port": site.ports["page"], "metrics_port": site.ports["page_metrics"]},
    }
    file = site.folder / name
    file.write_text(yaml.safe_dump(tree | sections), encoding="utf-8")
    (site.folder / "locations.csv").write_text("location_id\ninn\nmill\n", encoding="utf-8")
    (site.folder / "person.key").write_text("Gnx1AzlKlq/kglUmL4H4CqRM2z23FHwGiV9DkL8+eyg=\n", encoding="utf-8")
    (site.folder / "person.key").chmod(0o600)
    return file


def _write_prometheus(site: Site, rules: list[Path], scrape: str) -> Path:
    """Write a configuration of Prometheus with these rules, evaluated often."""
    tree = {
        "global": {"scrape_interval": scrape, "scrape_timeout": scrape, "evaluation_interval": scrape},
        "rule_files": list(map(str, rules)),
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{site.ports[port]}" for port in ports]}]}
            for job, ports in TARGETS.items()
        ],
    }
    file = site.folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return file


def require_prometheus() -> str:
    """Return the path of Prometheus; skip the test without it, or fail in CI."""
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        report_missing("Prometheus (no prometheus on the PATH)", "make test-tools")
    return prometheus


@contextmanager
def run_site(
    folder: Path, kafka: SharedKafka, eventually: Eventually, rules: list[Path], *, audited: bool, scrape: str
) -> Iterator[Site]:
    """Run a site until the service has answered; `audited`: until an auditor has judged too."""
    prometheus = require_prometheus()
    with ExitStack() as stack:
        reserved = {name: ReservedPort() for name in PORTS}
        for port in reserved.values():
            stack.callback(port.release)
        ports = {name: port.number for name, port in reserved.items()}
        valkey = stack.enter_context(EmbeddedValkey(ValkeySettings(arguments=("--maxmemory", LIMIT))))
        config = folder / "service.yaml"
        name = f"runbooks-{os.getpid()}-{folder.name}"
        service, auditor, page, subscriber = _services(folder, config, ports["public"])
        site = Site(folder, name, kafka, valkey, ports, config, service, auditor, page, stack)
        write_configuration(site)
        create = [*CLI, "topics", "--config", str(config), "--create", "--first-start"]
        subprocess.run(create, check=True, capture_output=True)
        words = (
            prometheus,
            f"--config.file={_write_prometheus(site, rules, scrape)}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
        )
        watching = Service(folder, "prometheus", words)
        for process in (service, page, subscriber, watching, *([auditor] if audited else [])):
            process.start()
            stack.callback(process.stop)
        eventually(site.ready, 60)
        eventually(lambda: site.answers() >= 2, 60)
        eventually(lambda: len(site.values("location_monitor_last_tick_timestamp_seconds")) >= 2, 60)
        if audited:
            eventually(lambda: site.ready("auditor"), 60)
        eventually(lambda: site.ready("page_metrics"), 60)
        yield site


def _services(folder: Path, config: Path, public_port: int) -> tuple[Service, Service, Service, Service]:
    """Return the service, the auditor, the page and a subscriber with metrics."""
    of = ("--config", str(config))
    return (
        Service(folder, "service", (*CLI, "run", *of)),
        Service(folder, "auditor", (*CLI, "audit", "--follow", *of)),
        Service(folder, "page", (*CLI, "page", *of)),
        Service(folder, "watch", (*CLI, "watch", *of, "--metrics", str(public_port))),
    )
