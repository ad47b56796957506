"""Draw the chances of a plan by number of people as an SVG file, one picture below the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from monitor.tools.plan.outcomes import Plan
from monitor.tools.plan.targets import Targets

_WIDTH, _HEIGHT, _LEFT, _TOP, _PANEL = 960, 360, 70, 60, 240
_LEAST: Final = 1e-12
_STYLE: Final = """
text { font: 13px sans-serif; fill: #222 } path, line { fill: none; stroke-width: 2 } .grid { stroke: #ddd }
.alarm { stroke: #c0392b } .miss { stroke: #2067b0 } .silent { stroke: #7f8c8d; stroke-dasharray: 6 4 }
.limit { stroke: #27804a; stroke-dasharray: 2 4 } .threshold { stroke: #222; stroke-dasharray: 3 3 }
"""

Curves = Sequence[Mapping[str, float]]


def compute_curves(plan: Plan, targets: Targets) -> list[dict[str, float]]:
    """Return the chances per update for each count of people, to about 20 % above both T and the target's people.

    `alarm` is e^(-ε(T - f)) at the smallest ε of an answer, and false below T. `miss` is 1 - e^(-ε(T - f)) at the
    largest ε. Each is the worst case if locations have different shares of ε. `silent` is the share of time in which
    the location is paused.
    """
    most = max(plan.threshold, targets.alarm or 0)
    return [
        {
            "people": people,
            "alarm": plan.compute_false_alarm(people),
            "miss": 1 - plan.compute_alarm(people),
            "silent": plan.compute_silence(people),
        }
        for people in range(most + most // 5 + 2)
    ]


def draw_svg(plans: Mapping[str, Plan], targets: Targets) -> str:
    """Return an SVG document with a picture for each plan, by title."""
    height = _HEIGHT * len(plans)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f"<title>False alarms, misses and silence</title><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (title, plan) in enumerate(plans.items()):
        group = f'<g transform="translate(0 {number * _HEIGHT})">'
        parts += [group, _draw_text(_LEFT, 24, title), *_draw_panels(plan, targets), "</g>"]
    return "\n".join((*parts, "</svg>", ""))


def _draw_panels(plan: Plan, targets: Targets) -> Iterator[str]:
    curves = compute_curves(plan, targets)
    limit = None
    if targets.false_alarms is not None:
        occasions = float(plan.design.count_occasions(targets.false_alarms) or 1)
        limit = min(1.0, 1 / occasions / plan.design.updates)
    least = min(curves[0]["alarm"], limit or 1.0)
    decades = max(1, math.ceil(-math.log10(max(least, _LEAST))))

    def scale(chance: float) -> float:
        return 1 + math.log10(max(chance, _LEAST)) / decades

    yield from _draw_axes(_LEFT, plan.threshold, len(curves), "an alarm per update (false below T)", f"1e-{decades}")
    yield _draw_path(_LEFT, "alarm", [scale(row["alarm"]) for row in curves])
    if limit is not None:
        yield _draw_path(_LEFT, "limit", [scale(limit)] * len(curves))
    right = _LEFT + _WIDTH // 2
    yield from _draw_axes(right, plan.threshold, len(curves), "no alarm per update (blue), share of time silent", "0")
    for name in ("miss", "silent"):
        yield _draw_path(right, name, [row[name] for row in curves])


def _draw_axes(left: int, threshold: int, counts: int, title: str, least: str) -> Iterator[str]:
    """Draw a panel's title, its limits of chance and of people, and the threshold."""
    yield _draw_text(left, 48, f"Chance of {title}")
    for height, label in ((1.0, "1"), (0.0, least)):
        x, y = _locate(left, 0, counts, height)
        yield f'<line class="grid" x1="{x:g}" x2="{x + _WIDTH // 2 - 100:g}" y1="{y:g}" y2="{y:g}"/>'
        yield _draw_text(x - 50, y + 4, label)
    for people, label in ((0, "0"), (threshold, f"T = {threshold}"), (counts - 1, f"{counts - 1} people")):
        x, y = _locate(left, people, counts, 0.0)
        yield _draw_text(x - 4, y + 18, label)
    x, y = _locate(left, threshold, counts, 0.0)
    yield f'<line class="threshold" x1="{x:g}" x2="{x:g}" y1="{_TOP}" y2="{y:g}"/>'


def _draw_path(left: int, name: str, heights: Sequence[float]) -> str:
    points = (_locate(left, people, len(heights), height) for people, height in enumerate(heights))
    return f'<path class="{name}" d="M {" L ".join(f"{x:.2f} {y:.2f}" for x, y in points)}"/>'


def _draw_text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _locate(left: int, people: int, counts: int, height: float) -> tuple[float, float]:
    width = _WIDTH // 2 - 100
    return left + width * people / (counts - 1), _TOP + _PANEL * (1 - min(max(height, 0.0), 1.0))
