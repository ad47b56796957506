"""Flink SQL: distinct people per place over a sliding window, the peer of the whole service.

It needs `java` and `javac` 17 or later on the PATH, and for the first run also `mvn`. Maven copies Flink's jars next to
the peers' Python.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "flink"
JARS = Path(sys.prefix) / "flink"
NOT_INSTALLED = 3
OPENED = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")


def require(program: str) -> str:
    """Return the path of a program, or end with the exit code for a missing peer."""
    path = shutil.which(program)
    if path is None:
        print(f"no {program} on the PATH", file=sys.stderr)
        sys.exit(NOT_INSTALLED)
    return path


def fetch() -> None:
    """Copy Flink's jars, once."""
    if JARS.is_dir():
        return
    command = [require("mvn"), "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    done = subprocess.run(  # noqa: S603  # the command is made here
        [*command, "-DincludeScope=runtime", f"-DoutputDirectory={JARS}"], stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        shutil.rmtree(JARS, ignore_errors=True)
        print("mvn could not fetch Flink", file=sys.stderr)
        sys.exit(NOT_INSTALLED)


def measure(file: str, window_hours: int, slide_hours: int) -> Any:
    """Count the distinct people of each place and window. Return the seconds and the events."""
    require("javac")
    fetch()
    rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    tables = [Path(file).with_suffix(f".{name}.csv") for name in ("single", "all")]
    lines = [f"{person},{place},{int(at * 1_000)}\n" for person, place, at in rows]
    for table, chosen in zip(tables, (lines[:1], lines), strict=True):
        table.write_text("".join(chosen), encoding="utf-8")
    opens = [f"--add-opens={name}" for name in OPENED]
    command = [require("java"), "-Xmx1g", *opens, "-cp", f"{JARS}/*", str(HERE / "Distinct.java")]
    arguments = [*map(str, tables), str(window_hours), str(slide_hours), str(len(rows))]
    done = subprocess.run(  # noqa: S603  # as above
        [*command, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
