"""Start Python programs of the tests as separate processes, forked from one that has imported the service's libraries.

The import takes more than a second of processor time, and tests start the service hundreds of times. Python's own fork
server imports them once.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        *(
            "monitor.cli",
            "monitor.service.run_command",
            "monitor.service.topics_command",
            "monitor.observe.failpoints",
            "argparse",
        ),
        *("pytest", "hypothesis", "tests.conftest", "tests.topic_fixtures"),  # for tests/mutants
    ]
)


def warm_up() -> None:
    """Wait until the libraries are imported. A test that measures from the first start on calls this before."""
    process = FORKS.Process(target=int)
    process.start()
    process.join()


class Program:
    """A Python file and its arguments, in a process of its own: the part of `subprocess.Popen` that tests use.

    Its output is appended to files, and its input is empty. `environment` replaces the environment, and `folder` the
    current folder.
    """

    def __init__(
        self,
        argv: Sequence[str],
        output: Path,
        errors: Path | None = None,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        own = dict(os.environ if environment is None else environment)
        arguments = (list(argv), output, errors or output, own, folder or Path.cwd())
        self._process = FORKS.Process(target=_execute, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, None while the program runs; -n after signal n."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the program and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end within `timeout` seconds.
        """
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Signal the program unless it is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)


def run_program(
    argv: Sequence[str], folder: Path, timeout: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its exit code and its output, which is kept in files in the folder.

    Raises:
        subprocess.TimeoutExpired: it did not end in time, and was killed.
    """
    output, errors = folder / "run.stdout", folder / "run.stderr"
    for file in (output, errors):
        file.write_bytes(b"")
    program = Program(argv, output, errors, environment)
    try:
        code = program.wait(timeout)
    finally:
        program.kill()
        program.wait()
    return subprocess.CompletedProcess(list(argv), code, output.read_text(), errors.read_text())


def _execute(argv: list[str], output: Path, errors: Path, environment: dict[str, str], folder: Path) -> None:
    """Run a Python file as `python argv…` does, in the new process. It ends if the tests are killed."""
    threading.Thread(target=_end_with_tests, name="end-with-tests", daemon=True).start()
    for number, path in ((1, output), (2, errors)):
        with path.open("ab") as opened:
            os.dup2(opened.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = argv
    runpy.run_path(argv[0], run_name="__main__")


def _end_with_tests() -> None:
    tests = multiprocessing.parent_process()
    assert tests is not None
    wait([tests.sentinel])
    os._exit(1)
