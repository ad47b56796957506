"""A short demo on real servers, its visits, the file of its recount, and an interrupted demo, which leaves nothing."""

from __future__ import annotations

import io
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

import monitor
from monitor.audit import AuditReport
from monitor.audit.kinds.all_kinds import OWN_ORACLES
from monitor.config.derive_parameters import derive_parameters
from monitor.config.load import load_config
from monitor.config.registry import load_registry
from monitor.config.whole_config import Config
from monitor.errors import EXIT_FAILED
from monitor.operate.demo.command import copy_examples, run_demo, write_visits
from monitor.operate.demo.page import DemoPage, write_recount
from monitor.operate.replay.read_visits import Extent, read_lines
from monitor.time.instants import DAY
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

_MAIN = "from monitor.cli import main; main()"


@pytest.mark.usefixtures("kafka")  # skips, or fails under CI, where the servers are not available
def test_short_demo_prints_true_summary() -> None:
    """A demo of three days ends with a correct recount, and its summary is plain text. Its page shows the same."""
    file, shown = io.StringIO(), dict[str, str]()

    def read(name: str) -> str:
        with urllib.request.urlopen(f"{page.url}{name}", timeout=10) as response:  # noqa: S310  # the page's address
            shown[name] = response.read().decode()
        return shown[name]

    def look() -> None:
        until(lambda: "0 false" in read(""), 60)
        until(lambda: json.loads(read("places.json"))["counts"]["unknown"] == 0, 60)

    page = DemoPage(0, look)
    outcome = run_demo(20, Console(file=file, width=100), page, days=3, seconds=3.0)
    text = file.getvalue()
    assert f"The page is at {page.url}" in text
    assert f"The page stays at {page.url} until Ctrl-C." in text
    figures = (
        "31/10 stated",
        "31/10 in the worst case of this configuration",
        f"{outcome.report.spent} charged so far",
    )
    assert "0 false." in shown[""]
    assert f"ε for each person: {figures[0]}, {figures[1]}." in shown[""]
    assert f"So far, the published answers have cost {outcome.report.spent} at most." in shown[""]
    counts = json.loads(shown["places.json"])["counts"]
    assert sum(counts.values()) == 40
    assert counts["unknown"] == 0
    assert outcome.report.ok
    assert outcome.report.ticks == outcome.summary.ticks > 8
    assert outcome.report.spent <= outcome.report.may_pay
    assert outcome.summary.visits == outcome.report.fates
    assert outcome.summary.visits["dead_letter"] > 0
    assert {status for _, status in outcome.summary.answers} <= {"safe", "noisy_count", "paused", "complete"}
    numbers = re.search(r"([\d,]+) safe, (\d+) alarms and \d+ paused.*?([\d,]+) safe and (\d+) al", text, re.DOTALL)
    assert numbers is not None
    safe, alarms, safe_at_midday, alarms_at_midday = (int(number.replace(",", "")) for number in numbers.groups())
    assert re.search(rf" 0 of {safe + safe_at_midday:,} safe are false", text)
    by_word = re.search(r" (\d+) of (\d+) alarms are true.* (\d+) are early.* (\d+) are noise", text, re.DOTALL)
    assert by_word is not None
    true, all_alarms, early, noise = map(int, by_word.groups())
    assert true + early + noise == all_alarms == alarms + alarms_at_midday
    assert all(f" {figure}" in text for figure in figures)
    assert "location-monitor replay" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_nothing_behind(kafka: SharedKafka, tmp_path: Path, number: signal.Signals) -> None:
    """After SIGINT or SIGTERM the demo exits with one line, its servers have ended and its files are removed."""
    command = [sys.executable, "-W", "ignore", "-u", "-c", _MAIN, "demo"]
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ) as process:
        try:
            port = _wait_for_port(process)
            assert port != int(kafka.bootstrap_servers.rpartition(":")[2])
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == EXIT_FAILED
    assert errors.decode() == "location-monitor: interrupted\n"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert list(tmp_path.iterdir()) == []


def _wait_for_port(process: subprocess.Popen[bytes]) -> int:
    """Wait until the demo prints the port of its Kafka, and return it."""
    output = process.stdout
    assert output is not None
    deadline, text = time.monotonic() + 60, b""
    while (match := re.search(rb"Kafka runs at 127\.0\.0\.1:(\d+), ", text)) is None:
        ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"Kafka was not ready within 60 s: {text!r}"
        text += output.read1() or pytest.fail(f"the demo ended early: {text!r}")  # type: ignore[attr-defined]  # a pipe is a BufferedReader
    return int(match[1])


def test_recount_counts_all_statements(tmp_path: Path) -> None:
    """The file counts every false statement, and states the ε that the answers may have cost."""
    report = AuditReport(
        records=9,
        ticks=3,
        first_tick=0,
        last_tick=2,
        whole_until=2,
        answers={},
        safe=1,
        noisy=2,
        bounds=1,
        violations={},
        totals={"safe": 1, "noisy_count": 2, "at_least": 4, **dict.fromkeys(OWN_ORACLES, 8), "form": 16, "paid": 32},
        spent=Fraction(7, 2),
        may_pay=Fraction(5),
        fates={},
    )
    write_recount(tmp_path / "recount.json", report, 0)
    written = json.loads((tmp_path / "recount.json").read_text())
    assert written == {"up_to": "1970-01-01T00:00:00Z", "false": 1 + 2 + 4 + 8, "epsilon_at_most": "7/2"}


WriteVisits = Callable[[int, int], tuple[Path, int]]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The configuration of the demo."""
    return load_config(copy_examples(tmp_path_factory.mktemp("demo")), {})


@pytest.fixture(scope="module")
def write(config: Config) -> WriteVisits:
    """A function that returns the file of a seed and a number of days, and its number of visits. It keeps the files."""
    locations = load_registry(config.locations.file)

    @cache
    def write_once(seed: int, days: int) -> tuple[Path, int]:
        path = config.locations.file.parent / f"visits-{seed}-{days}.csv"
        return path, write_visits(path, seed, locations.ids, config.clock.origin, days)

    return write_once


@pytest.mark.parametrize("seed", range(20, 23))
def test_outbreak_lasts_for_every_seed(config: Config, write: WriteVisits, seed: int) -> None:
    """For each of three seeds, people still report visits in the last days of the demo."""
    (path, written), start = write(seed, 14), config.clock.origin
    locations = load_registry(config.locations.file)
    lines = list(read_lines(path, Extent(derive_parameters(config, locations.ids))))
    assert len(lines) == written > 1_000
    assert sum(line.is_visit and line.reported_at > start + 10 * DAY for line in lines) > 200


def test_same_seed_gives_same_visits(config: Config, write: WriteVisits, tmp_path: Path) -> None:
    """The same seed gives the same file, byte for byte."""
    again = tmp_path / "again.csv"
    write_visits(again, 20, load_registry(config.locations.file).ids, config.clock.origin, 8)
    assert write(20, 8)[0].read_bytes() == again.read_bytes()


@pytest.mark.parametrize("days", [1, 8])
def test_number_of_invalid_visits(write: WriteVisits, days: int) -> None:
    """The file contains five invalid visits, but no more than valid ones."""
    path, written = write(20, days)
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    faults = ("lighthouse", "yesterday, around noon", "2199-01-01", "2026-01-04T00:00:00Z")
    invalid = [line for line in lines if line.startswith(",") or any(fault in line for fault in faults)]
    assert len(lines) == written
    assert len(invalid) == min(5, written // 2)


ROOT = Path(monitor.__file__).parents[1]


def test_installed_wheel_has_demo_files(tmp_path: Path) -> None:
    """The wheel contains the same configuration and registry."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed, folder = tmp_path / "installed", tmp_path / "folder"
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    code = "import sys; sys.path.insert(0, sys.argv[1]); from monitor.operate.demo.command import copy_examples"
    code += "; from pathlib import Path; import monitor; print(monitor.__file__); copy_examples(Path(sys.argv[2]))"
    run = [sys.executable, "-W", "ignore", "-c", code, str(installed), str(folder)]
    output = subprocess.run(run, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert output.startswith(str(installed))
    for name in ("demo.yaml", "demo-locations.csv", "demo-map.geojson"):
        assert (folder / name).read_bytes() == (ROOT / "config" / name).read_bytes()
