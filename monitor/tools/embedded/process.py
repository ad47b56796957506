"""One server process in a temporary folder, seen from the program that wants it: what all embedded servers share."""

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
from monitor.tools.embedded.ports import ReservedPort

_GUARDIAN = Path(__file__).with_name("guardian.py")
_LOG = "server.log"
_LOG_LINES = 15
_POLL_SECONDS = 0.02
_PORT_ATTEMPTS = 3
_PORT_TAKEN = "Address already in use"


class Guard:
    """The program's end of the pipe to one guardian: a folder, and a server that lives no longer than it."""

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
        """One request, one answer (guardian.py lists them).

        Raises:
            EmbeddedError: the guardian is gone.
        """
        with self._lock:
            try:
                pipe = self._guardian.stdin
                if pipe is None or pipe.closed:
                    raise EmbeddedError("The embedded server was stopped while it was being used.")
                pipe.write(json.dumps(request).encode() + b"\n")
                pipe.flush()
            except BrokenPipeError as error:
                raise _guardian_gone() from error
            return self._read()

    def close(self) -> None:
        """End the server and remove its folder; wait until both are gone."""
        with self._lock:
            for pipe in (self._guardian.stdin, self._guardian.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._guardian.wait(self._grace_seconds + 30)

    def _read(self) -> dict[str, Any]:
        line = self._guardian.stdout.readline() if self._guardian.stdout is not None else b""
        if not line:
            raise _guardian_gone()
        answer: dict[str, Any] = json.loads(line)
        return answer


def _guardian_gone() -> EmbeddedError:
    return EmbeddedError("The guardian process of an embedded server has ended: was it killed? Start the server again.")


class EmbeddedServer(ABC):
    """A server on free loopback ports and in a temporary folder, stopped with this program however that ends.

    Use it as a context manager, or call `start()` and `stop()`. Not to be shared between threads, except that
    `stop()` may come from any thread.
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
        return self._guarded().folder

    @property
    def log_tail(self) -> str:
        """The last lines of the server's log."""
        return "\n".join(self._log().splitlines()[-_LOG_LINES:])

    @property
    def pid(self) -> int:
        """The server's process id, of its last start."""
        return self._pid

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            EmbeddedError: it cannot be had, does not start, or does not answer in time; nothing is left of it.
        """
        if self._guard is not None:
            raise EmbeddedError(f"{self.name} is started already: stop() it first, or restart() it.")
        try:
            self._start_somewhere()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove its folder. Stopping twice does no harm."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.close()
        for port in self._ports.values():
            port.release()
        self._ports = {}

    def kill(self) -> None:
        """SIGKILL the server and wait until it is gone; folder and port are kept for `restart()`."""
        self._end(signal.SIGKILL, 10.0)

    def pause(self) -> None:
        """SIGSTOP: the server keeps its connections and answers nothing."""
        self._guarded().ask(do="signal", number=signal.SIGSTOP, wait_seconds=0)

    def resume(self) -> None:
        """SIGCONT after `pause()`."""
        self._guarded().ask(do="signal", number=signal.SIGCONT, wait_seconds=0)

    def restart(self) -> None:
        """Start again on the same port with the same folder, ending the server in order if it still runs.

        Raises:
            EmbeddedError: as for `start()`; folder and port are still kept.
        """
        if self.is_running():
            self.resume()
            self._end(signal.SIGTERM, self._start_seconds)
        self._launch()

    def is_running(self) -> bool:
        """Whether the process exists (paused or not)."""
        return self._guard is not None and self._guard.ask(do="poll")["exit"] is None

    @abstractmethod
    def _reserve(self) -> dict[str, ReservedPort]:
        """Reserve the ports."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write what the server needs into the new folder."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The server's program and arguments."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server answers a real request."""

    def _start_somewhere(self) -> None:
        """Start on other ports if somebody was faster to take the ones found free."""
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._ports = self._reserve_or_explain()
            self._guard = Guard(f"location-monitor-{self.name.lower()}-", self.grace_seconds)
            self._prepare()
            try:
                self._launch()
            except EmbeddedError:
                if attempt == _PORT_ATTEMPTS or _PORT_TAKEN not in self._log():
                    raise
                self.stop()
            else:
                return

    def _reserve_or_explain(self) -> dict[str, ReservedPort]:
        try:
            return self._reserve()
        except OSError as error:
            raise EmbeddedError(
                f"{self.name} cannot have its port on 127.0.0.1: {error}. Free it, or ask for port 0, any free one."
            ) from error

    def _launch(self) -> None:
        self._spawn(self._command())
        deadline = time.monotonic() + self._start_seconds
        while not self._answers():
            code = self._guarded().ask(do="poll")["exit"]
            if code is not None:
                raise self._failed(f"ended with exit code {code} before it answered")
            if time.monotonic() > deadline:
                raise self._failed(
                    f"did not answer within {self._start_seconds:g} s: is the machine busy? More time: start_seconds="
                )
            time.sleep(_POLL_SECONDS)

    def _run(self, argv: Sequence[str]) -> None:
        """Run a program of the server's to its end, guarded like the server."""
        self._spawn(argv)
        deadline = time.monotonic() + self._start_seconds
        while (code := self._guarded().ask(do="poll")["exit"]) is None:
            if time.monotonic() > deadline:
                raise self._failed(f"could not be prepared within {self._start_seconds:g} s")
            time.sleep(_POLL_SECONDS)
        if code != 0:
            raise self._failed(f"could not be prepared (exit code {code})")

    def _spawn(self, argv: Sequence[str]) -> None:
        answer = self._guarded().ask(do="start", argv=list(argv), log=_LOG)
        if "error" in answer:
            raise EmbeddedError(f"{self.name} cannot be started: {answer['error']}.")
        self._pid = answer["pid"]

    def _end(self, number: signal.Signals, wait_seconds: float) -> None:
        if self._guarded().ask(do="signal", number=number, wait_seconds=wait_seconds)["exit"] is None:
            raise EmbeddedError(f"{self.name} did not end within {wait_seconds:g} s of {number.name}.")

    def _log(self) -> str:
        try:
            return (self.folder / _LOG).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def _failed(self, what: str) -> EmbeddedError:
        return EmbeddedError(f"{self.name} {what}. The last lines of its log:\n{self.log_tail or '(it wrote none)'}")

    def _guarded(self) -> Guard:
        if self._guard is None:
            raise EmbeddedError(f"{self.name} is not running: start() it first.")
        return self._guard
