"""The base class of the embedded servers: one server process in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from monitor.errors import EmbeddedError
from monitor.operate.servers.ports import ReservedPort

_WATCHDOG = Path(__file__).with_name("watchdog.py")
_LOG = "server.log"
_LOG_LINES = 15
_POLL_SECONDS = 0.02
_PORT_ATTEMPTS = 3
_PORT_TAKEN = "Address already in use"


class EmbeddedServer(ABC):
    """A server on loopback ports in a temporary folder. It is stopped when this program ends, even by SIGKILL.

    Use it as a context manager, or call `start()` and `stop()`. It is not thread-safe, except that `stop()` may be
    called from any thread.
    """

    name: str
    grace_seconds = 5.0

    def __init__(self, start_seconds: float) -> None:
        self._start_seconds = start_seconds
        self._folder: Path | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, ReservedPort] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """The temporary folder with the server's files and its log, `server.log`."""
        if self._folder is None:
            raise EmbeddedError(f"{self.name} is not running: call start() first.")
        return self._folder

    @property
    def log_tail(self) -> str:
        """The last lines of the server's log."""
        return "\n".join(self._read_log().splitlines()[-_LOG_LINES:])

    @property
    def pid(self) -> int:
        """The process id of the server's last start."""
        return 0 if self._server is None else self._server.pid

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            EmbeddedError: the server was not found, did not start, or did not answer in time. Its folder is removed.
        """
        if self._folder is not None:
            raise EmbeddedError(f"{self.name} is already started: call stop() first, or restart().")
        try:
            self._start_somewhere()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove its folder. A second call does nothing."""
        folder, self._folder = self._folder, None
        if folder is not None:
            self._terminate()
            shutil.rmtree(folder, ignore_errors=True)
        if self._watchdog is not None:
            self._watchdog.communicate()
            self._watchdog = None
        for port in self._ports.values():
            port.release()
        self._ports = {}

    def kill(self) -> None:
        """Send SIGKILL and wait until the server has ended. Its folder and ports are kept for `restart()`."""
        self._end(signal.SIGKILL, 10.0)

    def pause(self) -> None:
        """Send SIGSTOP. The server keeps its connections but does not answer."""
        self._require_server().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT after `pause()`."""
        self._require_server().send_signal(signal.SIGCONT)

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
        return self._server is not None and self._server.poll() is None

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
            self._folder = Path(tempfile.mkdtemp(prefix=f"location-monitor-{self.name.lower()}-"))
            self._watchdog = self._start_watchdog(self._folder)
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
            code = self._require_server().poll()
            if code is not None:
                raise self._make_failure(f"ended with exit code {code} before it answered")
            if time.monotonic() > deadline:
                raise self._make_failure(
                    f"did not answer within {self._start_seconds:g} s; if the machine is busy, increase start_seconds"
                )
            time.sleep(_POLL_SECONDS)

    def _spawn(self, argv: Sequence[str]) -> None:
        try:
            with (self.folder / _LOG).open("ab") as output:
                self._server = subprocess.Popen(  # noqa: S603 - argv is built by this package
                    argv,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise EmbeddedError(f"{self.name} cannot be started: {error}.") from error
        self._tell_watchdog(self._server.pid)

    def _start_watchdog(self, folder: Path) -> subprocess.Popen[bytes]:
        arguments = (str(folder), str(os.getpid()), str(self.grace_seconds))
        command = [sys.executable, "-I", "-S", str(_WATCHDOG), *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603 - a file of this package

    def _tell_watchdog(self, pid: int) -> None:
        if self._watchdog is not None and self._watchdog.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it was killed; `stop` removes everything too
                self._watchdog.stdin.write(f"{pid}\n".encode())
                self._watchdog.stdin.flush()

    def _end(self, number: signal.Signals, wait_seconds: float) -> None:
        server = self._require_server()
        server.send_signal(number)
        try:
            server.wait(wait_seconds)
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(f"{self.name} did not end within {wait_seconds:g} s of {number.name}.") from error
        self._tell_watchdog(0)

    def _terminate(self) -> None:
        """End the server, even if it is paused or hangs."""
        if self.is_running():
            self.resume()
            try:
                self._end(signal.SIGTERM, self.grace_seconds)
            except EmbeddedError:
                self.kill()
        self._server = None

    def _read_log(self) -> str:
        try:
            return (self.folder / _LOG).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def _make_failure(self, problem: str) -> EmbeddedError:
        return EmbeddedError(f"{self.name} {problem}. The last lines of its log:\n{self.log_tail or '(empty)'}")

    def _find_address(self, port: str) -> str:
        """Return `127.0.0.1:port` of a reserved port."""
        if not self._ports:
            raise EmbeddedError(f"{self.name} is not running: call start() first.")
        return self._ports[port].address

    def _require_server(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            raise EmbeddedError(f"{self.name} is not running: call start() first.")
        return self._server
