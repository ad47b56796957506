"""Draw the plots: our values as lines, the paper's as hollow circles, and the deviations below."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from monitor.errors import UsageError
from simulators.experiments.data import Movements, Place
from simulators.experiments.location_figures import EXPECTED, Map
from simulators.experiments.points import SQUARED_ERROR, THRESHOLD, UPDATES, Point, distinct_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

TITLES: Final = {
    "figure1": "Figure 1: locations by number of visitors, one batch of people",
    "figure2": "Figure 2: asymmetric report noisy max",
    "figure3": "Figure 3: asymmetric sparse vector",
    "figure4": "Figure 4: false-negative ratio of one location at each update",
    "figure5": f"Figure 5: hot spots (T = {THRESHOLD}) after {UPDATES} updates",
    "figure6": f"Figure 6: false-negative ratio after each update, T = {THRESHOLD}",
    "figure7": f"Figure 7: false-negative ratio against the threshold, after {UPDATES} updates",
}
_X_LABELS: Final = {"epsilon": "ε (k = 100)", "k": "k (ε = 0.5)", "update": "update", "threshold": "threshold T"}
_COLOURS: Final = ("#0060a0", "#c04000", "#208040", "#8040a0")
_DASHES: Final = ("-", "--", ":", "-.", (0, (1, 4)), (0, (6, 4)))
_LINEAR_BELOW: Final = {"figure1": 1.0, "figure4": 1e-4, "figure6": 1e-4, "figure7": 1e-4}
"""A logarithmic axis that must show 0 is linear below this value."""

_MARKS: Final = (".", "x", "+", "1", "2", "|")
_PALETTE: Final = 256
_DEVIATION_LIMIT: Final = 3.0
_DEVIATION_TICKS: Final = (-100, -10, -3, 3, 10, 100)

_Key = TypeVar("_Key", str, tuple[str, str])


def require_matplotlib() -> None:
    """Raise UsageError if matplotlib is missing. Call this before long computations."""
    try:
        import matplotlib.figure  # noqa: PLC0415  # an optional dependency
    except ImportError as error:
        raise UsageError(
            "the plots need matplotlib, which is not installed: pip install 'location-monitor[experiments]'"
        ) from error
    del matplotlib


def draw(figure: str, points: Sequence[Point]) -> Canvas:
    """Draw a figure: one row per dataset, one column per axis and measure."""
    datasets = distinct_values([point.setting.dataset for point in points])
    columns = distinct_values([_column_of(point) for point in points])
    canvas = make_canvas(TITLES[figure], 4.6 * len(columns), 3.8 * len(datasets))
    grid = canvas.add_gridspec(2 * len(datasets), len(columns), height_ratios=[3, 1] * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, name in enumerate(columns):
            chosen = [point for point in points if point.setting.dataset == dataset and _column_of(point) == name]
            above = canvas.add_subplot(grid[2 * row, column])
            below = canvas.add_subplot(grid[2 * row + 1, column], sharex=above)
            _draw_panel(above, below, chosen)
            above.set_title(dataset, fontsize=9)
    return canvas


def draw_maps(place: Place, movements: Movements, maps: Sequence[Map]) -> Canvas:
    """Draw a map of the true hot spots, and of the places called hot at each ε."""
    canvas = make_canvas(f"{TITLES['figure5']}\n{place.title}", 4 * len(maps), 4.2)
    latitude, longitude = movements.coordinates.T
    for number, panel in enumerate(maps, 1):
        axes = canvas.add_subplot(1, len(maps), number)
        axes.scatter(longitude, latitude, s=6, c=_COLOURS[0], label="safe")
        axes.scatter(longitude[panel.hot], latitude[panel.hot], s=14, c=_COLOURS[1], label=f"hot: {panel.hot.size}")
        axes.set_title("ground truth" if panel.epsilon is None else f"ε = {panel.epsilon:g}", fontsize=9)
        axes.legend(fontsize=7, loc="upper right")
        axes.set_xlabel("longitude")
        axes.set_ylabel("latitude")
    return canvas


def save(canvas: Canvas, path: Path, dots_per_inch: int = 110) -> None:
    """Write a plot as a PNG with a palette. The same plot gives the same bytes."""
    from PIL import Image  # noqa: PLC0415  # comes with matplotlib

    drawn, written = io.BytesIO(), io.BytesIO()
    canvas.savefig(drawn, format="png", dpi=dots_per_inch)
    Image.open(drawn).convert("RGB").quantize(_PALETTE).save(written, "PNG", optimize=True)
    path.write_bytes(written.getvalue())


def make_canvas(title: str, width: float, height: float) -> Canvas:
    """Return an empty figure with a title. Sizes are in inches."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  # as above
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    canvas = Figure(figsize=(max(width, 9.0), height), layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(title)
    return canvas


def _column_of(point: Point) -> tuple[str, str]:
    counted = " at count" in point.setting.measure or " visitor" in point.setting.measure
    return point.setting.panel, "" if counted else point.setting.measure


def _x_of(point: Point) -> float:
    setting = point.setting
    along = {"epsilon": setting.epsilon, "k": setting.k, "update": setting.update, "threshold": setting.threshold}
    if setting.panel in along:
        return along[setting.panel] or 0
    return float(next(word for word in setting.measure.split() if word.isdigit()))


def _series_of(point: Point) -> str:
    """Return the name of a point's line: its algorithm, or its ε if the panel has a line per ε."""
    if point.setting.panel in {"epsilon", "k"} or point.setting.epsilon is None:
        return point.setting.algorithm
    return f"ε = {point.setting.epsilon:g}"


def _draw_panel(above: Axes, below: Axes, points: Sequence[Point]) -> None:
    shown = [point for point in points if not point.variant.endswith(EXPECTED)]
    names, variants = (
        distinct_values([_series_of(point) for point in shown]),
        distinct_values([point.variant for point in shown]),
    )
    colours = dict(zip(names, _COLOURS, strict=False))
    for (name, variant), members in _group(shown, lambda point: (_series_of(point), point.variant)):
        across, place = [_x_of(point) for point in members], variants.index(variant)
        label = f"{name}, {variant}" if name else variant
        ours, dashes = [point.ours for point in members], _DASHES[place % len(_DASHES)]
        above.plot(across, ours, ls=dashes, c=colours[name], lw=1.2, label=label)
        _draw_deviations(below, members, colours[name], _MARKS[place % len(_MARKS)])
    _draw_paper(above, points, colours)
    _draw_labels(above, below, points[0])
    if all(point.paper is None for point in points):
        below.text(0.5, 0.5, "not in the paper", transform=below.transAxes, ha="center", va="center", fontsize=7)


def _draw_paper(above: Axes, points: Sequence[Point], colours: dict[str, str]) -> None:
    for name, members in _group([point for point in points if point.paper is not None], _series_of):
        paper = {_x_of(point): point.paper for point in members}
        values, errors = (
            [value.value for value in paper.values() if value],
            [value.error for value in paper.values() if value],
        )
        label = f"{name} (paper)" if name else "paper"
        above.errorbar(list(paper), values, errors, fmt="o", mfc="none", c=colours[name], label=label)


def _draw_deviations(below: Axes, members: Sequence[Point], colour: str, mark: str) -> None:
    known = [(_x_of(point), point.deviation) for point in members if point.deviation is not None]
    if known:
        below.plot([x for x, _ in known], [deviation for _, deviation in known], mark, c=colour, ms=5)


def _draw_labels(above: Axes, below: Axes, first: Point) -> None:
    panel, measure = _column_of(first)
    figure = first.setting.figure
    if figure in _LINEAR_BELOW:
        above.set_yscale("symlog", linthresh=_LINEAR_BELOW[figure])
        above.set_ylim(bottom=0)
    elif measure == SQUARED_ERROR:
        above.set_yscale("log")
    above.set_ylabel("locations" if figure == "figure1" else measure or "false-negative ratio", fontsize=8)
    if figure in {"figure6", "figure7"}:  # too many lines for a legend inside
        above.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        above.legend(fontsize=6, loc="upper left" if figure == "figure4" else "best")
    above.tick_params(labelbottom=False)
    below.axhspan(-_DEVIATION_LIMIT, _DEVIATION_LIMIT, color="#e0e0e0")
    below.set_yscale("symlog", linthresh=_DEVIATION_LIMIT)
    below.set_yticks(_DEVIATION_TICKS, [str(tick) for tick in _DEVIATION_TICKS], fontsize=6)
    below.set_ylim(-300, 300)
    below.set_ylabel("deviation\n(errors)", fontsize=7)
    below.set_xlabel(_X_LABELS.get(panel, f"people{', ' + panel if panel else ''}"), fontsize=8)


def _group(points: Sequence[Point], key: Callable[[Point], _Key]) -> Iterator[tuple[_Key, list[Point]]]:
    for name, members in groupby(sorted(points, key=key), key):
        yield name, sorted(members, key=_x_of)
