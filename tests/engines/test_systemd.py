"""The units of deploy/systemd on a real systemd: installed, killed, upgraded and removed as Operations says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
import yaml

from monitor.operate.servers import EmbeddedValkey
from tests.deploy.conftest import ROOT
from tests.deploy.systemd.test_how_to import OTHERS, read_blocks
from tests.engines.cluster.town import read_values
from tests.engines.scenario import Step, StepError, Ticks, expect, run, wait_until
from tests.engines.sender import Sender
from tests.engines.traffic import read_answers
from tests.kit.network import find_free_ports
from tests.kit.processes import fetch
from tests.kit.town import Town, build_tree
from tests.needed_programs import report_missing
from tests.shared_kafka import SharedKafka

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1_500)]

PROGRAM: Final = "/opt/location-monitor/bin/location-monitor"
ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
CONFIGURE: Final = "install -m 0640 -g location-monitor {}.yaml /etc/location-monitor/config.yaml"
SECONDS: Final = 600


class Machine:
    """A container of systemd. Its files are those of this machine, and changes are in memory."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.site, self._log = site, folder / "console.log"
        (folder / "root").mkdir()
        words = ["unshare", "--mount", "--propagation", "private", str(Path(__file__).parent / "machine.sh")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*words, str(folder / "root"), str(site)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def boot(self) -> None:
        """Wait until systemd runs."""
        wait_until(self._is_up, f"a running systemd: {self._log.read_text(errors='replace')[-2_000:]}", 120)

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            raise StepError(f"systemd-nspawn has ended: {self._log.read_text(errors='replace')[-2_000:]}")
        with_state = self._start("systemctl is-system-running") if self._find_first() else None
        return with_state is not None and with_state.stdout.strip() in {"running", "degraded"}

    def _find_first(self) -> str:
        """Return the process id of systemd, as this machine sees it; empty before it runs."""
        pid = self._process.pid
        return next(iter(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()), "")

    def _start(self, script: str) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", "--target", self._find_first(), "--mount", "--uts", "--ipc", "--pid", "--root", "--wd"]
        words = [*enter, "/bin/bash", "-euc", f"cd /srv/site\n{script}"]
        return subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, timeout=SECONDS, check=False)

    def execute(self, script: str) -> str:
        """Run a script of the shell as root, in the folder of the site, until a command fails. Return its output.

        Raises:
            StepError: a command failed.
        """
        ended = self._start(script)
        if ended.returncode != 0:
            said = f"{ended.stdout[-1_500:]}\n{ended.stderr[-1_500:]}"
            raise StepError(f"exit code {ended.returncode}: {said.strip()}\n{script}")
        return ended.stdout

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.execute(f"systemctl show --property {name} --value '{unit}'").strip()

    def end(self) -> None:
        """Kill all processes of the machine."""
        self._process.kill()
        self._process.wait()


class Host:
    """The service, the auditor and the page on a machine with systemd."""

    def __init__(self, machine: Machine, town: Town, ports: Mapping[str, int]) -> None:
        self.machine, self.town, self.ports = machine, town, ports
        self.sender = Sender(town.connections, town.topic("visits"), self.ticks.places[0])
        self.unit = f"location-monitor@{ports['service']}"
        self.units = (self.unit, "location-auditor", "location-page")

    @property
    def ticks(self) -> Ticks:
        """The ticks of the service."""
        tree = self.town.tree
        return Ticks(int(tree["clock"]["slot"].rstrip("s")), tree["monitors"][0]["locations"])

    def read_answers(self) -> Mapping[int, Mapping[str, str]]:
        """Return the status by tick and place."""
        with closing(self.town.connections.create_consumer(isolation_level="read_committed")) as consumer:
            return read_answers(consumer, self.town.topic("alerts"))

    def describe(self) -> str:
        """Return what systemd and the journal have about the units."""
        named = " ".join(self.units)
        shown = f"systemctl --no-pager status {named} || true; journalctl --no-pager --output cat --lines 40"
        return self.machine.execute(shown)

    def read_commands(self, title: str = "On a host with systemd") -> list[str]:
        """Return the blocks of commands of docs/operations.md, with the port of this service."""
        return [block.replace("9108", str(self.ports["service"])) for block in read_blocks(ROOT, title)]

    def is_ready(self, part: str = "service") -> bool:
        """Return whether the service, or the auditor, is ready."""
        return fetch(self.ports[part], "/readyz")[0] == 200

    def wait_until_ready(self) -> None:
        """Wait until the service and the auditor are ready, and the page is written."""
        wait_until(lambda: self.is_ready() and self.is_ready("auditor"), "a service and an auditor that are ready")
        written = "find /var/lib/location-page -name states.json -newer /etc/location-page/config.yaml"
        wait_until(lambda: self.machine.execute(written), "a written page")


def install(host: Host) -> None:
    """Install the service, the auditor and the page by the commands of Operations, and start them."""
    installed, started, *_ = host.read_commands()
    host.machine.execute(installed)
    host.machine.execute(started.replace(" --follow", " --no-pager --lines 5"))
    host.sender.start()
    (block,) = host.read_commands(OTHERS)
    for name in host.units[1:]:
        host.machine.execute(block.replace("NAME=location-auditor ", f"NAME={name} "))
    host.wait_until_ready()
    wait_until(host.read_answers, "the first answer")


def stay(host: Host) -> None:
    """Do nothing during three ticks. Each process has an account of its own, and no rights."""
    time.sleep(3 * host.ticks.slot)
    accounts = set()
    for unit in host.units:
        status = host.machine.execute(f"cat /proc/{host.machine.show(unit, 'MainPID')}/status")
        values = {name: value.split() for name, _, value in (line.partition(":") for line in status.splitlines())}
        rights = {"".join(values[name]) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")}
        expect(rights == {"0" * 16} and values["NoNewPrivs"] == ["1"], f"{unit} without rights, not {rights}")
        accounts.add(values["Uid"][0])
    expect(len(accounts - {"0"}) == 3, f"three accounts, not {accounts}")


def kill(host: Host) -> None:
    """Kill all three processes. systemd starts them again."""
    for unit in host.units:
        host.machine.execute(f"kill -9 {host.machine.show(unit, 'MainPID')}")
    wait_until(lambda: {host.machine.show(unit, "NRestarts") for unit in host.units} == {"1"}, "a restart of each")
    host.wait_until_ready()


def upgrade(host: Host) -> None:
    """Install the program again, and restart the service, by the commands of Operations."""
    host.machine.execute(host.read_commands()[2])
    host.wait_until_ready()


def refuse(host: Host) -> None:
    """With too little ε the service ends with code 2 and is not started again. The journal names the key."""
    host.machine.execute(f"{CONFIGURE.format('refused')}; systemctl restart '{host.unit}'")
    wait_until(lambda: host.machine.show(host.unit, "ActiveState") == "failed", "a failed unit", 60)
    found = [host.machine.show(host.unit, name) for name in ("ExecMainStatus", "NRestarts")]
    expect(found == ["2", "0"], f"exit code 2 and no restart, not {found}")
    said = host.machine.execute(f"journalctl --no-pager --output cat --lines 10 --unit '{host.unit}'")
    expect("privacy.epsilon" in said, f"privacy.epsilon in {said}")
    host.machine.execute(f"{CONFIGURE.format('config')}; systemctl restart '{host.unit}'")
    host.wait_until_ready()


def stop(host: Host) -> None:
    """Stop the service in order, and start it again."""
    host.machine.execute(f"systemctl stop '{host.unit}'")
    found = [host.machine.show(host.unit, name) for name in ("Result", "ExecMainStatus")]
    expect(found == ["success", "0"], f"an end in order, not {found}")
    host.machine.execute(f"systemctl start '{host.unit}'")
    host.wait_until_ready()


def audit(host: Host) -> None:
    """The auditor's account judges all answers, and finds nothing."""
    command = f"runuser -u location-auditor -- {PROGRAM} audit --config /etc/location-auditor/config.yaml"
    print(host.machine.execute(command))


def remove(host: Host) -> None:
    """Remove the service by the commands of Operations: neither a process nor a file of it remains."""
    host.machine.execute(f"systemctl stop {' '.join(host.units[1:])}")
    (removal,) = (block for block in host.read_commands() if "userdel" in block)
    host.machine.execute(removal)
    expect(host.machine.execute("pgrep --list-full location-monit || true") == "", "no process")
    left = host.machine.execute("ls -d /opt/* /etc/* /etc/systemd/system/* | grep location-monitor || true")
    expect(left == "", f"no file of the service, not {left}")


STEPS: Final = (
    Step("installed by the commands of Operations: service, auditor, page", install),
    Step("nothing", stay),
    Step("killed (`kill -9`): service, auditor, page", kill),
    Step("upgraded by its commands", upgrade),
    Step("a configuration that is refused", refuse),
    Step("stopped and started", stop),
    Step("the auditor judges all", audit),
    Step("removed by its commands", remove, loses=True),
)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine with systemd that runs, and what an operator brings to it in its folder `site`."""
    missing = [tool for tool in ("systemd-nspawn", "unshare", "nsenter") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        why = f"a machine with systemd ({', '.join(missing) or 'not root'})"
        report_missing(why, "apt-get install systemd-container, and run them as root")
    site = tmp_path / "site"
    (site / "deploy").mkdir(parents=True)
    shutil.copytree(ROOT / "deploy/systemd", site / "deploy/systemd")
    words = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(site)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    machine = Machine(tmp_path, site)
    try:
        machine.boot()
        yield machine
    finally:
        machine.end()


@pytest.fixture
def host(machine: Machine, kafka: SharedKafka, store: EmbeddedValkey, topic: Callable[[str], str]) -> Iterator[Host]:
    """A host whose servers run beside the machine. Only `secrets.env` has the address of the store."""
    config, ports = read_values()["config"], dict(zip(("service", "auditor", "page"), find_free_ports(3), strict=True))
    sections = {name: config[name] for name in ("clock", "privacy")} | {
        "visits": config["visits"] | {"person_key_file": "person.key"},
        "auditor": {"port": ports["auditor"]},
        "page": {"metrics_port": ports["page"]},
    }
    monitors, nowhere = config["monitors"], "redis://nowhere.invalid:6379/0"
    tree = build_tree(topic("units"), kafka.bootstrap_servers, nowhere, monitors, inputs=2, **sections)
    town = Town(machine.site, tree, monitors[0]["locations"])
    little = tree | {"privacy": config["privacy"] | {"epsilon": "1"}}
    for name, content in (("config", tree), ("refused", little)):
        (machine.site / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (machine.site / "secrets.env").write_text(f"LOCATION_MONITOR__REDIS__URL={store.url}\n", encoding="utf-8")
    host = Host(machine, town, ports)
    yield host
    host.sender.end()


def test_units(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed, upgraded, stopped and refused, the units lose no tick, and the auditor finds nothing."""
    with capsys.disabled():
        run(host, STEPS)
