"""The page on faults names tests that are there, and every file of tests is named."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "faults.md"


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", PAGE.read_text(encoding="utf-8"))
    assert named
    missing = [(file, test) for file, test in named if f"def {test}" not in (HERE / file).read_text(encoding="utf-8")]
    assert missing == []
    assert {file for file, _ in named} == {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
