"""The marks of tests: the paths that tests/conftest.py marks `long` exist."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def read_tuple(path: Path, name: str) -> tuple[str, ...]:
    """Return a tuple of strings that a module assigns to a name."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            value: tuple[str, ...] = ast.literal_eval(node.value)
            return value
    raise AssertionError(f"{path} does not assign {name}")


def test_long_tests_exist() -> None:
    """Every path that marks tests as long exists, so a renamed file does not slow down `make unit` unnoticed."""
    paths = read_tuple(ROOT / "tests" / "conftest.py", "_LONG")
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
