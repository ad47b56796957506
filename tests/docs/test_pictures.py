"""The drawings follow the dark mode of the reader: each colour has a dark one, and texts can be read on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs.conftest import ROOT

FOLDER: Final = ROOT / "docs" / "pictures"
DRAWINGS: Final = sorted(path for path in FOLDER.glob("*.svg") if path.name != "demo.svg")  # a dark terminal
RULE: Final = re.compile(r'\[(fill|stroke)="(#[0-9a-f]{6})"\] { \1: (#[0-9a-f]{6}) }')
READABLE: Final = 4.5
"""The contrast that WCAG 2.2 requires of text."""


def find_luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def find_contrast(one: str, other: str) -> float:
    """Return the contrast of two colours."""
    low, high = sorted(map(find_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.name)
def test_drawing_has_a_dark_mode(path: Path) -> None:
    """Each colour of a drawing has a dark one, and its texts can be read on the dark ground."""
    style, _, drawing = path.read_text(encoding="utf-8").partition("</style>")
    assert "prefers-color-scheme: dark" in style
    dark = {(kind, colour): other for kind, colour, other in RULE.findall(style)}
    assert set(re.findall(r'\b(fill|stroke)="(#[0-9a-f]{6})"', drawing)) == dark.keys()
    ground = dark["fill", "#ffffff"]
    texts = set(re.findall(r'<(?:text|tspan)[^>]*fill="(#[0-9a-f]{6})"', drawing)) - {"#ffffff"}
    assert texts
    for colour in texts:
        assert find_contrast(dark["fill", colour], ground) >= READABLE, colour
