"""Draw the plots of docs/outbreak.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from monitor.time.instants import DAY, to_datetime
from simulators.experiments.plots import make_canvas
from simulators.outbreak.compute import Tree, count_busiest
from simulators.outbreak.measure import find_first_alarms
from simulators.outbreak.reports import Timeline
from simulators.outbreak.ways import Answers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

SHOWN_PLACES: Final = 45
_COLOURS: Final = {
    "one-sided": "#0060a0",
    "slot sums": "#c09000",
    "each tick": "#c04000",
    "tree": "#208040",
    "sparse vector": "#8040a0",
    "upper bound": "#606060",
}
_SAFE, _OVERTAKEN, _PAUSED, _ALARM = (0.87, 0.93, 0.98), (0.98, 0.75, 0.45), (0.82, 0.82, 0.82), (0.75, 0.1, 0.1)
_STYLES: Final = ("-", "--", ":")


def draw_places(line: Timeline, answers: Answers, threshold: int) -> Canvas:
    """Draw a row per place and a column per day: what was answered, and when people were there."""
    from matplotlib.lines import Line2D  # noqa: PLC0415  # an optional dependency
    from matplotlib.patches import Patch  # noqa: PLC0415  # as above

    canvas = make_canvas(f"The {SHOWN_PLACES} busiest places, day by day: T = {threshold}, window of 14 days", 11, 7.5)
    axes = canvas.add_subplot()
    places = _order(line, count_busiest(line, SHOWN_PLACES))
    late = ~answers.alarms & ~answers.paused & (line.in_hindsight >= threshold)
    image = np.empty((places.size, line.ticks, 3))
    image[:] = _SAFE
    for flags, colour in ((late, _OVERTAKEN), (answers.paused, _PAUSED), (answers.alarms, _ALARM)):
        image[flags[:, places].T] = colour
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0.0, float(line.ticks), places.size, 0.0))
    rows = {int(place): row for row, place in enumerate(places)}
    seen = [(visit + 0.5, rows[place] + 0.5) for visit, place in _list_visits(line) if place in rows]
    axes.scatter([x for x, _ in seen], [y for _, y in seen], s=5, c="black", lw=0)
    _label_days(axes, line)
    axes.set_yticks([])
    axes.set_ylabel("places, by their first visit")
    patches = [
        Patch(color=_SAFE, label="“safe”"),
        Patch(color=_OVERTAKEN, label="“safe”, overtaken by later reports"),
        Patch(color=_ALARM, label="an alarm is published"),
        Patch(color=_PAUSED, label="paused after an alarm"),
        Line2D([], [], marker="o", ls="", ms=3, c="black", label="a visit, on its day"),
    ]
    axes.legend(handles=patches, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=5)
    return canvas


def _order(line: Timeline, places: Any) -> Any:
    first = {int(place): line.ticks for place in places}
    for visit, place in _list_visits(line):
        if place in first:
            first[place] = min(first[place], visit)
    return np.array(sorted(first, key=lambda place: (first[place], place)))


def _list_visits(line: Timeline) -> list[tuple[int, int]]:
    return list(zip(line.visit_ticks.tolist(), line.columns.tolist(), strict=True))


def _label_days(axes: Axes, line: Timeline) -> None:
    start = to_datetime(line.grid.start(line.first)) + timedelta(hours=12)
    days = [start + timedelta(days=row) for row in range(line.ticks)]
    firsts = [row for row, day in enumerate(days) if day.day == 1]
    axes.set_xticks(firsts, [_name_month(days[row]) for row in firsts])


def _name_month(day: datetime) -> str:
    return day.strftime("%B %Y") if day.month == 1 else day.strftime("%B")


def draw_curves(curves: Sequence[Tree]) -> Canvas:
    """Draw a panel per ε: the share of visits warned about against false alarms, for each way."""
    names = list(dict.fromkeys(curve["epsilon"] for curve in curves))
    canvas = make_canvas("Warnings against false alarms, at the same ε of a visit", 3.4 * len(names), 3.6)
    first = None
    for number, name in enumerate(names, 1):
        axes = canvas.add_subplot(1, len(names), number, sharey=first)
        first = first or axes
        for curve in (curve for curve in curves if curve["epsilon"] == name):
            points = sorted(curve["points"])
            marker = "o" if curve["way"] == "one-sided" else None
            x, y = [point[0] for point in points], [100 * point[1] for point in points]
            axes.plot(x, y, marker=marker, ms=3, lw=1.4, c=_COLOURS[curve["way"]], label=curve["way"])
        axes.set_xscale("log")
        axes.set_xlim(0.05, 600)
        axes.axvline(1, c="#a0a0a0", lw=0.8, ls=":")
        axes.set_title(f"ε = {float(Fraction(name)):g}", fontsize=10)
        axes.set_xlabel("false alarms per 1,000 place-days", fontsize=8)
        axes.grid(alpha=0.3)
    if first is not None:
        first.set_ylabel("visits warned about in time (%)", fontsize=8)
        first.legend(fontsize=8, loc="upper left")
    return canvas


def draw_delays(lines: Sequence[tuple[str, Timeline, Answers]], published: Sequence[int]) -> Canvas:
    """Draw the share of visits warned about by the days since the visit, next to what was published."""
    canvas = make_canvas("How soon after a visit the public is warned", 8, 4)
    axes = canvas.add_subplot()
    delays = np.array(published) / DAY
    axes.plot(delays, 100 * np.arange(1, delays.size + 1) / delays.size, c="black", lw=2, label="published exactly")
    for number, (label, line, answers) in enumerate(lines):
        found = find_first_alarms(line, answers.alarms)
        days = np.sort([(line.find_as_of(row) - line.reports[index].end) / DAY for index, row in found.items()])
        shares = 100 * np.arange(1, days.size + 1) / len(line.reports)
        colour = list(_COLOURS.values())[number // len(_STYLES)]
        axes.plot(days, shares, c=colour, lw=1.4, ls=_STYLES[number % len(_STYLES)], label=label)
    axes.set_xlim(0, 15)
    axes.set_ylim(0, 100)
    axes.set_xlabel("days since the visit")
    axes.set_ylabel("visits warned about (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left")
    return canvas
