"""CPU time per test file, with the time of the servers and programs that a test starts.

As a plugin it writes one line per test: `pytest -p tests.costs --costs=FOLDER …`. Then `python -m tests.costs FOLDER`
prints the files by CPU time, and the tests that take the most. Use it to find what makes `make test` slow.
Write `--costs=FOLDER` with the equals sign. Otherwise pytest takes the folder for a path of tests.

The time of a test includes that of all descendants of its process: programs, nurseries (tests/forking.py), and servers.
A server that serves the whole session counts for the test that runs meanwhile. A process that left its parent (a
daemon) does not count.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

import pytest

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FIRST_FIELD: Final = 3  # of those after the name in parentheses, as numbered in proc(5)
_TIMES: Final = (14, 15, 16, 17)  # user and system time of the process, then of its children that have ended


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of all its descendants, in seconds; 0 if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        children = [
            int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _read_children(task).split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    fields = stat.rpartition(")")[2].split()
    own = sum(int(fields[number - _FIRST_FIELD]) for number in _TIMES) / _TICKS
    return own + sum(map(read_cpu_seconds, children))


def _read_children(task: Path) -> str:
    try:
        return (task / "children").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Costs:
    """The plugin: measures around each test, and writes a line of JSON: its name, CPU seconds, seconds."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test with its fixtures."""
        cpu, began = read_cpu_seconds(os.getpid()), time.monotonic()
        result = yield
        cost = [item.nodeid, read_cpu_seconds(os.getpid()) - cpu, time.monotonic() - began]
        self._file.write(json.dumps(cost) + "\n")
        self._file.flush()
        return result


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --costs."""
    parser.addoption("--costs", type=Path, help="Write the CPU time of each test into this folder.")


def pytest_configure(config: pytest.Config) -> None:
    """Measure if the option is given. Each process of a parallel run writes its own file."""
    folder: Path | None = config.getoption("--costs")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}.jsonl"
        config.pluginmanager.register(Costs(path.open("w", encoding="utf-8")), "costs-of-tests")


def _print_table(title: str, cpu: Counter[str], seconds: Counter[str], most: int) -> None:
    print(f"{'CPU s':>8} {'s':>8}  {title}: {sum(cpu.values()):,.0f} s of CPU time in all")
    for name, used in cpu.most_common(most):
        print(f"{used:8.1f} {seconds[name]:8.1f}  {name}")


def main() -> None:
    """Print the files and the tests that take the most CPU time: `python -m tests.costs FOLDER [LINES]`."""
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    files_cpu, files_seconds, tests_cpu, tests_seconds = (Counter[str]() for _ in range(4))
    for path in sorted(Path(sys.argv[1]).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            name, cpu, seconds = json.loads(line)
            file = name.partition("::")[0]
            files_cpu[file] += cpu
            files_seconds[file] += seconds
            tests_cpu[name] += cpu
            tests_seconds[name] += seconds
    _print_table("files", files_cpu, files_seconds, most)
    print()
    _print_table("tests", tests_cpu, tests_seconds, most)


if __name__ == "__main__":
    main()
