"""The compose file on a real Docker, unchanged: started, killed, stopped and started again.

Only the configuration differs from the file's own, because its slots are of six hours. LOCATION_MONITOR_COMPOSE names a
further file for Compose, with other images, for a machine that reaches no registry of images.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from monitor.kafka.connections import KafkaConnections
from tests.deploy.compose_file import create_passwords
from tests.deploy.conftest import ROOT
from tests.engines.cluster.town import read_values
from tests.engines.scenario import Step, StepError, Ticks, expect, run, wait_until
from tests.engines.sender import Sender
from tests.engines.traffic import read_answers
from tests.kit.processes import fetch
from tests.kit.town import KEY
from tests.needed_programs import report_missing

pytestmark = [pytest.mark.soak, pytest.mark.timeout(2_400)]

FILE: Final = ROOT / "deploy/compose.yaml"
CONFIG: Final = "/etc/location-monitor/config.yaml"
FURTHER: Final = "LOCATION_MONITOR_COMPOSE"
PARTS: Final = ("monitor", "auditor", "page", "watch")
"""The services that run the program and do not end."""

KILL: Final = "import os, sys; [os.kill(int(word), 9) for word in sys.argv[1:]]"
SLOT: Final = "60s"
"""A container that starts on a slow machine is ready within a slot, so its start costs no tick."""

SECONDS: Final = 1_200


def call(*words: str | Path) -> str:
    """Run a program and return its output.

    Raises:
        StepError: it failed.
    """
    ended = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    if ended.returncode != 0:
        said = f"{ended.stdout[-1_500:]}\n{ended.stderr[-1_500:]}"
        raise StepError(f"{' '.join(map(str, words))}: exit code {ended.returncode}: {said.strip()}")
    return ended.stdout


class Project:
    """The services of the compose file, with names and volumes of their own."""

    def __init__(self, folder: Path) -> None:
        config, own = yaml.safe_load((ROOT / "deploy/config.yaml").read_bytes()), read_values()["config"]
        self.config: dict[str, Any] = config | {name: own[name] for name in ("clock", "privacy", "monitors")}
        self.config["clock"]["slot"] = SLOT
        self.config["visits"] |= {"default_stay": SLOT, "accept_ahead": SLOT}
        self.passwords = create_passwords(folder)
        self.sender = Sender(self.connect("producer"), config["kafka"]["topics"]["visits"], self.ticks.places[0])
        mounted = {name: {"volumes": [f"{folder}/config.yaml:{CONFIG}:ro"]} for name in ("topics", *PARTS)}
        changed = {"services": mounted, "secrets": {"person_key": {"file": str(folder / "person.key")}}}
        for name, content in (("config", self.config), ("changed", changed)):
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        (folder / "person.key").write_text(KEY)
        (folder / "person.key").chmod(0o444)  # the container's user is not the one of the tests
        files = [FILE, folder / "changed.yaml", *filter(None, (os.environ.get(FURTHER),))]
        self._words = [word for file in files for word in ("--file", str(file))]
        self._words += ["--env-file", str(folder / "deploy/.env"), "--project-name", f"monitor-{secrets.token_hex(3)}"]

    def compose(self, *words: str) -> str:
        """Run a command of Compose and return its output."""
        return call("docker", "compose", *self._words, *words)

    @property
    def ticks(self) -> Ticks:
        """The ticks of the service."""
        return Ticks(int(self.config["clock"]["slot"].rstrip("s")), self.config["monitors"][0]["locations"])

    def connect(self, user: str) -> KafkaConnections:
        """Return the connections of a user of Kafka, from outside the containers."""
        login = {"sasl_plain_username": user, "sasl_plain_password": self.passwords[f"KAFKA_{user.upper()}_PASSWORD"]}
        protocol = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        return KafkaConnections(("localhost:29092",), protocol | login)

    def read_answers(self) -> Mapping[int, Mapping[str, str]]:
        """Return the status by tick and place."""
        consumer = self.connect("subscriber").create_consumer(isolation_level="read_committed")
        with closing(consumer):
            return read_answers(consumer, self.config["kafka"]["topics"]["alerts"])

    def describe(self) -> str:
        """Return the containers, and the ends of their logs."""
        return self.compose("ps", "--all") + self.compose("logs", "--tail", "15", "topics", *PARTS)

    def inspect(self, part: str) -> dict[str, Any]:
        """Return what Docker knows about the container of a service."""
        (found,) = json.loads(call("docker", "inspect", self.compose("ps", "--all", "--quiet", part).strip()))
        return dict(found)

    def wait_until_ready(self) -> None:
        """Wait until the service and the auditor are ready, and the page is served."""
        pages = ((9108, "/readyz"), (9109, "/readyz"), (8080, "/states.json"))
        wait_until(lambda: {fetch(*page)[0] for page in pages} == {200}, "a ready service, auditor and page", 300)


def start(project: Project) -> None:
    """Build and start everything. Prometheus scrapes the service, the auditor, the page and the subscriber."""
    project.compose("up", "--build", "--detach")
    project.wait_until_ready()
    project.sender.start()
    wait_until(project.read_answers, "the first answer")
    wait_until(lambda: _list_scraped() == {*PARTS}, "four services that Prometheus scrapes")


def _list_scraped() -> set[str]:
    """Return the hosts of the targets of Prometheus that are up."""
    with urllib.request.urlopen("http://localhost:9090/api/v1/targets?state=active", timeout=10) as answer:
        targets = json.load(answer)["data"]["activeTargets"]
    return {target["labels"]["instance"].partition(":")[0] for target in targets if target["health"] == "up"}


def stay(project: Project) -> None:
    """Do nothing during two ticks."""
    time.sleep(2 * project.ticks.slot)


def kill(project: Project) -> None:
    """Kill service, auditor, page and subscriber from outside their containers. Docker starts them again."""
    found = {part: project.inspect(part) for part in PARTS}
    pids = [str(container["State"]["Pid"]) for container in found.values()]
    rights = ("--cap-drop", "ALL", "--cap-add", "KILL", "--user", "0", "--pid", "host", "--network", "none")
    image = found["monitor"]["Config"]["Image"]
    call("docker", "run", "--rm", *rights, "--entrypoint", "python", image, "-c", KILL, *pids)
    wait_until(lambda: {project.inspect(part)["RestartCount"] for part in PARTS} == {1}, "one restart of each", 60)
    project.wait_until_ready()


def stop(project: Project) -> None:
    """Stop the service in order, and start its container again. Compose would first start `rights` and `topics`."""
    project.compose("stop", "monitor")
    stopped = project.inspect("monitor")
    state = stopped["State"]
    expect((state["Status"], state["ExitCode"]) == ("exited", 0), f"an end in order, not {state}")
    call("docker", "start", stopped["Id"])
    project.wait_until_ready()


def audit(project: Project) -> None:
    """The auditor's container judges all answers, and finds nothing."""
    print(project.compose("exec", "--no-TTY", "auditor", "location-monitor", "audit", "--config", CONFIG))


def start_again(project: Project) -> None:
    """Remove all containers, and start again: the volumes have the ledger, and the ticks between may be lost."""
    project.sender.end()
    project.compose("down")
    removed = time.time()
    project.compose("up", "--detach")
    project.wait_until_ready()
    wait_until(lambda: max(project.read_answers()) > removed, "an answer after the start")


STEPS: Final = (
    Step("`up` with the unchanged file", start),
    Step("nothing", stay),
    Step("killed (`kill -9`): service, auditor, page, subscriber", kill),
    Step("service stopped and started", stop),
    Step("the auditor judges all", audit),
    Step("`down`, then `up`", start_again, loses=True),
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """The project, which is removed at the end with all its volumes."""
    remedy = "install Docker Engine and its plugin Compose 2, and start Docker"
    if shutil.which("docker") is None:
        report_missing("Docker (no docker on the PATH)", remedy)
    try:
        call("docker", "info")
        version = call("docker", "compose", "version", "--short").strip().removeprefix("v")
    except StepError as error:
        report_missing(f"Docker with Compose 2 ({error})", remedy)
    if int(version.partition(".")[0]) < 2:
        report_missing(f"Compose 2 (found {version})", remedy)
    project = Project(tmp_path)
    try:
        yield project
    finally:
        project.sender.end()
        project.compose("down", "--volumes", "--timeout", "10")


def test_compose(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed and stopped, the services of the compose file lose no tick, and the auditor finds nothing."""
    with capsys.disabled():
        run(project, STEPS)
