"""The picture of the terminal needs no other host, and its generator finds the fonts that rich would fetch."""

from __future__ import annotations

import re

from rich.console import Console

from tests.docs.terminal import PICTURE, TITLE, remove_fonts


def test_picture_loads_nothing() -> None:
    """The picture names no address but that of SVG itself, and has the title of the demo."""
    text = PICTURE.read_text(encoding="utf-8")
    loads = re.findall(r"(?:url\(|href=|src=)[\"']?(?!#|\"#)([^)\"']+)", text)
    assert loads == []
    assert TITLE in text.replace("&#160;", " ")


def test_fonts_are_removed() -> None:
    """Rich's own SVG would fetch fonts."""
    console = Console(record=True, quiet=True)
    svg = console.export_svg()
    assert "url(" in svg
    assert "@font-face" not in remove_fonts(svg)
