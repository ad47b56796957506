"""Draw docs/pictures/demo.svg, a film of the demo's terminal, and demo-page.png, its page at the end.

Run it in a checkout: `.venv/bin/python -m docs.pictures.draw_demo`. It runs the demo twice, for two minutes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from monitor.operate.demo.command import run_demo
from monitor.operate.demo.page import DemoPage
from tests.page.browser import launch, save

WIDTH: Final = 80
HEIGHT: Final = 24
QUIET, ALARMS = 6, 9
"""The film shows so many frames before the first alarm, and so many from it on."""

SECONDS: Final = 1.0
_COLUMN, _ROW, _EDGE = 8.4, 18, 14
_COLOURS: Final[dict[int | None, str]] = {  # green, yellow, cyan, grey
    2: "#9ece6a",
    3: "#f7c967",
    6: "#7dcfff",
    8: "#7a88a8",
}
_HEAD: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-labelledby="title">
<title id="title">The demo in a terminal</title>
<style>
text {{ font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c8d3f5; white-space: pre }}
g {{ visibility: hidden; animation: show {seconds:.1f}s step-end infinite }}
@keyframes show {{ 0% {{ visibility: visible }} {share:.3f}% {{ visibility: hidden }} }}
@media (prefers-reduced-motion: reduce) {{ g {{ animation: none }} g:last-child {{ visibility: visible }} }}
</style>
<rect width="100%" height="100%" rx="10" fill="#1a1f2e"/>
"""


def record() -> list[list[Text]]:
    """Run the demo on a terminal that is a buffer, and return its frames as lines."""
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=True, width=WIDTH, height=HEIGHT, color_system="standard")
    run_demo(20, console)
    screen = buffer.getvalue().partition("\x1b[?1049h")[2].partition("\x1b[?1049l")[0]
    return [[Text.from_ansi(line) for line in frame.split("\n")] for frame in screen.split("\x1b[H") if "\n" in frame]


def select(frames: list[list[Text]]) -> Iterator[list[Text]]:
    """Yield the frames that the film shows."""
    first = next(n for n, frame in enumerate(frames) if any(line.plain.startswith("▲") for line in frame))
    for begin, end, number in ((0, first, QUIET), (first, len(frames), ALARMS)):
        for index in range(number):
            yield frames[begin + (end - 1 - begin) * index // (number - 1)]


def draw_line(line: Text, row: int) -> str:
    """Return one line of a frame as SVG, with a part per style."""
    column, parts = 0, []
    for segment in Segment.simplify(line.render(Console(width=WIDTH))):
        text, style = segment.text.rstrip(), segment.style or Style()
        if text.strip():
            colour = _COLOURS.get(style.color.number if style.color else None, "")
            look = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if style.bold else "")
            place = f'x="{_EDGE + column * _COLUMN:.1f}" textLength="{len(text) * _COLUMN:.1f}"'
            parts.append(f"<tspan {place}{look}>{escape(text)}</tspan>")
        column += len(segment.text)
    return f'<text y="{_EDGE + (row + 1) * _ROW}">{"".join(parts)}</text>' if parts else ""


def draw(frames: list[list[Text]]) -> str:
    """Return the film as an SVG that repeats for ever; without motion it is its last frame."""
    width, height = 2 * _EDGE + WIDTH * _COLUMN, 2 * _EDGE + (HEIGHT - 1) * _ROW
    head = _HEAD.format(width=width, height=height, seconds=len(frames) * SECONDS, share=100 / len(frames))
    groups = (
        f'<g style="animation-delay: {number * SECONDS:.1f}s">'
        + "\n".join(filter(None, (draw_line(line, row) for row, line in enumerate(frame))))
        + "</g>\n"
        for number, frame in enumerate(frames)
    )
    return head + "".join(groups) + "</svg>\n"


def photograph(file: Path) -> None:
    """Run the demo with its page, and write a picture of the page as it is at the end."""

    def look() -> None:
        with sync_playwright() as playwright:
            tab = launch(playwright).new_page(viewport={"width": 1200, "height": 760})
            tab.goto(page.url, wait_until="networkidle")
            save(tab, file)

    page = DemoPage(0, look)
    run_demo(20, Console(), page)


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "demo.svg").write_text(draw(list(select(record()))), encoding="utf-8")
    photograph(here / "demo-page.png")
