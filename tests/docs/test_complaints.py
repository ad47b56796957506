"""The page of complaints names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

NAMED = re.compile(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`")


def test_named_tests_exist(root: Path) -> None:
    """Each row of docs/complaints.md links a thread and names at least one test, and all named tests exist."""
    rows = [line for line in (root / "docs" / "complaints.md").read_text(encoding="utf-8").splitlines() if "](" in line]
    assert len(rows) >= 8
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        for path, name in named:
            tree = ast.parse((root / path).read_text(encoding="utf-8"))
            functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert name in functions, f"{path}::{name}"
