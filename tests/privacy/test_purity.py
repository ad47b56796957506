"""The package stays what it claims to be: pure, and exact wherever something is decided."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import monitor.privacy

FILES = sorted(Path(monitor.privacy.__file__).parent.glob("*.py"))
DISPLAYS = {"estimates.py", "odds.py", "over_time.py"}
RANDOM = {"random", "secrets"}


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module or ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_imports_nothing_of_the_rest_but_errors(file: Path) -> None:
    """Standard library, numpy, `monitor.errors` and itself; no generator but the operating system's or a hash."""
    for name in imported(ast.parse(file.read_text(encoding="utf-8"))):
        top = name.split(".")[0]
        ours = name == "monitor.errors" or name.startswith("monitor.privacy.")
        assert ours or top == "numpy" or (top in sys.stdlib_module_names and top not in RANDOM), name
        assert not name.startswith("numpy.random")


@pytest.mark.parametrize("file", [file for file in FILES if file.name not in DISPLAYS], ids=lambda file: file.name)
def test_no_binary_float_takes_part_in_a_decision(file: Path) -> None:
    """No float literal, no float(), no float type but where figures are displayed."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), node.lineno
        assert not (isinstance(node, ast.Name) and node.id == "float"), node.lineno
        assert not (isinstance(node, ast.Attribute) and node.attr.startswith("float")), node.lineno
