"""The static files: the style sheet has no rule that does nothing."""

from __future__ import annotations

from collections import Counter

from monitor.tools.page.static import read_static


def test_no_rule_is_repeated() -> None:
    """No rule of the style sheet is a copy of another one, which a change of one of them would miss."""
    lines = b"".join(read_static().files["page.css"].body.read(zipped=False)).decode().splitlines()
    rules = Counter(line.strip() for line in lines if "{" in line and line.endswith("}"))
    assert [rule for rule, number in rules.items() if number > 1] == []
