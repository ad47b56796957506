"""Go programs that tests need: compiled once, and kept in the user's cache. No registry that tests may use has them.

All of them are compiled with the same options. So they share Go's own packages, which take most of the time: half a
minute of processor time for the first program, and some seconds for each other one. This module needs only Python's
own modules, so that CI compiles (`make go-programs`) while it installs the packages.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

OPTIONS: Final = ("-trimpath", "-tags=nethttpomithttp2", "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w")
"""The programs run for a short time, so compiling them fast is worth more than fast code."""

_ENVIRONMENT: Final = {"CGO_ENABLED": "0", "GOGC": "400", "GOTOOLCHAIN": "local", "GOWORK": "off"}

HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.22.0"
ACTIONLINT: Final = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
TOXIPROXY: Final = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"


class GoError(Exception):
    """A program cannot be compiled here. The message names what is missing."""


def cache_folder() -> Path:
    """Return the folder of the compiled programs, in the user's cache."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "location-monitor"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def install_program(module: str) -> Path:
    """Compile a published program (module@version), unless it is in the cache. Return its path.

    Raises:
        GoError: there is no Go, or the modules cannot be downloaded.
    """
    path, _, version = module.partition("@")
    name = path.rpartition("/")[2]
    program = cache_folder() / f"{name}-{version}"
    target = program.with_name(f"{program.name}.folder")
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


if __name__ == "__main__":
    for wanted in (HELM, TOXIPROXY, ACTIONLINT):
        try:
            install_program(wanted)
        except GoError as error:  # the tests that need it are skipped, or fail in CI
            print(f"{wanted} cannot be built: {error}", file=sys.stderr)
