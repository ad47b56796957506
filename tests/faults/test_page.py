"""The page docs/faults.md names only existing tests, and names every file of fault tests."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "faults.md"


def test_page_names_existing_tests() -> None:
    """Every test that the page names exists, and every file of tests is named."""
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", PAGE.read_text(encoding="utf-8"))
    assert named
    missing = [(file, test) for file, test in named if f"def {test}" not in (HERE / file).read_text(encoding="utf-8")]
    assert missing == []
    assert {file for file, _ in named} == {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
