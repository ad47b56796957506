"""Run lines one after the other, and describe the machine that they ran on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monitor.errors import MonitorError
from simulators.bench.bench import Bench, find_jemalloc
from simulators.bench.line import Line, Measured, Result


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties of a machine on which the absolute figures depend."""

    processors: int
    memory_gib: float
    python: str
    system: str
    allocator: str = ""


def describe_machine() -> Machine:
    """Return the properties of this machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        round(pages / 2**30, 1),
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
        "the C library's allocator" if find_jemalloc() is None else "jemalloc",
    )


def run_lines(lines: Sequence[Line], bench: Bench) -> Iterator[Result]:
    """Run each line, and yield its result. A line that fails does not stop the others."""
    for line in lines:
        bench.report(f"{line.name}: {line.work}")
        yield run_line(line, bench)


def run_line(line: Line, bench: Bench) -> Result:
    """Run one line. An error becomes the verdict "failed" with its message."""
    began = time.monotonic()
    measured, error = Measured({}), ""
    try:
        measured = line.measure(bench)
    except (MonitorError, OSError, TimeoutError) as problem:
        error = f"{type(problem).__name__}: {problem}"
    return Result(line.name, line.work, line.goal, line.targets, measured, time.monotonic() - began, error)
