"""Draw a dashboard with data from Prometheus, as a picture for the documentation: with matplotlib, not with Grafana."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deploy.grafana.prometheus_data import Prometheus, Series, Span
from simulators.experiments.plots import require_matplotlib, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = Mapping[str, Any]

_COLUMNS: Final = 24  # of Grafana's grid
_WIDTH: Final = 13.0
_ROW_HEIGHT: Final = 0.3  # inches, of one cell of the grid
_DOTS_PER_INCH: Final = 75
_COLOURS: Final = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}
_CYCLE: Final = ("#3274d9", "#e0752d", "#37872d", "#8f3bb8", "#c4162a", "#1f9e9e", "#b08a00", "#705da0")
_MOST_LEGENDS: Final = 6
_SHORT_NAME: Final = 24  # letters
_MARGINS: Final = 3  # cells of the grid, above and below the panels
_MOST_ROWS: Final = 8
_SCALES: Final[dict[str, Sequence[tuple[float, str]]]] = {
    "s": ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
}


def format_value(value: float, unit: str) -> str:
    """Return a value as text with its unit, such as `1.5 GiB` or `20 ms`."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    for least, word in _SCALES.get(unit, ()):
        if abs(value) >= least:
            return f"{value / least:.3g} {word}"
    return f"{value:.4g}"


def draw_dashboard(board: Mapping[str, Any], prometheus: Prometheus, span: Span, path: Path) -> list[str]:
    """Write a PNG of a dashboard, and return the titles of the panels without data."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  # an optional dependency
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    figure = Figure(figsize=(_WIDTH, _ROW_HEIGHT * (rows + _MARGINS)), facecolor="#f4f5f5")
    FigureCanvasAgg(figure)
    figure.text(0.01, 1 - 1 / (rows + _MARGINS), board["title"], fontsize=15, weight="bold", va="center")
    empty = []
    for panel in board["panels"]:
        if panel["type"] == "row":
            _draw_row(figure, panel, rows)
            continue
        series = [each for target in panel["targets"] for each in prometheus.read(target, span)]
        _DRAWINGS[panel["type"]](_add_axes(figure, panel, rows), panel, series, span)
        if not series:
            empty.append(panel["title"])
    save(figure, path, _DOTS_PER_INCH)
    return empty


def _find_top(panel: Panel, rows: int) -> float:
    y: int = panel["gridPos"]["y"]
    return 1 - (y + 2) / (rows + _MARGINS)


def _draw_row(figure: Figure, panel: Panel, rows: int) -> None:
    figure.text(
        0.01, _find_top(panel, rows) - 0.5 / (rows + _MARGINS), panel["title"], fontsize=11, weight="bold", va="center"
    )


def _add_axes(figure: Figure, panel: Panel, rows: int) -> Axes:
    """Return axes in the panel's place, with space for the title, the numbers and the legend."""
    place, height = panel["gridPos"], 1 / (rows + _MARGINS)
    is_chart = panel["type"] == "timeseries"
    left = {"timeseries": 0.045, "state-timeline": 0.09}.get(panel["type"], 0.006)
    top, bottom = 1.15 * height, (2.3 if is_chart else 0.8 if panel["type"] == "state-timeline" else 0.2) * height
    x, y = place["x"] / _COLUMNS, _find_top(panel, rows) - place["h"] * height
    box = (x + left, y + bottom, place["w"] / _COLUMNS - left - 0.012, place["h"] * height - top - bottom)
    axes = figure.add_axes(box)
    axes.set_title(panel["title"], fontsize=9, loc="left", pad=4)
    axes.tick_params(labelsize=7)
    return axes


def _draw_empty(axes: Axes, panel: Panel) -> None:
    words = panel["fieldConfig"]["defaults"].get("noValue", "no data")
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color="#808080", fontsize=10)


def _draw_stat(axes: Axes, panel: Panel, series: Sequence[Series], _span: Span) -> None:
    """Draw the present value, large, on the colour of its threshold."""
    axes.set_xticks([])
    axes.set_yticks([])
    if not series:
        _draw_empty(axes, panel)
        return
    value, defaults = series[0].last, panel["fieldConfig"]["defaults"]
    colour = "green"
    for step in defaults["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            colour = step["color"]
    words = {key: found["text"] for each in defaults.get("mappings") or () for key, found in each["options"].items()}
    axes.set_facecolor(_COLOURS.get(colour, colour))
    text = words.get(f"{value:g}", format_value(value, defaults["unit"]))
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=20, weight="bold")


def _draw_chart(axes: Axes, panel: Panel, series: Sequence[Series], span: Span) -> None:
    """Draw lines, stacked bars or stacked areas over the minutes of the time range."""
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults.get("custom") or {}
    bars, stacked = custom.get("drawStyle") == "bars", "stacking" in custom
    grid = span.grid
    minutes, below = [(time - span.start) / 60 for time in grid], [0.0] * len(grid)
    for index, each in enumerate(_sort(series)):
        style: Any = {"color": _CYCLE[index % len(_CYCLE)], "label": each.name if index < _MOST_LEGENDS else None}
        values = [each.points.get(time, 0.0 if stacked else math.nan) for time in grid]  # nan: a gap
        above = [low + value for low, value in zip(below, values, strict=True)]
        if bars:
            axes.bar(minutes, values, span.step / 60, below, **style)
        elif stacked:
            axes.fill_between(minutes, below, above, step="post", linewidth=0, **style)
        else:
            axes.plot(minutes, values, linewidth=1.2, **style)
        below = above if stacked else below
    _finish_chart(axes, panel, series, span)


def _sort(series: Sequence[Series]) -> list[Series]:
    """Return the series by name, with those that are always 0 last."""
    return sorted(series, key=lambda each: (not any(each.points.values()), each.name))


def _finish_chart(axes: Axes, panel: Panel, series: Sequence[Series], span: Span) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_xlim(0, span.seconds / 60)
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:g} min")
    axes.grid(visible=True, linewidth=0.4, color="#d8d9da")
    axes.yaxis.set_major_formatter(lambda value, _place: format_value(value, defaults["unit"]))
    if not series:
        _draw_empty(axes, panel)
        return
    highest = axes.dataLim.y1
    axes.set_ylim(0, 1.08 * highest if highest > 0 else 1)
    dashed = (defaults.get("custom") or {}).get("thresholdsStyle") is not None
    for step in defaults["thresholds"]["steps"] if dashed else ():
        if step["value"] is not None and step["value"] <= highest:
            axes.axhline(step["value"], color=_COLOURS[step["color"]], linestyle="--", linewidth=1)
    columns = 3 if max(len(each.name) for each in series) < _SHORT_NAME else 2
    box = (0, -0.14)
    axes.legend(fontsize=6.5, loc="upper left", bbox_to_anchor=box, ncols=columns, frameon=False, borderaxespad=0)


def _draw_timeline(axes: Axes, panel: Panel, series: Sequence[Series], span: Span) -> None:
    """Draw a line of coloured stretches for each series."""
    options = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    shown = sorted(series, key=lambda each: each.name)
    for row, each in enumerate(shown):
        for time, value in each.points.items():
            colour = options[f"{value:g}"]["color"]
            axes.broken_barh(
                [((time - span.start) / 60, span.step / 60)],
                (row - 0.42, 0.84),
                color=_COLOURS.get(colour, colour),
                linewidth=0,
            )
    axes.set_yticks(range(len(shown)), [each.name for each in shown])
    axes.set_xlim(0, span.seconds / 60)
    axes.invert_yaxis()
    from matplotlib.patches import Patch  # noqa: PLC0415  # an optional dependency

    known = [Patch(color=_COLOURS.get(each["color"], each["color"]), label=each["text"]) for each in options.values()]
    axes.legend(handles=known, fontsize=7, ncols=4, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)


def _draw_table(axes: Axes, panel: Panel, series: Sequence[Series], _span: Span) -> None:
    """Draw a line of text for each series."""
    axes.axis("off")
    if not series:
        _draw_empty(axes, panel)
    hidden = {"__name__", "alertstate"}
    for row, each in enumerate(series[:_MOST_ROWS]):
        text = ", ".join(f"{key}: {value}" for key, value in sorted(each.labels.items()) if key not in hidden)
        axes.text(0.01, 0.95 - row / _MOST_ROWS, text, transform=axes.transAxes, fontsize=7, va="top")


_DRAWINGS: Final = {
    "stat": _draw_stat,
    "timeseries": _draw_chart,
    "state-timeline": _draw_timeline,
    "table": _draw_table,
}
