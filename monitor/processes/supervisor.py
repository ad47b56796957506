"""Start several processes of the service, restart those that crash, and stop all together.

Each process is a new program (never a fork of this one) with its own connections and its own membership in the consumer
groups. So it is an instance like one on another host, and needs nothing from the supervisor.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from monitor.errors import EXIT_REFUSED, EXIT_USAGE, MonitorError, RefusedError, UsageError
from monitor.operate.health import Endpoint
from monitor.processes.link import Link
from monitor.processes.pages import Pages, ProcessStatus
from monitor.stop_times import STOP_SECONDS

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0
"""A crash after this time does not count as a failed start, so the restart waits only for the first pause."""

TURN_SECONDS: Final = 0.2

_FATAL: Final[dict[int, type[MonitorError]]] = {EXIT_USAGE: UsageError, EXIT_REFUSED: RefusedError}
"""The exit codes after which a restart does not help."""


@dataclass
class _Child:
    """One process: its status, the running program, whether it crashed before, and when to start it again."""

    status: ProcessStatus
    program: subprocess.Popen[bytes] | None = None
    has_crashed: bool = False
    started_at: float = 0.0
    start_at: float = 0.0
    pause: float = FIRST_PAUSE_SECONDS


class Supervisor:
    """The runner of `count` processes. `make_command` returns the command line for a process and a file descriptor.

    `stop_seconds` is the time after SIGTERM in which a process must end. Then it is killed.
    """

    def __init__(
        self,
        count: int,
        make_command: Callable[[int, int], Sequence[str]],
        monotonic: Callable[[], float] = time.monotonic,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        statuses = tuple(ProcessStatus(number) for number in range(1, count + 1))
        self.pages = Pages(statuses)
        self._make_command = make_command
        self._monotonic = monotonic
        self._stop_seconds = stop_seconds
        self._children = [_Child(status) for status in statuses]

    def run(self, stop: threading.Event) -> None:
        """Run all processes until `stop` is set, then end them and wait for them.

        Raises:
            UsageError, RefusedError: a process ended with an error that a restart does not correct. All processes have
            ended.
        """
        try:
            while not stop.is_set():
                for child in self._children:
                    self._start_or_check(child)
                stop.wait(TURN_SECONDS)
        finally:
            self._end_all()

    def _start_or_check(self, child: _Child) -> None:
        """Start a process if it is due, or handle its end."""
        if child.program is None:
            if self._monotonic() >= child.start_at:
                self._start(child)
            return
        code = child.program.poll()
        if code is None:
            return
        child.program = None
        ended = f"process {child.status.number} ended ({describe_exit(code)})"
        child.status.disconnect(ended)
        if code in _FATAL:
            _give_up(code, ended)
        self._plan_restart(child, ended)

    def _start(self, child: _Child) -> None:
        link = Link()
        command = self._make_command(child.status.number, link.child_descriptor)
        child.program = subprocess.Popen(  # noqa: S603  # the command line is this program's own
            command, stdin=subprocess.DEVNULL, pass_fds=(link.child_descriptor,)
        )
        link.release_child_end()
        child.status.connect(link)
        child.started_at = self._monotonic()
        if child.has_crashed:
            self.pages.count_restart(child.status)
        log.info("process %d started: pid %d", child.status.number, child.program.pid)

    def _plan_restart(self, child: _Child, ended: str) -> None:
        now = self._monotonic()
        if now - child.started_at >= STEADY_SECONDS:
            child.pause = FIRST_PAUSE_SECONDS
        child.start_at = now + child.pause
        log.warning("%s: starting it again in %.0f s", ended, child.pause)
        child.pause = min(2 * child.pause, LONGEST_PAUSE_SECONDS)
        child.has_crashed = True

    def _end_all(self) -> None:
        """Send SIGTERM to every process, wait, and kill those that do not end in time."""
        running = [child for child in self._children if child.program is not None]
        for child in running:
            if child.program is not None:
                child.program.send_signal(signal.SIGTERM)
        deadline = self._monotonic() + self._stop_seconds
        for child in running:
            self._wait_for_end(child, deadline)

    def _wait_for_end(self, child: _Child, deadline: float) -> None:
        program = child.program
        if program is None:
            return
        try:
            code = program.wait(max(0.0, deadline - self._monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("process %d did not end within %.0f s: killing it", child.status.number, self._stop_seconds)
            program.kill()
            code = program.wait()
        child.program = None
        child.status.disconnect("stopped")
        log.info("process %d ended (%s)", child.status.number, describe_exit(code))


def describe_exit(code: int) -> str:
    """Return an exit code of `subprocess` in words: "exit code 1" or "SIGKILL"."""
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _give_up(code: int, ended: str) -> NoReturn:
    raise _FATAL[code](
        f"{ended}, and a restart does not help: the message above names the remedy. All processes are stopped"
    )


def supervise(supervisor: Supervisor, port: int, stop: threading.Event) -> None:
    """Serve the pages of all processes on one port, and run the processes until `stop` is set.

    Raises:
        UsageError: the port cannot be opened, or the configuration is wrong.
        RefusedError: the operator must first correct something on the servers.
    """
    endpoint = Endpoint(port, supervisor.pages.registry, supervisor.pages)
    log.info("metrics and health on port %d", endpoint.port)
    try:
        supervisor.run(stop)
    finally:
        endpoint.close()
