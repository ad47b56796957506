"""Draw the curves as an SVG file. Each plan has two panels and a timeline; plans are drawn one below the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from monitor.tools.check.wording import format_percent
from monitor.tools.plan.curves import Curves

_WIDTH, _BLOCK = 960, 400
_LEFT, _RIGHT, _PANEL, _TOP, _HEIGHT = 70, 540, 380, 60, 240
_LINE = 345
_LEAST = 1e-12
_STYLE = """
text { font: 13px sans-serif; fill: #222 } .title { font-weight: bold; font-size: 15px } .small { font-size: 11px }
path, line { fill: none; stroke-width: 2 }
.axis { stroke: #999; stroke-width: 1 } .grid { stroke: #ddd; stroke-width: 1 }
.false-alarm { stroke: #c0392b } .miss { stroke: #2067b0 } .silent { stroke: #7f8c8d; stroke-dasharray: 6 4 }
.limit { stroke: #27804a; stroke-dasharray: 2 4 } .threshold { stroke: #222; stroke-width: 1; stroke-dasharray: 3 3 }
.alarm { fill: #c0392b } .pause { fill: #ccc } .again { fill: #27804a }
"""


def draw_svg(blocks: Sequence[Curves]) -> str:
    """Return an SVG document with each plan's curves by count, and its silence after alarms."""
    height = _BLOCK * len(blocks)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f"<title>False alarms, misses and silence</title><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, curves in enumerate(blocks):
        parts += [f'<g transform="translate(0 {number * _BLOCK})">', *_draw_block(curves), "</g>"]
    return "\n".join((*parts, "</svg>", ""))


def _draw_block(curves: Curves) -> Iterator[str]:
    yield _draw_text(_LEFT, 24, curves.title, "title")
    yield from _draw_false_alarms(curves)
    yield from _draw_misses(curves)
    yield from _draw_timeline(curves)


def _draw_false_alarms(curves: Curves) -> Iterator[str]:
    decades = max(1, math.ceil(-math.log10(max(min(*curves.alarm, curves.limit or 1.0), _LEAST))))
    yield _draw_text(_LEFT, 48, "Chance of an alarm per update (false below T), logarithmic")
    step = max(1, decades // 6)
    ticks = [(1 - decade / decades, f"1e-{decade}" if decade else "1") for decade in range(0, decades + 1, step)]
    yield from _draw_axes(_LEFT, curves, ticks)
    heights = [1 + math.log10(max(chance, _LEAST)) / decades for chance in curves.alarm]
    yield _draw_path(
        _LEFT, heights, "false-alarm", f"alarm: {format_percent(curves.alarm[0])} of the updates of an empty location"
    )
    if curves.limit is not None:
        height = 1 + math.log10(max(curves.limit, _LEAST)) / decades
        yield _draw_path(_LEFT, [height] * len(heights), "limit", f"target: {format_percent(curves.limit)} per update")


def _draw_misses(curves: Curves) -> Iterator[str]:
    yield _draw_text(_RIGHT, 48, "No alarm at an update that answers (blue); share of time silent (grey)")
    yield from _draw_axes(_RIGHT, curves, [(share / 4, f"{25 * share} %") for share in range(5)])
    if curves.mark_lifetime:
        yield _draw_path(
            _RIGHT, curves.silent, "silent", f"silent {format_percent(curves.silent[0])} of the time when empty"
        )
    yield _draw_path(_RIGHT, curves.miss, "miss", "no alarm (a miss); no misses from T people on")


def _draw_timeline(curves: Curves) -> Iterator[str]:
    width = _RIGHT + _PANEL - _LEFT
    if curves.silence:
        mark = min(8.0, width / 4 / curves.answers)
        for number in range(curves.answers):
            yield _draw_bar("alarm", _LEFT + number * mark, mark * 0.8)
        begin = _LEFT + curves.answers * mark
        yield _draw_bar("pause", begin, _LEFT + width - begin - 8)
        yield _draw_bar("again", _LEFT + width - 8, 8)
    yield _draw_text(_LEFT, _LINE + 32, curves.timeline)


def _draw_bar(name: str, x: float, width: float) -> str:
    return f'<rect class="{name}" x="{_format_number(x)}" y="{_LINE}" width="{_format_number(width)}" height="14"/>'


def _draw_axes(left: int, curves: Curves, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    for height, name in ticks:
        y = _format_number(_scale_y(height))
        yield f'<line class="grid" x1="{left}" x2="{left + _PANEL}" y1="{y}" y2="{y}"/>'
        place = f'x="{left - 6}" y="{_format_number(_scale_y(height) + 4)}" text-anchor="end"'
        yield f'<text class="small" {place}>{escape(name)}</text>'
    most = len(curves.alarm) - 1
    step = max(1, round(most / 8))
    for people in range(0, most + 1, step):
        yield _draw_text(_scale_x(left, people, most) - 4, _TOP + _HEIGHT + 16, str(people), "small")
    yield _draw_text(left + _PANEL - 90, _TOP + _HEIGHT + 32, "people there", "small")
    x = _format_number(_scale_x(left, curves.threshold, most))
    yield f'<line class="threshold" x1="{x}" x2="{x}" y1="{_TOP}" y2="{_TOP + _HEIGHT}"/>'
    yield _draw_text(float(x) + 4, _TOP + _HEIGHT - 6, f"T = {curves.threshold}", "small")
    yield f'<line class="axis" x1="{left}" x2="{left}" y1="{_TOP}" y2="{_TOP + _HEIGHT}"/>'


def _draw_path(left: int, heights: Sequence[float], name: str, meaning: str) -> str:
    most = len(heights) - 1
    points = (
        f"{_format_number(_scale_x(left, people, most))} {_format_number(_scale_y(height))}"
        for people, height in enumerate(heights)
    )
    return f'<path class="{name}" d="M {" L ".join(points)}"><title>{escape(meaning)}</title></path>'


def _draw_text(x: float, y: float, text: str, name: str = "") -> str:
    style = f' class="{name}"' if name else ""
    return f'<text{style} x="{_format_number(x)}" y="{_format_number(y)}">{escape(text)}</text>'


def _scale_x(left: int, people: int, most: int) -> float:
    return left + _PANEL * people / most


def _scale_y(height: float) -> float:
    return _TOP + _HEIGHT * (1 - min(max(height, 0.0), 1.0))


def _format_number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
