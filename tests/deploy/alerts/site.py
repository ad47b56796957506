"""A running service with its own Valkey, watched by a real Prometheus, and the commands of runbooks."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from monitor.operate.servers import EmbeddedValkey, ValkeySettings
from monitor.operate.servers.ports import ReservedPort
from tests.conftest import Eventually
from tests.deploy.alerts.runbooks import read_commands
from tests.kit.processes import CLI, fetch
from tests.kit.programs import Program
from tests.kit.town import TWO_SECONDS, Town, build_tree, over_time
from tests.needed_programs import find_program
from tests.shared_kafka import SharedKafka

JOB: Final = "location-monitor"
AUDITOR_JOB: Final = "location-monitor-auditor"
PAGE_JOB: Final = "location-monitor-page"
PUBLIC_JOB: Final = "location-monitor-public"
SLOT_SECONDS: Final = 5
PORTS: Final = ("metrics", "second", "auditor", "prometheus", "page_metrics", "public")
TARGETS: Final = {
    JOB: ("metrics", "second"),
    AUDITOR_JOB: ("auditor",),
    PAGE_JOB: ("page_metrics",),
    PUBLIC_JOB: ("public",),
}
"""The ports that Prometheus scrapes, by job."""

PLACES: Final = ("inn", "mill")
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
        self._process: subprocess.Popen[bytes] | Program | None = None

    def start(self) -> None:
        """Start the process."""
        if self._words[0] == CLI:
            self._process = Program(self._words, self.log, environment=self._environ, folder=self._folder)
            return
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


class Site(Town):
    """The processes of a site, and their ports by name (PORTS). Runbooks call its configuration $CONFIG."""

    def __init__(
        self, folder: Path, kafka: SharedKafka, valkey: EmbeddedValkey, ports: Mapping[str, int], stack: ExitStack
    ) -> None:
        name = f"runbooks-{os.getpid()}-{folder.name}"
        super().__init__(folder, _build_tree(name, kafka, valkey, ports), PLACES)
        self.kafka, self.valkey, self.ports, self.stack = kafka, valkey, ports, stack
        of = ("--config", str(self.write()))
        self.service = Service(folder, "service", (CLI, "run", *of))
        self.auditor = Service(folder, "auditor", (CLI, "audit", "--follow", *of))
        self.page_words = (CLI, "page", *of, "--out", str(folder / "site"))
        self.page = Service(folder, "page", self.page_words)
        self.subscriber = Service(folder, "watch", (CLI, "watch", *of, "--metrics", str(ports["public"])))
        self.began = 0.0
        """When the fault began, on the monotonic clock. A fault that needs preparations sets it after them."""

    def write_other(self, name: str, **sections: Any) -> Path:
        """Write the configuration with other sections to another file, and return the file."""
        file = self.folder / name
        file.write_text(yaml.safe_dump(self.tree | sections), encoding="utf-8")
        return file

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        url = f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/alerts"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                found = json.load(response)["data"]["alerts"]
        except OSError:
            return set()
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

    def query(self, expression: str) -> list[float]:
        """Return the value of each series of an instant query; NaN and infinities are left out."""
        form = urllib.parse.urlencode({"query": expression})
        url = f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/query?{form}"
        with urllib.request.urlopen(url, timeout=5) as response:
            found = json.load(response)["data"]["result"]
        return [value for value in (float(series["value"][1]) for series in found) if math.isfinite(value)]

    def fetch(self, port: str, path: str) -> tuple[int, str]:
        """Return status and text of a page of a process; (0, "") if it does not answer."""
        return fetch(self.ports[port], path)

    def ready(self, port: str = "metrics") -> bool:
        """Return whether the service, the auditor or the page is ready."""
        return self.fetch(port, "/readyz")[0] == 200

    def count_answering(self) -> int:
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
            "OUT": str(self.folder / "site"),
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

    def report_now(self) -> None:
        """Produce a correct visit, of now."""
        self.report({"person_id": "ann", "location_id": "inn", "arrived_at": datetime.now(UTC).isoformat()})


def _build_tree(name: str, kafka: SharedKafka, valkey: EmbeddedValkey, ports: Mapping[str, int]) -> dict[str, Any]:
    slot = f"{SLOT_SECONDS}s"
    return build_tree(
        name,
        kafka.bootstrap_servers,
        valkey.url,
        [over_time("places", PLACES, 5, "15s")],
        ledger_partitions=2,
        shards=2,
        clock=TWO_SECONDS["clock"] | {"slot": slot, "release_delay": "2s"},
        visits=TWO_SECONDS["visits"] | {"accept_ahead": slot},
        privacy=TWO_SECONDS["privacy"],
        metrics={"port": ports["metrics"]},
        auditor={"port": ports["auditor"]},
        page={"metrics_port": ports["page_metrics"]},
    )


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


@contextmanager
def run_site(
    folder: Path, kafka: SharedKafka, eventually: Eventually, rules: list[Path], *, audited: bool, scrape: str
) -> Iterator[Site]:
    """Run a site until the service has answered; `audited`: until an auditor has judged too."""
    prometheus = find_program("prometheus", "Prometheus")
    with ExitStack() as stack:
        reserved = {name: ReservedPort() for name in PORTS}
        for port in reserved.values():
            stack.callback(port.release)
        ports = {name: port.number for name, port in reserved.items()}
        valkey = stack.enter_context(EmbeddedValkey(ValkeySettings(arguments=("--maxmemory", LIMIT))))
        site = Site(folder, kafka, valkey, ports, stack)
        created = site.command("topics", "--create", "--first-start")
        assert created.returncode == 0, created.stderr
        words = (
            prometheus,
            f"--config.file={_write_prometheus(site, rules, scrape)}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
        )
        watching = Service(folder, "prometheus", words)
        for process in (site.service, site.page, site.subscriber, watching, *([site.auditor] if audited else [])):
            process.start()
            stack.callback(process.stop)
        eventually(site.ready, 60)
        eventually(lambda: site.count_answering() >= 2, 60)
        eventually(lambda: len(site.query("location_monitor_last_tick_timestamp_seconds")) >= 2, 60)
        if audited:
            eventually(lambda: site.ready("auditor"), 60)
        eventually(lambda: site.ready("page_metrics"), 60)
        yield site
