"""monitor/privacy and monitor/onesided stay pure, and exact wherever something is decided."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import monitor.onesided
import monitor.privacy

PRIVACY = sorted(Path(monitor.privacy.__file__).parent.glob("*.py"))
LIBRARY = Path(monitor.onesided.__file__).parent
ONESIDED = sorted(LIBRARY.rglob("*.py"))
DISPLAYS = {"estimates.py", "alarm_chances.py", "over_time.py", "variances.py"}
EXACT = [file for file in (*PRIVACY, *ONESIDED) if file.name not in DISPLAYS]
RANDOM = {"random", "secrets"}


def find_imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module or ""


@pytest.mark.parametrize("file", PRIVACY, ids=lambda file: file.name)
def test_privacy_imports_only_errors(file: Path) -> None:
    """Of this project, monitor/privacy imports only `monitor.errors` and its own modules."""
    assert {name for name in find_imports(file) if name.startswith(("monitor", "simulators"))} <= {
        "monitor.errors",
        *(f"monitor.privacy.{other.stem}" for other in PRIVACY),
    }


@pytest.mark.parametrize("file", ONESIDED, ids=lambda file: str(file.relative_to(LIBRARY)))
def test_onesided_imports_only_privacy(file: Path) -> None:
    """Of this project, monitor/onesided imports only `monitor.errors`, monitor/privacy and its own modules."""
    assert {name for name in find_imports(file) if name.startswith(("monitor", "simulators"))} <= {
        "monitor.errors",
        *(f"monitor.privacy.{other.stem}" for other in PRIVACY),
        *(".".join(("monitor.onesided", *other.relative_to(LIBRARY).with_suffix("").parts)) for other in ONESIDED),
    }


@pytest.mark.parametrize("file", [*PRIVACY, *ONESIDED], ids=lambda file: file.name)
def test_only_numpy_and_standard_library(file: Path) -> None:
    """Beyond this project, both packages import numpy and the standard library, and no random number generator."""
    for name in find_imports(file):
        top = name.split(".")[0]
        assert top in ("monitor", "numpy") or (top in sys.stdlib_module_names and top not in RANDOM), name
        assert not name.startswith("numpy.random")


@pytest.mark.promise(17)
@pytest.mark.parametrize("file", EXACT, ids=lambda file: file.name)
def test_no_floats_in_decisions(file: Path) -> None:
    """No float literal, no float() and no float type occur, except where figures are displayed."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), node.lineno
        assert not (isinstance(node, ast.Name) and node.id == "float"), node.lineno
        assert not (isinstance(node, ast.Attribute) and node.attr.startswith("float")), node.lineno
