"""The base class of the embedded servers: one server process in a temporary folder, run by a guardian."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from monitor.errors import EmbeddedError
from monitor.tools.servers.ports import ReservedPort

_GUARDIAN = Path(__file__).with_name("guardian.py")
_LOG = "server.log"
_LOG_LINES = 15
_POLL_SECONDS = 0.02
_PORT_ATTEMPTS = 3
_PORT_TAKEN = "Address already in use"


class Guard:
    """The connection from this program to one guardian, which owns a folder and a server in it."""

    def __init__(self, prefix: str, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._lock = threading.Lock()
        self._guardian = subprocess.Popen(  # noqa: S603 - this interpreter and a file of this package
            [sys.executable, "-I", "-S", str(_GUARDIAN), prefix, str(grace_seconds), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self.folder = Path(self._read()["folder"])
        except EmbeddedError:
            self.close()
            raise

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request and return the response (see guardian.py).

        Raises:
            EmbeddedError: the guardian has ended.
        """
        with self._lock:
            try:
                pipe = self._guardian.stdin
                if pipe is None or pipe.closed:
                    raise EmbeddedError("The embedded server was stopped while it was in use.")
                pipe.write(json.dumps(request).encode() + b"\n")
                pipe.flush()
            except BrokenPipeError as error:
                raise _make_ended_error() from error
            return self._read()

    def close(self) -> None:
        """End the server, remove its folder, and wait until both are gone."""
        with self._lock:
            for pipe in (self._guardian.stdin, self._guardian.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._guardian.wait(self._grace_seconds + 30)

    def _read(self) -> dict[str, Any]:
        line = self._guardian.stdout.readline() if self._guardian.stdout is not None else b""
        if not line:
            raise _make_ended_error()
        response: dict[str, Any] = json.loads(line)
        return response


def _make_ended_error() -> EmbeddedError:
    return EmbeddedError("The guardian process of an embedded server has ended, or was killed. Start the server again.")


class EmbeddedServer(ABC):
    """A server on loopback ports in a temporary folder. It is stopped when this program ends, even by SIGKILL.

    Use it as a context manager, or call `start()` and `stop()`. It is not thread-safe, except that `stop()` may be
    called from any thread.
    """

    name: str
    grace_seconds = 5.0

    def __init__(self, start_seconds: float) -> None:
        self._start_seconds = start_seconds
        self._guard: Guard | None = None
        self._ports: dict[str, ReservedPort] = {}
        self._pid = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """The temporary folder with the server's files and its log, `server.log`."""
        return self._require_guard().folder

    @property
    def log_tail(self) -> str:
        """The last lines of the server's log."""
        return "\n".join(self._read_log().splitlines()[-_LOG_LINES:])

    @property
    def pid(self) -> int:
        """The process id of the server's last start."""
        return self._pid

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            EmbeddedError: the server was not found, did not start, or did not answer in time. Its folder is removed.
        """
        if self._guard is not None:
            raise EmbeddedError(f"{self.name} is already started: call stop() first, or restart().")
        try:
            self._start_somewhere()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove its folder. A second call does nothing."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.close()
        for port in self._ports.values():
            port.release()
        self._ports = {}

    def kill(self) -> None:
        """Send SIGKILL and wait until the server has ended. Its folder and ports are kept for `restart()`."""
        self._end(signal.SIGKILL, 10.0)

    def pause(self) -> None:
        """Send SIGSTOP. The server keeps its connections but does not answer."""
        self._require_guard().ask(do="signal", number=signal.SIGSTOP, wait_seconds=0)

    def resume(self) -> None:
        """Send SIGCONT after `pause()`."""
        self._require_guard().ask(do="signal", number=signal.SIGCONT, wait_seconds=0)

    def restart(self) -> None:
        """Start the server again on the same ports in the same folder. If it still runs, end it with SIGTERM first.

        Raises:
            EmbeddedError: as for `start()`, but the folder and the ports are kept.
        """
        if self.is_running():
            self.resume()
            self._end(signal.SIGTERM, self._start_seconds)
        self._launch()

    def is_running(self) -> bool:
        """Return whether the process exists (paused or not)."""
        return self._guard is not None and self._guard.ask(do="poll")["exit"] is None

    @abstractmethod
    def _reserve(self) -> dict[str, ReservedPort]:
        """Reserve the ports."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write the server's files into the new folder."""

    @abstractmethod
    def _make_command(self) -> list[str]:
        """Return the server's program and arguments."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Return whether the server answers a real request."""

    def _start_somewhere(self) -> None:
        """Start the server. If another process takes a free port in the meantime, try other ports."""
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._ports = self._reserve_or_explain()
            self._guard = Guard(f"location-monitor-{self.name.lower()}-", self.grace_seconds)
            self._prepare()
            try:
                self._launch()
            except EmbeddedError:
                if attempt == _PORT_ATTEMPTS or _PORT_TAKEN not in self._read_log():
                    raise
                self.stop()
            else:
                return

    def _reserve_or_explain(self) -> dict[str, ReservedPort]:
        try:
            return self._reserve()
        except OSError as error:
            raise EmbeddedError(
                f"{self.name} cannot use its port on 127.0.0.1: {error}. Free the port, or set port 0 for any free one."
            ) from error

    def _launch(self) -> None:
        self._spawn(self._make_command())
        deadline = time.monotonic() + self._start_seconds
        while not self._is_ready():
            code = self._require_guard().ask(do="poll")["exit"]
            if code is not None:
                raise self._make_failure(f"ended with exit code {code} before it answered")
            if time.monotonic() > deadline:
                raise self._make_failure(
                    f"did not answer within {self._start_seconds:g} s; if the machine is busy, increase start_seconds"
                )
            time.sleep(_POLL_SECONDS)

    def _run(self, argv: Sequence[str]) -> None:
        """Run one of the server's tools under the guardian, and wait until it has ended."""
        self._spawn(argv)
        deadline = time.monotonic() + self._start_seconds
        while (code := self._require_guard().ask(do="poll")["exit"]) is None:
            if time.monotonic() > deadline:
                raise self._make_failure(f"could not be prepared within {self._start_seconds:g} s")
            time.sleep(_POLL_SECONDS)
        if code != 0:
            raise self._make_failure(f"could not be prepared (exit code {code})")

    def _spawn(self, argv: Sequence[str]) -> None:
        response = self._require_guard().ask(do="start", argv=list(argv), log=_LOG)
        if "error" in response:
            raise EmbeddedError(f"{self.name} cannot be started: {response['error']}.")
        self._pid = response["pid"]

    def _end(self, number: signal.Signals, wait_seconds: float) -> None:
        if self._require_guard().ask(do="signal", number=number, wait_seconds=wait_seconds)["exit"] is None:
            raise EmbeddedError(f"{self.name} did not end within {wait_seconds:g} s of {number.name}.")

    def _read_log(self) -> str:
        try:
            return (self.folder / _LOG).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def _make_failure(self, problem: str) -> EmbeddedError:
        return EmbeddedError(f"{self.name} {problem}. The last lines of its log:\n{self.log_tail or '(empty)'}")

    def _require_guard(self) -> Guard:
        if self._guard is None:
            raise EmbeddedError(f"{self.name} is not running: call start() first.")
        return self._guard
