"""Processes of the service and of its commands, to be asked, killed, stopped and continued."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Final

import monitor.cli
from tests.kit.programs import Program

CLI: Final = str(monitor.cli.__file__)
ENDPOINTS: Final = ("/metrics", "/healthz", "/readyz")
ADDRESS: Final = re.compile(r"(?:metrics and health (?:are served )?on port |The page is at http://localhost:)(\d+)")


class Instance:
    """One process that runs the service, its page or its auditor: a Python file and its arguments.

    `log` is the file of its output, and `pages` one with the responses of its endpoints before each signal.
    """

    def __init__(self, log: Path, *argv: str, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        self.pages = log.with_suffix(".pages")
        self._port: re.Match[str] | None = None
        log.touch()
        self._process = Program(argv, log, environment=environment)

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

    def terminate(self, seconds: float = 60.0) -> int:
        """Send SIGTERM and return the exit code."""
        self.keep_pages()
        self._process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def keep_pages(self) -> None:
        """Append the present responses of all endpoints to `pages`."""
        with self.pages.open("a") as file:
            file.writelines(self.page(path) + "\n" for path in ENDPOINTS)

    def fetch(self, path: str) -> tuple[int, str]:
        """Return status and text of a page of the endpoint; (0, "") before it listens and while it is stopped."""
        self._port = self._port or ADDRESS.search(self.text)
        if self._port is None or self.code is not None or self.is_stopped():
            return 0, ""
        return fetch(int(self._port[1]), path)

    def page(self, path: str = "/metrics") -> str:
        """Return the text of a page of the endpoint, also of a failing probe."""
        return self.fetch(path)[1]

    def end(self) -> None:
        """Kill the process if it still exists."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)
            self._process.kill()
            self._process.wait()


def fetch(port: int, path: str) -> tuple[int, str]:
    """Return status and text of a page on a loopback port, also of a failing probe; (0, "") if nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as failing:
        with failing:
            return failing.code, failing.read().decode()
    except (OSError, HTTPException):
        return 0, ""
