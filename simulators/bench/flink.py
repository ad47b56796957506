"""Flink SQL: distinct people per place over a sliding window, the peer of the whole service.

It needs `java` and `javac` 17 or later on the PATH, and for the first run also `mvn`, which copies Flink's jars into
the virtual environment.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from monitor.errors import FailedError

_HERE: Final = Path(__file__).parent
_JARS: Final = Path(sys.prefix) / "flink"
_OPENED: Final = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")
_SECONDS: Final = 240.0


def measure_flink(folder: Path, events: list[tuple[str, str, int]], window_hours: int) -> float:
    """Count the distinct people of each place over a window that advances hourly. Return the events per second.

    `events` have a person, a place, and an instant in milliseconds, in order of time.

    Raises:
        FailedError: a program is missing, or failed.
    """
    _find("javac")
    if not _JARS.is_dir():
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={_JARS}"]
        _run([_find("mvn"), "-q", "-B", "-f", str(_HERE / "flink-pom.xml"), *copy])
    lines = [f"{person},{place},{at}\n" for person, place, at in events]
    tables = (folder / "single.csv", folder / "all.csv")
    for table, chosen in zip(tables, (lines[:1], lines), strict=True):
        table.write_text("".join(chosen), encoding="utf-8")
    opens = [f"--add-opens={name}" for name in _OPENED]
    command = [_find("java"), "-Xmx1g", *opens, "-cp", f"{_JARS}/*", str(_HERE / "FlinkDistinct.java")]
    printed = _run([*command, *map(str, tables), str(window_hours), "1", str(len(events))])
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found["events"] / found["seconds"]


def _find(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise FailedError(f"Flink SQL skipped: no {program} on the PATH")
    return path


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603  # the command is made here
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"Flink SQL did not end within {_SECONDS:.0f} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FailedError(f"Flink SQL failed with exit code {done.returncode}: {last}")
    return done.stdout
