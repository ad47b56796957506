"""Draw the README's picture of the demo on a terminal: `python -m tests.docs.terminal --write`.

The demo runs with its own servers, in a few seconds instead of a minute, and a frame of its screen is kept as SVG.
Noise differs in each run, so each run writes another picture.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any, Final, Self
from unittest.mock import patch

from rich.console import Console

from monitor.tools.demo import command
from monitor.tools.demo.screen import Screen

PICTURE: Final = Path(__file__).parents[2] / "docs" / "pictures" / "terminal.svg"
TITLE: Final = "location-monitor demo"
_DAY: Final = 12
_WIDTH: Final = 112
_HEIGHT: Final = 30


class _Recorder:
    """A stand-in for rich's live display, which keeps the screen of one day."""

    pictures: Final[list[str]] = []

    def __init__(self, shown: Screen, /, **_: Any) -> None:
        self._screen = shown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def refresh(self) -> None:
        """Keep the screen if its day is the one to show."""
        if not self.pictures and self._screen._story.day == _DAY:
            console = Console(file=io.StringIO(), record=True, force_terminal=True, width=_WIDTH, height=_HEIGHT)
            console.print(self._screen)
            self.pictures.append(remove_fonts(console.export_svg(title=TITLE, unique_id="terminal")))


def remove_fonts(svg: str) -> str:
    """Remove the fonts of another host, so that the picture needs no network."""
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def draw() -> str:
    """Run the demo and return the picture."""
    quiet = Console(file=io.StringIO(), force_terminal=True, width=_WIDTH, height=_HEIGHT)
    with patch.object(command, "Live", _Recorder):
        command.run_demo(20, quiet, command.Length(seconds=4.0))
    return _Recorder.pictures[0]


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.docs.terminal --write")
    PICTURE.write_text(draw(), encoding="utf-8")
