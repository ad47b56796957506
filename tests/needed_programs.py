"""Programs of this machine that tests need, and what a test does if one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final, NoReturn

import pytest

MISSING: Final = "server missing: "


def report_missing(what: str, remedy: str) -> NoReturn:
    """Skip the test, or fail it in CI. The summary of the run names what is missing, and the remedy."""
    message = f"{MISSING}{what}. To run these tests: {remedy}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def find_program(name: str, what: str, remedy: str = "make test-tools") -> str:
    """Return the path of a program. Without it the test is skipped, or fails in CI."""
    return shutil.which(name) or report_missing(f"{what} (no {name} on the PATH)", remedy)


def run_promtool(*words: str, text: str = "") -> str:
    """Run Prometheus's own tool and return its output; fail if it fails. `text`: its input."""
    command = [find_program("promtool", "Prometheus"), *words]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
