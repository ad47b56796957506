"""The part of a page that a command writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.errors import UsageError
from simulators.write_results import replace_part
from tests.builders import make_page

pytestmark = pytest.mark.long


def test_part_replaces_only_itself(tmp_path: Path) -> None:
    """The text between the two comments is replaced, and the rest of the page is kept."""
    page = make_page(tmp_path / "page.md", "count")
    replace_part(page, "count", "1\n2\n")
    assert page.read_text() == "before\n<!-- begin: count -->\n\n1\n2\n\n<!-- end: count -->\nafter\n"


def test_page_without_comments_is_refused(tmp_path: Path) -> None:
    """A page of another command is not changed, and one that does not exist is not written."""
    page = make_page(tmp_path / "page.md", "another")
    text = page.read_text()
    for path in (page, tmp_path / "missing.md"):
        with pytest.raises(UsageError, match="expected a page with the comments"):
            replace_part(path, "count", "")
    assert page.read_text() == text
    assert not (tmp_path / "missing.md").exists()
