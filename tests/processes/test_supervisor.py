"""The supervisor with small real programs instead of the service: starts, crashes, fatal ends, stops, and its pages."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from monitor.errors import MonitorError, RefusedError, UsageError
from monitor.operate.health import Endpoint
from monitor.processes.supervisor import Supervisor, describe_exit
from tests.conftest import Eventually

PROGRAM = textwrap.dedent(
    """
    import sys, threading
    from pathlib import Path
    from monitor.operate.health import Health
    from monitor.operate.metrics import Metrics
    from monitor.processes.link import Responder
    from monitor.run import stop_on_signals

    number, descriptor, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    metrics, health, stop = Metrics(), Health(), threading.Event()
    metrics.count_several_places(1)
    health.report_alive("reading", (folder / "waits").read_text() if (folder / "waits").exists() else "")
    with Responder(descriptor, metrics, health, stop), stop_on_signals(stop, print):
        (folder / f"started-{number}").open("a").write("x")
        code = folder / f"exit-{number}"
        while not stop.wait(0.02):
            if code.exists():
                text = code.read_text()
                code.unlink()
                sys.exit(int(text))
        (folder / f"stopped-{number}").touch()
    """
)


class Site:
    """A folder in which programs record their actions, and find their instructions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)
        self.stop = threading.Event()
        self.supervisor = Supervisor(2, self.make_command)
        self.error: MonitorError | None = None
        self.thread = threading.Thread(target=self.run)

    def make_command(self, number: int, descriptor: int) -> list[str]:
        return [sys.executable, str(self.folder / "program.py"), str(number), str(descriptor), str(self.folder)]

    def run(self) -> None:
        try:
            self.supervisor.run(self.stop)
        except MonitorError as error:
            self.error = error

    def count_starts(self, number: int) -> int:
        path = self.folder / f"started-{number}"
        return len(path.read_text()) if path.exists() else 0

    def end(self, number: int, code: int) -> None:
        """Make a process end with an exit code."""
        made = self.folder / "code"
        made.write_text(str(code))
        made.rename(self.folder / f"exit-{number}")


@contextmanager
def run_started(folder: Path, eventually: Eventually) -> Iterator[Site]:
    """Yield a site whose two processes have started, and stop it at the end."""
    site = Site(folder)
    site.thread.start()
    try:
        eventually(lambda: site.count_starts(1) == site.count_starts(2) == 1, 30)
        yield site
    finally:
        site.stop.set()
        site.thread.join(30)
        assert not site.thread.is_alive()


@pytest.fixture
def site(tmp_path: Path, eventually: Eventually) -> Iterator[Site]:
    """Two processes that have started."""
    with run_started(tmp_path, eventually) as site:
        yield site


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[Site]:
    """Two processes for tests that only read."""
    with run_started(tmp_path_factory.mktemp("shared"), eventually) as site:
        yield site


def samples(site: Site, name: str) -> dict[str, float]:
    """Return the values of a metric by process."""
    families = site.supervisor.pages.collect()
    return {
        sample.labels["process"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def test_stop_ends_all_in_order(site: Site) -> None:
    """A stop sends SIGTERM to every process and waits until each has finished its work."""
    site.stop.set()
    site.thread.join(30)
    assert site.error is None
    assert (site.folder / "stopped-1").exists()
    assert (site.folder / "stopped-2").exists()


def test_hanging_process_is_killed(tmp_path: Path, eventually: Eventually) -> None:
    """A process that does not end in time after SIGTERM is killed, so that the command itself ends in time."""
    ready = tmp_path / "ready"
    program = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(sys.argv[1], 'w'); "
    command = [sys.executable, "-c", f"{program}time.sleep(60)", str(ready)]
    supervisor = Supervisor(1, lambda _number, _descriptor: command, stop_seconds=0.2)
    stop = threading.Event()
    thread = threading.Thread(target=supervisor.run, args=(stop,))
    thread.start()
    eventually(ready.exists, 30)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert supervisor.pages.list_waiting() == {"process 1": "stopped"}


@pytest.mark.parametrize("code", [0, 1])
def test_crashed_process_restarts(site: Site, eventually: Eventually, code: int) -> None:
    """A process that crashes is started again and counted, and the other process continues to run."""
    site.end(2, code)
    eventually(lambda: site.count_starts(2) == 2, 30)
    assert site.count_starts(1) == 1
    assert samples(site, "location_monitor_process_restarts_total") == {"1": 0.0, "2": 1.0}
    eventually(lambda: samples(site, "location_monitor_process_up") == {"1": 1.0, "2": 1.0})


def test_prevented_restart_is_not_counted(eventually: Eventually) -> None:
    """A crashed process that a stop keeps from starting again is not counted as started again."""
    command = [sys.executable, "-c", "raise SystemExit(1)"]
    supervisor = Supervisor(1, lambda _number, _descriptor: command, monotonic=lambda: 0.0)  # no restart is ever due
    stop = threading.Event()
    thread = threading.Thread(target=supervisor.run, args=(stop,))
    thread.start()
    eventually(lambda: supervisor.pages.list_waiting() == {"process 1": "process 1 ended (exit code 1)"}, 30)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert supervisor.pages.registry.get_sample_value("location_monitor_process_restarts_total", {"process": "1"}) == 0


@pytest.mark.parametrize(("code", "error"), [(2, UsageError), (3, RefusedError)])
def test_fatal_exit_ends_all(site: Site, code: int, error: type[MonitorError]) -> None:
    """After exit code 2 or 3 of a process, the supervisor stops the others and ends with the same exit code."""
    site.end(1, code)
    site.thread.join(30)
    assert type(site.error) is error
    assert site.error.exit_code == code
    assert f"process 1 ended (exit code {code})" in str(site.error)
    assert (site.folder / "stopped-2").exists()


def test_metrics_carry_the_process(shared: Site, eventually: Eventually) -> None:
    """Each sample of each process appears once, with the label `process`, and a family appears once."""
    eventually(lambda: samples(shared, "location_monitor_people_at_several_places_total") == {"1": 1.0, "2": 1.0})
    pids = samples(shared, "process_start_time_seconds")
    assert pids.keys() == {"1", "2"}
    names = [family.name for family in shared.supervisor.pages.collect()]
    assert len(names) == len(set(names))


def test_ended_process_has_no_metrics(site: Site, eventually: Eventually) -> None:
    """A process that has ended is not ready, and its metrics are gone; the metrics of the others stay."""
    site.end(2, 1)
    waiting = eventually(
        lambda: site.supervisor.pages.list_waiting().get("process 2") == "process 2 ended (exit code 1)"
    )
    assert waiting
    assert samples(site, "location_monitor_people_at_several_places_total") == {"1": 1.0}
    assert site.supervisor.pages.list_stalled() == []


@contextmanager
def serve_endpoint(site: Site) -> Iterator[Callable[[str], tuple[int, str]]]:
    """Serve the pages of a site, and yield a function that gets the status and the text of a page."""
    pages = site.supervisor.pages
    served = Endpoint(0, pages.registry, pages)

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{served.port}{path}", timeout=10) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as failing:
            with failing:
                return failing.code, failing.read().decode()

    try:
        yield get
    finally:
        served.close()


def test_ready_when_all_are(tmp_path: Path, eventually: Eventually) -> None:
    """`/readyz` is 200 only when every loop of every process is ready, and names those that are not."""
    site = Site(tmp_path)
    (tmp_path / "waits").write_text("reading a window")
    site.thread.start()
    try:
        eventually(lambda: site.count_starts(1) == site.count_starts(2) == 1, 30)
        with serve_endpoint(site) as get:
            reasons = {"process 1: reading": "reading a window", "process 2: reading": "reading a window"}
            eventually(lambda: get("/readyz")[1] == json.dumps({"ok": False, **reasons}) + "\n")
            assert get("/readyz")[0] == 503
            assert get("/healthz")[0] == 200
            (tmp_path / "waits").unlink()
            site.end(1, 1)
            eventually(lambda: site.count_starts(1) == 2 and "process 1" not in get("/readyz")[1], 30)
            assert get("/readyz")[0] == 503
            site.end(2, 1)
            eventually(lambda: get("/readyz")[0] == 200, 30)
    finally:
        site.stop.set()
        site.thread.join(30)


def test_page_is_valid_text(shared: Site, eventually: Eventually) -> None:
    """`/metrics` is Prometheus's text format, with the version of each process."""
    with serve_endpoint(shared) as get:
        eventually(lambda: 'location_monitor_build_info{process="2"' in get("/metrics")[1])
        families = {family.name for family in text_string_to_metric_families(get("/metrics")[1])}
    assert {
        "location_monitor_process_up",
        "location_monitor_people_at_several_places",
        "process_cpu_seconds",
    } <= families


def test_processes_stop_with_their_supervisor(tmp_path: Path, eventually: Eventually) -> None:
    """If the supervisor is killed, its processes shut down, so they do not run next to those of a new one."""
    folder = tmp_path / "killed"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    code = (
        "import sys, threading\n"
        "from monitor.processes.supervisor import Supervisor\n"
        f"command = lambda n, d: [sys.executable, {str(folder / 'program.py')!r}, str(n), str(d), {str(folder)!r}]\n"
        "Supervisor(2, command).run(threading.Event())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as supervisor:
        eventually(lambda: (folder / "started-1").exists() and (folder / "started-2").exists(), 30)
        supervisor.kill()
    eventually(lambda: (folder / "stopped-1").exists() and (folder / "stopped-2").exists(), 30)


def test_exit_is_described() -> None:
    """An exit is described by its code, or by the signal that ended the process."""
    assert (describe_exit(1), describe_exit(-9)) == ("exit code 1", "SIGKILL")
