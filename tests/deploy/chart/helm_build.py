"""Compile Helm's own code for the tests of the chart: a small Go program, compiled once and kept in the user's cache.

No registry that the tests may use carries Helm's binary, and its whole command line takes about two minutes of
processor time to compile. `helm_program/main.go` uses only Helm's loader, values, schema validation, engine and linter.
The client of a cluster and all kinds of Kubernetes are replaced by stubs, because nothing here asks a cluster. This
takes about 40 seconds of processor time, once for each machine.

This module needs only Python's own modules, so that CI compiles while it installs the packages.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from tests.go_programs import OPTIONS, build_program, cache_folder, report_build

SOURCE: Final = Path(__file__).parent / "helm_program"


def build_helm() -> Path:
    """Return the compiled program. The first call on a machine compiles it.

    Raises:
        GoError: there is no Go, or the modules cannot be downloaded.
    """
    return build_program(cache_folder() / f"helm-{digest_of(SOURCE)}", SOURCE)


def digest_of(source: Path) -> str:
    """Return a digest of a program's files and of the options that compile it, for its name in the cache."""
    digest = hashlib.sha256(" ".join(OPTIONS).encode())
    for path in sorted(source.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    report_build("Helm", build_helm)
