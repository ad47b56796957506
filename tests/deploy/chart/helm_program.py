"""Compile Helm for the tests of the chart, once for each machine.

No registry that the tests may use carries Helm's binary. This module needs only Python's own modules, so that CI
compiles while it installs the packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.go_programs import cache_folder, install_program, report_build

VERSION: Final = "v3.22.0"


def build_helm() -> Path:
    """Return the compiled program.

    Raises:
        GoError: there is no Go, or the modules cannot be downloaded.
    """
    return install_program(cache_folder() / f"helm-{VERSION}", f"helm.sh/helm/v3/cmd/helm@{VERSION}")


if __name__ == "__main__":
    report_build("Helm", build_helm)
