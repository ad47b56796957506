"""Programs that start fast: each is forked from a process that has already imported its libraries.

Importing the service's libraries takes more than a second of CPU time, and tests start the service hundreds of times. A
*nursery* imports them once and forks a child per program. The child executes the program's file as `python FILE` does,
and is a separate process in every other respect.

There are two nurseries, used in turn. Each has its own random hash seed, so instances that run together iterate over
their sets in different orders, as they do in production.

Requests and responses are lines of JSON, one response per request:

    → {"argv": [...], "output": path, "errors": path, "environment": {...} or null, "folder": path or null}
                      {"pid": n}: the child, which appends to these files; null: the nursery's environment, its folder
    → {"poll": n}     {"code": null while the child runs, else its exit code}
    → end of file: all children are killed

Usage: forking.py MODULE…: the modules to import
"""

from __future__ import annotations

import atexit
import gc
import importlib
import itertools
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

SERVICE: Final = (
    "monitor.cli",
    "monitor.commands.run",
    "monitor.commands.topics",
    "monitor.observe.failpoints",
    "argparse",
)
_POLL_SECONDS: Final = 0.02
_NURSERIES: Final = 2

_turns = itertools.count()


class _Nursery:
    """The connection to one nursery process, which ends with this process."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # numpy would start threads, and a process with threads must not fork.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        atexit.register(self.close)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the response."""
        pipes = self._process.stdin, self._process.stdout
        assert pipes[0] is not None
        assert pipes[1] is not None
        with self._lock:
            pipes[0].write(json.dumps(request).encode() + b"\n")
            pipes[0].flush()
            line = pipes[1].readline()
        assert line, "the nursery has ended; its error is above"
        response: dict[str, Any] = json.loads(line)
        return response

    def close(self) -> None:
        """End the nursery and all its children."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


@cache
def _open_nursery(modules: tuple[str, ...], number: int) -> _Nursery:  # the cache has a nursery for each number
    return _Nursery(modules)


class Program:
    """A forked program: the part of `subprocess.Popen` that tests use. Its input is empty.

    `argv` begins with a Python file. `environment` replaces the environment, and `folder` the current folder.
    `imports` names the modules that are already imported.
    """

    def __init__(
        self,
        argv: Sequence[str],
        output: Path,
        errors: Path | None = None,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        imports: tuple[str, ...] = SERVICE,
    ) -> None:
        self._nursery = _open_nursery(imports, next(_turns) % _NURSERIES)
        self.returncode: int | None = None
        files = {"output": str(output), "errors": str(errors or output)}
        given = {
            "environment": None if environment is None else dict(environment),
            "folder": None if folder is None else str(folder),
        }
        self.pid: int = self._nursery.ask(argv=list(argv), **files, **given)["pid"]

    def poll(self) -> int | None:
        """Return the exit code, None while the program runs; -n after signal n."""
        if self.returncode is None:
            self.returncode = self._nursery.ask(poll=self.pid)["code"]
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the program and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end within `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(_POLL_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        """Signal the program unless it is known to have ended. Its process id is not reused before `poll()`."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)


def run_program(argv: Sequence[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its exit code and its output, which is kept in files in the folder.

    Raises:
        subprocess.TimeoutExpired: it did not end in time, and was killed.
    """
    output, errors = folder / "run.stdout", folder / "run.stderr"
    for file in (output, errors):
        file.write_bytes(b"")
    program = Program(argv, output, errors)
    try:
        code = program.wait(timeout)
    finally:
        program.kill()
        program.wait()
    return subprocess.CompletedProcess(list(argv), code, output.read_text(), errors.read_text())


def _serve() -> list[str] | None:
    """Answer requests until the end of the input. In a child, return its argv immediately."""
    children: set[int] = set()
    for line in iter(_read_line, b""):
        request = json.loads(line)
        if "poll" in request:
            _answer(code=_reap(request["poll"], children))
            continue
        if (pid := os.fork()) == 0:
            _redirect(request["output"], request["errors"])
            if request["environment"] is not None:
                os.environ.clear()
                os.environ.update(request["environment"])
            if request["folder"] is not None:
                os.chdir(request["folder"])
            return list(request["argv"])
        children.add(pid)
        _answer(pid=pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return None


def _read_line() -> bytes:
    """Read a line without a buffer, because a child would inherit the buffer."""
    line = b""
    while (byte := os.read(0, 1)) not in {b"", b"\n"}:
        line += byte
    return line


def _answer(**response: Any) -> None:
    os.write(1, json.dumps(response).encode() + b"\n")


def _reap(pid: int, children: set[int]) -> int | None:
    reaped, status = os.waitpid(pid, os.WNOHANG)
    if reaped == 0:
        return None
    children.discard(pid)
    return os.waitstatus_to_exitcode(status)


def _redirect(output: str, errors: str) -> None:
    """Replace the pipes of the nursery by an empty input and the files of the child."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, output, append), (2, errors, append)):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Import the modules, then fork a child per request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, which close the pipe
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()  # the children's garbage collector need not look at the libraries
    argv = _serve()
    if argv is not None:
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
