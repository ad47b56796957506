"""`location-monitor run` with armed failpoints: a process that can be killed or stopped at a given failpoint.

Only this program arms failpoints, from its own arguments. The product has no option, variable or file for it.

    armed.py --config FILE [--at PLACE:NTH:ACTION]… [--hold FILE] [--clock FILE] [--session-ms N]
    armed.py --setup PLACE FILE [OPTION]…        `topics --create`, killed where it passes the failpoint first

The actions `kill` and `stop` send SIGKILL and SIGSTOP to the process. `hold` creates FILE.reached and waits until FILE
exists. The file of --clock contains the clock's error in microseconds, and may change at any time.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

import monitor.cli
from monitor.errors import MonitorError
from monitor.observe.failpoints import arm
from monitor.observe.logs import set_up_logging
from monitor.service.keep_running import run
from monitor.service.load_settings import load_settings
from monitor.stop_signals import stop_on_signals
from monitor.time.clock import SystemClock

POLL_SECONDS: Final = 0.01


class SkewedClock(SystemClock):
    """The operating system's clock plus an error that is read from a file."""

    def __init__(self, offset: Path) -> None:
        self._offset = offset

    def now(self) -> int:
        """Return the present instant plus the error."""
        return super().now() + int(self._offset.read_text() or 0)


def hold(gate: Path) -> None:
    """Create the file FILE.reached, and wait until the gate opens."""
    gate.with_name(f"{gate.name}.reached").touch()
    while not gate.exists():
        time.sleep(POLL_SECONDS)


def run_at_passing(nth: int, action: Callable[[], None]) -> Callable[[], None]:
    """Return a function that runs the action only at its n-th call, from any thread."""
    passings = itertools.count(1)
    lock = threading.Lock()

    def count_passing() -> None:
        with lock:
            number = next(passings)
        if number == nth:
            action()

    return count_passing


def main() -> None:
    """Arm the given failpoints and run the service."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--at", action="append", default=[])
    parser.add_argument("--hold", type=Path)
    parser.add_argument("--clock", type=Path)
    parser.add_argument("--session-ms", type=int, default=1_500)
    options = parser.parse_args()
    actions: dict[str, Callable[[], None]] = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "hold": lambda: hold(options.hold),
    }
    for text in options.at:
        name, nth, action = text.split(":")
        arm(name, run_at_passing(int(nth), actions[action]))
    set_up_logging()
    stop = threading.Event()
    clock = SkewedClock(options.clock) if options.clock else SystemClock()
    try:
        settings = load_settings(options.config)
        settings = replace(settings, kafka=replace(settings.kafka, session_timeout_ms=options.session_ms))
        with stop_on_signals(stop, lambda text: click.echo(text, err=True)):
            run(settings, clock, stop)
    except MonitorError as error:
        click.echo(f"location-monitor: {error}", err=True)
        sys.exit(error.exit_code)


def set_up(name: str, config: str, *options: str) -> None:
    """Run `topics --create` with an armed failpoint."""
    arm(name, lambda: os.kill(os.getpid(), signal.SIGKILL))
    monitor.cli.main(["topics", "--config", config, "--create", *options])


if __name__ == "__main__":
    if sys.argv[1] == "--setup":
        set_up(*sys.argv[2:])
    else:
        main()
