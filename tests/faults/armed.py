"""The service with faults armed: what `location-monitor run` does, in a process that a test can have die at a place.

Only here are places armed, from this program's own arguments: the product has no option, variable or file for it.

    armed.py --config FILE [--at PLACE:NTH:ACTION]… [--hold FILE] [--clock FILE] [--session-ms N]

`kill` and `stop` are SIGKILL and SIGSTOP to itself; `hold` makes FILE.reached and goes on once FILE is there. The
clock's file holds by how many microseconds the clock is off, and may change at any time.
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

from monitor.cli import load_settings
from monitor.errors import MonitorError
from monitor.failpoints import arm
from monitor.operate.logs import set_up_logging
from monitor.public.clock import SystemClock
from monitor.run import run, stop_on_signals

POLL_SECONDS: Final = 0.01


class SkewedClock(SystemClock):
    """The operating system's clock, off by what a file says at the moment."""

    def __init__(self, offset: Path) -> None:
        self._offset = offset

    def now(self) -> int:
        """The present instant, as a wrong clock has it."""
        return super().now() + int(self._offset.read_text() or 0)


def hold(gate: Path) -> None:
    """Say that the place is reached, and wait there until the gate opens."""
    gate.with_name(f"{gate.name}.reached").touch()
    while not gate.exists():
        time.sleep(POLL_SECONDS)


def at_passing(nth: int, action: Callable[[], None]) -> Callable[[], None]:
    """The action at the n-th passing alone; several threads may pass."""
    passings = itertools.count(1)
    lock = threading.Lock()

    def passed() -> None:
        with lock:
            number = next(passings)
        if number == nth:
            action()

    return passed


def main() -> None:
    """Arm what was asked for, and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--at", action="append", default=[])
    parser.add_argument("--hold", type=Path)
    parser.add_argument("--clock", type=Path)
    parser.add_argument("--session-ms", type=int, default=1_500)
    asked = parser.parse_args()
    actions: dict[str, Callable[[], None]] = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "hold": lambda: hold(asked.hold),
    }
    for text in asked.at:
        place, nth, action = text.split(":")
        arm(place, at_passing(int(nth), actions[action]))
    set_up_logging()
    stop = threading.Event()
    clock = SkewedClock(asked.clock) if asked.clock else SystemClock()
    try:
        settings = load_settings(asked.config)
        settings = replace(settings, kafka=replace(settings.kafka, session_timeout_ms=asked.session_ms))
        with stop_on_signals(stop, lambda text: click.echo(text, err=True)):
            run(settings, clock, stop)
    except MonitorError as error:
        click.echo(f"location-monitor: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
