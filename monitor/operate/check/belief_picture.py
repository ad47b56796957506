"""The picture of what a reader can learn about one person: the belief after all answers over that before."""

from __future__ import annotations

import math
from fractions import Fraction
from html import escape
from typing import Final, NamedTuple

from monitor.privacy.alarm_chances import compute_belief
from monitor.values.belief_about_one_person import PRIORS, format_belief
from monitor.values.wording import format_percent

_SIDE: Final = 200
_LEFT: Final = 56
_TOP: Final = 12
_POINTS: Final = 40
_PICTURE: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 290 260" width="290" height="260" fill="currentColor">
<title>{title}</title>
<desc>{description}</desc>
<g fill="none" stroke="currentColor">
<path d="M{left} {top}v{side}h{side}"/>
<path d="M{left} {bottom}L{right} {top}" stroke-dasharray="3 4" opacity=".6"/>
<path d="M{left} {bottom}L{curve}" stroke-width="2.5" stroke-linejoin="round"/>
</g>
{marks}
<g font-size="11" text-anchor="middle">
{ticks}
<text x="{middle}" y="252" font-size="12">{before}</text>
<text x="-112" y="14" font-size="12" transform="rotate(-90)">{after}</text>
</g>
</svg>"""
"""It has the colour of the text around it, in light and dark, and no blank line, which would end it in Markdown."""


class Labels(NamedTuple):
    """The words of the picture: its title, and the names of the axes."""

    title: str
    before: str
    after: str


def draw_beliefs(epsilon: Fraction, labels: Labels) -> str:
    """Return the picture for an ε as SVG. The dashed line is a reader who learns nothing, the dots are `PRIORS`."""
    steps = ((1 - math.cos(math.pi * step / _POINTS)) / 2 for step in range(1, _POINTS + 1))  # closer at both ends
    ticks = (
        f'<text x="{_place(at)[0]:g}" y="228">{100 * at:.0f} %</text>'
        f'<text x="{_LEFT - 20}" y="{_place(0, at)[1] + 4:g}">{100 * at:.0f} %</text>'
        for at in (0, 0.5, 1)
    )
    points = (_place(before, compute_belief(epsilon, before)) for before in PRIORS)
    gains = (f"{format_percent(before)} → {format_belief(epsilon, before)}" for before in PRIORS)
    return _PICTURE.format(
        title=escape(labels.title),
        description=escape(f"{labels.before} → {labels.after}: {'; '.join(gains)}"),
        before=escape(labels.before),
        after=escape(labels.after),
        left=_LEFT,
        right=_LEFT + _SIDE,
        middle=_LEFT + _SIDE // 2,
        top=_TOP,
        bottom=_TOP + _SIDE,
        side=_SIDE,
        curve="L".join("{:.1f} {:.1f}".format(*_place(before, compute_belief(epsilon, before))) for before in steps),
        marks="\n".join('<circle cx="{:.1f}" cy="{:.1f}" r="4"/>'.format(*point) for point in points),
        ticks="\n".join(ticks),
    )


def _place(before: float, after: float = 0) -> tuple[float, float]:
    """Return the point of two chances."""
    return _LEFT + _SIDE * before, _TOP + _SIDE * (1 - after)
