"""Go programs that tests need: compiled once, and kept in the user's cache.

All of them are compiled with the same options. So they share Go's own packages, which take most of the time: half a
minute of processor time for the first program, and some seconds for each other one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

OPTIONS: Final = ("-trimpath", "-tags=nethttpomithttp2", "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w")
"""The programs run for a short time, so compiling them fast is worth more than fast code."""

_ENVIRONMENT: Final = {"CGO_ENABLED": "0", "GOGC": "400", "GOTOOLCHAIN": "local", "GOWORK": "off"}


class GoError(Exception):
    """A program cannot be compiled here. The message names what is missing."""


def report_build(name: str, build: Callable[[], Path]) -> None:
    """Compile a program if it is missing, and say why if that is impossible: the tests then skip or fail."""
    try:
        build()
    except GoError as error:
        print(f"{name} cannot be built: {error}", file=sys.stderr)


def cache_folder() -> Path:
    """Return the folder of the compiled programs, in the user's cache."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "location-monitor"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def install_program(program: Path, module: str) -> Path:
    """Compile a published program (module@version), unless it exists. Return its path.

    Raises:
        GoError: there is no Go, or the modules cannot be downloaded.
    """
    target = program.with_name(f"{program.name}.folder")
    name = module.partition("@")[0].rpartition("/")[2]
    return _compile_once(program, ("install", *OPTIONS, module), program.parent, target / name, GOBIN=str(target))


def _compile_once(program: Path, words: Sequence[str], folder: Path, result: Path, **environment: str) -> Path:
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise GoError("no go on the PATH")
    with program.with_name(f"{program.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of pytest-xdist may need it at the same time
        if not program.exists():
            variables = os.environ | _ENVIRONMENT | environment
            ended = subprocess.run([go, *words], cwd=folder, env=variables, capture_output=True, text=True, check=False)
            if ended.returncode != 0:
                raise GoError(f"go {words[0]} failed: {ended.stderr.strip()[-500:]}")
            result.rename(program)
    return program
