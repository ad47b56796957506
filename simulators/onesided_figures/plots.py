"""Draw the library's figures: one panel per panel name, one line per series, and sampled values as points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from simulators.experiments.plots import make_canvas
from simulators.experiments.points import LibraryPoint, distinct_values
from simulators.onesided_figures.osdp_figures import EXACT, PUBLISHED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

SAMPLED: Final = ", sampled"
_COLUMNS: Final = 3
_COLOURS: Final = ("#0060a0", "#c04000", "#208040", "#8040a0", "#806000", "#404040", "#00a0a0", "#c060a0")
_LINEAR: Final = ("mean of the values", "Close", "Far", "both policies")
"""The first words of panels whose horizontal axis is linear: means and ratios."""


def draw(title: str, labels: tuple[str, str], points: Sequence[LibraryPoint]) -> Canvas:
    """Draw a figure with a logarithmic vertical axis. `labels`: of the horizontal and the vertical axis."""
    panels = distinct_values([point.panel for point in points])
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    canvas = make_canvas(title, 4.2 * columns, 3.6 * rows)
    series = distinct_values([_name_of(point.series) for point in points])
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(series)}
    for place, panel in enumerate(panels, 1):
        axes = canvas.add_subplot(rows, columns, place)
        _draw_panel(axes, [point for point in points if point.panel == panel], colours)
        axes.set_title(panel, fontsize=8)
        if place == 1:
            axes.legend(fontsize=6)
        axes.set_xlabel(labels[0], fontsize=8)
        axes.set_ylabel(labels[1], fontsize=8)
    return canvas


def _draw_panel(axes: Axes, points: Sequence[LibraryPoint], colours: dict[str, str]) -> None:
    for name in distinct_values([point.series for point in points]):
        members = [point for point in points if point.series == name]
        across, values = [point.x for point in members], [point.value for point in members]
        if name.endswith(SAMPLED):
            errors = [point.standard_error or 0.0 for point in members]
            axes.errorbar(across, values, errors, fmt="o", mfc="none", ms=3, c=colours[_name_of(name)])
        else:
            marker, dashes = "." if isinstance(across[0], str) else "", "--" if name.endswith(EXACT) else "-"
            axes.plot(across, values, marker=marker, ls=dashes, c=colours[_name_of(name)], label=name)
    axes.set_yscale("log")
    if not isinstance(points[0].x, str) and not points[0].panel.startswith(_LINEAR):
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.tick_params(labelsize=6)


def _name_of(series: str) -> str:
    """Return the name of a series without the variant, which selects its colour."""
    return series.removesuffix(SAMPLED).removesuffix(f", {EXACT}").removesuffix(f", {PUBLISHED}")
