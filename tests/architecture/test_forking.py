"""Forked programs behave as separate processes: exit codes, signals, output, environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.forking import Program, run_program

LIGHT = ("json",)
Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A function that runs source code as a program: `start("print(1)")`. Its output is in `tmp_path / "output"`."""

    def run_source(source: str, *arguments: str, **options: Any) -> Program:
        (tmp_path / "program.py").write_text(source, encoding="utf-8")
        argv = [str(tmp_path / "program.py"), *arguments]
        return Program(argv, tmp_path / "output", imports=LIGHT, **options)

    return run_source


@pytest.mark.parametrize(("source", "code"), [("", 0), ("import sys; sys.exit(3)", 3), ("1 / 0", 1)])
def test_exit_code(start: Start, source: str, code: int) -> None:
    """`wait` returns the exit code of the program, also after an exception."""
    assert start(source).wait(30) == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signal(start: Start, number: int) -> None:
    """If a signal ends a program, the exit code is the negative number of the signal."""
    program = start("import time; time.sleep(60)")
    assert program.poll() is None
    program.send_signal(number)
    assert program.wait(30) == -number


def test_program_runs_as_main(start: Start, tmp_path: Path) -> None:
    """The program is `__main__`, has its arguments and an empty input, and finishes its threads and exit functions."""
    source = (
        "import atexit, sys, threading\n"
        "atexit.register(print, 'end')\n"
        "printed = threading.Event()\n"
        "threading.Thread(target=lambda: (printed.wait(), print('thread', flush=True))).start()\n"
        "print(__name__, sys.argv[1:], repr(sys.stdin.read()), flush=True)\n"
        "printed.set()\n"
    )
    assert start(source, "a", "b").wait(30) == 0
    lines = (tmp_path / "output").read_text().splitlines()
    assert lines == ["__main__ ['a', 'b'] ''", "thread", "end"]


def test_environment_and_folder(start: Start, tmp_path: Path) -> None:
    """A given environment and a given folder replace those of the tests."""
    program = start("import os; print(sorted(os.environ), os.getcwd())", environment={"ONLY": "1"}, folder=tmp_path)
    assert program.wait(30) == 0
    assert (tmp_path / "output").read_text() == f"['ONLY'] {tmp_path}\n"


def test_hash_seeds_differ(start: Start, tmp_path: Path) -> None:
    """Two consecutive programs have different hash seeds."""
    for _ in range(2):
        assert start("print(hash('a text'))").wait(30) == 0
    first, second = (tmp_path / "output").read_text().splitlines()
    assert first != second


def test_output_and_errors_are_apart(tmp_path: Path) -> None:
    """`run_program` returns the exit code, and the output and the errors separately."""
    (tmp_path / "program.py").write_text("import sys; print(1); print(2, file=sys.stderr)", encoding="utf-8")
    ended = run_program([str(tmp_path / "program.py")], tmp_path, 30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "2\n")


def test_programs_end_with_the_tests(tmp_path: Path, eventually: Callable[..., Any]) -> None:
    """If the process that runs the tests is killed, its programs are killed too."""
    (tmp_path / "program.py").write_text("import time; time.sleep(600)", encoding="utf-8")
    argv = [str(tmp_path / "program.py")]
    source = (
        "import os, pathlib, signal\n"
        "from tests.forking import Program\n"
        f"program = Program({argv!r}, pathlib.Path({str(tmp_path / 'output')!r}), imports=('json',))\n"
        "print(program.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", source], cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr

    def has_ended() -> bool:
        try:
            os.kill(int(ended.stdout), 0)
        except ProcessLookupError:
            return True
        return False

    eventually(has_ended, 30)
