"""Run the protocol tests on other versions of the servers, and write the table of docs/supported.md: `make versions`.

Each run has one version of Kafka and one store. A lock in this folder (monitor/operate/servers/lock_jars.py) names the
jars of a version of Kafka, and `debian.sh` fetches a store. The usual versions are not among them: CI runs those.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from monitor.operate.servers.jars import LOCK, read_pinned_jars
from monitor.operate.servers.valkey import SERVER, find_binary
from simulators.write_results import replace_part

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
FOLDERS: Final = tuple(f"tests/{name}" for name in ("faults", "ingest", "kafka", "service", "store", "ticks"))
PYTEST: Final = (sys.executable, "-m", "pytest", "--quiet", "-m", "servers and not soak", *FOLDERS)
TOGETHER: Final = ("--numprocesses", "8", "--dist", "loadfile", "--no-loadscope-reorder")
ALONE: Final = ("--last-failed", "--last-failed-no-failures", "none")
HEAD: Final = "| Kafka | store | tests passed | failed | skipped |\n|---|---|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions that run together: the name of a lock, and a release of Debian with a package; none: the usual one."""

    lock: str = ""
    debian: tuple[str, str] = ("", "")

    def set_up(self, folder: Path) -> dict[str, str]:
        """Fetch the store, and return the environment of programs that use these versions."""
        chosen = {LOCK: str(HERE / self.lock)} if self.lock else {}
        release, package = self.debian
        if package:
            command = [str(HERE / "debian.sh"), release, package, str(folder / f"{release}-{package}")]
            fetched = subprocess.run(command, check=True, capture_output=True, text=True)
            chosen[SERVER] = fetched.stdout.strip()
        return chosen


ALL: Final = (
    Versions("kafka-3.9.2.lock", ("bookworm", "redis-server")),
    Versions("kafka-4.4.0.lock", ("trixie", "valkey-server")),
    Versions(debian=("trixie", "redis-server")),
)


def main() -> int:
    """Run all versions, one after the other. Return 1 if a test failed."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="location-monitor-versions-") as folder:
        for versions in ALL:
            os.environ |= (chosen := versions.set_up(Path(folder)))
            rows.append(run_tests(Path(folder) / "report.xml"))
            for variable in chosen:
                del os.environ[variable]
    replace_part(ROOT / "docs" / "supported.md", "make versions", HEAD + "\n".join(rows))
    return int(any(row.split("|")[4].strip() != "0" for row in rows))


def run_tests(report: Path) -> str:
    """Run the protocol tests in the present environment, and return a row of the table.

    The tests that fail run once more, one at a time, because a busy machine must not fail them.
    """
    subprocess.run([sys.executable, "-m", "monitor.operate.servers"], cwd=ROOT, check=True)  # archives Kafka's classes
    ran, failed, skipped = run_pytest(report, *TOGETHER)
    if failed:
        _, failed, _ = run_pytest(report, *ALONE)
    return f"| {read_pinned_jars()[0].version} | {read_store()} | {ran - failed - skipped} | {failed} | {skipped} |"


def run_pytest(report: Path, *options: str) -> tuple[int, int, int]:
    """Run the protocol tests, and return how many ran, failed and were skipped."""
    subprocess.run([*PYTEST, *options, "--junitxml", str(report)], cwd=ROOT, check=False)
    suite = ET.parse(report).getroot()[0]  # noqa: S314 - pytest has just written it
    ran, failed, errors, skipped = (int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped"))
    return ran, failed + errors, skipped


def read_store() -> str:
    """Return the name and the version that the server's program prints, such as `Valkey 9.1.2`."""
    printed = subprocess.run([find_binary(), "--version"], check=True, capture_output=True, text=True).stdout
    name, _, version = printed.split()[:3]
    return f"{name} {version.removeprefix('v=')}"


if __name__ == "__main__":
    sys.exit(main())
