"""The two sides of `run --processes N`: the command that supervises, and the command that each process runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from monitor.operate.health import Health
from monitor.operate.metrics import Metrics
from monitor.processes.link import Responder
from monitor.processes.supervisor import Supervisor, supervise
from monitor.public.clock import SystemClock
from monitor.run import run_with
from monitor.service import Settings


def run_processes(config_file: Path, processes: int, options: Sequence[str], port: int, stop: threading.Event) -> None:
    """Supervise processes of this program until `stop` is set. `options` are further options of each process.

    Raises:
        UsageError, RefusedError: the processes cannot run. All have ended.
    """

    def make_command(number: int, descriptor: int) -> list[str]:
        command = [sys.executable, "-m", "monitor.cli", "run", "--config", str(config_file), *options]
        return [*command, "--supervised", str(number), str(descriptor)]

    supervise(Supervisor(processes, make_command), port, stop)


def run_supervised(
    load: Callable[[], Settings],
    descriptor: int,
    stop: threading.Event,
    stop_on_signals: Callable[[], AbstractContextManager[None]],
) -> None:
    """Run one of several processes. It answers its supervisor from the start, and stops if the supervisor ends."""
    metrics, health = Metrics(), Health()
    health.report_alive("service", "reading the configuration")
    with Responder(descriptor, metrics, health, stop):
        settings = load()
        with stop_on_signals():
            run_with(settings, SystemClock(), metrics, health, stop)
