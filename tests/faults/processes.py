"""Instances of the service as separate processes, to be killed, stopped and continued; also its page and auditor."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Final, TypeVar

from tests.programs import Program

ARMED: Final = Path(__file__).with_name("armed.py")
CLI: Final = Path(__file__).parents[2] / "monitor" / "cli.py"
POLL_SECONDS: Final = 0.1
ENDPOINTS: Final = ("/metrics", "/healthz", "/readyz")
ADDRESS: Final = re.compile(r"(?:metrics and health (?:are served )?on port |The page is at http://localhost:)(\d+)")

_T = TypeVar("_T")


def until(condition: Callable[[], _T], seconds: float, what: str) -> _T:
    """Wait for the condition's first true value and return it.

    Raises:
        AssertionError: the condition is not true within the time.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s; last: {value!r}")
        time.sleep(POLL_SECONDS)
    return value


class Instance:
    """One process that runs the service, its page or its auditor: a Python file and its arguments.

    `log` is the file of its output, and `pages` one with the responses of its endpoints before each signal.
    """

    def __init__(self, log: Path, *argv: str) -> None:
        self.log = log
        self.pages = log.with_suffix(".pages")
        self._port: re.Match[str] | None = None
        log.touch()
        self._process = Program(argv, log)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def text(self) -> str:
        """The output so far."""
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float) -> int:
        """Wait for the end of the process and return the exit code.

        Raises:
            AssertionError: it does not end in time.
        """
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process did not end within {seconds:g} s:\n{self.text[-2_000:]}") from None

    def kill(self) -> None:
        """Send SIGKILL."""
        self.keep_pages()
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Send SIGSTOP."""
        self.keep_pages()
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def is_stopped(self) -> bool:
        """Return whether the process is stopped."""
        if self._process.poll() is not None:
            return False
        state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    def terminate(self, seconds: float = 45.0) -> int:
        """Send SIGTERM and return the exit code."""
        self.keep_pages()
        self._process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def keep_pages(self) -> None:
        """Append the present responses of all endpoints to `pages`."""
        with self.pages.open("a") as file:
            file.writelines(self.page(path) + "\n" for path in ENDPOINTS)

    def page(self, path: str = "/metrics") -> str:
        """Return a page of the endpoint, also of a failing probe; empty before it listens and while it is stopped."""
        self._port = self._port or ADDRESS.search(self.text)
        if self._port is None or self.code is not None or self.is_stopped():
            return ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port[1]}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as failing:
            with failing:
                return failing.read().decode()
        except (OSError, HTTPException):
            return ""

    def end(self) -> None:
        """Kill the process if it still exists."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)
            self._process.kill()
            self._process.wait()
